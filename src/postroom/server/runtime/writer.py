"""Group commit: requests that arrive together share one transaction, and each is answered after the commit. `StoreAccess` owns it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from queue import SimpleQueue
from threading import Thread
from typing import Any, TypeVar

from postroom.core.errors import Contended
from postroom.store.interface import Store

T = TypeVar("T")
WriteRequest = tuple[Callable[[Store], Any], str, "asyncio.Future[Any]"]
MAX_BATCH_VERBS = 128
_log = logging.getLogger("postroom.server")


class GroupCommitWriter:
    """One thread that runs all writes in batches. A refused verb is rolled back alone. A failed commit fails all verbs of the batch."""

    def __init__(self, store: Store, after_commit: Callable[[set[str]], None]) -> None:
        self._store = store
        self._after_commit = after_commit  # called in the thread after each commit, with the topics of its events
        self._requests: SimpleQueue[WriteRequest | None] = SimpleQueue()
        self._loop = asyncio.get_running_loop()
        self._thread = Thread(target=self._run_thread, name="committer", daemon=True)
        self._thread.start()

    async def run_verb(self, verb: Callable[[Store], T], door: str) -> T:
        """Run a verb, and return its result once it is on disk. Cancelling the caller does not cancel the write."""
        future: asyncio.Future[T] = self._loop.create_future()
        self._requests.put((verb, door, future))
        return await asyncio.shield(future)

    async def close(self) -> None:
        """Finish all queued writes, and end the thread."""
        self._requests.put(None)
        await wait_for_thread(self._thread)

    def _run_thread(self) -> None:
        while True:
            taken = self._take_batch()
            requests = [request for request in taken if request is not None]
            if requests:
                topics: set[str] = set()
                results = self._commit_batch(requests, topics)
                try:
                    self._after_commit(topics)
                except Exception:  # the verbs are committed, and must be answered
                    _log.exception("a task after a commit failed")
                self._loop.call_soon_threadsafe(_set_results, [future for _, _, future in requests], results)
            if len(requests) < len(taken):
                return

    def _take_batch(self) -> list[WriteRequest | None]:
        """Return the next request and those that are queued behind it. None is the request to end."""
        taken = [self._requests.get()]
        while taken[-1] is not None and len(taken) < MAX_BATCH_VERBS and not self._requests.empty():
            taken.append(self._requests.get())
        return taken

    def _commit_batch(self, requests: list[WriteRequest], topics: set[str]) -> list[Any]:
        try:
            try:
                return self._run_batch(requests, topics)
            except Contended:  # a verb refused after it had written: run all again, each with a savepoint
                return self._run_batch(requests, topics, use_savepoints=True)
        except Exception as error:  # every request of the batch must be answered
            return [error] * len(requests)

    def _run_batch(self, requests: list[WriteRequest], topics: set[str], *, use_savepoints: bool = False) -> list[Any]:
        with self._store.batch(use_savepoints=use_savepoints, committed_topics=topics) as batch:
            return [_run_verb(verb, batch.with_door(door)) for verb, door, _ in requests]


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
