"""Patience: threads for verbs that wait, and the answers of late, for whoever did not get theirs."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from time import monotonic
from typing import Any

from postroom.core.errors import TooMany
from postroom.server.desk import Desk

MOST_WAITING = 200
REMEMBERED, KEPT_SECONDS, KEPT_BYTES = 1000, 120.0, 64 * 1024
Key = tuple[str, str, str, bytes]  # who, which verb, the key, and a hash of what was said with it


class Patience:
    """Waits and remembers, for as long as the server runs."""

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(MOST_WAITING, thread_name_prefix="wait")
        self._waiting = 0
        self._known: OrderedDict[Key, tuple[float, asyncio.Task[bytes]]] = OrderedDict()

    async def once(self, key: Key, act: Callable[[], Any]) -> bytes:
        """The answer to a key: made once, and given again to whoever asks with the same."""
        while self._known and (monotonic() - next(iter(self._known.values()))[0] > KEPT_SECONDS or len(self._known) > REMEMBERED):
            self._known.popitem(last=False)
        found = self._known.get(key)
        if found is None or (found[1].done() and (found[1].cancelled() or found[1].exception() is not None)):
            found = (monotonic(), asyncio.create_task(act()))
            found[1].add_done_callback(lambda task: task.cancelled() or task.exception())  # looked at, also if nobody waits any more
            self._known[key] = found
        answer = await asyncio.shield(found[1])
        if len(answer) > KEPT_BYTES:  # whoever did not get it asks anew
            self._known.pop(key, None)
        return answer

    async def wait(self, desk: Desk, act: Callable[[Callable[[], bool]], Any]) -> Any:
        if self._waiting >= MOST_WAITING:
            raise TooMany("too many commands are waiting already", hint="Come back in a few seconds.", retry_after=5)
        self._waiting += 1
        try:
            return await asyncio.get_running_loop().run_in_executor(self._threads, act, lambda: desk.hub.stopping)
        finally:
            self._waiting -= 1

    def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)
