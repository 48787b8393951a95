"""Adoption of a database that another program made with the schema of document 000. `init_database` calls it.

The tables of the document are made anew with our columns, and their rows are inserted again. The triggers for rows of other programs
then supply what the document does not have. Tables of other programs stay as they are.
"""

from __future__ import annotations

from postroom._fastpath.sqlite import connect
from postroom.core.errors import NotAStore
from postroom.store.event_log import BLOCK_EVENTS, CURSOR_NAME
from postroom.store.migrations import read_scripts
from postroom.store.sqlite import statements

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from postroom._fastpath.sqlite import Connection

# In the order in which the rows are inserted again: those of leases and threads are there when a message changes them.
DOCUMENT_TABLES = {
    "events": (
        *("event_id", "run_id", "task_id", "thread_id", "source", "event_type"),
        *("message_id", "summary", "payload_json", "created_at"),
    ),
    "threads": (
        *("thread_id", "run_id", "task_id", "subject", "created_by", "assigned_to", "status", "priority"),
        *("latest_message_id", "created_at", "updated_at"),
    ),
    "leases": ("thread_id", "agent_id", "lease_token", "claimed_at", "expires_at", "released_at"),
    "messages": ("message_id", "thread_id", "from_agent", "to_agent", "kind", "summary", "body", "payload_json", "created_at"),
    "artifacts": ("artifact_id", "message_id", "path", "kind", "metadata_json", "created_at"),
}
_ORDER = {"events": "event_id", "messages": "created_at, adopted_rowid"}
_CHOOSE_ANOTHER = "Choose another path: Postroom needs a file of its own, or one with the tables of document 000."


def refuse_unless_adoptable(connection: Connection, location: str, *, version: int, application: int) -> None:
    """Refuse a database of another program, unless its tables can stay beside ours. Tables of document 000 must have its columns."""
    if application or version:
        raise NotAStore(f"{location} is the database of another program", hint=_CHOOSE_ANOTHER)
    names = _names_in(connection)
    for table in names & set(DOCUMENT_TABLES):
        columns = {row[1] for row in connection.execute(f"PRAGMA table_info({table})")}
        if columns != set(DOCUMENT_TABLES[table]):
            problem = f"the table {table} of {location} does not have the columns of document 000"
            raise NotAStore(f"{problem}, but {', '.join(sorted(columns)) or 'none'}", hint=_CHOOSE_ANOTHER)
    taken = sorted(names & _names_of_schema() - set(DOCUMENT_TABLES) - _own_objects_of(connection))
    if taken:
        raise NotAStore(f"{location} has {', '.join(taken)} of another program, names that Postroom needs", hint=_CHOOSE_ANOTHER)


def adopt_database(connection: Connection, create_schema: Callable[[], None]) -> None:
    """Replace the tables of document 000 by ours, with their rows. Runs in the transaction of the caller, with foreign keys off."""
    tables = [table for table in DOCUMENT_TABLES if table in _names_in(connection)]
    marks = ", ".join(f"'{table}'" for table in tables)
    others = connection.execute(
        f"SELECT name, sql FROM sqlite_master WHERE type IN ('index', 'trigger') AND sql IS NOT NULL AND tbl_name IN ({marks})"
    ).fetchall()
    last_event = _last_event_id(connection) if "events" in tables else 0
    for table in tables:
        columns = ", ".join(DOCUMENT_TABLES[table])
        connection.execute(f"CREATE TEMP TABLE adopted_{table} AS SELECT {columns}, rowid AS adopted_rowid FROM main.{table}")
        connection.execute(f"DROP TABLE main.{table}")
    create_schema()
    if last_event:
        connection.execute("INSERT INTO sqlite_sequence (name, seq) VALUES ('events', ?)", (last_event,))
    for table in tables:
        columns, order = ", ".join(DOCUMENT_TABLES[table]), _ORDER.get(table, "adopted_rowid")
        connection.execute(f"INSERT INTO main.{table} ({columns}) SELECT {columns} FROM temp.adopted_{table} ORDER BY {order}")
        connection.execute(f"DROP TABLE temp.adopted_{table}")
    connection.execute(
        "UPDATE messages SET is_open = 0 WHERE is_open = 1 AND thread_id IN"
        " (SELECT thread_id FROM threads WHERE status IN ('done', 'failed', 'cancelled'))"
    )
    _summarise_events(connection)
    present = _names_in(connection)
    for name, definition in others:
        if name not in present:
            connection.execute(definition)


def _last_event_id(connection: Connection) -> int:
    """Return the highest event id that was ever given out, also if that event is deleted."""
    has_counter = connection.execute("SELECT count(*) FROM sqlite_master WHERE name = 'sqlite_sequence'").fetchone()[0]
    counters = connection.execute("SELECT seq FROM sqlite_sequence WHERE name = 'events'").fetchall() if has_counter else []
    return int(counters[0][0]) if counters else 0


def _summarise_events(connection: Connection) -> None:
    latest = connection.execute("SELECT coalesce(max(event_id), 0) FROM events").fetchone()[0]
    until = latest // BLOCK_EVENTS * BLOCK_EVENTS - 1
    if until > 0:
        connection.execute(statements.event_topics_insert, {"after": 0, "until": until})
        connection.execute("UPDATE cursors SET event_id = ? WHERE name = ?", (until, CURSOR_NAME))


def _names_in(connection: Connection) -> set[str]:
    return {row[0] for row in connection.execute("SELECT name FROM main.sqlite_master")}


def _own_objects_of(connection: Connection) -> set[str]:
    """Return the names of the indexes on the tables of document 000, which are made anew with them, and those that SQLite chose."""
    marks = ", ".join(f"'{table}'" for table in DOCUMENT_TABLES)
    rows = connection.execute(f"SELECT name FROM main.sqlite_master WHERE type = 'index' AND tbl_name IN ({marks})")
    return {row[0] for row in rows} | {"sqlite_sequence"}


def _names_of_schema() -> set[str]:
    """Return the name of every table, index and trigger that our scripts make."""
    from postroom.store.sqlite.schema import split_statements

    scratch = connect(":memory:", isolation_level=None)
    try:
        for _, script in read_scripts("sqlite"):
            for statement in split_statements(script):
                scratch.execute(statement)
        return _names_in(scratch)
    finally:
        scratch.close()
