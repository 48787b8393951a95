"""Group commit: requests that arrive together share one transaction, and each is answered after the commit. `StoreAccess` owns it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from threading import Thread
from time import monotonic
from typing import Any, TypeVar

from postroom.core.errors import Contended
from postroom.core.limits import MAX_QUEUED_WRITES
from postroom.server.runtime.fair_share import FairQueue, current_caller
from postroom.store.interface import Store

T = TypeVar("T")
WriteRequest = tuple[Callable[[Store], Any], str, "asyncio.Future[Any]"]
MAX_BATCH_VERBS = 128
MAX_BATCH_SECONDS = 0.1  # after which a batch takes no further verb: other callers wait for its commit
_log = logging.getLogger("postroom.server")


class GroupCommitWriter:
    """One thread that runs all writes in batches. A refused verb is rolled back alone. A failed commit fails all verbs of the batch."""

    def __init__(self, store: Store, after_commit: Callable[[set[str]], None]) -> None:
        self._store = store
        self._after_commit = after_commit  # called in the thread after each commit, with the topics of its events
        self._requests: FairQueue[WriteRequest] = FairQueue(MAX_QUEUED_WRITES)
        self._loop = asyncio.get_running_loop()
        self._thread = Thread(target=self._run_thread, name="committer", daemon=True)
        self._thread.start()

    async def run_verb(self, verb: Callable[[Store], T], door: str) -> T:
        """Run a verb, and return its result once it is on disk. Cancelling the caller does not cancel the write.

        Callers take turns. Refuses with `TooMany` if the caller has too many writes in the queue.
        """
        future: asyncio.Future[T] = self._loop.create_future()
        self._requests.put(current_caller(), (verb, door, future))
        return await asyncio.shield(future)

    async def close(self) -> None:
        """Finish all queued writes, and end the thread."""
        self._requests.close()
        await wait_for_thread(self._thread)

    def _run_thread(self) -> None:
        while taken := self._requests.take(MAX_BATCH_VERBS):
            requests = [request for _, request in taken]
            topics: set[str] = set()
            results = self._commit_batch(requests, topics)
            self._requests.put_back(taken[len(results) :])
            try:
                self._after_commit(topics)
            except Exception:  # the verbs are committed, and must be answered
                _log.exception("a task after a commit failed")
            self._loop.call_soon_threadsafe(_set_results, [future for _, _, future in requests[: len(results)]], results)

    def _commit_batch(self, requests: list[WriteRequest], topics: set[str]) -> list[Any]:
        try:
            try:
                return self._run_batch(requests, topics)
            except Contended:  # a verb refused after it had written: run all again, each with a savepoint
                return self._run_batch(requests, topics, use_savepoints=True)
        except Exception as error:  # every request of the batch must be answered
            return [error] * len(requests)

    def _run_batch(self, requests: list[WriteRequest], topics: set[str], *, use_savepoints: bool = False) -> list[Any]:
        """Run requests in one transaction, and return their results. After `MAX_BATCH_SECONDS` the rest is left for the next one."""
        results = []
        deadline = monotonic() + MAX_BATCH_SECONDS
        with self._store.batch(use_savepoints=use_savepoints, committed_topics=topics) as batch:
            for verb, door, _ in requests:
                results.append(_run_verb(verb, batch.with_door(door)))
                if monotonic() > deadline:
                    break
        return results


def _run_verb(verb: Callable[[Store], Any], store: Store) -> Any:
    try:
        return verb(store)
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
