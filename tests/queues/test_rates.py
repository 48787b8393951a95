"""How fast a queue grows: exact by the hour, and found without reading the queue."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from postroom import queues
from postroom.core import clock as time
from postroom.core.errors import InvalidInput
from postroom.queues import Queue
from tests.conftest import Clock
from tests.queues.conftest import SELF, fill

HOUR = 3600


def on_the_hour(clock: Clock) -> None:
    clock.instant -= clock.instant % (HOUR * time.MICROSECONDS_PER_SECOND)


def test_an_empty_queue_does_not_grow(queue: Queue) -> None:
    assert queues.rate(queue) == (0,) * 24


def test_events_are_counted_by_the_hour_of_their_storing(queue: Queue, clock: Clock) -> None:
    on_the_hour(clock)
    fill(queue, "a", "b")
    clock.advance(HOUR - 0.001)
    fill(queue, "c")
    clock.advance(0.001)
    fill(queue, "d")
    clock.advance(2 * HOUR)
    assert queues.rate(queue, hours=4) == (3, 1, 0, 0)
    assert queues.rate(queue, hours=3) == (1, 0, 0)
    clock.advance(21 * HOUR)
    assert queues.rate(queue) == (1,) + (0,) * 23
    clock.advance(HOUR)
    assert queues.rate(queue) == (0,) * 24


def test_whatever_was_stored_when_every_event_is_counted_once(queue: Queue, clock: Clock) -> None:
    on_the_hour(clock)
    expected = []
    for hour in range(24):
        expected.append(hour * 7 % 5)
        queues.push_batch(queue, [{"source": SELF, "type": "message", "content": str(n)} for n in range(expected[-1])])
        clock.advance(HOUR)
    clock.advance(-HOUR)
    assert queues.rate(queue) == tuple(expected)


def test_a_queue_of_which_somebody_deleted_events_is_still_counted(queue: Queue, clock: Clock) -> None:
    fill(queue, *map(str, range(20)))
    with closing(sqlite3.connect(Path(queue.path) / "events.db")) as connection, connection:
        connection.execute("DELETE FROM events WHERE id % 3 = 0 OR id < 5")
    assert sum(queues.rate(queue)) in range(12, 21)


def test_the_price_does_not_grow_with_the_queue(queue: Queue, clock: Clock) -> None:
    for _ in range(48):
        queues.push_batch(queue, [{"source": SELF, "type": "message", "content": "x"}] * 200)
        clock.advance(HOUR)
    asked: list[str] = []
    queue.file.connection.set_trace_callback(asked.append)
    try:
        queues.rate(queue)
    finally:
        queue.file.connection.set_trace_callback(None)
    assert len(asked) < 24 * 20
    plan = queue.file.connection.execute(
        "EXPLAIN QUERY PLAN SELECT id, created_at FROM events WHERE id >= 5 ORDER BY id LIMIT 1"
    ).fetchall()
    assert [row[3] for row in plan] == ["SEARCH events USING INTEGER PRIMARY KEY (rowid>?)"]


@pytest.mark.parametrize("hours", [0, -1, 169])
def test_hours_that_cannot_be_are_refused(queue: Queue, hours: int) -> None:
    with pytest.raises(InvalidInput):
        queues.rate(queue, hours=hours)
