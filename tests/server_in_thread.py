"""A real server in front of a test's store.

One in each process that runs tests, over TCP and over a Unix socket, in a thread. It is the server that `inbox serve` starts,
except for its access to the store: each test has one of its own, over its own file and with its own time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from contextlib import closing, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Thread
from typing import Any, cast
from unittest.mock import patch

from postroom.core import clock as time
from postroom.server import app, main
from postroom.server.config import Settings
from postroom.server.http.connections.unix_socket import UnixSocketListener
from postroom.server.http.security import allowed_hosts_and_origins
from postroom.server.http.state import AppState
from postroom.server.observability.log_lines import LogWriter
from postroom.server.runtime import store_access as store_access_module
from postroom.server.runtime.store_access import StoreAccess
from postroom.store import init_store
from postroom.store.interface import Store
from postroom.store.sqlite.engine import SqliteStore
from postroom.store.sqlite.file_watcher import SqliteWatch
from tests.wired import Asleep, ObservedWatch

LONG = 30.0
OWN = "the server itself"
LOOP_THREAD = "relay"


class ObservedSqliteStore(SqliteStore):
    """The server's store. It calls the listeners when a verb goes to sleep, except for waits of the server itself."""

    data = None  # no mirror: nothing is written beside a test's store
    listeners: list[Asleep]
    cellar: Executor

    def close(self) -> None:
        self.cellar.submit(super().close)  # the kernel takes its time, and the next test would wait for it

    def watch(self, *topics: str) -> SqliteWatch:
        watch = super().watch(*topics)
        return watch if self.door == OWN else ObservedWatch(self._tell, watch)  # type: ignore[return-value] # as it is, with somebody beside it

    def _tell(self, seconds: float | None) -> None:
        for tell in self.listeners:
            tell(seconds)


class CurrentAccess:
    """The access to the store of the test that runs. All parts of the server have this one object."""

    def __init__(self, access: StoreAccess) -> None:
        self.access = access

    def __getattr__(self, name: str) -> Any:
        return getattr(self.access, name)


class ServerInThread:
    """The server. It runs until the tests are over."""

    def __init__(self) -> None:
        self._folder = TemporaryDirectory(prefix="postroom-relay-")
        self._socket = str(Path(self._folder.name) / "relay")
        self._loop = asyncio.new_event_loop()
        self._listeners: list[Asleep] = []
        self._closing: list[Future[None]] = []
        self._cellar = ThreadPoolExecutor(2)
        self._ready: Future[None] = Future()
        self._bound = main.bind_socket(Settings("", port=0))
        self._thread = Thread(target=self._run, name=LOOP_THREAD, daemon=True)
        self._thread.start()
        self._ready.result(LONG)

    def url(self, wire: str) -> str:
        return f"unix:{self._socket}" if wire == "unix" else f"{wire}://127.0.0.1:{self._bound.getsockname()[1]}"

    @contextmanager
    def serving(self, place: str, now: Callable[[], int]) -> Iterator[None]:
        """The server has this store meanwhile."""
        asyncio.run_coroutine_threadsafe(self._change(place, now), self._loop).result(LONG)
        yield
        # Its threads end in their own time: the next test does not wait for them.
        served, self._current.access = self._current.access, self._own_access
        self._closing.append(asyncio.run_coroutine_threadsafe(served.close(), self._loop))

    @contextmanager
    def overhearing(self, asleep: Asleep) -> Iterator[None]:
        """Be told when a verb that waits goes to sleep."""
        self._listeners.append(asleep)
        try:
            yield
        finally:
            self._listeners.remove(asleep)

    @contextmanager
    def tracing(self, note: Callable[[str], None]) -> Iterator[None]:
        """Call `note` with every statement that the server runs, in the thread that runs it."""
        stores = self.app_state.store_access._stores
        for store in stores:
            store.connection.set_trace_callback(note)  # type: ignore[attr-defined] # a file's
        try:
            yield
        finally:
            for store in stores:
                store.connection.set_trace_callback(None)  # type: ignore[attr-defined]

    def stop(self) -> None:
        for closes in self._closing:
            closes.result(LONG)
        self._loop.call_soon_threadsafe(self._server.stop)
        self._thread.join(LONG)
        assert not self._thread.is_alive()
        self._cellar.shutdown()
        self._folder.cleanup()

    def _run(self) -> None:
        try:
            # Like `asyncio.run` of `inbox serve`, this ends the tasks that libraries have started and leave running.
            with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
                runner.run(self._serve())
        except BaseException as error:
            if not self._ready.done():
                self._ready.set_exception(error)
            raise

    async def _serve(self) -> None:
        place = str(Path(self._folder.name) / "nobody.db")
        init_store(place)
        hosts, origins = allowed_hosts_and_origins("127.0.0.1", self._bound.getsockname()[1], (), secure=False)
        application = app.build_app(
            lambda: self._open_current(place), self._make_state, hosts=hosts, origins=origins, max_sockets=10, log=LogWriter()
        )
        with closing(UnixSocketListener(self._socket)) as door:
            self._server = main.GracefulServer(application, door, on_ready=lambda: self._ready.set_result(None), on_stop=lambda: None)
            await self._server.serve(self._bound)

    def _make_state(self, access: StoreAccess) -> AppState:
        self.app_state = AppState(access, person="user", dev=True, rate=1_000_000, secure=False, behind_proxy=False)
        return self.app_state

    async def _change(self, place: str, now: Callable[[], int]) -> None:
        self._current.access = self._open_access(place, now)

    def _open_current(self, place: str) -> StoreAccess:
        self._own_access = self._open_access(place, time.now)
        self._current = CurrentAccess(self._own_access)
        return cast(StoreAccess, self._current)

    def _open_access(self, place: str, now: Callable[[], int]) -> StoreAccess:
        def opened(place: str, *, door: str) -> Store:
            store = ObservedSqliteStore(place, door=OWN, now=now)
            store.listeners, store.cellar = self._listeners, self._cellar
            return store

        with patch.object(store_access_module, "open_store", opened):
            return StoreAccess(place)
