"""Patience: threads for verbs that wait, and the answers of late, for whoever did not get theirs."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from time import monotonic
from typing import Any

from starlette.types import Receive

from postroom.core.errors import Interrupted, TooMany
from postroom.store.port import Store, Watch

MOST_WAITING = 200
REMEMBERED, KEPT_SECONDS, KEPT_BYTES = 1000, 120.0, 64 * 1024
Key = tuple[str, str, str, bytes]  # who, which verb, the key, and a hash of what was said with it


class Patience:
    """Waits and remembers, for as long as the server runs."""

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(MOST_WAITING, thread_name_prefix="wait")
        self._waiting = 0
        self._known: OrderedDict[Key, _Answer] = OrderedDict()

    async def once(self, key: Key, act: Callable[[Audience], Any], receive: Receive) -> bytes:
        """The answer to a key: made once, and given again to whoever asks with the same. It is for those who still listen."""
        while self._known and (monotonic() - next(iter(self._known.values())).since > KEPT_SECONDS or len(self._known) > REMEMBERED):
            self._known.popitem(last=False)
        found = self._known.get(key)
        if found is None or found.failed():
            found = self._known[key] = _Answer(act)
        seat = found.audience.come()
        leaving = asyncio.create_task(found.audience.until_left(seat, receive))
        try:
            answer = await asyncio.shield(found.task)
        finally:
            leaving.cancel()
            found.audience.leave(seat)
        if len(answer) > KEPT_BYTES:  # whoever did not get it asks anew
            self._known.pop(key, None)
        return answer

    async def wait(self, act: Callable[[], Any]) -> Any:
        if self._waiting >= MOST_WAITING:
            raise TooMany("too many commands are waiting already", hint="Come back in a few seconds.", retry_after=5)
        self._waiting += 1
        try:
            return await asyncio.get_running_loop().run_in_executor(self._threads, act)
        finally:
            self._waiting -= 1

    def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)


class Audience:
    """Who asked with one key, and is still there: one, or, when a line was lost and made again, another."""

    def __init__(self) -> None:
        self._seats: set[object] = set()

    @property
    def gone(self) -> bool:
        return not self._seats

    def come(self) -> object:
        seat = object()
        self._seats.add(seat)
        return seat

    def leave(self, seat: object) -> None:
        self._seats.discard(seat)

    async def until_left(self, seat: object, receive: Receive) -> None:
        while (await receive())["type"] != "http.disconnect":
            pass
        self.leave(seat)


class _Answer:
    """One that is being made, or was."""

    def __init__(self, act: Callable[[Audience], Any]) -> None:
        self.since = monotonic()
        self.audience = Audience()
        self.task: asyncio.Task[bytes] = asyncio.create_task(act(self.audience))
        self.task.add_done_callback(lambda task: task.cancelled() or task.exception())  # looked at, also if nobody waits any more

    def failed(self) -> bool:
        return self.task.done() and (self.task.cancelled() or self.task.exception() is not None)


class Attended:
    """A store for a thread that waits for somebody: when nobody is left, it stops before it looks again, and so takes nothing."""

    def __init__(self, store: Store, over: Callable[[], bool]) -> None:
        self._store = store
        self._over = over

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def watch(self, *topics: str) -> _Bell:
        return _Bell(self._store.watch(*topics), self._over)


class _Bell:
    def __init__(self, bell: Watch, over: Callable[[], bool]) -> None:
        self._bell = bell
        self._over = over

    def wait(self, seconds: float | None, wake: int | None = None) -> None:
        self._bell.wait(seconds, wake)
        if self._over():
            raise Interrupted("nobody waits for this any more", hint="Wait again; nothing was lost.")

    def __enter__(self) -> _Bell:
        self._bell.__enter__()
        return self

    def __exit__(self, *exc: object) -> None:
        self._bell.__exit__(*exc)
