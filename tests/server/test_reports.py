"""A queue that cannot be read in time keeps nobody waiting, and one thread busy, however often it is asked for."""

from __future__ import annotations

import asyncio
from threading import Event

import pytest

from postroom.core.records.watched_queues import QueueReport, WatchedQueue
from postroom.people import watched_queues
from postroom.server.runtime import queue_reports
from postroom.server.runtime.queue_reports import SLOW_REPORT_ERROR, QueueReports

QUICK, HANGING = WatchedQueue("/quick", "Quick", ""), WatchedQueue("/hanging", "Hanging", "")


def test_a_queue_that_hangs_hides_no_other_and_is_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    released, asked = Event(), []

    def report(queue: WatchedQueue) -> QueueReport:
        asked.append(queue.path)
        if queue is HANGING:
            released.wait(30)
        return watched_queues.unreadable_report(queue, "read")

    async def look() -> None:
        workspace = QueueReports()
        for _ in range(3):
            assert [found.error for found in await workspace.read_reports((QUICK, HANGING))] == ["read", SLOW_REPORT_ERROR]
        assert asked.count("/hanging") == 1
        released.set()
        monkeypatch.setattr(queue_reports, "REPORT_TIMEOUT_SECONDS", 30.0)
        assert [found.error for found in await workspace.read_reports((QUICK, HANGING))] == ["read", "read"]
        assert await workspace.read_reports(()) == []

    monkeypatch.setattr(watched_queues, "report", report)
    monkeypatch.setattr(queue_reports, "REPORT_TIMEOUT_SECONDS", 0.05)
    asyncio.run(look())


def test_a_failure_of_ours_is_said_and_is_not_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(queue: WatchedQueue) -> QueueReport:
        raise ZeroDivisionError

    async def look() -> None:
        workspace = QueueReports()
        assert [found.error for found in await workspace.read_reports((QUICK,))] == ["it could not be read"]
        monkeypatch.setattr(watched_queues, "report", lambda queue: watched_queues.unreadable_report(queue, "read"))
        assert [found.error for found in await workspace.read_reports((QUICK,))] == ["read"]

    monkeypatch.setattr(watched_queues, "report", fail)
    asyncio.run(look())
