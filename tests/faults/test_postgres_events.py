"""Events of transactions that overlap: a reader with a cursor sees each of them once, in order, whatever order they commit in."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import psycopg
import pytest

from postroom import people, work
from postroom.store.event_log import BLOCK_EVENTS, last_summarised_event
from postroom.store.interface import Transaction
from postroom.store.postgres import engine, settling
from postroom.store.postgres.connection_url import parse_url
from postroom.store.postgres.driver import open_connection
from postroom.store.postgres.engine import PostgresStore
from postroom.store.postgres.listener import PostgresWatch, find_listener
from tests.cli.process import LIMIT
from tests.contract.blocking_store import eventually
from tests.contract.thread_data import sent
from tests.postgres_server import Postgres

WRITERS, READERS, TRANSACTIONS = 16, 4, 12


@pytest.fixture
def place(postgres_place: str) -> str:
    """These are about a server."""
    return postgres_place


def append(tx: Transaction, topic: str = "x") -> int:
    facts = dict.fromkeys(("run_id", "task_id", "thread_id", "source", "event_type", "summary"), "") | {"message_id": None}
    return tx.insert_event(tx.sql.event_append, [topic], payload_json="{}", created_at="2026", **facts)


def events_after(store: PostgresStore, after: int) -> list[int]:
    with store.read() as tx:
        return [event.event_id for event in tx.fetch_all(tx.sql.events_after, after=after, limit=1000)]


class Undone(Exception):
    """Raised to roll a transaction back."""


def leave_gap(store: PostgresStore) -> None:
    """Draw an id, and roll back."""
    try:
        with store.write() as tx:
            append(tx)
            raise Undone
    except Undone:
        pass


def test_every_reader_sees_every_event_once_and_in_order(place: str) -> None:
    """Sixteen writers commit or roll back one to three events at a time. Four readers follow them, waiting as the server does."""
    committed: set[int] = set()
    logs: list[list[int]] = [[] for _ in range(READERS)]
    with PostgresStore(place) as store, PostgresStore(place) as other:
        are_done = threading.Event()
        last_ids: list[int] = []

        def write(seed: int) -> None:
            chance = random.Random(seed)
            for _ in range(TRANSACTIONS):
                ids = []
                try:
                    with (store if seed % 2 else other).write() as tx:
                        for _ in range(chance.randint(1, 3)):
                            ids.append(append(tx, f"topic {seed}"))
                        if chance.random() < 0.25:
                            raise Undone
                    committed.update(ids)
                except Undone:
                    pass

        def read(log: list[int]) -> None:
            with store.watch() as watch:
                while not (are_done.is_set() and log and log[-1] == last_ids[0]):
                    log.extend(events_after(store, log[-1] if log else 0))
                    watch.wait(0.05 if are_done.is_set() else 5)

        readers = [threading.Thread(target=read, args=(log,), daemon=True) for log in logs]
        writers = [threading.Thread(target=write, args=(seed,), daemon=True) for seed in range(WRITERS)]
        for thread in readers + writers:
            thread.start()
        for thread in writers:
            thread.join(60)
        with store.write() as tx:
            last_ids.append(append(tx))
        committed.add(last_ids[0])
        are_done.set()
        for thread in readers:
            thread.join(60)
        assert [log == sorted(committed) for log in logs] == [True] * READERS


def test_a_gap_that_a_killed_writer_left_is_settled(place: str, postgres: Postgres) -> None:
    """The ids of a transaction whose process died are never reported. A waiter sees the events after them all the same."""
    with PostgresStore(place) as store, PostgresStore(place) as other, other.watch() as watch:
        dead = store.write()
        dead.__enter__()
        lost = append(dead)
        thread_id = sent(other)
        assert events_after(other, 0) == []
        with psycopg.connect(postgres.url, autocommit=True) as killer:
            killer.execute("SELECT pg_terminate_backend(%s)", dead.fetch_one("SELECT pg_backend_pid()"))

        def is_seen() -> bool:
            watch.wait(0.05)
            return events_after(other, 0) == [lost + 1]

        assert eventually(is_seen)
        assert work.show(other, thread_id).next_event_id == lost + 1


def test_a_question_behind_the_gap_of_a_dead_process_is_shown_though_nobody_waits(place: str) -> None:
    """As with commands only: the process that left the gap is gone, and the one that looks has just begun."""
    with PostgresStore(place) as dead, PostgresStore(place) as asking:
        thread = sent(asking, to="ada")
        work.claim(asking, thread, agent="ada")
        leave_gap(dead)
        work.update(asking, thread, agent="ada", status="blocked", summary="Ship it?", to="user")
    with PostgresStore(place) as looking:
        assert [entry.comments for entry in people.history(looking).entries] == ["Ship it?"]


def test_a_gap_is_not_settled_while_its_writer_is_at_work(place: str) -> None:
    with PostgresStore(place) as store, PostgresStore(place) as other:
        with store.write() as tx:
            early = append(tx)
            sent(other)
            for _ in range(3):
                connection = other.pool.borrow()
                assert other.settler.settle(connection.driver) == (False, early + 1)
                other.pool.give_back(connection)
            assert events_after(other, 0) == []
        assert events_after(other, 0) == [early, early + 1]


class SlowConnection:
    """A connection of a thread that is held up right after it has read which writers are at work."""

    def __init__(self, connection: psycopg.Connection[Any], meanwhile: Callable[[], None]) -> None:
        self._connection = connection
        self._meanwhile = meanwhile

    def __getattr__(self, name: str) -> Any:
        return getattr(self._connection, name)

    def execute(self, query: Any, *binds: Any) -> Any:
        found = self._connection.execute(query, *binds)
        if query == settling.WRITERS:
            self._meanwhile()
        return found


def test_a_thread_that_read_the_writers_before_a_gap_was_noted_does_not_settle_it(place: str) -> None:
    """The threads of a store share the note of a gap. Of its writers, an older look at all writers says nothing."""
    address = parse_url(place)
    with PostgresStore(place) as store, PostgresStore(place) as other, open_connection(address) as slow, open_connection(address) as quick:
        first, second = ExitStack(), ExitStack()
        ids = [append(first.enter_context(other.write()))]
        with store.write() as tx:
            ids.append(append(tx))

        def close_the_gap_and_leave_another() -> None:
            first.close()
            ids.append(append(second.enter_context(other.write())))
            with store.write() as tx:
                ids.append(append(tx))
            store.settler.settle(quick)

        store.settler.settle(SlowConnection(slow, close_the_gap_and_leave_another))  # type: ignore[arg-type]
        assert events_after(store, 0) == ids[:2]
        second.close()
        assert events_after(store, 0) == ids


def test_a_long_transaction_of_another_program_delays_no_event(place: str, postgres: Postgres) -> None:
    with psycopg.connect(postgres.url) as foreign, PostgresStore(place) as store:
        foreign.execute("CREATE TEMPORARY TABLE other_work (a int)")
        foreign.execute("SELECT pg_current_xact_id()")
        sent(store)
        leave_gap(store)
        sent(store)
        connection = store.pool.borrow()
        assert store.settler.settle(connection.driver)[0]
        store.pool.give_back(connection)
        assert events_after(store, 0) == [1, 3]


def test_the_settled_id_follows_without_a_waiter(place: str) -> None:
    """So that a read never walks over many ids: writers store it now and then."""
    with PostgresStore(place) as store:
        for _ in range(130):
            with store.write() as tx:
                append(tx)
        with store.read() as tx:
            [stored] = tx.fetch_one("SELECT settled_event_id FROM meta")
        assert stored >= 64


def test_a_waiter_behind_the_gap_of_another_topic_is_woken_when_it_closes(place: str) -> None:
    """Its own notification came too early, and the one of the gap is for another topic."""
    found: list[Any] = []
    with PostgresStore(place) as store, PostgresStore(place) as other:
        sent(store, to="builder")
        [after] = events_after(store, 0)
        waiter = threading.Thread(
            target=lambda: found.append(work.watch(store, agent="builder", after_event=after, timeout_seconds=25)), daemon=True
        )
        waiter.start()
        assert eventually(lambda: len(find_listener(parse_url(place))._watches) == 1)
        with other.write() as tx:
            append(tx, "unrelated")
            thread_id = sent(store, to="builder")
            assert not found
        waiter.join(5)  # a fifth of the time after which it would look by itself
        assert [event.thread_id for event in found[0].events] == [thread_id]


@contextmanager
def watch_from_now(store: PostgresStore, *topics: str) -> Iterator[PostgresWatch]:
    """A watch that has had the wake with which listening begins. Only an event wakes it again."""
    with store.watch(*topics) as watch:
        assert watch._woken.wait(LIMIT)
        watch.wait(0)
        yield watch


@pytest.mark.parametrize("topics", [(), ("agent:builder",)], ids=["all events", "one topic"])
def test_an_event_that_was_not_announced_wakes_who_waits(place: str, postgres: Postgres, topics: tuple[str, ...]) -> None:
    """A process may die between its commit and its notification."""
    schema = place.rpartition("schema=")[2]
    with PostgresStore(place) as store, psycopg.connect(postgres.url, autocommit=True) as silent, watch_from_now(store, *topics) as watch:
        silent.execute(
            f"INSERT INTO {schema}.events (run_id, task_id, thread_id, source, event_type, created_at) VALUES ('', '', '', '', '', '2026')"
        )
        assert watch._woken.wait(LIMIT)
        assert events_after(store, 0) == [1]


def test_a_write_is_done_and_seen_though_its_notification_fails(place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The notification is no part of the transaction: inside, it would keep out the commits of all others."""
    with PostgresStore(place) as store, PostgresStore(place) as other, watch_from_now(store) as watch:
        monkeypatch.setattr(engine, "NOTIFY", "SELECT 1 / 0")
        thread_id = sent(other, to="builder")
        assert watch._woken.wait(LIMIT)
        assert [found.thread.thread_id for found in work.fetch(store, agent="builder").candidates] == [thread_id]


def test_a_block_of_events_is_summarised_once_none_of_them_can_still_appear(place: str) -> None:
    """The event that begins the next block is written while one of the block is being written: its summary has to wait."""
    with PostgresStore(place) as store, PostgresStore(place) as other:
        with store.write() as tx:
            for _ in range(BLOCK_EVENTS - 2):
                append(tx)
        with other.write() as tx:
            assert append(tx) == BLOCK_EVENTS - 1
            first = work.send(store, sender="lead", to="w", subject="S").message.event_id
            assert first == BLOCK_EVENTS
            with store.read() as view:
                assert last_summarised_event(view) == 0
        with store.write() as tx:
            for _ in range(BLOCK_EVENTS - 1):
                append(tx)
        work.send(store, sender="lead", to="w", subject="S")
        with store.read() as view:
            assert last_summarised_event(view) == 2 * BLOCK_EVENTS - 1
