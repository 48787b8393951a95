"""Idempotency: a call that is sent twice with one key runs once, and both senders receive its result.

Results are kept in memory. Those of writes are also kept in the store, in the transaction of the write, so that a call which is sent again
after a restart, or to another server, is not done twice.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict, deque
from collections.abc import Callable, Coroutine
from functools import partial
from hashlib import sha256
from time import monotonic
from typing import Any

from postroom.core import clock
from postroom.core.errors import ClientLeft, Contended, Interrupted
from postroom.store.interface import Store, Transaction
from postroom.store.retries import retry_on_contention

KEEP_SECONDS = 120.0
KEEP_STORED_MICROSECONDS = 600 * clock.MICROSECONDS_PER_SECOND  # in the store, for clients that come back after a restart
MAX_DROPPED_RESULTS = 500  # in one transaction
MAX_RESULTS_PER_CALLER, MAX_BYTES_PER_CALLER = 2000, 16 * 1024 * 1024
Key = tuple[str, str, str, bytes]  # the caller, the verb, the key, and a hash of the arguments
Execute = Callable[["Listeners"], Coroutine[Any, Any, bytes]]


class Listeners:
    """The connections that wait for one call. A client that lost its connection waits for the same call on a new one."""

    def __init__(self) -> None:
        self._connections: list[Callable[[], bool]] = []

    def add(self, has_left: Callable[[], bool]) -> None:
        """Add a connection, by the function that returns whether its client has disconnected."""
        self._connections.append(has_left)

    def have_left(self) -> bool:
        """Return whether no client waits for the call any more. Threads call it, too."""
        return all(has_left() for has_left in self._connections)


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
    """Runs the call of each key once, and keeps its result for `KEEP_SECONDS`. Refusals are not kept: a repeated call is judged anew."""

    def __init__(self) -> None:
        self._running: dict[Key, _RunningCall] = {}
        self._results: OrderedDict[Key, tuple[float, bytes]] = OrderedDict()
        self._per_caller: dict[str, _CallerResults] = {}

    async def run_once(self, key: Key | None, execute: Execute, has_left: Callable[[], bool]) -> bytes:
        """Return the result of a key: run the call, or wait for the run of another request, or return a kept result.

        A call without a key always runs, and its result is not kept. `has_left` returns whether the client has disconnected. A call
        stops, or is not begun, when no client is left.
        """
        if key is None:
            listeners = Listeners()
            listeners.add(has_left)
            return await _execute_for(listeners, execute)
        kept = self._results.get(key)
        if kept is not None:
            _, result = kept
            return result
        running = self._running.get(key)
        if running is not None:
            running.listeners.add(has_left)
            return await running.wait_for_result()
        running = self._running[key] = _RunningCall()
        running.listeners.add(has_left)
        return await self._execute_first(key, running, execute)

    async def _execute_first(self, key: Key, running: _RunningCall, execute: Execute) -> bytes:
        try:
            result = await _execute_for(running.listeners, execute)
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


async def _execute_for(listeners: Listeners, execute: Execute) -> bytes:
    """Run a call. It is run again if its client left before it was begun, and came back with the same key meanwhile."""
    while True:
        try:
            return await execute(listeners)
        except ClientLeft:
            if listeners.have_left():
                raise


class _CallerResults:
    """The kept results of one caller. The limits are per caller, so that no caller evicts the results of others."""

    def __init__(self) -> None:
        self.keys: deque[Key] = deque()
        self.bytes = 0


def run_stored(key: Key, check_allowed: Callable[[Store], None], execute: Callable[[Store], bytes], store: Store) -> bytes:
    """Run a write and keep its result in the store, or return the result that is kept there if the caller may still have it.

    Both are one transaction: that of the batch, or a batch for this write. If another server runs the same call at the same time, one of
    the two transactions fails on the key, runs again, and finds the result of the other.
    """
    if not store.is_one_transaction:
        return _run_in_batch(store, partial(run_stored, key, check_allowed, execute))
    key_hash = sha256(b"\0".join((*(part.encode() for part in key[:3]), key[3]))).hexdigest()
    with store.write() as tx:
        kept = tx.fetch_one(tx.sql.idempotency_find, key_hash=key_hash, after=tx.now() - KEEP_STORED_MICROSECONDS)
    if kept is not None:
        check_allowed(store)
        return kept.encode()
    result = execute(store)
    kept_meanwhile = Contended("another server has done this call", hint="Try again: its result is kept.")
    with store.write() as tx:
        now = tx.now()
        place = {"key_hash": key_hash, "result": result.decode(), "now": now, "after": now - KEEP_STORED_MICROSECONDS}
        tx.execute_exactly_one(kept_meanwhile, tx.sql.idempotency_keep, **place)
    return result


@retry_on_contention
def _run_in_batch(store: Store, write: Callable[[Store], bytes]) -> bytes:
    with store.batch() as batch:
        return write(batch)


def drop_old_results(store: Store) -> bool:
    """Delete results in the store that are too old, at most `MAX_DROPPED_RESULTS`. Return whether there are more."""
    with store.write() as tx:
        before = tx.now() - KEEP_STORED_MICROSECONDS
        if not _is_oldest_before(tx, before):
            return False
        tx.execute(tx.sql.idempotency_drop, before=before, limit=MAX_DROPPED_RESULTS)
        return _is_oldest_before(tx, before)


def _is_oldest_before(tx: Transaction, before: int) -> bool:
    oldest = tx.fetch_one(tx.sql.idempotency_oldest)
    return oldest is not None and oldest <= before
