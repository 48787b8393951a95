"""Reports of watched queues, for the page. Each queue is a folder on this machine, and is read in a thread with a timeout."""

from __future__ import annotations

import asyncio
import logging
from threading import Thread

from postroom.core.records.watched_queues import QueueReport, WatchedQueue
from postroom.people import watched_queues

REPORT_TIMEOUT_SECONDS = 3.0
SLOW_REPORT_ERROR = "it takes too long to read"
_log = logging.getLogger("postroom.server")


class QueueReports:
    """Reads reports. Requests for a queue that is being read share one report, so that a hanging folder blocks one thread only.

    The threads are daemons: a server that ends does not wait for them.
    """

    def __init__(self) -> None:
        self._pending: dict[WatchedQueue, asyncio.Future[QueueReport]] = {}

    async def read_reports(self, queues: tuple[WatchedQueue, ...]) -> list[QueueReport]:
        """Return a report of each queue. A queue that takes longer than `REPORT_TIMEOUT_SECONDS` gets a report with an error."""
        futures = [self._start_report(queue) for queue in queues]
        if futures:
            await asyncio.wait(futures, timeout=REPORT_TIMEOUT_SECONDS)
        return [
            future.result() if future.done() else watched_queues.unreadable_report(queue, SLOW_REPORT_ERROR)
            for queue, future in zip(queues, futures)
        ]

    def _start_report(self, queue: WatchedQueue) -> asyncio.Future[QueueReport]:
        pending = self._pending.get(queue)
        if pending is None:
            loop = asyncio.get_running_loop()
            pending = self._pending[queue] = loop.create_future()
            Thread(target=self._read_report, args=(loop, queue), name="queue", daemon=True).start()
        return pending

    def _read_report(self, loop: asyncio.AbstractEventLoop, queue: WatchedQueue) -> None:
        try:
            report = watched_queues.report(queue)
        except Exception:  # the requests must get an answer
            _log.exception("a queue could not be read")
            report = watched_queues.unreadable_report(queue, "it could not be read")
        try:
            loop.call_soon_threadsafe(self._set_report, queue, report)
        except RuntimeError:
            pass  # the server has ended meanwhile

    def _set_report(self, queue: WatchedQueue, report: QueueReport) -> None:
        self._pending.pop(queue).set_result(report)
