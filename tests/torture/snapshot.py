"""The rows of a store and the lines of its files, read from outside with connections that are not ours."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from postroom.store.postgres.connection_url import parse_url
from postroom.store.postgres.driver import open_connection

Row = dict[str, Any]
TABLES = (
    "threads",
    "messages",
    "leases",
    "events",
    "deliveries",
    "tasks",
    "jobs",
    "entries",
    "asks",
    "replies",
    "entries_gone",
    "removed_ids",
    "mail_ids",
)


@dataclass
class StoreSnapshot:
    """The content of a store: rows by table, the events of the queue, and the lines of the two mirrors (None if there is no file)."""

    tables: dict[str, list[Row]] = field(default_factory=dict)
    queue_events: list[Row] = field(default_factory=list)
    queue_progress: dict[str, int] = field(default_factory=dict)
    queue_lines: list[Row | None] | None = None
    entry_lines: list[Row | None] | None = None
    defects: list[str] = field(default_factory=list)
    _indexes: dict[tuple[str, str], dict[Any, Row]] = field(default_factory=dict)

    def rows(self, table: str) -> list[Row]:
        return self.tables.get(table, [])

    def index(self, table: str, column: str) -> dict[Any, Row]:
        """Return the rows of a table by a column. It is made once."""
        key = (table, column)
        if key not in self._indexes:
            self._indexes[key] = {row[column]: row for row in self.rows(table)}
        return self._indexes[key]

    def index_queue(self) -> dict[int, Row]:
        if ("queue", "id") not in self._indexes:
            self._indexes["queue", "id"] = {row["id"]: row for row in self.queue_events}
        return self._indexes["queue", "id"]


def take_snapshot(location: str, queue: Path, mirror: Path | None) -> StoreSnapshot:
    """Read everything, and whether the files are intact."""
    snapshot = StoreSnapshot()
    if "://" in location:
        with closing(open_connection(parse_url(location))) as server:
            for table in TABLES:
                cursor = server.execute(f"SELECT * FROM {table}".encode())
                names = [column.name for column in cursor.description or ()]
                snapshot.tables[table] = [dict(zip(names, row)) for row in cursor.fetchall()]
    else:
        with closing(sqlite3.connect(location)) as connection:
            snapshot.tables = {table: _read_rows(connection, f"SELECT * FROM {table}") for table in TABLES}
            snapshot.defects += _find_defects(connection, location)
    with closing(sqlite3.connect(queue / "events.db")) as connection:
        snapshot.queue_events = _read_rows(connection, "SELECT * FROM events ORDER BY id")
        progress = _read_rows(connection, "SELECT * FROM consumer_progress")
        snapshot.queue_progress = {row["consumer_id"]: row["last_acked_id"] for row in progress}
        snapshot.defects += _find_defects(connection, str(queue))
    rotated = [line for path in sorted(queue.glob("events-*.jsonl")) for line in _read_lines(path) or ()]
    newest = _read_lines(queue / "events.jsonl")
    snapshot.queue_lines = None if newest is None else rotated + newest
    snapshot.entry_lines = None if mirror is None else _read_lines(mirror)
    return snapshot


def read_backup(path: str) -> StoreSnapshot:
    """Read the rows of a backup, and whether it is intact. A backup has no queue and no mirrors."""
    with closing(sqlite3.connect(path)) as connection:
        tables = {table: _read_rows(connection, f"SELECT * FROM {table}") for table in TABLES}
        return StoreSnapshot(tables, defects=_find_defects(connection, path))


def _read_rows(connection: sqlite3.Connection, query: str) -> list[Row]:
    cursor = connection.execute(query)
    names = [column[0] for column in cursor.description]
    return [dict(zip(names, row)) for row in cursor.fetchall()]


def _find_defects(connection: sqlite3.Connection, name: str) -> list[str]:
    found = [line for (line,) in connection.execute("PRAGMA integrity_check") if line != "ok"]
    found += [str(row) for row in connection.execute("PRAGMA foreign_key_check")]
    return [f"{name}: {line}" for line in found]


def _read_lines(path: Path) -> list[Row | None] | None:
    """Return the lines of a JSONL file, None for one that cannot be parsed, or None if there is no file."""
    if not path.exists():
        return None
    return [_parse_line(line) for line in path.read_bytes().split(b"\n") if line]


def _parse_line(line: bytes) -> Row | None:
    try:
        parsed = json.loads(line)
    except ValueError:
        return None
    return parsed if isinstance(parsed, dict) else None
