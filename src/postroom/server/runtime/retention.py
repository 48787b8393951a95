"""Pruning by policy in a server: a thread that looks now and then whether it is due, with a store of its own."""

from __future__ import annotations

from threading import Event as Flag
from threading import Thread

from postroom.core.errors import Refusal
from postroom.maintenance import policy
from postroom.server.runtime.writer import wait_for_thread
from postroom.store import open_store

CHECK_SECONDS = 300.0


class RetentionRunner:
    """Prunes the store by its policy, once a day. Another server of the same store, or a timer of the notifier, may do it instead."""

    def __init__(self, location: str) -> None:
        self._location = location
        self._stop = Flag()
        self._thread = Thread(target=self._run_thread, name="retention", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()

    async def close(self) -> None:
        self.stop()
        await wait_for_thread(self._thread)

    def _run_thread(self) -> None:
        while not self._stop.is_set():
            try:
                self._prune_if_due()
            except Refusal:
                pass  # the store is busy or unreachable: the next check tries again
            self._stop.wait(CHECK_SECONDS)

    def _prune_if_due(self) -> None:
        store = open_store(self._location, door="http")
        try:
            if policy.is_due(store):
                policy.prune_by_policy(store, is_stopping=self._stop.is_set)
        finally:
            store.close()
