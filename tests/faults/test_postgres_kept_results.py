"""Writes with an idempotency key that run outside of a shared batch on PostgreSQL: the write and its kept result are one transaction."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier, BrokenBarrierError

import pytest

from postroom import work
from postroom.core.errors import InvalidInput
from postroom.server.runtime.idempotency import Key, run_stored
from postroom.store.interface import Store
from postroom.store.postgres.engine import PostgresStore
from tests.cli.process import LIMIT

KEY: Key = ("ada", "work.send", "k1", b"arguments")


@pytest.fixture
def place(postgres_place: str) -> str:
    """These are about a server."""
    return postgres_place


@pytest.fixture
def store(place: str) -> Iterator[PostgresStore]:
    with PostgresStore(place) as store:
        yield store


def run_isolated(store: Store, execute: object, topics: set[str] | None = None) -> bytes:
    """Run a write as the server does after its batch has failed."""
    with store.batch(isolate_verbs=True, committed_topics=topics) as singly:
        return run_stored(KEY, lambda _: None, execute, singly)  # type: ignore[arg-type]


def send(store: Store) -> bytes:
    return work.send(store, sender="ada", to="worker", subject="Once").thread.thread_id.encode()


def count_threads(store: Store) -> int:
    return len(work.list_threads(store).threads)


def test_a_write_runs_once_and_its_result_is_kept(store: PostgresStore) -> None:
    topics: set[str] = set()
    first = run_isolated(store, send, topics)
    assert run_isolated(store, send) == first
    assert count_threads(store) == 1
    assert topics


def test_a_write_whose_result_cannot_be_kept_stores_nothing(store: PostgresStore) -> None:
    def send_and_break(here: Store) -> bytes:
        send(here)
        return b"\xff"  # no text, so that keeping it fails

    with pytest.raises(UnicodeDecodeError):
        run_isolated(store, send_and_break)
    assert count_threads(store) == 0


def test_a_write_that_is_refused_after_it_has_written_stores_nothing(store: PostgresStore) -> None:
    def send_and_refuse(here: Store) -> bytes:
        send(here)
        raise InvalidInput("no", field="x")

    with pytest.raises(InvalidInput):
        run_isolated(store, send_and_refuse)
    assert count_threads(store) == 0


def test_two_servers_that_run_a_write_at_the_same_time_do_it_once(store: PostgresStore, place: str) -> None:
    both_have_looked = Barrier(2, timeout=LIMIT)

    def send_together(here: Store) -> bytes:
        try:
            both_have_looked.wait()
            both_have_looked.abort()  # the one that runs again goes on alone
        except BrokenBarrierError:
            pass
        return send(here)

    with PostgresStore(place) as other, ThreadPoolExecutor() as threads:
        running = [threads.submit(run_isolated, one, send_together) for one in (store, other)]
        results = {one.result(LIMIT) for one in running}
    assert len(results) == 1
    assert count_threads(store) == 1
