"""Copying of a whole store to another one, on either engine, for `inbox copy`. The SQL in this module is the same on both engines."""

from __future__ import annotations

from postroom.core.errors import InvalidState, StorageFailure
from postroom.store.statements import channels, mail, people, retention, tasks, work
from postroom.store.statements.watched_queues import WATCHED_QUEUES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from postroom.store.interface import Store, Transaction
    from postroom.store.tables import Table

    ProgressCallback = Callable[[str, int, int], None]  # name of the table, rows copied so far, rows in total

BATCH_ROWS = 500

# A table comes after the tables that it references, and events come before threads: a thread without an event is one that another program
# inserted, for which SQLite adds the event. A test compares this list with the schema: no table and no column is left out.
TABLES: tuple[Table, ...] = (
    *(work.EVENTS, work.EVENT_TOPICS, work.AGENTS, work.THREADS, work.MESSAGES, work.ARTIFACTS, work.LEASES, work.READS),
    *(mail.MAILBOXES, mail.DELIVERIES, mail.MAIL_IDS, mail.ALIASES),
    *(tasks.JOBS, tasks.TASKS, tasks.SKILLS),
    *(people.WORKSPACES, people.ENTRIES, people.DELETED_ENTRIES, people.ASKS, people.REPLIES, people.PUSHED_TEXTS),
    people.READ_DOCUMENTS,
    *(people.HANDOVERS, people.CONVERSATIONS, people.WAKE_ROUTES),
    *(people.PASSES, people.CURSORS, WATCHED_QUEUES, retention.REMOVED_IDS, retention.SETTINGS),
    *(channels.CHANNELS, channels.ALERTS),
)

# Ids that distinguish a target that was used from an earlier copy: the table, its id, the table of the ids that the source has removed, and
# the word for an error message.
OWN_ROW_COLUMNS = (
    ("threads", "thread_id", "", "threads"),
    ("deliveries", "msg_id, sender", "mail_ids", "messages"),
    ("tasks", "task_id", "", "tasks"),
    ("entries", "id", "entries_gone", "entries"),
)


def copy_store(source: Store, target: Store, *, on_progress: ProgressCallback | None = None) -> dict[str, int]:
    """Copy every row, check the counts, and return the number of rows of each table.

    The source is read in one transaction and may stay in use. The target is written in batches. An interrupted copy can be run again, and
    so can the copy of yesterday: it updates the rows that exist, and removes those that the source has removed since. Refuses a target
    that has threads, messages, tasks or entries that the source never had.
    """
    counts = {}
    with source.read() as view:
        _refuse_used_target(view, target)
        for table in reversed(TABLES):  # a row goes before the row that it references
            _delete_removed_rows(view, target, table)
        for table in TABLES:
            total = _count_rows(view, table)
            copied = _copy_table(view, target, table, on_progress=on_progress, total=total)
            with target.write() as tx:
                target_total = _count_rows(tx, table)
            if copied != total or target_total != total:
                message = f"{table.name}: the source has {total} rows, and the target has {target_total}"
                raise StorageFailure(message, hint="Run the copy again.")
            counts[table.name] = total
    settle_copied_rows(target)
    return counts


def settle_copied_rows(target: Store) -> None:
    """Set the counters of ids and build the search index, after rows were stored with their ids."""
    with target.write() as tx:
        tx.fetch_all(tx.sql.events_settle)
        tx.fetch_all(tx.sql.deliveries_settle)
        tx.fetch_all(tx.sql.words_settle)


def _copy_table(view: Transaction, target: Store, table: Table, *, on_progress: ProgressCallback | None, total: int) -> int:
    copied = 0
    for rows in read_table_pages(view, table):
        with target.write() as tx:
            for row in rows:
                tx.execute(table.upsert_statement(), **dict(zip(table.columns, row)))
        copied += len(rows)
        if on_progress is not None:
            on_progress(table.name, copied, total)
    return copied


def read_table_pages(view: Transaction, table: Table) -> Iterator[list[Sequence[object]]]:
    """Yield the rows of a table in pages. Stored in this order, they read as they do in the source."""
    return _read_artifact_pages(view) if table is work.ARTIFACTS else _read_pages(view, table)


def _read_pages(view: Transaction, table: Table) -> Iterator[list[Sequence[object]]]:
    """Yield the rows of a table in pages, in the order of its key."""
    keys = ", ".join(table.key)
    key_binds = ", ".join(f":{column}" for column in table.key)
    copied = _copied_rows(table)
    rows = view.fetch_all(f"SELECT {table.column_list} FROM {copied} ORDER BY {keys} LIMIT {BATCH_ROWS}")
    next_page = f"SELECT {table.column_list} FROM {copied} WHERE ({keys}) > ({key_binds}) ORDER BY {keys} LIMIT {BATCH_ROWS}"
    while rows:
        yield rows
        rows = view.fetch_all(next_page, **dict(zip(table.key, rows[-1])))


def _read_artifact_pages(view: Transaction) -> Iterator[list[Sequence[object]]]:
    """Yield the artifacts in pages, in the order of insertion, which is the only order that the artifacts of a message have."""
    after = 0
    while rows := view.fetch_all(view.sql.artifacts_inserted, after=after, limit=BATCH_ROWS):
        yield [columns for *columns, _ in rows]
        after = rows[-1][-1]


def _copied_rows(table: Table) -> str:
    """Return what stands behind FROM to read the rows of a table that belong to a copy: not the place of the file itself."""
    if table is retention.SETTINGS:
        return f"(SELECT * FROM settings WHERE name <> '{retention.PLACE_SETTING}') AS copied"
    return table.name


def _count_rows(tx: Transaction, table: Table) -> int:
    row = tx.fetch_one(f"SELECT count(*) FROM {_copied_rows(table)}")
    return int(row[0]) if row else 0


def _delete_removed_rows(view: Transaction, target: Store, table: Table) -> None:
    """Delete the rows of an earlier copy that the source does not have any more."""
    keys = ", ".join(table.key)
    with target.read() as tx:
        copied = tx.fetch_all(f"SELECT {keys} FROM {_copied_rows(table)}")
    if not copied:
        return
    kept = {tuple(row) for row in view.fetch_all(f"SELECT {keys} FROM {table.name}")}
    condition = " AND ".join(f"{column} = :{column}" for column in table.key)
    removed = [row for row in copied if tuple(row) not in kept]
    for start in range(0, len(removed), BATCH_ROWS):
        with target.write() as tx:
            for row in removed[start : start + BATCH_ROWS]:
                tx.execute(f"DELETE FROM {table.name} WHERE {condition}", **dict(zip(table.key, row)))


def _refuse_used_target(view: Transaction, target: Store) -> None:
    """Refuse a target with rows that the source never had: the copy would mix two stores."""
    for table, columns, removed, word in OWN_ROW_COLUMNS:
        known = {tuple(row) for row in view.fetch_all(f"SELECT {columns} FROM {table}")}
        if removed:
            known |= {tuple(row) for row in view.fetch_all(f"SELECT {columns} FROM {removed}")}
        with target.read() as tx:
            unknown = [row[0] for row in tx.fetch_all(f"SELECT {columns} FROM {table}") if tuple(row) not in known]
        if unknown:
            raise InvalidState(f"the target has {word} of its own, such as {unknown[0]}", hint="Copy into a store that is new.")
