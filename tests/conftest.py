"""What every test may use: a store on each engine, and a clock that only moves when it is told to."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from postroom.core import clock as time
from postroom.store.port import Store
from postroom.store.sqlite.engine import SqliteStore
from postroom.store.sqlite.schema import init

ENGINES = ("sqlite",)


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


@pytest.fixture
def place(engine: str, tmp_path: Path) -> str:
    """Where a fresh store is."""
    assert engine == "sqlite"
    path = str(tmp_path / "coord.db")
    init(path)
    return path


@pytest.fixture
def store(engine: str, place: str, clock: Clock) -> Iterator[Store]:
    """A fresh store whose time is the `clock` fixture's."""
    assert engine == "sqlite"
    with SqliteStore(place, now=clock) as opened:
        yield opened
