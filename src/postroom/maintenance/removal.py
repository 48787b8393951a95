"""Removal of one thread, task or entry with everything that belongs to it, inside a transaction. Pruning and erasing share it."""

from __future__ import annotations

from postroom.people import entries, repository
from postroom.store import removed

TYPE_CHECKING = False
if TYPE_CHECKING:
    from postroom.store.interface import Transaction


def remove_thread(tx: Transaction, thread_id: str) -> None:
    """Delete a thread with its messages, artifacts, lease and read marks, and keep the ids that may not be used again."""
    tx.execute(tx.sql.removed_keep, kind=removed.THREAD, id=thread_id, removed_at=tx.now())
    tx.execute(tx.sql.prune_thread_keys, thread_id=thread_id, now=tx.now())
    sql = tx.sql
    for statement in (sql.prune_thread_reads, sql.prune_thread_artifacts, sql.prune_thread_messages, sql.prune_thread_lease):
        tx.execute(statement, thread_id=thread_id)
    tx.execute(tx.sql.prune_thread, thread_id=thread_id)


def remove_task(tx: Transaction, task_id: str) -> None:
    """Delete a task that has ended, and keep its id."""
    tx.execute(tx.sql.removed_keep, kind=removed.TASK, id=task_id, removed_at=tx.now())
    tx.execute(tx.sql.prune_task, task_id=task_id)


def remove_entry(tx: Transaction, entry_id: str, *, source: str) -> int:
    """Delete an entry with the rows that were added to it, and return how many rows. The event names `source` as the one that did it."""
    entry = repository.lock_entry_if_exists(tx, entry_id)
    if entry is None:
        return 0
    matter = (entry, *repository.list_parts(tx, entry))
    for part in reversed(matter):
        entries.delete_entry_row(tx, part, source)
        tx.execute(tx.sql.prune_replies, entry_id=part.id)
    return len(matter)
