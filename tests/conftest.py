"""What every test may use: a store on each engine, and a clock that only moves when it is told to."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from postroom.core import clock as time
from postroom.store import init_store
from postroom.store.port import Store
from postroom.store.postgres.engine import PostgresStore
from postroom.store.sqlite.engine import SqliteStore
from tests.postgres_server import Postgres

ENGINES = ("sqlite", "postgres")


class Clock:
    """The time, as a test says it is."""

    def __init__(self) -> None:
        self.instant = time.now()

    def __call__(self) -> int:
        return self.instant

    def advance(self, seconds: float) -> None:
        self.instant += int(seconds * time.SECOND)


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture(params=ENGINES)
def engine(request: pytest.FixtureRequest) -> str:
    """The engine that a contract test runs on. A second engine is added here, and nowhere else."""
    name: str = request.param
    return name


@pytest.fixture(scope="session")
def postgres() -> Iterator[Postgres]:
    """A real server: the one that POSTROOM_TEST_POSTGRES names, or a throwaway of our own."""
    server = Postgres()
    yield server
    server.stop()


@pytest.fixture
def place(engine: str, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[str]:
    """Where a fresh store is: a file, or a schema, of its own."""
    if engine == "sqlite":
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


def open_with(place: str, clock: Clock) -> SqliteStore | PostgresStore:
    """A store whose time is a test's."""
    return PostgresStore(place, now=clock) if "://" in place else SqliteStore(place, now=clock)


@pytest.fixture
def store(place: str, clock: Clock) -> Iterator[Store]:
    """A fresh store whose time is the `clock` fixture's."""
    with open_with(place, clock) as opened:
        yield opened


@pytest.fixture
def sqlite_place(tmp_path: Path) -> str:
    """A fresh store in a file, for tests of what only files have."""
    return fresh_file(tmp_path)
