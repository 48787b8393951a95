"""Idempotency: a call that is sent twice with one key runs once, and both senders receive its result."""

from __future__ import annotations

import asyncio
from collections import OrderedDict, deque
from collections.abc import Awaitable, Callable, Coroutine
from time import monotonic
from typing import Any

from postroom.core.errors import Interrupted

KEEP_SECONDS = 120.0
MAX_RESULTS_PER_CALLER, MAX_BYTES_PER_CALLER = 2000, 16 * 1024 * 1024
Key = tuple[str, str, str, bytes]  # the caller, the verb, the key, and a hash of the arguments
Execute = Callable[["Listeners"], Coroutine[Any, Any, bytes]]


class Listeners:
    """The connections that wait for one call. A client that lost its connection waits for the same call on a new one."""

    def __init__(self) -> None:
        self._tickets: set[object] = set()

    @property
    def is_empty(self) -> bool:
        return not self._tickets

    def acquire(self) -> object:
        ticket = object()
        self._tickets.add(ticket)
        return ticket

    def release(self, ticket: object) -> None:
        self._tickets.discard(ticket)

    async def release_when(self, ticket: object, wait_for_disconnect: Callable[[], Awaitable[object]]) -> None:
        await wait_for_disconnect()
        self.release(ticket)


class _RunningCall:
    """A call that runs for the request that sent its key first. Later requests with the same key wait for its result."""

    def __init__(self) -> None:
        self.listeners = Listeners()
        self._joined: asyncio.Future[bytes] | None = None  # created by the first request that joins: most calls have none

    async def wait_for_result(self) -> bytes:
        if self._joined is None:
            self._joined = asyncio.get_running_loop().create_future()
        return await asyncio.shield(self._joined)

    def set_result(self, result: bytes) -> None:
        if self._joined is not None:
            self._joined.set_result(result)

    def set_error(self, error: BaseException) -> None:
        """Raise the error for the requests that joined, too. The first request is cancelled only when the server ends."""
        if self._joined is not None:
            interrupted = Interrupted("the server stops", hint="Try again: it is not known whether this was done.")
            self._joined.set_exception(error if isinstance(error, Exception) else interrupted)


class IdempotencyCache:
    """Runs the call of each key once, and keeps its result for `KEEP_SECONDS`. Refusals are not kept, because they wrote nothing."""

    def __init__(self) -> None:
        self._running: dict[Key, _RunningCall] = {}
        self._results: OrderedDict[Key, tuple[float, bytes]] = OrderedDict()
        self._per_caller: dict[str, _CallerResults] = {}

    async def run_once(self, key: Key, execute: Execute, wait_for_disconnect: Callable[[], Awaitable[object]] | None = None) -> bytes:
        """Return the result of a key: run the call, or wait for the run of another request, or return a kept result.

        `wait_for_disconnect` returns when the client has disconnected. Waiting calls need it, to stop when no connection is left.
        """
        kept = self._results.get(key)
        if kept is not None:
            _, result = kept
            return result
        running = self._running.get(key)
        if running is None:
            running = self._running[key] = _RunningCall()
            outcome = self._execute_first(key, running, execute)
        else:
            outcome = running.wait_for_result()
        if wait_for_disconnect is None:
            return await outcome
        ticket = running.listeners.acquire()
        leaving = asyncio.create_task(running.listeners.release_when(ticket, wait_for_disconnect))
        try:
            return await outcome
        finally:
            leaving.cancel()
            running.listeners.release(ticket)

    async def _execute_first(self, key: Key, running: _RunningCall, execute: Execute) -> bytes:
        try:
            result = await execute(running.listeners)
        except BaseException as error:  # the requests that joined must not wait for ever
            running.set_error(error)
            raise
        finally:
            del self._running[key]
        self._keep_result(key, result)
        running.set_result(result)
        return result

    def _keep_result(self, key: Key, result: bytes) -> None:
        """Keep the result, and drop results that are too old or too many."""
        now = monotonic()
        self._results[key] = now, result
        kept = self._per_caller.setdefault(key[0], _CallerResults())
        kept.keys.append(key)
        kept.bytes += len(result)
        while len(kept.keys) > MAX_RESULTS_PER_CALLER or (kept.bytes > MAX_BYTES_PER_CALLER and len(kept.keys) > 1):
            self._drop_oldest(key[0])
        while now - next(iter(self._results.values()))[0] > KEEP_SECONDS:
            self._drop_oldest(next(iter(self._results))[0])

    def _drop_oldest(self, caller: str) -> None:
        kept = self._per_caller[caller]
        _, result = self._results.pop(kept.keys.popleft())
        kept.bytes -= len(result)
        if not kept.keys:
            del self._per_caller[caller]


class _CallerResults:
    """The kept results of one caller. The limits are per caller, so that no caller evicts the results of others."""

    def __init__(self) -> None:
        self.keys: deque[Key] = deque()
        self.bytes = 0
