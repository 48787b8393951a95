"""Patience: threads for verbs that wait, and the answers of late, for whoever did not get theirs."""

from __future__ import annotations

import asyncio
from collections import Counter, OrderedDict, deque
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
KEPT_SECONDS, KEPT_EACH, KEPT_BYTES = 120.0, 2000, 16 * 1024 * 1024  # of answers: how long, and how many and how much of each caller
Key = tuple[str, str, str, bytes]  # who, which verb, the key, and a hash of what was said with it


class Patience:
    """Waits and remembers, for as long as the server runs."""

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(MOST_WAITING, thread_name_prefix="wait")
        self._waiting: Counter[str] = Counter()
        self._making: dict[Key, _Answer] = {}
        self._made: OrderedDict[Key, tuple[float, bytes]] = OrderedDict()
        self._of: dict[str, _Memory] = {}

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
            now, answer = monotonic(), task.result()
            self._made[key] = now, answer
            memory = self._of.setdefault(key[0], _Memory())
            memory.keys.append(key)
            memory.bytes += len(answer)
            while len(memory.keys) > KEPT_EACH or (memory.bytes > KEPT_BYTES and len(memory.keys) > 1):
                self._forget(key[0])
            while now - next(iter(self._made.values()))[0] > KEPT_SECONDS:
                self._forget(next(iter(self._made))[0])

    def _forget(self, caller: str) -> None:
        """The oldest of a caller's."""
        memory = self._of[caller]
        _, answer = self._made.pop(memory.keys.popleft())
        memory.bytes -= len(answer)
        if not memory.keys:
            del self._of[caller]

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


class _Memory:
    """What is kept of one caller: nobody crowds out what others may ask for again."""

    def __init__(self) -> None:
        self.keys: deque[Key] = deque()
        self.bytes = 0


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
            raise Interrupted("the server stops, or nobody waits for this any more", hint="Wait again; nothing was lost.")
        self._attended.allowed()

    def __enter__(self) -> _Bell:
        self._bell.__enter__()
        return self

    def __exit__(self, *exc: object) -> None:
        self._bell.__exit__(*exc)
