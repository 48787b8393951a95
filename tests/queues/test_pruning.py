"""Old events of a queue go once every consumer has read them, from the database and from the journal alike."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import postroom
from postroom import queues
from postroom.core import clock as time
from postroom.core.errors import CursorExpired
from postroom.core.records.queues import EventLength
from postroom.maintenance.pruning import prune
from postroom.queues import Queue
from postroom.queues.pruning import find_removable, remove_events
from postroom.store.sqlite.engine import SqliteStore
from tests.conftest import Clock
from tests.queues.conftest import SELF, assert_both_tracks_agree, fill, ids, rows

HOUR_SECONDS = 3600


def store_with(folder: Path, queue: Queue) -> str:
    """A store that knows the queue."""
    place = str(folder / "coord.db")
    postroom.init(place)
    with SqliteStore(place) as store, store.write() as tx:
        tx.execute(tx.sql.queue_insert, path=queue.path, label="Disk watch", created_at=time.format_stamp(tx.now()))
    return place


def pruned(place: str) -> int:
    """Prune what is older than an hour, by the time of day. Returns the number of removed events."""
    with SqliteStore(place) as store:
        return prune(store, older_than_seconds=HOUR_SECONDS).queue_events


@pytest.fixture
def old(queue: Queue, clock: Clock) -> Queue:
    """A queue with five events of two hours ago and one of now."""
    clock.advance(-2 * HOUR_SECONDS)
    fill(queue, *"abcde")
    clock.advance(2 * HOUR_SECONDS)
    fill(queue, "f")
    return queue


def test_old_events_go_from_the_rows_and_from_the_journal(old: Queue, tmp_path: Path) -> None:
    assert pruned(store_with(tmp_path, old)) == 5
    assert_both_tracks_agree(old.path)
    queues.push(old, source=SELF, type="message", content="g")
    assert [row[0] for row in rows(old.path)] == [6, 7]
    assert_both_tracks_agree(old.path)
    assert old.journal.warnings == []


def test_an_event_that_a_consumer_has_not_read_stays_with_all_that_follow(old: Queue, tmp_path: Path) -> None:
    queues.subscribe(old, "reader", handler="true")
    queues.ack(old, "reader", last_event_id=2)
    assert pruned(store_with(tmp_path, old)) == 2
    assert ids(queues.pop(old, "reader")) == [3, 4, 5, 6]


@pytest.mark.parametrize("wrong_hours", [0, 24], ids=["then back", "ahead"])
def test_a_clock_that_jumped_removes_no_event_too_early(queue: Queue, clock: Clock, tmp_path: Path, wrong_hours: int) -> None:
    """An old event, then one whose stamp is younger than those of three that follow it."""
    now = clock.instant
    for shift_hours in (-2, wrong_hours, -2, -2, -2, 0):
        clock.instant = now + shift_hours * HOUR_SECONDS * time.MICROSECONDS_PER_SECOND
        fill(queue, "x")
    clock.instant = now
    assert pruned(store_with(tmp_path, queue)) == 1
    assert [row[0] for row in rows(queue.path)] == [2, 3, 4, 5, 6]


def test_long_events_go_in_several_transactions(queue: Queue, clock: Clock) -> None:
    for content in ("x" * 30_000_000, "y" * 30_000_000, "z", "z", "newest"):
        queues.push(queue, source=SELF, type="message", content=content)
    clock.advance(1)
    parts: list[list[int]] = []
    oldest, upto = find_removable(queue, clock.instant)

    def run_parts(items: list[EventLength], change: object, *, size_of: Callable[[EventLength], int]) -> None:
        parts.append([size_of(item) for item in items])

    remove_events(queue, oldest, upto, run_parts)  # type: ignore[arg-type]
    assert parts == [[458, 458, 1, 1]]


def test_the_newest_event_stays(queue: Queue, clock: Clock, tmp_path: Path) -> None:
    clock.advance(-2 * HOUR_SECONDS)
    fill(queue, "a", "b")
    assert pruned(store_with(tmp_path, queue)) == 1
    assert queues.head(queue) == 2


def test_a_cursor_behind_what_was_removed_is_refused(old: Queue, tmp_path: Path) -> None:
    queues.subscribe(old, "reader", handler="true")
    queues.ack(old, "reader", last_event_id=5)
    pruned(store_with(tmp_path, old))
    with pytest.raises(CursorExpired) as refused:
        queues.peek(old, last_event_id=2)
    assert refused.value.facts["next_event_id"] == 5
    with pytest.raises(CursorExpired):
        queues.pop(old, "reader", last_event_id=2)
    assert ids(queues.peek(old, last_event_id=5)) == ids(queues.peek(old, last_event_id=0)) == [6]


def test_a_queue_that_cannot_be_pruned_is_named(tmp_path: Path, queue: Queue) -> None:
    place = store_with(tmp_path, queue)
    queue.close()
    Path(queue.path, "events.db").write_bytes(b"not a database")
    with SqliteStore(place) as store:
        result = prune(store, older_than_seconds=HOUR_SECONDS)
    assert queue.path in result.note
    assert result.queue_events == 0


def test_an_empty_queue_has_nothing_to_remove(queue: Queue) -> None:
    oldest, upto = find_removable(queue, time.now())
    assert upto < oldest
