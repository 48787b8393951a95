"""How many sessions of the database a process uses: one while it waits alone, and what it does with that one."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import psycopg
import pytest

import postroom
from postroom import mail, work
from postroom.core.errors import StoreBusy, StoreUnreachable
from postroom.store.postgres import driver
from postroom.store.postgres.connection_url import parse_url
from postroom.store.postgres.engine import PostgresStore
from postroom.store.postgres.listener import find_listener
from tests.cli.mailbox_process import Mailbox
from tests.cli.process import Waiter
from tests.contract.blocking_store import eventually
from tests.contract.thread_data import sent
from tests.postgres_server import Postgres

SESSIONS = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'postroom'"
LIMITS = ("lock_timeout", "statement_timeout", "idle_in_transaction_session_timeout")


def count_sessions(server: Postgres) -> int:
    with psycopg.connect(server.url) as connection:
        row = connection.execute(SESSIONS).fetchone()
    return row[0] if row else 0


def listens(waiter: Waiter) -> bool:
    return not waiter.alive() or int(waiter._status("Threads")) > 1


@pytest.mark.parametrize("count", [5, pytest.param(40, marks=pytest.mark.full)])
def test_waiting_processes_use_one_session_each_and_all_of_them_wake(own_postgres: Postgres, tmp_path: Path, count: int) -> None:
    """The database has room for one session of each, one of the sender and one of the test."""
    place = own_postgres.at("waiting")
    postroom.init(place)
    own_postgres.restart(postgresql__auto__conf=f"max_connections = {count + 2}\nsuperuser_reserved_connections = 0\nmax_wal_senders = 0\n")
    with Mailbox(tmp_path) as mailbox:
        waiters = [
            mailbox.start("wait", "--session", f"box {number}", "--timeout-seconds", "60", "--json", INBOX_DB=place)
            for number in range(count)
        ]
        assert eventually(lambda: all(listens(waiter) for waiter in waiters) and count_sessions(own_postgres) >= count)
        assert [waiter.alive() for waiter in waiters] == [True] * count
        with PostgresStore(place) as store:
            mail.enqueue_all(store, [{"from": "lead", "to": f"box {number}", "payload": "x"} for number in range(count)])
        finished = [waiter.finish() for waiter in waiters]
    assert [one.code for one in finished] == [0] * count, finished
    assert [one.json["message"]["payload"] for one in finished] == ["x"] * count


def test_the_only_waiter_reads_writes_and_waits_by_one_session_also_after_a_restart(own_postgres: Postgres) -> None:
    place = own_postgres.at("alone")
    postroom.init(place)
    woken: list[Any] = []

    def wait_twice() -> None:
        with PostgresStore(place) as store:
            for session in ("first", "second"):
                woken.append(mail.wait(store, session, timeout_seconds=60))
                work.send(store, sender="w", to="lead", subject="Done")

    thread = threading.Thread(target=wait_twice, daemon=True)
    thread.start()
    assert eventually(lambda: len(find_listener(parse_url(place))._watches) == 1 and count_sessions(own_postgres) == 1)
    own_postgres.restart()
    with PostgresStore(place) as store:
        mail.enqueue(store, {"from": "lead", "to": "first", "payload": "first"})
    assert eventually(lambda: len(woken) == 1 and len(find_listener(parse_url(place))._watches) == 1 and count_sessions(own_postgres) == 1)
    with PostgresStore(place) as store:
        mail.enqueue(store, {"from": "lead", "to": "second", "payload": "second"})
    thread.join(60)
    assert [one.message.payload for one in woken] == ["first", "second"]


def test_the_connection_of_a_waiter_is_used_again_after_the_wait(postgres_place: str) -> None:
    """No new connection for each wait, and none after it."""
    with PostgresStore(postgres_place) as store:
        first = store.connection.info.backend_pid
        thread_id = sent(store, to="builder")
        assert mail.wait(store, "box", timeout_seconds=0.000_001) is None

        def backend() -> int:
            with store.read() as tx:
                [process_id] = tx.fetch_one("SELECT pg_backend_pid()")
            return int(process_id)

        assert backend() == first
        assert eventually(lambda: find_listener(parse_url(postgres_place))._thread is None)
        assert backend() == first
        assert work.show(store, thread_id).thread.status == "pending"


def test_a_thread_that_does_not_wait_has_a_connection_of_its_own(postgres_place: str) -> None:
    """A long transaction of it must not keep notifications from the waiter."""
    woken: list[Any] = []
    with PostgresStore(postgres_place) as store, PostgresStore(postgres_place) as other:
        waiter = threading.Thread(target=lambda: woken.append(mail.wait(store, "box", timeout_seconds=60)), daemon=True)
        waiter.start()
        assert eventually(lambda: len(find_listener(parse_url(postgres_place))._watches) == 1)
        with store.write() as tx:
            assert tx.fetch_one("SELECT 1") == (1,)
            mail.enqueue(other, {"from": "lead", "to": "box", "payload": "x"})
            waiter.join(60)
            assert woken[0].message.payload == "x"


def test_a_session_has_the_documented_limits(postgres_place: str) -> None:
    with PostgresStore(postgres_place) as store, store.read() as tx:
        assert [tx.fetch_one(f"SHOW {limit}") for limit in LIMITS] == [("10s",), ("1min",), ("1min",)]


def test_a_statement_that_takes_too_long_is_refused(postgres_place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(driver, "_SETTINGS", driver._SETTINGS.replace("statement_timeout TO '60s'", "statement_timeout TO '50ms'"))
    with PostgresStore(postgres_place) as store:
        with pytest.raises(StoreBusy, match="in the way for too long"), store.read() as tx:
            tx.fetch_one("SELECT pg_sleep(30)")
        assert sent(store)


def test_a_writer_that_stopped_in_its_transaction_keeps_no_lock(postgres_place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """As a process that is suspended. The server ends its session, and the others go on."""
    settings = driver._SETTINGS
    with PostgresStore(postgres_place) as other:
        thread_id = sent(other, to="builder")
        monkeypatch.setattr(driver, "_SETTINGS", settings.replace("session_timeout TO '60s'", "session_timeout TO '50ms'"))
        stopped = PostgresStore(postgres_place).write()
        stopped.__enter__()
        stopped.lock_thread(thread_id)
        assert stopped.fetch_one("SELECT 1") == (1,)
        assert work.claim(other, thread_id, agent="builder").thread.status == "claimed"
    with pytest.raises(StoreUnreachable):
        stopped.__exit__(None, None, None)
