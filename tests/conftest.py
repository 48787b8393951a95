"""Fixtures for every test: a store on each engine, and a clock that only moves when it is told to."""

from __future__ import annotations

import gc
import shutil
import signal
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

from postroom.core import clock as time
from postroom.store import init_store
from postroom.store.interface import Store
from postroom.store.postgres.engine import PostgresStore
from postroom.store.remote.engine import RemoteStore
from postroom.store.sqlite.engine import SqliteStore
from tests.postgres_server import Postgres
from tests.wired import WIRES, StoreOverWire

if TYPE_CHECKING:
    from tests.server_in_thread import ServerInThread

ENGINES = ("sqlite", "postgres")
SERVER_FIXTURES = {"postgres", "own_postgres"}
SETS_PER_FURTHER_ENGINE = 5  # of the sets of arguments of a test, a further engine gets the first two and each fifth
MARKS = (
    "travels(*wires): the full matrix runs this module over these wires too",
    "needs_the_store(why): not possible over a wire",
    "full: takes long; only `make test-all` runs it",
    "fuzz: thousands of hostile inputs, which only `make test-all` runs",
    "input_check: refused before a statement runs; `make test` runs it on SQLite, `make test-all` on every engine",
    "every_value: the engine itself meets each set of arguments; `make test` runs all of them on every engine",
    "second_engine: an input check or one more set of arguments on a further engine, which only `make test-all` runs",
    "wires: a contract test over HTTP, a Unix socket or a WebSocket, which only `make test-all` runs",
    "postgres: needs a PostgreSQL server, which `make quick` does not start",
)


MEMORY = Path("/dev/shm")
MIN_FREE_BYTES = 6 << 30
# The tests make tens of thousands of commits. In memory, none waits for a disk. They check what the files hold, and a process that is
# killed leaves them as they are on any file system. Power cuts have a file system of their own (tests/torture/test_power_cut.py).
if MEMORY.is_dir() and shutil.disk_usage(MEMORY).free >= MIN_FREE_BYTES:
    tempfile.tempdir = str(MEMORY)

