"""Copying of a whole store to another one, on either engine, for `inbox copy`. The SQL in this module is the same on both engines."""

from __future__ import annotations

from postroom.core.errors import InvalidState, StorageFailure
from postroom.store.statements import mail, people, tasks, work
from postroom.store.statements.watched_queues import WATCHED_QUEUES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from postroom.store.interface import Store, Transaction
    from postroom.store.tables import Table

    ProgressCallback = Callable[[str, int, int], None]  # name of the table, rows copied so far, rows in total

BATCH_ROWS = 500

# A table comes after the tables that it references. A test compares this list with the schema: no table and no column is left out.
TABLES: tuple[Table, ...] = (
    *(work.AGENTS, work.THREADS, work.MESSAGES, work.ARTIFACTS, work.LEASES, work.EVENTS, work.READS),
    *(mail.MAILBOXES, mail.DELIVERIES, mail.MAIL_IDS, mail.ALIASES),
    *(tasks.JOBS, tasks.TASKS, tasks.SKILLS),
    *(people.WORKSPACES, people.ENTRIES, people.DELETED_ENTRIES, people.ASKS, people.REPLIES, people.PUSHED_TEXTS),
    *(people.PASSES, people.CURSORS, WATCHED_QUEUES),
)

# Ids that distinguish a target that was used from an interrupted copy: the table, its column, and the word for an error message.
OWN_ROW_COLUMNS = (
    ("threads", "thread_id", "threads"),
    ("deliveries", "msg_id", "messages"),
    ("tasks", "task_id", "tasks"),
    ("entries", "id", "entries"),
)


def copy_store(source: Store, target: Store, *, on_progress: ProgressCallback | None = None) -> dict[str, int]:
    """Copy every row, check the counts, and return the number of rows of each table.

    The source is read in one transaction and may stay in use. The target is written in batches. An interrupted copy can be run again:
    it updates the rows that exist. Refuses a target that has threads, messages, tasks or entries that the source does not have.
    """
    counts = {}
    with source.read() as view:
        _refuse_used_target(view, target)
        for table in TABLES:
            total = _count_rows(view, table.name)
            copied = _copy_table(view, target, table, on_progress=on_progress, total=total)
            with target.write() as tx:
                target_total = _count_rows(tx, table.name)
            if copied != total or target_total != total:
                message = f"{table.name}: the source has {total} rows, and the target has {target_total}"
                raise StorageFailure(message, hint="Run the copy again.")
            counts[table.name] = total
    with target.write() as tx:
        tx.fetch_all(tx.sql.events_settle)
        tx.fetch_all(tx.sql.deliveries_settle)
        tx.fetch_all(tx.sql.words_settle)
    return counts


def _copy_table(view: Transaction, target: Store, table: Table, *, on_progress: ProgressCallback | None, total: int) -> int:
    copied = 0
    pages = _read_artifact_pages(view) if table is work.ARTIFACTS else _read_pages(view, table)
    for rows in pages:
        with target.write() as tx:
            for row in rows:
                tx.execute(table.upsert_statement(), **dict(zip(table.columns, row)))
        copied += len(rows)
        if on_progress is not None:
            on_progress(table.name, copied, total)
    return copied


def _read_pages(view: Transaction, table: Table) -> Iterator[list[Sequence[object]]]:
    """Yield the rows of a table in pages, in the order of its key."""
    keys = ", ".join(table.key)
    key_binds = ", ".join(f":{column}" for column in table.key)
    rows = view.fetch_all(f"SELECT {table.column_list} FROM {table.name} ORDER BY {keys} LIMIT {BATCH_ROWS}")
    next_page = f"SELECT {table.column_list} FROM {table.name} WHERE ({keys}) > ({key_binds}) ORDER BY {keys} LIMIT {BATCH_ROWS}"
    while rows:
        yield rows
        rows = view.fetch_all(next_page, **dict(zip(table.key, rows[-1])))


def _read_artifact_pages(view: Transaction) -> Iterator[list[Sequence[object]]]:
    """Yield the artifacts in pages, in the order of insertion, which is the only order that the artifacts of a message have."""
    after = 0
    while rows := view.fetch_all(view.sql.artifacts_inserted, after=after, limit=BATCH_ROWS):
        yield [columns for *columns, _ in rows]
        after = rows[-1][-1]


def _count_rows(tx: Transaction, table: str) -> int:
    row = tx.fetch_one(f"SELECT count(*) FROM {table}")
    return int(row[0]) if row else 0


def _refuse_used_target(view: Transaction, target: Store) -> None:
    """Refuse a target with rows that the source does not have: the copy would mix two stores."""
    for table, column, word in OWN_ROW_COLUMNS:
        source_ids = {row[0] for row in view.fetch_all(f"SELECT {column} FROM {table}")}
        with target.read() as tx:
            unknown_ids = [row[0] for row in tx.fetch_all(f"SELECT {column} FROM {table}") if row[0] not in source_ids]
        if unknown_ids:
            raise InvalidState(f"the target has {word} of its own, such as {unknown_ids[0]}", hint="Copy into a store that is new.")
