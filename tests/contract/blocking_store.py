"""A store that says when its user goes to sleep, so that a test can act at that very moment, and not a moment before."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, Self

from postroom.store.interface import Store, Transaction, Watch
from tests.wired import ObservedWatch, StoreOverWire

LONG = 30.0  # no wait of ours takes this long; only a broken one


class BlockingStore:
    """A real store. When a waiter on it has looked, found nothing and is about to sleep, `acts` run in a thread, one a sleep."""

    def __init__(self, store: Store, *acts: Callable[[], object]) -> None:
        self.location = store.location
        self.is_remote, self.is_one_transaction = store.is_remote, store.is_one_transaction
        self.store = store
        self.sleeps: list[float | None] = []  # how long each was to last at most
        self._acts = list(acts)
        self._threads: list[threading.Thread] = []

    def call(self, verb: str, args: tuple[object, ...], named: dict[str, object]) -> Any:
        """Call a verb of a store behind a server, where the threads sleep."""
        assert isinstance(self.store, StoreOverWire)
        with self.store.overhearing(self.asleep):
            return self.store.call(verb, args, named)

    @property
    def replacements(self) -> int:
        return self.store.replacements

    @property
    def data_folder(self) -> str | None:
        return self.store.data_folder

    def with_door(self, door: str) -> Store:
        return self.store.with_door(door)

    def batch(self, *, isolate_verbs: bool = False, committed_topics: set[str] | None = None) -> AbstractContextManager[Store]:
        return self.store.batch(isolate_verbs=isolate_verbs, committed_topics=committed_topics)

    def read(self) -> Transaction:
        return self.store.read()

    def write(self) -> Transaction:
        return self.store.write()

    def watch(self, *topics: str) -> Watch:
        return ObservedWatch(self.asleep, self.store.watch(*topics))

    def close(self) -> None:
        for thread in self._threads:
            thread.join(LONG)
        self.store.close()

    def asleep(self, seconds: float | None) -> None:
        self.sleeps.append(seconds)
        if self._acts:
            thread = threading.Thread(target=self._acts.pop(0))
            self._threads.append(thread)
            thread.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


def eventually(true: Callable[[], bool]) -> bool:
    """Look until it is so, for a bounded time."""
    pause = threading.Event()
    for _ in range(int(LONG / 0.02)):
        if true():
            return True
        pause.wait(0.02)
    return False
