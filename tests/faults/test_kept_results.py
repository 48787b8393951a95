"""Writes with an idempotency key: each is done once, however its batch ends, and its kept result is a part of its transaction."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier, BrokenBarrierError

import psycopg
import pytest

from postroom import work
from postroom.core.errors import Contended, InvalidInput, StorageFailure, StoreBusy
from postroom.server.runtime import idempotency
from postroom.server.runtime.idempotency import KEEP_STORED_MICROSECONDS, Key, drop_old_results, run_stored
from postroom.store.interface import Store, Transaction
from postroom.store.postgres.batch import LOCK_WAIT, BatchTransaction
from postroom.store.postgres.connection_url import parse_url
from postroom.store.postgres.connections.pool import MAX_CONNECTIONS
from postroom.store.postgres.engine import PostgresStore
from tests.cli.process import LIMIT
from tests.conftest import Clock

KEY: Key = ("ada", "work.send", "k1", b"arguments")
KEEP_SECONDS = KEEP_STORED_MICROSECONDS / 1_000_000
Execute = Callable[[Store], bytes]


def run_in_batch(store: Store, execute: Execute, topics: set[str] | None = None, *, isolate_verbs: bool = False) -> bytes:
    """Run a write as group commit does: at first in a batch, and isolated from the others after that batch has failed."""
    error: Exception | None = None
    with store.batch(isolate_verbs=isolate_verbs, committed_topics=topics) as batch:
        try:
            return run_stored(KEY, lambda _: None, execute, batch)
        except Exception as refusal:
            error = refusal
    raise error


def send(store: Store) -> bytes:
    return work.send(store, sender="ada", to="worker", subject="Once").thread.thread_id.encode()


def count_threads(store: Store) -> int:
    return len(work.list_threads(store).threads)


@pytest.mark.parametrize("isolate_verbs", [False, True])
def test_a_write_runs_once_and_its_result_is_kept(store: Store, isolate_verbs: bool) -> None:
    topics: set[str] = set()
    first = run_in_batch(store, send, topics, isolate_verbs=isolate_verbs)
    assert run_in_batch(store, send, isolate_verbs=isolate_verbs) == first
    assert count_threads(store) == 1
    assert topics


@pytest.mark.parametrize("isolate_verbs", [False, True])
def test_a_key_whose_result_is_too_old_is_as_new_also_before_it_is_dropped(store: Store, clock: Clock, isolate_verbs: bool) -> None:
    first = run_in_batch(store, send, isolate_verbs=isolate_verbs)
    clock.advance(KEEP_SECONDS + 1)
    second = run_in_batch(store, send, isolate_verbs=isolate_verbs)
    assert second != first
    assert run_in_batch(store, send, isolate_verbs=isolate_verbs) == second
    assert count_threads(store) == 2


def test_a_write_that_is_refused_in_its_transaction_stores_nothing(store: Store) -> None:
    def send_and_refuse(here: Store) -> bytes:
        with here.write() as tx:
            tx.execute(tx.sql.agent_seen, name="half", now="2026-11-20T00:00:00.000000Z")
            raise InvalidInput("no", field="x")

    with pytest.raises(InvalidInput):
        run_in_batch(store, send_and_refuse, isolate_verbs=True)
    assert "half" not in {agent.name for agent in work.list_agents(store).agents}


def test_a_write_that_is_refused_after_its_transaction_keeps_it(store: Store) -> None:
    """A claim counts the attempt of a lapsed lease, which may end the thread, and is refused then."""

    def send_then_refuse(here: Store) -> bytes:
        send(here)
        raise InvalidInput("no", field="x")

    with pytest.raises(InvalidInput):
        run_in_batch(store, send_then_refuse, isolate_verbs=True)
    assert count_threads(store) == 1


def test_old_results_are_dropped_some_at_a_time(store: Store, clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(idempotency, "MAX_DROPPED_RESULTS", 2)
    for number in range(5):
        with store.batch() as batch:
            run_stored((*KEY[:2], f"k{number}", KEY[3]), lambda _: None, send, batch)
    assert not drop_old_results(store)
    clock.advance(KEEP_SECONDS + 1)
    assert [drop_old_results(store) for _ in range(3)] == [True, True, False]
    with store.read() as tx:
        assert tx.fetch_one(tx.sql.idempotency_oldest) is None


@pytest.fixture
def servers(postgres_place: str) -> tuple[PostgresStore, PostgresStore]:
    return PostgresStore(postgres_place), PostgresStore(postgres_place)


def test_two_servers_that_run_a_write_at_the_same_time_do_it_once(servers: tuple[PostgresStore, PostgresStore]) -> None:
    both_have_looked = Barrier(2, timeout=LIMIT)

    def send_together(here: Store) -> bytes:
        try:
            both_have_looked.wait()
            both_have_looked.abort()  # the one that runs again goes on alone
        except BrokenBarrierError:
            pass
        return send(here)

    with servers[0], servers[1], ThreadPoolExecutor() as threads:
        running = [threads.submit(run_in_batch, one, send_together, isolate_verbs=True) for one in servers]
        results = {one.result(LIMIT) for one in running}
        assert len(results) == 1
        assert count_threads(servers[0]) == 1


def test_a_write_whose_result_cannot_be_kept_stores_nothing(postgres_place: str) -> None:
    def send_and_break(here: Store) -> bytes:
        send(here)
        return b"\xff"  # no text, so that keeping it fails

    with PostgresStore(postgres_place) as store:
        with pytest.raises(UnicodeDecodeError):
            run_in_batch(store, send_and_break, isolate_verbs=True)
        assert count_threads(store) == 0


def test_a_batch_that_cannot_begin_gives_its_connection_back(postgres_place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(BatchTransaction, "begin", BatchTransaction.begin.replace(LOCK_WAIT, "1ms"))
    address = parse_url(postgres_place)
    with PostgresStore(postgres_place) as store, psycopg.connect(address.url) as upgrade:
        for _ in range(MAX_CONNECTIONS + 1):
            assert count_threads(store) == 0  # on a connection that is trusted afterwards: the batch sends BEGIN and does not wait
            upgrade.execute(f'LOCK TABLE "{address.schema}".meta IN ACCESS EXCLUSIVE MODE')
            with pytest.raises(StoreBusy), store.batch():
                pass
            upgrade.rollback()


def test_a_commit_that_the_server_turned_into_a_rollback_is_refused(postgres_place: str) -> None:
    """The server does so if a statement before it failed, also if somebody has overlooked that."""

    def write_and_overlook(tx: Transaction) -> None:
        tx.execute(tx.sql.agent_seen, name="lost", now="2026-11-20T00:00:00.000000Z")
        try:
            tx.fetch_one("SELECT 1 / 0")
        except Exception:
            pass

    with PostgresStore(postgres_place) as store, pytest.raises((StorageFailure, Contended)), store.write() as tx:
        write_and_overlook(tx)
