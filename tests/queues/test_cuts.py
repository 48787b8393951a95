"""Cut at every statement of the verbs of a queue: what failed has not happened, what did not has, and the next push rights the journal."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from postroom import queues
from postroom.core.errors import FilterFailed, StoreTrouble
from postroom.queues import Queue
from tests.faults.inspection import assert_no_ticket
from tests.queues.conftest import SELF, assert_both_tracks_agree, assert_intact, dump, fill

WANTED = "type = 'message' AND length(content) > 0"


class FailingQueue:
    """The real connections of a queue, of which the nth statement fails: before it is run, or after."""

    def __init__(self, queue: Queue, nth: int, error: type[BaseException], *, after: bool) -> None:
        self.error, self.after = error, after
        self.cut: str | None = None
        self._left = nth
        self._owners: list[tuple[Any, str, Any]] = []
        for owner, name in ((queue.file, "connection"), (queue.filter_sandbox, "_connection")):
            real = getattr(owner, name)
            self._owners.append((owner, name, real))
            setattr(owner, name, Cut(self, real))

    def runs(self, statement: str, run: Callable[[], Any]) -> Any:
        if statement == "ROLLBACK":  # the way back is not cut: SQLite's does not fail, and a dead process needs none
            return run()
        self._left -= 1
        if self._left != 0:
            return run()
        self.cut = statement
        if self.after and statement != "COMMIT" and not statement.startswith("BEGIN"):
            run()
        raised = self.error("cut")
        if isinstance(raised, sqlite3.OperationalError):
            raised.sqlite_errorcode, raised.sqlite_errorname = sqlite3.SQLITE_IOERR, "SQLITE_IOERR"
        raise raised

    def restore(self) -> None:
        for owner, name, real in self._owners:
            setattr(owner, name, real)
            assert not real.in_transaction, f"a transaction is left open by a failing {self.cut}"


class Cut:
    """One of them."""

    def __init__(self, cutting: FailingQueue, connection: Any) -> None:
        self._cutting, self._connection = cutting, connection

    def execute(self, statement: str, *binds: object) -> Any:
        return self._cutting.runs(statement, lambda: self._connection.execute(statement, *binds))

    def executemany(self, statement: str, *binds: object) -> Any:
        return self._cutting.runs(statement, lambda: self._connection.executemany(statement, *binds))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._connection, name)


def torn(queue: Queue) -> None:
    file = Path(queue.path) / "events.jsonl"
    file.write_bytes(file.read_bytes()[:-9])


def unsubscribed(queue: Queue) -> None:
    queues.unsubscribe(queue, "worker")


def as_it_is(queue: Queue) -> None:
    pass


BATCH = [{"content": content} for content in "xyz"]
Act = Callable[[Queue], object]


class QueueVerb(NamedTuple):
    prepare: Act
    act: Act
    adds: dict[str, int]  # rows, by table


def push(queue: Queue) -> None:
    queues.push(queue, source=SELF, type="message", content="new")


def push_batch(queue: Queue) -> None:
    queues.push_batch(queue, BATCH, source=SELF, type="record")


VERBS = {
    "push": QueueVerb(as_it_is, push, {"events": 1}),
    "push behind a torn line": QueueVerb(torn, push, {"events": 1}),
    "push_batch": QueueVerb(as_it_is, push_batch, {"events": 3}),
    "push_batch behind a torn line": QueueVerb(torn, push_batch, {"events": 3}),
    "pop with a cursor": QueueVerb(as_it_is, lambda queue: queues.pop(queue, "worker", last_event_id=2), {}),
    "pop with a first cursor": QueueVerb(as_it_is, lambda queue: queues.pop(queue, "other", last_event_id=2), {"consumer_progress": 1}),
    "ack": QueueVerb(as_it_is, lambda queue: queues.ack(queue, "worker", last_event_id=3), {}),
    "ack the first": QueueVerb(as_it_is, lambda queue: queues.ack(queue, "other", last_event_id=3), {"consumer_progress": 1}),
    "subscribe": QueueVerb(
        as_it_is, lambda queue: queues.subscribe(queue, "new", handler="true", filter="type = 'record'"), {"subscriptions": 1}
    ),
    "subscribe again somewhere else": QueueVerb(
        unsubscribed, lambda queue: queues.subscribe(queue, "worker", handler="true", last_event_id=3), {"subscriptions": 1}
    ),
    "unsubscribe": QueueVerb(as_it_is, unsubscribed, {"subscriptions": -1}),
}


def untroubled(queue: Queue) -> object:
    """Return the answer of `info`, which names a filter that fails as the trouble of its consumer."""
    told = queues.info(queue)
    for consumer in told.subscriptions:
        if consumer.trouble is not None:
            raise FilterFailed(consumer.trouble)
    return told


READS: dict[str, Act] = {
    "pop": lambda queue: queues.pop(queue, "worker"),
    "peek": lambda queue: queues.peek(queue, last_event_id=0),
    "peek with a filter": lambda queue: queues.peek(queue, last_event_id=0, filter=WANTED),
    "wait_for_events": lambda queue: queues.wait_for_events(queue, last_event_id=0, filter=WANTED, timeout_seconds=0.01),
    "info": untroubled,
}
MOMENTS = {"before it is run": False, "after it was run": True}


def prepared(queue: Queue, prepare: Act) -> None:
    fill(queue, "a", "b", "c", "d")
    queues.subscribe(queue, "worker", handler="true", filter=WANTED)
    queues.subscribe(queue, "other", handler="true")
    queues.ack(queue, "worker", last_event_id=1)
    prepare(queue)


def attempt(queue: Queue, act: Act, nth: int, error: type[BaseException], *, after: bool) -> tuple[str | None, BaseException | None]:
    """Do it with the nth statement failing; which that was, and what came of it."""
    cutting = FailingQueue(queue, nth, error, after=after)
    raised: BaseException | None = None
    try:
        act(queue)
    except BaseException as caught:
        raised = caught
    finally:
        cutting.restore()
    return cutting.cut, raised


def assert_whole(queue: Queue) -> None:
    assert_intact(queue.path)
    assert_no_ticket(str(Path(queue.path) / "events.db"))


def added(before: dict[str, list[tuple[object, ...]]], now: dict[str, list[tuple[object, ...]]]) -> dict[str, int]:
    """How many rows there are more, by table."""
    return {name: len(rows) - len(before[name]) for name, rows in now.items() if len(rows) != len(before[name])}


@pytest.mark.parametrize("after", MOMENTS.values(), ids=MOMENTS.keys())
@pytest.mark.parametrize("verb", VERBS.values(), ids=VERBS.keys())
def test_a_write_of_which_any_statement_fails_has_not_happened_or_says_that_it_has(queue: Queue, verb: QueueVerb, after: bool) -> None:
    prepared(queue, verb.prepare)
    before = dump(queue.path)
    cuts = []
    for nth in range(1, 100):
        cut, raised = attempt(queue, verb.act, nth, sqlite3.OperationalError, after=after)
        assert_whole(queue)
        if raised is None:
            break
        assert isinstance(raised, StoreTrouble | FilterFailed), f"{raised!r} came of a failing {cut}"
        assert dump(queue.path) == before, cut
        cuts.append(cut)
    assert {"BEGIN IMMEDIATE", "COMMIT"} <= set(cuts)
    assert raised is None
    assert added(before, dump(queue.path)) == verb.adds
    assert dump(queue.path) != before
    fill(queue, "afterwards")
    assert_both_tracks_agree(queue.path)
    assert_whole(queue)


@pytest.mark.parametrize("after", MOMENTS.values(), ids=MOMENTS.keys())
@pytest.mark.parametrize("name", ["push", "push behind a torn line", "push_batch", "push_batch behind a torn line"])
def test_a_journal_that_cannot_be_written_after_the_event_was_stored_is_righted_by_the_next_push(
    queue: Queue, name: str, after: bool
) -> None:
    verb = VERBS[name]
    prepared(queue, verb.prepare)
    for nth in range(1, 100):
        before = dump(queue.path)
        cut, raised = attempt(queue, verb.act, nth, sqlite3.OperationalError, after=after)
        assert added(before, dump(queue.path)) == ({} if raised else verb.adds), cut
        if cut is None:
            break
        fill(queue, f"the next one after {cut}")
        assert_both_tracks_agree(queue.path)
        verb.prepare(queue)
    assert cut is None


@pytest.mark.parametrize("after", MOMENTS.values(), ids=MOMENTS.keys())
@pytest.mark.parametrize("verb", VERBS.values(), ids=VERBS.keys())
def test_a_write_that_a_signal_interrupts_anywhere_has_happened_whole_or_not_at_all(queue: Queue, verb: QueueVerb, after: bool) -> None:
    prepared(queue, verb.prepare)
    before = dump(queue.path)
    for nth in range(1, 100):
        cut, raised = attempt(queue, verb.act, nth, KeyboardInterrupt, after=after)
        assert_whole(queue)
        assert isinstance(raised, KeyboardInterrupt) == (cut is not None)
        if dump(queue.path) != before:
            break
    assert added(before, dump(queue.path)) == verb.adds
    fill(queue, "afterwards")
    assert_both_tracks_agree(queue.path)


@pytest.mark.parametrize("after", MOMENTS.values(), ids=MOMENTS.keys())
@pytest.mark.parametrize("act", READS.values(), ids=READS.keys())
def test_a_read_of_which_any_statement_fails_says_so_instead_of_empty(queue: Queue, act: Act, after: bool) -> None:
    prepared(queue, as_it_is)
    before = dump(queue.path)
    expected = act(queue)
    for nth in range(1, 100):
        cut, raised = attempt(queue, act, nth, sqlite3.OperationalError, after=after)
        assert dump(queue.path) == before
        if cut is None:
            break
        assert isinstance(raised, StoreTrouble | FilterFailed), f"{raised!r} came of a failing {cut}"
    assert nth > 1
    assert act(queue) == expected