# A busy machine must fail no property: by default, Hypothesis limits the time in which inputs are made and used.
settings.register_profile("postroom", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("thorough", settings.get_profile("postroom"), max_examples=400)  # `make test-all`


def pytest_configure(config: pytest.Config) -> None:
    for mark in MARKS:
        config.addinivalue_line("markers", mark)
    settings.load_profile("postroom")
    if signal.getsignal(signal.SIGHUP) == signal.SIG_IGN:  # by `nohup`: processes under test would inherit that, as they do no handler
        signal.signal(signal.SIGHUP, lambda *_: None)


def pytest_sessionstart() -> None:
    """Collect without the garbage collector: thousands of tests are made, and none is thrown away."""
    gc.disable()


def pytest_collection_finish() -> None:
    gc.freeze()
    gc.enable()
    gc.set_threshold(10_000, 20, 100)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """The engines that a contract test runs on. Another is added here, and nowhere else."""
    named = any("engine" in mark.args[0] for mark in metafunc.definition.iter_markers("parametrize"))
    if "engine" in metafunc.fixturenames and not named:
        travels = metafunc.definition.get_closest_marker("travels")
        here = metafunc.definition.get_closest_marker("needs_the_store")
        wires = () if travels is None or here is not None or _is_left_out("wires", metafunc.config) else travels.args
        over_wires = [pytest.param(wire, marks=pytest.mark.wires) for wire in wires]
        metafunc.parametrize("engine", [*_engine_parameters(metafunc), *over_wires], indirect=True)


def _is_left_out(mark: str, config: pytest.Config) -> bool:
    """Whether this run deselects a mark. Its thousands of tests are then not even made: that is a third of the time of a collection."""
    return f"not {mark}" in config.option.markexpr


def _engine_parameters(metafunc: pytest.Metafunc) -> list[object]:
    """Return the engines. Of a test that checks input alone, every engine but the first runs in the full matrix only."""
    if metafunc.definition.get_closest_marker("input_check") is None:
        return list(ENGINES)
    if _is_left_out("second_engine", metafunc.config):
        return [ENGINES[0]]
    return [ENGINES[0], *(pytest.param(engine, marks=pytest.mark.second_engine) for engine in ENGINES[1:])]


def pytest_itemcollected(item: pytest.Item) -> None:
    """Mark the tests that need PostgreSQL: those with a fixture of it, and those with its name as a parameter."""
    if isinstance(item, pytest.Function) and _is_one_more_set(item):
        item.add_marker(pytest.mark.second_engine)
    parameters = item.callspec.params.values() if hasattr(item, "callspec") else ()
    if not SERVER_FIXTURES.isdisjoint(getattr(item, "fixturenames", ())) or any(
        isinstance(one, str) and one == "postgres" for one in parameters
    ):
        item.add_marker(pytest.mark.postgres)


_sets_seen: Counter[tuple[str, str]] = Counter()


def _is_one_more_set(item: pytest.Function) -> bool:
    """Whether a test repeats, on a further engine, the statements of another one with other arguments: each fifth set is not one.

    `make test` runs each set on the first engine, and each test on every engine.
    """
    if not hasattr(item, "callspec") or item.callspec.params.get("engine") not in ENGINES[1:] or item.get_closest_marker("every_value"):
        return False
    test = item.module.__name__, item.originalname
    _sets_seen[test] += 1
    return _sets_seen[test] > 2 and _sets_seen[test] % SETS_PER_FURTHER_ENGINE != 0


class Clock:
    """The time, as a test says it is."""

    def __init__(self) -> None:
        self.instant = time.now()

    def __call__(self) -> int:
        return self.instant

    def advance(self, seconds: float) -> None:
        self.instant += int(seconds * time.MICROSECONDS_PER_SECOND)


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def engine(request: pytest.FixtureRequest) -> str:
    """The engine that a contract test runs on; or the way to a server, whose engine is SQLite."""
    name: str = request.param
    return name


@pytest.fixture(scope="session")
def postgres() -> Iterator[Postgres]:
    """A real server: the one that POSTROOM_TEST_POSTGRES names, or a throwaway of our own."""
    server = Postgres()
    yield server
    server.stop()


@pytest.fixture
def own_postgres() -> Iterator[Postgres]:
    """A throwaway server whose sessions are this test's, and which it may stop."""
    server = Postgres(throwaway=True)
    yield server
    server.stop()


@pytest.fixture(scope="session")
def relay() -> Iterator[ServerInThread]:
    """A real server, whose store is a test's."""
    from tests.server_in_thread import ServerInThread  # with all that a server is built on, for those who need it

    server = ServerInThread()
    yield server
    server.stop()


@pytest.fixture
def place(engine: str, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[str]:
    """Where a fresh store is: a file, or a schema, of its own."""
    if engine != "postgres":
        yield fresh_file(tmp_path)
        return
    server: Postgres = request.getfixturevalue("postgres")
    with server.store() as url:
        yield url


@cache
def _new_files() -> dict[str, bytes]:
    """The files of a new store."""
    with TemporaryDirectory() as folder:
        init_store(str(Path(folder) / "coord.db"))
        return {file.name: file.read_bytes() for file in Path(folder).iterdir()}


def fresh_file(folder: Path) -> str:
    """A fresh store: what `init` writes, which is made once and copied, as `init` itself takes longer than most tests."""
    for name, content in _new_files().items():
        (folder / name).write_bytes(content)
    return str(folder / "coord.db")


def open_with(place: str, clock: Callable[[], int]) -> SqliteStore | PostgresStore:
    """A store whose time is a test's."""
    return PostgresStore(place, now=clock) if "://" in place else SqliteStore(place, now=clock)


@pytest.fixture
def connect(place: str, engine: str, request: pytest.FixtureRequest) -> Iterator[Callable[..., Store]]:
    """Opens the fresh store, as often as it is asked to. Its time is the `clock` fixture's if it is given that, else the time of day."""
    opened: list[Store] = []
    relay: ServerInThread | None = request.getfixturevalue("relay") if engine in WIRES else None

    def make(now: Callable[[], int] = time.now) -> Store:
        store = open_with(place, now)
        opened.append(store if relay is None else StoreOverWire(store, RemoteStore(relay.url(engine)), relay))
        return opened[-1]

    tests = request.getfixturevalue("clock") if "clock" in request.fixturenames else time.now
    with nullcontext() if relay is None else relay.serving(place, tests):
        yield make
        for store in opened:
            store.close()


@pytest.fixture
def store(connect: Callable[..., Store], clock: Clock) -> Store:
    """A fresh store whose time is the `clock` fixture's."""
    return connect(clock)


@pytest.fixture
def sqlite_place(tmp_path: Path) -> str:
    """A fresh store in a file, for tests of what only files have."""
    return fresh_file(tmp_path)


@pytest.fixture
def postgres_place(postgres: Postgres) -> Iterator[str]:
    """A fresh store in a schema of its own."""
    with postgres.store() as url:
        yield url
