"""Fair shares: one caller uses only a part of the server's threads and queue places, and work that nobody waits for is dropped.

The caller of a request is kept in a context variable, which every task that serves the request inherits. Work of the server itself has
no caller and no limit.
"""

from __future__ import annotations

import asyncio
from collections import Counter, OrderedDict, deque
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager
from contextvars import Context, ContextVar
from threading import Condition
from typing import Any, Generic, NamedTuple, TypeVar

from postroom.core.errors import ClientLeft, TooMany

T = TypeVar("T")
RETRY_AFTER_SECONDS = 1


def _never_leaves() -> bool:
    return False


class CurrentRequest(NamedTuple):
    """The caller of a request, or "" if the server itself works.

    `has_left` returns whether its client has disconnected; threads call it, too. `verify` raises a refusal if its token was revoked. Work
    that verifies the token in its own transaction needs no `verify`.
    """

    caller: str
    has_left: Callable[[], bool] = _never_leaves
    verify: Callable[[], Awaitable[object]] | None = None

    def refuse_if_left(self) -> None:
        """Refuse with `ClientLeft` if the client has disconnected."""
        if self.has_left():
            raise ClientLeft("the client has disconnected", hint="Send it again. Nothing was done.")


_OWN_WORK = CurrentRequest("")
_current: ContextVar[CurrentRequest] = ContextVar("current_request", default=_OWN_WORK)


def set_current_request(request: CurrentRequest) -> None:
    """Note the request that this task and the tasks that it starts work for."""
    _current.set(request)


def current_request() -> CurrentRequest:
    return _current.get()


def start_own_task(work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
    """Start a task of the server itself, which goes on when the client of the current request leaves."""
    return asyncio.create_task(work, context=Context())


def share_used_up(what: str) -> TooMany:
    hint = f"Come back in {RETRY_AFTER_SECONDS} s, or send less at once."
    return TooMany(f"too many of your {what} wait already", hint=hint, retry_after=RETRY_AFTER_SECONDS)


class FairSlots:
    """Places for work that runs at once. A caller uses at most `per_caller` of them, and has at most `max_queued` waiting.

    Waiting work is dropped if its caller has left or lost its token meanwhile.
    """

    def __init__(self, slots: int, *, per_caller: int, max_queued: int) -> None:
        self._free = slots
        self._per_caller = per_caller
        self._max_queued = max_queued
        self._running: Counter[str] = Counter()
        self._waiting: deque[tuple[str, asyncio.Future[None]]] = deque()

    @asynccontextmanager
    async def hold_slot(self) -> AsyncIterator[None]:
        """Hold a place inside the block. Refuses with `TooMany` if the caller has too much waiting."""
        request = _current.get()
        caller = request.caller
        if self._may_run(caller):
            self._start(caller)
            has_waited = False
        else:
            await self._wait_for_slot(caller)
            has_waited = True
        try:
            if has_waited:
                request.refuse_if_left()
                if request.verify is not None:
                    await request.verify()
            yield
        finally:
            self._release_slot(caller)

    def _may_run(self, caller: str) -> bool:
        return self._free > 0 and (not caller or self._running[caller] < self._per_caller)

    def _start(self, caller: str) -> None:
        self._free -= 1
        self._running[caller] += 1

    async def _wait_for_slot(self, caller: str) -> None:
        if caller and sum(waiter == caller for waiter, _ in self._waiting) >= self._max_queued:
            raise share_used_up("calls")
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        entry = (caller, turn)
        self._waiting.append(entry)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self._release_slot(caller)
            else:
                self._waiting.remove(entry)
            raise

    def _release_slot(self, caller: str) -> None:
        self._free += 1
        self._running[caller] -= 1
        self._running += Counter()  # drops the callers with a count of 0
        for entry in self._waiting:
            if self._may_run(entry[0]):
                self._waiting.remove(entry)
                self._start(entry[0])
                entry[1].set_result(None)
                return


class FairQueue(Generic[T]):
    """A queue between threads. Callers take turns, and each has at most `max_queued` items in it. The items of one caller stay in order."""

    def __init__(self, max_queued: int) -> None:
        self._max_queued = max_queued
        self._lanes: OrderedDict[str, deque[T]] = OrderedDict()
        self._changed = Condition()
        self._closed = False

    def put(self, caller: str, item: T) -> None:
        """Add an item. Refuses with `TooMany` if the caller has too many in the queue."""
        with self._changed:
            lane = self._lanes.setdefault(caller, deque())
            if caller and len(lane) >= self._max_queued:
                raise share_used_up("writes")
            lane.append(item)
            self._changed.notify()

    def take(self, maximum: int) -> list[tuple[str, T]]:
        """Wait for items, and return up to `maximum` with their callers, one of each caller in turn. Empty if the queue is closed."""
        with self._changed:
            while not self._lanes and not self._closed:
                self._changed.wait()
            taken: list[tuple[str, T]] = []
            while self._lanes and len(taken) < maximum:
                caller, lane = self._lanes.popitem(last=False)
                taken.append((caller, lane.popleft()))
                if lane:
                    self._lanes[caller] = lane
            return taken

    def __len__(self) -> int:
        """The number of items that wait."""
        with self._changed:
            return sum(map(len, self._lanes.values()))

    def put_back(self, items: list[tuple[str, T]]) -> None:
        """Put items that were taken in front of the others of their callers."""
        with self._changed:
            for caller, item in reversed(items):
                self._lanes.setdefault(caller, deque()).appendleft(item)
                self._lanes.move_to_end(caller, last=False)
            self._changed.notify()

    def close(self) -> None:
        """Have `take` return an empty list once the queue is empty."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
