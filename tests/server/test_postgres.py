"""A server over PostgreSQL: few connections for many waiters, and commits that requests share."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from itertools import count
from pathlib import Path
from typing import Any, TypeVar

import psycopg
import pytest

import postroom
from postroom import mail, work
from postroom.server.http.auth import Caller
from postroom.server.http.state import AppState
from postroom.server.rpc import dispatch
from postroom.server.runtime import store_access, writer
from postroom.server.runtime.store_access import StoreAccess
from postroom.store.postgres.connection_url import parse_url
from postroom.store.postgres.engine import PostgresStore
from postroom.store.postgres.listener import find_listener
from tests.cli.process import eventually
from tests.postgres_server import Postgres
from tests.server.running_server import RunningServer

T = TypeVar("T")
NUMBERS = count(1)
ENTRIES = Path("inbox") / "entries.jsonl"


@pytest.fixture
def place(postgres_place: str) -> str:
    """These are about a server."""
    return postgres_place


def call(verb: str, **named: Any) -> dispatch.ClientCall:
    return dispatch.ClientCall(
        Caller("user", "http"), verb, {"named": named}, f"key {next(NUMBERS)}", b"", lambda: False, lambda: False, ""
    )


def with_server(place: str, act: Callable[[AppState], Awaitable[T]]) -> T:
    """Do something with what a server has of a store."""

    async def run() -> T:
        server = AppState(StoreAccess(place), person="user", dev=False, rate=1e6, secure=False, behind_proxy=False)
        try:
            return await act(server)
        finally:
            server.wait_pool.close()
            await server.store_access.close()

    return asyncio.run(run())


def sessions(postgres: Postgres) -> int:
    with psycopg.connect(postgres.url) as connection:
        row = connection.execute("SELECT count(*) FROM pg_stat_activity WHERE application_name = 'postroom'").fetchone()
    return row[0] if row else 0


@pytest.mark.parametrize("waiters", [60, pytest.param(1000, marks=pytest.mark.full)])
def test_many_waiters_use_few_connections_and_all_of_them_wake(place: str, postgres: Postgres, waiters: int) -> None:
    before = sessions(postgres)

    async def wait_and_wake(server: AppState) -> tuple[list[bytes], int]:
        waiting = [
            asyncio.ensure_future(dispatch.execute_call(server, call("mail.wait", session=f"box {number}", timeout_seconds=25)))
            for number in range(waiters)
        ]
        while len(find_listener(parse_url(place))._watches) < waiters:
            await asyncio.sleep(0.05)
        used = await asyncio.to_thread(sessions, postgres)
        with PostgresStore(place) as store:
            mail.enqueue_all(store, [{"from": "lead", "to": f"box {number}", "payload": "x"} for number in range(waiters)])
        return await asyncio.gather(*waiting), used

    received, used = with_server(place, wait_and_wake)
    assert len(received) == waiters
    assert {b"x" in one and b"box" in one for one in received} == {True}, received[:3]
    assert used - before <= 10


def test_writes_that_arrive_together_share_transactions(place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writer, "MAX_BATCH_SECONDS", 30.0)  # a busy machine would cut the batches
    monkeypatch.setattr(store_access, "SERVER_WRITE_THREADS", 1)  # or they would wait for each other's row of the sender

    def commits() -> int:
        with psycopg.connect(place.partition("&schema=")[0], autocommit=True) as connection:
            row = connection.execute("SELECT max(event_id), count(DISTINCT xmin::text) FROM " + f"{schema}.events").fetchone()
        assert row is not None
        assert row[0] >= 64
        return int(row[1])

    schema = place.rpartition("schema=")[2]

    async def send_all(server: AppState) -> list[bytes]:
        calls = [call("work.send", sender="lead", to=f"w{number}", subject="S") for number in range(64)]
        return await asyncio.gather(*(dispatch.execute_call(server, one) for one in calls))

    assert len(with_server(place, send_all)) == 64
    assert commits() < 32
    with postroom.open(place) as store:
        assert len(work.list_threads(store, limit=100).threads) == 64


def test_two_batches_that_lock_each_others_threads_are_both_done(place: str) -> None:
    """They run beside each other, in opposite order. The one that cannot go on is done over, verb by verb."""

    async def update_all(server: AppState) -> list[bytes]:
        with PostgresStore(place) as store:
            ids = [work.send(store, sender="lead", to="w", subject="S").thread.thread_id for _ in range(8)]
        calls = [call("work.send", sender="lead", thread_id=one, summary="More") for _ in range(4) for one in (*ids, *reversed(ids))]
        return await asyncio.gather(*(dispatch.execute_call(server, one) for one in calls))

    assert len(with_server(place, update_all)) == 64
    with PostgresStore(place) as store:
        assert {len(work.show(store, thread.thread_id).messages) for thread in work.list_threads(store).threads} == {9}


def test_a_batch_that_waits_for_a_lock_stops_no_other_batch(place: str, postgres: Postgres) -> None:
    """They are committed beside each other, each by a connection of its own."""

    async def write_beside(server: AppState) -> tuple[bool, bytes]:
        with PostgresStore(place) as rival:
            thread_id = work.send(rival, sender="lead", to="w", subject="S").thread.thread_id
            with rival.write() as tx:
                tx.lock_thread(thread_id)
                assert tx.fetch_one("SELECT 1") == (1,)
                behind = asyncio.ensure_future(
                    dispatch.execute_call(server, call("work.send", sender="a", thread_id=thread_id, summary="S"))
                )
                await asyncio.to_thread(eventually, lambda: _waits_for_a_lock(postgres))
                await dispatch.execute_call(server, call("work.send", sender="b", to="w", subject="Beside it"))
                waited = not behind.done()
            return waited, await behind

    waited, answer = with_server(place, write_beside)
    assert waited
    assert b"message" in answer
    with PostgresStore(place) as store:
        assert [thread.subject for thread in work.list_threads(store).threads] == ["Beside it", "S"]


def _waits_for_a_lock(postgres: Postgres) -> bool:
    with psycopg.connect(postgres.url) as connection:
        return connection.execute("SELECT FROM pg_locks WHERE NOT granted").fetchone() is not None


def test_a_call_that_is_sent_again_to_another_server_is_done_once(place: str) -> None:
    """Also after the first server has ended: the key and the result are in the store."""
    sent_once = call("mail.enqueue", message={"from": "lead", "to": "box", "payload": "Once"})

    async def send(server: AppState) -> bytes:
        return await dispatch.execute_call(server, sent_once)

    first, second = with_server(place, send), with_server(place, send)
    assert first == second
    with PostgresStore(place) as store:
        assert mail.peek(store, "box").total == 1


def test_two_servers_that_get_the_same_call_at_once_do_it_once(place: str) -> None:
    sent_twice = call("mail.enqueue", message={"from": "lead", "to": "box", "payload": "Once", "msg_id": None})

    async def send_to_both(server: AppState) -> list[bytes]:
        other = AppState(StoreAccess(place), person="user", dev=False, rate=1e6, secure=False, behind_proxy=False)
        try:
            return await asyncio.gather(*(dispatch.execute_call(one, sent_twice) for one in (server, other)))
        finally:
            other.wait_pool.close()
            await other.store_access.close()

    assert len(set(with_server(place, send_to_both))) == 1
    with PostgresStore(place) as store:
        assert mail.peek(store, "box").total == 1


def test_one_of_two_servers_writes_the_mirror_and_the_other_follows_it(place: str, tmp_path: Path) -> None:
    async def push_and_stop() -> list[bool]:
        folders = [tmp_path / "a", tmp_path / "b"]
        servers = [StoreAccess(place, data=str(folder)) for folder in folders]
        await servers[1].write(lambda store: work.send(store, sender="lead", to="user", subject="Read this", kind="question"))
        while "Read this" not in _read(folders[0]):
            await asyncio.sleep(0.05)
        written = [(folder / ENTRIES).exists() for folder in folders]
        await servers[0].close()
        while "Read this" not in _read(folders[1]):
            await asyncio.sleep(0.05)
        await servers[1].close()
        return written

    assert asyncio.run(push_and_stop()) == [True, False]


def _read(folder: Path) -> str:
    return (folder / ENTRIES).read_text() if (folder / ENTRIES).exists() else ""


def test_a_sign_in_link_leads_to_the_server_that_runs_and_says_if_none_answers(postgres_place: str, tmp_path: Path) -> None:
    """Also if the caller names the database in another way than the server does: with a role, or with settings."""
    server = RunningServer(tmp_path, "--db", postgres_place).open()
    again = postgres_place.replace("://", "://postgres:secret@", 1) if "@" not in postgres_place else postgres_place
    for place in (postgres_place, f"{again}&application_name=other"):
        answer = server.inbox.ok("sign-in", "--db", place)
        assert answer["sign_in_url"].startswith(f"{server.url}/sign-in?token=")
        assert "warnings" not in answer
    server.kill()
    answer = server.inbox.ok("sign-in", "--db", postgres_place)
    assert answer["sign_in_url"].startswith(server.url)
    assert "No server answers" in answer["warnings"][0]


def test_a_sign_in_link_without_a_server_says_so(tmp_path: Path) -> None:
    server = RunningServer(tmp_path)
    assert "No server is known to run" in server.inbox.says("sign-in")
