"""Removal of threads, a task or an entry with everything that belongs to it, inside a transaction. Pruning and erasing share it."""

from __future__ import annotations

from postroom._fastpath import json_text as jsontext
from postroom.core import checks
from postroom.people import entries, repository
from postroom.store import removed

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from postroom.core.records.people import Entry
    from postroom.store.interface import Transaction


def remove_threads(tx: Transaction, thread_ids: Sequence[str]) -> None:
    """Delete threads with their messages, artifacts, leases and read marks, and keep the ids that may not be used again."""
    sql, listed = tx.sql, jsontext.dumps(list(thread_ids))
    remove_messages(tx, thread_ids, until=checks.AFTER_ALL_IDS)
    for statement in (sql.prune_thread_leases, sql.prune_thread_rows):
        tx.execute(statement, ids=listed)


def remove_messages(tx: Transaction, thread_ids: Sequence[str], *, until: int) -> None:
    """Delete the messages of threads up to an event, with their artifacts and the read marks of their senders and receivers.

    Keep the ids of messages that were sent with a key, so that a repeated call is recognised, and those of the threads: one that has
    lost its beginning is not reopened, even if its removal is interrupted here.
    """
    sql, place = tx.sql, {"ids": jsontext.dumps(list(thread_ids)), "until": until}
    tx.execute(sql.prune_thread_ids, ids=place["ids"], now=tx.now())
    for thread_id in thread_ids:  # before the messages are gone that say who took part
        tx.execute(sql.prune_thread_reads, thread_id=thread_id, until=until)
    tx.execute(sql.prune_thread_keys, now=tx.now(), **place)
    tx.execute(sql.prune_thread_artifacts, **place)
    tx.execute(sql.prune_thread_messages, **place)


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
        remove_entry_row(tx, part, source=source)
    return len(matter)


def remove_entry_row(tx: Transaction, entry: Entry, *, source: str) -> None:
    """Delete the row of a locked entry, or of one of its parts, with the replies to it."""
    entries.delete_entry_row(tx, entry, source)
    tx.execute(tx.sql.prune_replies, entry_id=entry.id)
