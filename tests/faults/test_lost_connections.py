"""Lose the connection before every statement: the server forgets the transaction, and the next verb makes a new connection."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing
from typing import Any

import psycopg
import pytest

from postroom.core.errors import StoreUnreachable
from postroom.store.copying import TABLES
from postroom.store.postgres.engine import PostgresStore
from tests.conftest import Clock
from tests.contract.blocking_store import eventually
from tests.contract.thread_data import sent
from tests.faults.inspection import assert_no_lock, follows_commit
from tests.faults.test_cuts import WRITES, Act, Prepare, failure

# A waiter goes on after a lost connection, instead of failing: tests/faults/test_postgres.py.
VERBS = {name: verb for name, verb in WRITES.items() if not name.startswith("wait")}


def in_part(sets: Mapping[str, tuple[Any, ...]]) -> list[Any]:
    """Writes of a room that lose their connection: `make test` runs each third, and `make test-all` all.

    All notice it in one way. The writes of threads, below, all run in `make test`.
    """
    every = enumerate(sets.items())
    return [pytest.param(*values, id=name, marks=pytest.mark.full if number % 3 else ()) for number, (name, values) in every]


class Losing:
    """A real connection whose server process is ended before the nth statement after BEGIN, of those up to COMMIT."""

    def __init__(self, connection: Any, nth: int, watcher: psycopg.Connection[Any]) -> None:
        self._connection = connection
        self._left = nth
        self._watcher = watcher
        self.lost: str | None = None

    def execute(self, statement: Any, *binds: object) -> Any:
        if not str(statement).startswith(("BEGIN", "ROLLBACK")) and not follows_commit(str(statement)):
            self._left -= 1
            if self._left == 0:
                self.lost = str(statement)
                self._end()
        return self._connection.execute(statement, *binds)

    def _end(self) -> None:
        pid = self._connection.info.backend_pid
        self._watcher.execute("SELECT pg_terminate_backend(%s)", (pid,))
        gone = "SELECT count(*) FROM pg_stat_activity WHERE pid = %s"
        assert eventually(lambda: self._watcher.execute(gone, (pid,)).fetchone() == (0,))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._connection, name)


@pytest.fixture
def place(postgres_place: str) -> str:
    """These are about a server."""
    return postgres_place


def dump(watcher: psycopg.Connection[Any], schema: str) -> dict[str, list[Any]]:
    return {
        table: sorted(watcher.execute(f"SELECT * FROM {schema}.{table}").fetchall(), key=repr) for table in (each.name for each in TABLES)
    }


@pytest.mark.parametrize(("prepare", "act"), VERBS.values(), ids=VERBS.keys())
def test_a_write_that_loses_its_connection_has_not_happened(
    place: str, watcher: psycopg.Connection[Any], clock: Clock, prepare: Prepare, act: Act
) -> None:
    with closing(PostgresStore(place, now=clock)) as store:
        thread_id = prepare(store, clock)  # type: ignore[arg-type]
        before = dump(watcher, store.address.schema)
        for nth in range(1, 100):
            losing = Losing(store.connection, nth, watcher)
            store.connection = losing  # type: ignore[assignment]
            raised = failure(lambda: act(store, thread_id))  # type: ignore[arg-type]
            if losing.lost is None:
                assert raised is None
                break
            assert isinstance(raised, StoreUnreachable), f"{raised!r} came of a connection lost before {losing.lost}"
            assert dump(watcher, store.address.schema) == before, losing.lost
            store.reconnect()
        assert nth >= 4
        store.connection = losing._connection
        assert_no_lock(place)
        assert sent(store)
