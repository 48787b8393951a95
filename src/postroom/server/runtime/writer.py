"""Group commit: requests that arrive together share one transaction, and each is answered after the commit. `StoreAccess` owns it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from threading import Lock, Thread
from time import monotonic
from typing import Any, NamedTuple, TypeVar

from postroom.core.errors import Contended
from postroom.core.limits import MAX_QUEUED_WRITES
from postroom.server.observability import metrics
from postroom.server.runtime.fair_share import CurrentRequest, FairQueue, current_request
from postroom.store.interface import Store

T = TypeVar("T")
MAX_BATCH_VERBS = 128
MAX_BATCH_SECONDS = 0.1  # after which a batch takes no further verb: other callers wait for its commit
_log = logging.getLogger("postroom.server")


class _QueuedWrite(NamedTuple):
    verb: Callable[[Store], Any]
    door: str
    request: CurrentRequest
    future: asyncio.Future[Any]


class GroupCommitWriter:
    """Threads that run all writes in batches. A failed commit fails all verbs of the batch.

    A refused verb changes nothing for the others: if it had written, the batch runs again with each verb isolated.

    A file has one writer at a time, and so one thread. On a database server several batches commit beside each other.
    """

    def __init__(self, store: Store, after_commit: Callable[[set[str]], None], *, threads: int = 1) -> None:
        self._store = store
        self._after_commit = after_commit  # called in a thread after each commit, with the topics of its events
        self._after_commit_lock = Lock()
        self._queue: FairQueue[_QueuedWrite] = FairQueue(MAX_QUEUED_WRITES)
        self._loop = asyncio.get_running_loop()
        self._threads = [Thread(target=self._run_thread, name="committer", daemon=True) for _ in range(threads)]
        for thread in self._threads:
            thread.start()

    async def run_verb(self, verb: Callable[[Store], T], door: str) -> T:
        """Run a verb, and return its result once it is on disk. Cancelling the caller does not cancel the write.

        Callers take turns. Refuses with `TooMany` if the caller has too many writes in the queue, and with `ClientLeft` if its client
        disconnects before the verb is begun.
        """
        future: asyncio.Future[T] = self._loop.create_future()
        request = current_request()
        self._queue.put(request.caller, _QueuedWrite(verb, door, request, future))
        return await asyncio.shield(future)

    @property
    def queued(self) -> int:
        """The number of writes that wait for a transaction."""
        return len(self._queue)

    async def close(self) -> None:
        """Finish all queued writes, and end the threads."""
        self._queue.close()
        for thread in self._threads:
            await wait_for_thread(thread)

    def _run_thread(self) -> None:
        while taken := self._queue.take(MAX_BATCH_VERBS):
            writes = [write for _, write in taken]
            topics: set[str] = set()
            with metrics.COMMIT_SECONDS.time():
                results = self._commit_batch(writes, topics)
            metrics.COMMIT_VERBS.observe(len(results))
            self._queue.put_back(taken[len(results) :])
            try:
                with self._after_commit_lock:
                    self._after_commit(topics)
            except Exception:  # the verbs are committed, and must be answered
                _log.exception("a task after a commit failed")
            self._loop.call_soon_threadsafe(_set_results, [write.future for write in writes[: len(results)]], results)

    def _commit_batch(self, writes: list[_QueuedWrite], topics: set[str]) -> list[Any]:
        with metrics.collect_verbs() as outcomes:
            try:
                try:
                    results = self._run_batch(writes, topics)
                except Contended:  # a verb refused after it had written: run all again, each isolated from the others
                    outcomes.clear()
                    results = self._run_batch(writes, topics, isolate_verbs=True)
            except Exception as error:  # every write of the batch must be answered
                results = [error] * len(writes)
                outcomes[:] = [outcome._replace(result=getattr(error, "code", metrics.ERROR)) for outcome in outcomes]
        for outcome in outcomes:
            metrics.count_verb(outcome)
        return results

    def _run_batch(self, writes: list[_QueuedWrite], topics: set[str], *, isolate_verbs: bool = False) -> list[Any]:
        """Run writes in one batch, and return their results. After `MAX_BATCH_SECONDS` the rest is left for the next one."""
        results = []
        deadline = monotonic() + MAX_BATCH_SECONDS
        with self._store.batch(isolate_verbs=isolate_verbs, committed_topics=topics) as batch:
            for write in writes:
                results.append(_run_write(write, batch.with_door(write.door)))
                if monotonic() > deadline:
                    break
        return results


def _run_write(write: _QueuedWrite, store: Store) -> Any:
    try:
        write.request.refuse_if_left()
        return write.verb(store)
    except Exception as error:  # returned to the caller of the verb; the batch knows whether the verb had written
        return error


def _set_results(futures: Iterable[asyncio.Future[Any]], results: Iterable[Any]) -> None:
    for future, result in zip(futures, results):
        if future.cancelled():
            continue
        if isinstance(result, Exception):
            future.set_exception(result)
        else:
            future.set_result(result)


async def wait_for_thread(thread: Thread) -> None:
    """Return when a thread has ended. Polls, because the default executor may have no free thread to join it."""
    while thread.is_alive():
        await asyncio.sleep(0.01)
