"""Group commit: requests that arrive together share one transaction, and each is answered after it is on disk."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from queue import SimpleQueue
from threading import Thread
from typing import Any, TypeVar

from postroom.core.errors import Contended
from postroom.store.port import Store

T = TypeVar("T")
Job = tuple[Callable[[Store], Any], str, "asyncio.Future[Any]"]
MOST_TOGETHER = 128
_log = logging.getLogger("postroom.server")


class Committer:
    """One thread that writes. A verb that refuses is undone by itself; a commit that fails is everybody's."""

    def __init__(self, store: Store, written: Callable[[], None]) -> None:
        self._store = store
        self._written = written  # called, in that thread, after each commit
        self._jobs: SimpleQueue[Job | None] = SimpleQueue()
        self._loop = asyncio.get_running_loop()
        self._thread = Thread(target=self._work, name="committer", daemon=True)
        self._thread.start()

    async def run(self, verb: Callable[[Store], T], door: str) -> T:
        """What the verb returns, once it is on disk. Who goes away meanwhile does not take it back."""
        future: asyncio.Future[T] = self._loop.create_future()
        self._jobs.put((verb, door, future))
        return await asyncio.shield(future)

    async def close(self) -> None:
        """Everything that was asked for is done first."""
        self._jobs.put(None)
        await ended(self._thread)

    def _work(self) -> None:
        while True:
            jobs = self._gather()
            work = [job for job in jobs if job is not None]
            if work:
                results = self._commit(work)
                try:
                    self._written()
                except Exception:  # what follows a commit must not keep anybody from hearing of it
                    _log.exception("what follows a commit failed")
                self._loop.call_soon_threadsafe(_tell, [job[2] for job in work], results)
            if len(work) < len(jobs):
                return

    def _gather(self) -> list[Job | None]:
        """The next job, and those that came with it."""
        jobs = [self._jobs.get()]
        while jobs[-1] is not None and len(jobs) < MOST_TOGETHER and not self._jobs.empty():
            jobs.append(self._jobs.get())
        return jobs

    def _commit(self, jobs: list[Job]) -> list[Any]:
        try:
            try:
                return self._together(jobs)
            except Contended:  # one of them refused after it had written: now each can be undone by itself
                return self._together(jobs, careful=True)
        except Exception as error:  # whatever it was, each of those who wait must hear of it
            return [error] * len(jobs)

    def _together(self, jobs: list[Job], *, careful: bool = False) -> list[Any]:
        with self._store.together(careful=careful) as batch:
            return [_attempt(verb, batch.through(door)) for verb, door, _ in jobs]


def _attempt(verb: Callable[[Store], Any], store: Store) -> Any:
    try:
        return verb(store)
    except Exception as error:  # its own affair; the batch knows whether it had written
        return error


def _tell(futures: Iterable[asyncio.Future[Any]], results: Iterable[Any]) -> None:
    for future, result in zip(futures, results):
        if future.cancelled():
            continue
        if isinstance(result, Exception):
            future.set_exception(result)
        else:
            future.set_result(result)


async def ended(thread: Thread) -> None:
    """When a thread has ended. Nobody's thread is used to wait for it: others may keep all of them."""
    while thread.is_alive():
        await asyncio.sleep(0.01)
