"""Looking at a SQLite store from outside, with a connection that is not ours."""

from __future__ import annotations

import fcntl
import os
import sqlite3
from contextlib import closing

from psycopg.errors import LockNotAvailable

from postroom.store.postgres.connection_url import parse_url
from postroom.store.postgres.driver import open_connection
from postroom.store.sqlite import writer_queue
from tests.contract.blocking_store import eventually

TABLES = ("threads", "messages", "leases", "artifacts", "events", "agents", "reads", "sqlite_sequence")


def dump(place: str) -> dict[str, list[tuple[object, ...]]]:
    """Every row of every table."""
    with closing(sqlite3.connect(place)) as connection:
        names = [name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name")]
        assert set(TABLES) <= set(names)
        return {name: sorted(connection.execute(f"SELECT * FROM {name}").fetchall(), key=repr) for name in names}


def assert_no_lock(place: str) -> None:
    """Check that no process holds SQLite's write lock or a ticket of the writer queue, or on a server a row or a lock of ours."""
    if "://" in place:
        assert eventually(lambda: _server_is_free(place))  # it takes the server a moment to notice that a client died
        return
    with closing(sqlite3.connect(place, timeout=0, isolation_level=None)) as connection:
        connection.execute("BEGIN IMMEDIATE")
        connection.execute("ROLLBACK")
    assert_no_ticket(place)


def _server_is_free(place: str) -> bool:
    with closing(open_connection(parse_url(place))) as connection:
        try:
            connection.execute("BEGIN")
            connection.execute("SELECT 1 FROM threads FOR UPDATE NOWAIT")
            connection.execute("LOCK TABLE events IN SHARE MODE NOWAIT")
        except LockNotAvailable:
            return False
        finally:
            connection.execute("ROLLBACK")
    return True


def assert_no_ticket(place: str) -> None:
    file = os.open(place + ".lock", os.O_RDWR | os.O_CREAT)
    try:
        writer_queue._set_lock(file, fcntl.F_WRLCK, 0, 0)  # to the end of the file, and beyond
    finally:
        os.close(file)


CONTRADICTIONS = {
    "a message without its event": """
        SELECT count(*) FROM messages m LEFT JOIN events e ON e.event_id = m.event_id AND e.message_id = m.message_id
        WHERE e.event_id IS NULL""",
    "an event without its message": """
        SELECT count(*) FROM events e LEFT JOIN messages m ON m.message_id = e.message_id AND m.event_id = e.event_id
        WHERE e.thread_id != '' AND e.message_id IS NOT NULL AND m.message_id IS NULL""",
    "a claim without its event": """
        SELECT count(*) FROM leases l WHERE NOT EXISTS
        (SELECT 1 FROM events e WHERE e.thread_id = l.thread_id AND e.event_type = 'thread.claimed' AND e.source = l.agent_id)""",
    "a thread without a message": """
        SELECT count(*) FROM threads t LEFT JOIN messages m ON m.message_id = t.latest_message_id WHERE m.message_id IS NULL""",
    "a thread that is held by nobody": """
        SELECT count(*) FROM threads t LEFT JOIN leases l ON l.thread_id = t.thread_id AND l.released_at IS NULL
        WHERE (t.status IN ('claimed', 'in_progress', 'blocked')) != (l.thread_id IS NOT NULL)""",
    "a holder who is not the assignee": """
        SELECT count(*) FROM threads t JOIN leases l ON l.thread_id = t.thread_id AND l.released_at IS NULL
        WHERE l.agent_id != t.assigned_to""",
    "an artifact without its message": """
        SELECT count(*) FROM artifacts a LEFT JOIN messages m ON m.message_id = a.message_id WHERE m.message_id IS NULL""",
}


def assert_sound(place: str) -> None:
    """The file is intact, and what it says does not contradict itself."""
    if "://" in place:
        with closing(open_connection(parse_url(place))) as server:
            rows = {what: server.execute(query).fetchone() for what, query in CONTRADICTIONS.items()}
        assert {what: row[0] for what, row in rows.items() if row} == dict.fromkeys(CONTRADICTIONS, 0)
        return
    with closing(sqlite3.connect(place)) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        assert connection.execute("PRAGMA foreign_key_check").fetchall() == []
        found = {what: connection.execute(query).fetchone()[0] for what, query in CONTRADICTIONS.items()}
    assert found == dict.fromkeys(CONTRADICTIONS, 0)


def follows_commit(statement: str) -> bool:
    """Whether a statement is sent after the COMMIT of a write: notifications, and what settles events. The write is done by then."""
    return any(word in statement for word in ("pg_notify", "settled_event_id", "pg_locks", "synchronous_commit"))
