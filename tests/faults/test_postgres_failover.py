"""Failover to a real standby with synchronous replication, while clients write: they go on, and nothing that was accepted is lost."""

from __future__ import annotations

import os
import shutil
import signal
import threading
from collections.abc import Iterator

import psycopg
import pytest

from postroom import work
from postroom.core.errors import StoreTrouble
from postroom.store import init_store
from postroom.store.postgres.engine import PostgresStore
from tests.cli.process import suspend
from tests.contract.blocking_store import eventually
from tests.postgres_server import Postgres

IS_SYNCHRONOUS = "SELECT count(*) FROM pg_stat_replication WHERE sync_state = 'sync'"
WAITING_COMMITS = "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'SyncRep'"


class Standby:
    """A copy of a server that follows it, with its socket in its own folder."""

    def __init__(self, primary: Postgres) -> None:
        self._primary = primary
        self.data = primary.data.parent / "standby"
        self.data.mkdir(mode=0o700)
        shutil.chown(self.data, primary.data.owner(), primary.data.group())
        primary.run("pg_basebackup", "-D", str(self.data), "-h", str(primary.data), "-U", "postgres", "-R", "-X", "stream", "-c", "fast")
        (self.data / ".s.PGSQL.5432.lock").unlink()  # of the primary's socket, which is in its folder too
        # A server before 17 does not know all settings that pg_basebackup of 18 has written about the way to the primary.
        way = f"-c primary_conninfo='host={primary.data} user=postgres'"
        self._control("start", "-w", "-o", f"-h '' -k {self.data} {way}", "-l", str(self.data / "log"))

    def _control(self, *arguments: str) -> None:
        self._primary.run("pg_ctl", "-D", str(self.data), *arguments)

    @property
    def url(self) -> str:
        return f"postgresql://postgres@/postgres?host={self.data}"

    def stop_receiving(self) -> None:
        """Suspend the process that receives what the primary writes."""
        with psycopg.connect(self.url) as connection:
            [self._receiver] = connection.execute("SELECT pid FROM pg_stat_wal_receiver").fetchone() or ()
        suspend(self._receiver)

    def promote(self) -> None:
        os.kill(self._receiver, signal.SIGCONT)
        self._control("promote", "-w")

    def stop(self) -> None:
        self._control("stop", "-m", "immediate")
        shutil.rmtree(self.data, ignore_errors=True)


@pytest.fixture
def primary(own_postgres: Postgres) -> Postgres:
    return own_postgres


@pytest.fixture
def standby(primary: Postgres) -> Iterator[Standby]:
    """A standby that every COMMIT waits for."""
    follower = Standby(primary)
    with psycopg.connect(primary.url, autocommit=True) as connection:
        connection.execute("ALTER SYSTEM SET synchronous_standby_names TO '*'")
        connection.execute("SELECT pg_reload_conf()")
        assert eventually(lambda: connection.execute(IS_SYNCHRONOUS).fetchone() == (1,))
    yield follower
    follower.stop()


class Client(threading.Thread):
    """Sends threads until it is told to stop. A refusal because of the database is no end: it tries again, with the same store."""

    def __init__(self, place: str, number: int, stopped: threading.Event) -> None:
        super().__init__(daemon=True)
        self.accepted: list[str] = []
        self.refusals = 0
        self._place, self._name, self._stopped = place, f"client-{number}", stopped

    def run(self) -> None:
        with PostgresStore(self._place) as store:
            while not self._stopped.is_set():
                try:
                    self.accepted.append(work.send(store, sender=self._name, to="w", subject="S").thread.thread_id)
                except StoreTrouble:
                    self.refusals += 1
                    self._stopped.wait(0.02)


@pytest.mark.parametrize("count", [3, pytest.param(16, marks=pytest.mark.full)])
def test_clients_go_on_with_the_promoted_standby_and_find_all_that_was_accepted(primary: Postgres, standby: Standby, count: int) -> None:
    place = f"postgresql://postgres@/postgres?host={primary.data},{standby.data}&target_session_attrs=read-write&schema=failover"
    init_store(place)
    stopped = threading.Event()
    clients = [Client(place, number, stopped) for number in range(count)]
    for client in clients:
        client.start()
    assert eventually(lambda: all(len(client.accepted) >= 5 for client in clients))
    standby.stop_receiving()
    with psycopg.connect(primary.url, autocommit=True) as connection:  # no client has an answer for what the standby does not have
        assert eventually(lambda: connection.execute(WAITING_COMMITS).fetchone() == (count,))
    primary.run("pg_ctl", "-D", str(primary.data), "stop", "-m", "immediate")  # as if its machine had lost power
    assert eventually(lambda: any(client.refusals for client in clients))
    before = [len(client.accepted) for client in clients]
    standby.promote()
    assert eventually(lambda: all(len(client.accepted) >= known + 5 for client, known in zip(clients, before, strict=True)))
    stopped.set()
    for client in clients:
        client.join(30)
    with psycopg.connect(standby.url) as connection:
        stored = {thread_id for (thread_id,) in connection.execute("SELECT thread_id FROM failover.threads")}
    assert {thread_id for client in clients for thread_id in client.accepted} <= stored
