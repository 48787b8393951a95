"""A store on a server that is given out again is as new; and what could not be made so is not given out again."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import psycopg
import pytest

import postroom
from postroom import mail, work
from postroom.store.postgres.engine import PostgresStore
from tests.cli.process import eventually
from tests.postgres_server import Postgres
from tests.schemas import OURS, Connection, others

pytestmark = pytest.mark.postgres
KINDS = "SELECT relname, relkind = 'S' FROM pg_class WHERE relnamespace = to_regnamespace(%s) AND relkind IN ('r', 'S') ORDER BY relname"


@pytest.fixture(scope="module")
def server() -> Iterator[Postgres]:
    """One whose schemas no other test has used."""
    made = Postgres(throwaway=True)
    yield made
    made.stop()


@pytest.fixture
def watcher(server: Postgres) -> Iterator[Connection]:
    with psycopg.connect(server.url, autocommit=True, application_name=OURS) as connection:
        yield connection


def _schema(place: str) -> str:
    return place.rpartition("schema=")[2]


def _held(watcher: Connection, place: str) -> dict[str, list[tuple[object, ...]]]:
    """Every row of every table in the order in which it is found, and where each sequence stands."""
    schema = _schema(place)
    found = {}
    for name, is_sequence in watcher.execute(KINDS, (schema,)).fetchall():
        what = "last_value, is_called" if is_sequence else "*"
        found[name] = watcher.execute(f"SELECT {what} FROM {schema}.{name}".encode()).fetchall()
    return found


def _used(server: Postgres, watcher: Connection, use: Callable[[str], None]) -> tuple[str, dict[str, list[tuple[object, ...]]]]:
    """Where a store was used that nobody uses any more, and what it held when it was new."""
    before = others(watcher)
    with server.store() as place:
        held = _held(watcher, place)
        use(place)
        eventually(lambda: others(watcher) == before)
    return place, held


def _write(place: str, size: int = 10) -> None:
    with PostgresStore(place) as store:
        for _ in range(3):
            sent = work.send(store, sender="leader", to="builder", subject="x", body="x" * size)
            mail.enqueue(store, {"from": "lead", "to": "analyst", "payload": "x" * size})
        work.claim(store, sent.thread.thread_id, agent="builder")


def _write_much(place: str) -> None:
    for _ in range(20):
        _write(place, 2000)


def _damage(place: str) -> None:
    _write(place)
    with PostgresStore(place) as store, store.write() as tx:
        tx.execute("UPDATE meta SET version = 99")
        tx.execute("DELETE FROM agents")


@pytest.mark.parametrize("use", [_write, _write_much, _damage])
def test_rows_are_taken_out(server: Postgres, watcher: Connection, use: Callable[[str], None]) -> None:
    place, held = _used(server, watcher, use)
    with server.store() as again:
        assert again == place
        assert _held(watcher, again) == held
        _write(again)


@pytest.mark.parametrize(
    "change",
    [
        "CREATE TABLE {0}.more (x int)",
        "DROP TABLE {0}.leases CASCADE",
        "ALTER TABLE {0}.threads ADD COLUMN more int",
        "ALTER TABLE {0}.threads ALTER COLUMN subject SET DEFAULT 'x'",
        "CREATE INDEX more ON {0}.threads (subject)",
        "CREATE FUNCTION {0}.more() RETURNS int LANGUAGE sql AS 'SELECT 1'",
        "GRANT SELECT ON {0}.threads TO PUBLIC",
        "GRANT USAGE ON SCHEMA {0} TO PUBLIC",
        "DROP SCHEMA {0} CASCADE",
        "INSERT INTO {0}.agents (name, kind, created_at) VALUES ('a', 'human', ''); ANALYZE {0}.agents",
    ],
)
def test_a_schema_that_was_changed_is_not_given_out_again(server: Postgres, watcher: Connection, change: str) -> None:
    def by_hand(place: str) -> None:
        watcher.execute(change.format(_schema(place)).encode())

    place, held = _used(server, watcher, by_hand)
    with server.store() as other:
        assert other != place
        assert {name: len(rows) for name, rows in _held(watcher, other).items()} == {name: len(rows) for name, rows in held.items()}
        assert _held(watcher, place) == {}


def test_a_schema_is_left_alone_while_one_lives_who_was_connected_when_its_test_ended(server: Postgres, watcher: Connection) -> None:
    with server.store() as place:
        leaked = postroom.open(place)
    with server.store() as other:
        assert other != place
    leaked.close()
    eventually(lambda: others(watcher) == set())
    with server.store() as one, server.store() as two:
        assert place in (one, two)


def test_a_connection_from_before_keeps_no_schema_from_being_given_out_again(server: Postgres, watcher: Connection) -> None:
    with server.store() as lasting, postroom.open(lasting):
        place, held = _used(server, watcher, _write)
        with server.store() as again:
            assert again == place
            assert _held(watcher, again) == held
