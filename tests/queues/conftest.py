"""Fixtures for tests of queues: a fresh queue, and a look at both of its tracks from outside, with a connection that is not ours."""

from __future__ import annotations

import json
import re
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from postroom import queues
from postroom.core.errors import Conflict, FilterFailed, InvalidState, NoStore, NotFound, StoreTrouble
from postroom.core.records.queues import QueueEvent
from postroom.queues import Queue
from tests.conftest import Clock

SELF = "self"
WARDEN = "internal:dm:default:warden"
ALICE = "external:telegram:tg-main:dm:alice:alice"
COLUMNS = ("id", "created_at", "source", "type", "subtype", "content")
LOGIC = (NoStore, NotFound, Conflict, InvalidState, FilterFailed, StoreTrouble)  # what `thread` ends with exit 1 for
ROTATED = re.compile(r"events-(\d{8}-\d{6})(?:-(\d+))?\.jsonl")


@pytest.fixture
def queue_path(tmp_path: Path) -> str:
    return queues.init_queue(str(tmp_path / "queue"))


@pytest.fixture
def queue(queue_path: str, clock: Clock) -> Iterator[Queue]:
    """A fresh queue whose time is the `clock` fixture's."""
    with queues.open_queue(queue_path, now=clock) as opened:
        yield opened


def fill(queue: Queue, *contents: str, source: str = SELF, type: str = "message") -> list[int]:
    """An event of each content; their ids."""
    return [queues.push(queue, source=source, type=type, content=content).id for content in contents]


def ids(events: Iterable[QueueEvent]) -> list[int]:
    return [event.id for event in events]


def rows(path: str) -> list[tuple[object, ...]]:
    """Every event, as it is stored."""
    with closing(sqlite3.connect(Path(path) / "events.db")) as connection:
        return connection.execute("SELECT * FROM events ORDER BY id").fetchall()


def dump(path: str) -> dict[str, list[tuple[object, ...]]]:
    """Every row of every table."""
    with closing(sqlite3.connect(Path(path) / "events.db")) as connection:
        names = [name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name")]
        return {name: sorted(connection.execute(f"SELECT * FROM {name}").fetchall(), key=repr) for name in names}


def journal_files(path: str) -> list[Path]:
    """The files of the journal, oldest first."""
    found = [(match, file) for file in Path(path).iterdir() if (match := ROTATED.fullmatch(file.name))]
    found.sort(key=lambda one: (one[0][1], int(one[0][2] or 1)))
    return [file for _, file in found] + [Path(path) / "events.jsonl"]


def journal(path: str) -> bytes:
    return b"".join(file.read_bytes() for file in journal_files(path))


def journal_of(stored: Iterable[tuple[object, ...]]) -> bytes:
    """Return the journal that belongs to these rows."""
    return "".join(json.dumps(dict(zip(COLUMNS, row)), ensure_ascii=False) + "\n" for row in stored).encode()


def assert_both_tracks_agree(path: str) -> None:
    """The journal is exactly the rows, byte for byte, in the order of their ids."""
    stored = rows(path)
    found, expected = journal(path).split(b"\n"), journal_of(stored).split(b"\n")
    differing = [number for number, (one, other) in enumerate(zip(found, expected), 1) if one != other]
    assert (len(found), differing[:5]) == (len(expected), []), "lines, and the numbers of those that differ"


def assert_intact(path: str) -> None:
    """The file is whole, nobody holds its write lock, and its ids have no hole."""
    with closing(sqlite3.connect(Path(path) / "events.db", timeout=0, isolation_level=None)) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        connection.execute("BEGIN IMMEDIATE")
        connection.execute("ROLLBACK")
    assert [row[0] for row in rows(path)] == list(range(1, len(rows(path)) + 1))
