"""The sender of alerts in a server: a thread with a connection of its own. Several servers of one database share the work."""

from __future__ import annotations

import asyncio
import logging
from threading import Event as Flag
from threading import Thread

from postroom.core.errors import Refusal
from postroom.outbound.sender import AlertSender
from postroom.server.runtime.writer import wait_for_thread
from postroom.store.interface import Store

RETRY_SECONDS = 5.0  # after the store refused
GRACE_SECONDS = 2.0  # for a message that is being sent when the server ends
_log = logging.getLogger("postroom.server")


class AlertThread:
    """Sends the alerts of a store while the server runs."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._stop = Flag()
        self._sender = AlertSender(store, syncs_questions=False)
        self._thread = Thread(target=self._run_thread, name="alerts", daemon=True)
        self._thread.start()

    def _run_thread(self) -> None:
        while not self._stop.is_set():
            try:
                self._sender.run()
            except Refusal as refusal:  # for example, the store is unreachable: what is queued stays queued
                _log.warning("alerts are not sent now: %s", refusal)
                self._stop.wait(RETRY_SECONDS)
                self._sender = AlertSender(self._store, syncs_questions=False)

    def stop(self) -> None:
        """Begin to end. A message that is being sent may finish."""
        self._stop.set()
        self._sender.stop()

    async def close(self) -> None:
        """Return when the thread has ended. A message that takes longer than a moment is cut off, and is sent again later."""
        self.stop()
        try:
            async with asyncio.timeout(GRACE_SECONDS):
                await wait_for_thread(self._thread)
        except TimeoutError:
            self._sender.stop()  # the second call ends the process that sends
            await wait_for_thread(self._thread)
