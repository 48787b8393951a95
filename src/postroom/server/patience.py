"""Patience: threads for verbs that wait, and the answers of late, for whoever did not get theirs."""

from __future__ import annotations

import asyncio
from collections import Counter, OrderedDict
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from time import monotonic
from typing import Any

from starlette.types import Receive

from postroom.core.errors import Interrupted, TooMany
from postroom.server.callers import Caller
from postroom.store.port import Store, Watch

MOST_WAITING, MOST_OF_ONE = 200, 50  # in all, and of one agent
REMEMBERED, KEPT_SECONDS, KEPT_BYTES = 10_000, 120.0, 64 * 1024 * 1024  # of answers: how many, for how long, and of what size in all
Key = tuple[str, str, str, bytes]  # who, which verb, the key, and a hash of what was said with it


class Patience:
    """Waits and remembers, for as long as the server runs."""

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(MOST_WAITING, thread_name_prefix="wait")
        self._waiting: Counter[str] = Counter()
        self._making: dict[Key, _Answer] = {}
        self._made: OrderedDict[Key, tuple[float, bytes]] = OrderedDict()
        self._bytes = 0

    async def once(self, key: Key, act: Callable[[Audience], Any], left: Callable[[], Awaitable[object]]) -> bytes:
        """The answer to a key: made once, and given again to whoever asks with the same. It is for those who still listen."""
        if key in self._made:
            return self._made[key][1]
        found = self._making.get(key)
        if found is None:
            found = self._making[key] = _Answer(act)
            found.task.add_done_callback(partial(self._keep, key))
        seat = found.audience.come()
        leaving = asyncio.create_task(found.audience.until(seat, left))
        try:
            return await asyncio.shield(found.task)
        finally:
            leaving.cancel()
            found.audience.leave(seat)

    def _keep(self, key: Key, task: asyncio.Task[bytes]) -> None:
        """Remember what was made, and forget what is old. A refusal is not kept: nothing was done."""
        del self._making[key]
        if not task.cancelled() and task.exception() is None:
            self._made[key] = monotonic(), task.result()
            self._bytes += len(task.result())
        while self._made and self._is_old(next(iter(self._made.values()))[0]):
            _, (_, answer) = self._made.popitem(last=False)
            self._bytes -= len(answer)

    def _is_old(self, since: float) -> bool:
        return monotonic() - since > KEPT_SECONDS or len(self._made) > REMEMBERED or self._bytes > KEPT_BYTES

    async def wait(self, caller: Caller, act: Callable[[], bytes]) -> bytes:
        of_one = self._waiting[caller.name] if caller.agent else 0
        if self._waiting.total() >= MOST_WAITING or of_one >= MOST_OF_ONE:
            raise TooMany("too many commands are waiting already", hint="Come back in a few seconds.", retry_after=5)
        self._waiting[caller.name] += 1
        try:
            return await asyncio.get_running_loop().run_in_executor(self._threads, act)
        finally:
            self._waiting[caller.name] -= 1
            self._waiting += Counter()  # forgets who does not wait

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

    async def until(self, seat: object, left: Callable[[], Awaitable[object]]) -> None:
        await left()
        self.leave(seat)


async def gone(receive: Receive) -> None:
    """Returns when a client of HTTP has left."""
    while (await receive())["type"] != "http.disconnect":
        pass


class _Answer:
    """One that is being made."""

    def __init__(self, act: Callable[[Audience], Any]) -> None:
        self.audience = Audience()
        self.task: asyncio.Task[bytes] = asyncio.create_task(act(self.audience))


class Attended:
    """A store for a thread that waits for somebody: when nobody is left who may have it, it stops before it looks again, and so
    takes nothing."""

    def __init__(self, store: Store, over: Callable[[], bool], allowed: Callable[[], None]) -> None:
        self._store = store
        self.over = over
        self.allowed = allowed

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def watch(self, *topics: str) -> _Bell:
        return _Bell(self._store.watch(*topics), self)


class _Bell:
    def __init__(self, bell: Watch, attended: Attended) -> None:
        self._bell = bell
        self._attended = attended

    def wait(self, seconds: float | None, wake: int | None = None) -> None:
        self._bell.wait(seconds, wake)
        if self._attended.over():
            raise Interrupted("nobody waits for this any more", hint="Wait again; nothing was lost.")
        self._attended.allowed()

    def __enter__(self) -> _Bell:
        self._bell.__enter__()
        return self

    def __exit__(self, *exc: object) -> None:
        self._bell.__exit__(*exc)
