"""A pool of threads for verbs that block, and a store that ends a wait after its client has disconnected. `rpc.dispatch` uses both."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from time import monotonic
from typing import Any

from starlette.types import Receive

from postroom.core.errors import Interrupted, TooMany
from postroom.core.limits import MAX_WAITS_PER_AGENT
from postroom.server.http.auth import Caller
from postroom.store.interface import Store, Watch

MAX_WAITS = 1000
TURN_SECONDS = 1.25  # after which a wait checks whether the server stops, or the client has disconnected; a file is polled each second
CHECK_ALLOWED_SECONDS = 5.0  # after which a wait checks whether the client's token was revoked


class WaitPool:
    """Threads for verbs that block, with a limit for each agent."""

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(MAX_WAITS, thread_name_prefix="wait")
        self._waits_by_caller: Counter[str] = Counter()

    @property
    def waits(self) -> int:
        """The number of verbs that block now."""
        return self._waits_by_caller.total()

    async def run_blocking(self, caller: Caller, wait: Callable[[], bytes]) -> bytes:
        """Run a blocking function in a thread. Refuses with `TooMany` if all threads, or those of one agent, are in use."""
        own_waits = self._waits_by_caller[caller.name] if caller.agent else 0
        if self.waits >= MAX_WAITS or own_waits >= MAX_WAITS_PER_AGENT:
            raise TooMany("too many commands are waiting already", hint="Come back in a few seconds.", retry_after=5)
        self._waits_by_caller[caller.name] += 1
        try:
            return await asyncio.get_running_loop().run_in_executor(self._threads, wait)
        finally:
            self._waits_by_caller[caller.name] -= 1
            self._waits_by_caller += Counter()  # drops the names with a count of 0

    def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)


async def wait_for_disconnect(receive: Receive) -> None:
    """Return when an HTTP client has disconnected."""
    while (await receive())["type"] != "http.disconnect":
        pass


class CancellableStore:
    """A store for a thread that waits. It raises `Interrupted` before the verb looks again if the client has left or the server stops.

    `check_allowed` raises a refusal if the token of the client was revoked.
    """

    def __init__(self, store: Store, is_over: Callable[[], bool], check_allowed: Callable[[], None]) -> None:
        self._store = store
        self.is_over = is_over
        self.check_allowed = check_allowed

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def watch(self, *topics: str) -> _CancellableWatch:
        return _CancellableWatch(self._store.watch(*topics), self)


class _CancellableWatch:
    def __init__(self, watch: Watch, store: CancellableStore) -> None:
        self._watch = watch
        self._store = store

    def wait(self, seconds: float | None, wake: int | None = None) -> None:
        """Wait in short turns, which do not touch the store, so that a stopping server is not delayed."""
        deadline = monotonic() + (CHECK_ALLOWED_SECONDS if seconds is None else min(seconds, CHECK_ALLOWED_SECONDS))
        while True:
            turn_seconds, turn_began = min(deadline - monotonic(), TURN_SECONDS), monotonic()
            self._watch.wait(turn_seconds, wake)
            if self._store.is_over():
                raise Interrupted("the server stops, or the client has disconnected", hint="Wait again. Nothing was lost.")
            if monotonic() - turn_began < turn_seconds or monotonic() >= deadline:
                break
        self._store.check_allowed()

    def __enter__(self) -> _CancellableWatch:
        self._watch.__enter__()
        return self

    def __exit__(self, *exc: object) -> None:
        self._watch.__exit__(*exc)
