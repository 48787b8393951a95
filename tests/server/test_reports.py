"""A queue that cannot be read in time keeps nobody waiting, and one thread busy, however often it is asked for."""

from __future__ import annotations

import asyncio
from threading import Event

import pytest

from postroom.core.watching import QueueReport, WatchedQueue
from postroom.people import watched
from postroom.server import reports
from postroom.server.reports import SLOW, Reports

QUICK, HANGING = WatchedQueue("/quick", "Quick", ""), WatchedQueue("/hanging", "Hanging", "")


def test_a_queue_that_hangs_hides_no_other_and_is_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    released, asked = Event(), []

    def report(queue: WatchedQueue) -> QueueReport:
        asked.append(queue.path)
        if queue is HANGING:
            released.wait(30)
        return watched.unread(queue, "read")

    async def look() -> None:
        desk = Reports()
        for _ in range(3):
            assert [found.error for found in await desk.of((QUICK, HANGING))] == ["read", SLOW]
        assert asked.count("/hanging") == 1
        released.set()
        monkeypatch.setattr(reports, "PATIENCE", 30.0)
        assert [found.error for found in await desk.of((QUICK, HANGING))] == ["read", "read"]
        assert await desk.of(()) == []

    monkeypatch.setattr(watched, "report", report)
    monkeypatch.setattr(reports, "PATIENCE", 0.05)
    asyncio.run(look())


def test_a_failure_of_ours_is_said_and_is_not_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(queue: WatchedQueue) -> QueueReport:
        raise ZeroDivisionError

    async def look() -> None:
        desk = Reports()
        assert [found.error for found in await desk.of((QUICK,))] == ["it could not be read"]
        monkeypatch.setattr(watched, "report", lambda queue: watched.unread(queue, "read"))
        assert [found.error for found in await desk.of((QUICK,))] == ["read"]

    monkeypatch.setattr(watched, "report", fail)
    asyncio.run(look())
