"""Moving a whole store to another, of either engine. The text of these statements is the same on both."""

from __future__ import annotations

from postroom.core.errors import InvalidState, StorageFailure
from postroom.core.letters import Alias, Parcel
from postroom.core.records import Agent, Artifact, Event, Lease, Message, Thread
from postroom.store.statements import ASK, ENTRY, JOB, MAILBOX, REPLY, TASK, WORKSPACE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from postroom.store.port import Row, Store, Transaction

    Tell = Callable[[str, int, int], None]  # which table, how many rows so far, of how many

BATCH = 500

# In an order that no reference contradicts; of each, the columns, of which the first ones are its key.
TABLES: dict[str, tuple[int, tuple[str, ...]]] = {
    "agents": (1, Agent.__fields__),
    "threads": (1, Thread.__fields__),
    "messages": (1, Message.__fields__[:-1]),
    "artifacts": (1, Artifact.__fields__),
    "leases": (1, (*Lease.__fields__, "priority", "waiting")),
    "events": (1, Event.__fields__),
    "reads": (2, ("agent_id", "thread_id", "read_event_id", "latest_event_id", "read_at", "read_door")),
    "mailboxes": (1, tuple(MAILBOX.split(", "))),
    "deliveries": (1, (*Parcel.__fields__, "extra_json", "payload")),
    "mail_ids": (1, ("msg_id", "session", "state", "ended_at")),
    "mail_aliases": (1, Alias.__fields__),
    "jobs": (1, tuple(JOB.split(", "))),
    "tasks": (1, tuple(TASK.split(", "))),
    "agent_skills": (2, ("skill", "agent")),
    "workspaces": (1, (*WORKSPACE.split(", "), "token_hash")),
    "entries": (1, tuple(ENTRY.split(", "))),
    "entries_gone": (1, ("id", "seq", "ts", "entry_seq")),
    "asks": (1, tuple(ASK.split(", "))),
    "replies": (1, tuple(REPLY.split(", "))),
    "pushed_texts": (2, ("entry_id", "path", "text")),
    "passes": (1, ("token_hash", "kind", "person", "created_at", "expires_at")),
    "cursors": (1, ("name", "event_id")),
    "watched_queues": (1, ("path", "label", "created_at")),
}

# What tells a store that was used from a copy that was interrupted: the table, the column, and the word for it.
OWN = (
    ("threads", "thread_id", "threads"),
    ("deliveries", "msg_id", "messages"),
    ("tasks", "task_id", "tasks"),
    ("entries", "id", "entries"),
)


def copy(source: Store, target: Store, *, tell: Tell | None = None) -> dict[str, int]:
    """Copy every row, and check the counts; how many rows each table has.

    The source is read as of one moment, and may stay in use. The target gets batches, so that a copy that was interrupted
    can be run again: rows that are there are brought up to date. A target in which something else happened is refused.
    """
    counts = {}
    with source.read() as view:
        _refuse_used(view, target)
        for table in TABLES:
            total = _count(view, table)
            copied = _copy_table(view, target, table, tell=tell, total=total)
            with target.write() as tx:
                found = _count(tx, table)
            if copied != total or found != total:
                raise StorageFailure(f"{table}: {total} rows were to be copied, {found} are there", hint="Run the copy again.")
            counts[table] = total
    with target.write() as tx:
        tx.all(tx.sql.events_settle)
        tx.all(tx.sql.deliveries_settle)
        tx.all(tx.sql.words_settle)
    return counts


def _copy_table(view: Transaction, target: Store, table: str, *, tell: Tell | None, total: int) -> int:
    key, columns = TABLES[table]
    listed, keys = ", ".join(columns), ", ".join(columns[:key])
    after = ", ".join(f":{column}" for column in columns[:key])
    first = f"SELECT {listed} FROM {table} ORDER BY {keys} LIMIT {BATCH}"
    following = f"SELECT {listed} FROM {table} WHERE ({keys}) > ({after}) ORDER BY {keys} LIMIT {BATCH}"
    renewed = ", ".join(f"{column} = excluded.{column}" for column in columns[key:])
    values = ", ".join(f":{column}" for column in columns)
    put = f"INSERT INTO {table} ({listed}) VALUES ({values}) ON CONFLICT ({keys}) DO UPDATE SET {renewed}"
    copied, rows = 0, view.all(first)
    while rows:
        _put(target, put, columns, rows)
        copied += len(rows)
        if tell is not None:
            tell(table, copied, total)
        rows = view.all(following, **dict(zip(columns[:key], rows[-1])))
    return copied


def _put(target: Store, statement: str, columns: tuple[str, ...], rows: list[Row]) -> None:
    with target.write() as tx:
        for row in rows:
            tx.run(statement, **dict(zip(columns, row)))


def _count(tx: Transaction, table: str) -> int:
    row = tx.one(f"SELECT count(*) FROM {table}")
    return int(row[0]) if row else 0


def _refuse_used(view: Transaction, target: Store) -> None:
    """A target that knows threads or messages of its own would be mixed with the source's."""
    for table, column, word in OWN:
        known = {row[0] for row in view.all(f"SELECT {column} FROM {table}")}
        with target.read() as tx:
            strangers = [row[0] for row in tx.all(f"SELECT {column} FROM {table}") if row[0] not in known]
        if strangers:
            raise InvalidState(f"the target has {word} of its own, such as {strangers[0]}", hint="Copy into a store that is new.")
