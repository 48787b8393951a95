"""Reports of watched queues: each is a folder somewhere on this machine, read in a thread, and not waited for longer than people are."""

from __future__ import annotations

import asyncio
import logging
from threading import Thread

from postroom.core.watching import QueueReport, WatchedQueue
from postroom.people import watched

PATIENCE = 3.0
SLOW = "it takes too long to read"
_log = logging.getLogger("postroom.server")


class Reports:
    """Whoever asks about a queue while it is being read gets the same report: one that hangs keeps one thread, and not one a question.

    The threads are nobody's to wait for: a server that ends leaves them.
    """

    def __init__(self) -> None:
        self._asked: dict[WatchedQueue, asyncio.Future[QueueReport]] = {}

    async def of(self, queues: tuple[WatchedQueue, ...]) -> list[QueueReport]:
        asked = [self._ask(queue) for queue in queues]
        if asked:
            await asyncio.wait(asked, timeout=PATIENCE)
        return [future.result() if future.done() else watched.unread(queue, SLOW) for queue, future in zip(queues, asked)]

    def _ask(self, queue: WatchedQueue) -> asyncio.Future[QueueReport]:
        known = self._asked.get(queue)
        if known is None:
            loop = asyncio.get_running_loop()
            known = self._asked[queue] = loop.create_future()
            Thread(target=self._read, args=(loop, queue), name="queue", daemon=True).start()
        return known

    def _read(self, loop: asyncio.AbstractEventLoop, queue: WatchedQueue) -> None:
        try:
            found = watched.report(queue)
        except Exception:  # somebody waits for this
            _log.exception("a queue could not be read")
            found = watched.unread(queue, "it could not be read")
        try:
            loop.call_soon_threadsafe(self._tell, queue, found)
        except RuntimeError:
            pass  # the server has ended meanwhile

    def _tell(self, queue: WatchedQueue, found: QueueReport) -> None:
        self._asked.pop(queue).set_result(found)
