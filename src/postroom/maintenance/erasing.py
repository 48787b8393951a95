"""Erasing: remove one thread, entry or message with every trace of its text, for example after a secret was pasted into it.

The rows go in one transaction. Then the mirror of the entries, the search index and the database itself are rewritten, because deleted
rows leave their bytes in free space and in the log.
"""

from __future__ import annotations

from glob import escape
from pathlib import Path

from postroom.core import checks
from postroom.core.errors import NotFound
from postroom.core.records.mail import PURGED
from postroom.core.records.retention import EraseResult
from postroom.mail import sweeping, transitions
from postroom.maintenance import removal
from postroom.people import entries_mirror
from postroom.people.questions import due_questions
from postroom.people.search_terms import search_terms
from postroom.store import removed
from postroom.store.maintenance import erasing as rows
from postroom.store.maintenance import space
from postroom.store.retries import retry_on_contention

TYPE_CHECKING = False
if TYPE_CHECKING:
    from postroom.store.interface import Store, Transaction

SOURCE = "erased"
MAX_SENDERS = 1000  # of messages with one id


def erase(store: Store, *, thread_id: str | None = None, entry_id: str | None = None, msg_id: str | None = None) -> EraseResult:
    """Erase a thread, an entry, or a message of a thread or a mailbox: exactly one of them.

    Everything that repeats the text goes too: entries that show it, replies, tasks, histories, results of calls. Refuses with `NotFound`
    what the store never had. What was erased before is not refused, so that an interrupted call can be repeated.
    """
    due_questions.sync(store)
    if thread_id is not None:
        count = _erase_thread(store, checks.name("thread", thread_id))
    elif entry_id is not None:
        count = _erase_entry(store, checks.name("entry", entry_id))
    else:
        count = _erase_message(store, checks.name("msg-id", msg_id))
    entries_mirror.update_mirror(store)
    before, after = space.compact(store)
    return EraseResult(count, before, after, _describe_copies(store))


def _describe_copies(store: Store) -> str:
    """Return the sentence that says which copies were not touched, with the paths of those that a restore set aside."""
    if "://" in store.location:
        return "Backups, and the write-ahead log of a PostgreSQL server, may still have it."
    mirror = Path(store.data_folder or "", "inbox", "entries.jsonl")
    copies = [str(copy) for file in (Path(store.location), mirror) for copy in sorted(file.parent.glob(f"{escape(file.name)}.before-*"))]
    return f"Backups may still have it{''.join(f', {copy}' for copy in copies)}."


@retry_on_contention
def _erase_thread(store: Store, thread_id: str) -> int:
    with store.write() as tx:
        tx.lock_thread(thread_id)
        found = tx.fetch_one(tx.sql.thread_find, thread_id=thread_id)
        if found is None and tx.fetch_one(tx.sql.removed_find, kind=removed.THREAD, id=thread_id) is None:
            raise NotFound(f"there is no thread {thread_id}, and never was one", hint="See `inbox list`.", thread_id=thread_id)
        count = int(found is not None)
        for shown in rows.find_entries_of_thread(tx, thread_id):
            count += _remove_entry(tx, shown)
        for task_id in rows.find_tasks_of_thread(tx, thread_id):
            tx.execute(tx.sql.removed_keep, kind=removed.TASK, id=task_id, removed_at=tx.now())
            rows.erase_task(tx, task_id)
            count += 1
        rows.blank_events(tx, "thread_id = :thread_id AND thread_id <> ''", thread_id=thread_id)
        removal.remove_threads(tx, [thread_id])
        rows.forget_results(tx, thread_id)
        tx.fetch_all(tx.sql.words_settle)
    return count


@retry_on_contention
def _erase_entry(store: Store, entry_id: str) -> int:
    with store.write() as tx:
        entry = tx.fetch_one(tx.sql.entry_find, id=entry_id)
        if entry is None and tx.fetch_one(tx.sql.gone_find, id=entry_id) is None:
            raise NotFound(f"there is no entry {entry_id}, and never was one", hint="See `inbox entries`.", entry_id=entry_id)
        count = 0
        if entry is not None:
            root_id = entry.root_id or entry.id
            for message_id in rows.find_messages_of_entry(tx, root_id):
                _erase_thread_message(tx, message_id)
                _erase_mail(tx, message_id)
            count = _remove_entry(tx, root_id)
        rows.blank_events(tx, "thread_id = '' AND message_id = :subject", subject=entry_id)
        rows.forget_results(tx, entry_id)
        tx.fetch_all(tx.sql.words_settle)
    return count


@retry_on_contention
def _erase_message(store: Store, msg_id: str) -> int:
    with store.write() as tx:
        count = _erase_mail(tx, msg_id)
        is_known = count > 0 or bool(tx.fetch_all(tx.sql.mail_ids_of, msg_id=msg_id, limit=1))
        if tx.fetch_one(tx.sql.message_find, message_id=msg_id) is not None:
            count, is_known = count + 1, True
            for shown in rows.find_entries_of_message(tx, msg_id):
                _remove_entry(tx, shown)
            _erase_thread_message(tx, msg_id)
        if not is_known:
            raise NotFound(f"there is no message {msg_id}, and never was one", hint="Name the id of mail, or of a message of a thread.")
        rows.forget_results(tx, msg_id)
        tx.fetch_all(tx.sql.words_settle)
    return count


def _erase_thread_message(tx: Transaction, message_id: str) -> None:
    message = tx.fetch_one(tx.sql.message_find, message_id=message_id)
    if message is not None:
        _forget_reply(tx, message_id)
        tx.lock_thread(message.thread_id)
        rows.erase_message(tx, message_id, message.thread_id)


def _erase_mail(tx: Transaction, msg_id: str) -> int:
    """Delete the messages with an id from their mailboxes, whatever their state is. Return how many there were."""
    found = tx.fetch_all(tx.sql.deliveries_of_id, msg_id=msg_id, limit=MAX_SENDERS)
    for row in sorted(found, key=lambda row: row.session):
        locked = transitions.open_mailbox(tx, row.session)
        sweeping.delete_message(tx, locked, row, PURGED, sweeping.read_digest(tx, row))
        locked.write_back()
    _forget_reply(tx, msg_id)
    rows.forget_mail(tx, msg_id)
    return len(found)


def _forget_reply(tx: Transaction, message_id: str) -> None:
    """Remove a reply from the entry that shows it. A search finds the entry no longer by the words of the reply, if others had them too."""
    for entry_id, words, body in rows.forget_reply(tx, message_id):
        erased = set(search_terms(body))
        rows.put_words(tx, entry_id, " ".join(word for word in words.split(" ") if word not in erased))


def _remove_entry(tx: Transaction, entry_id: str) -> int:
    count = removal.remove_entry(tx, entry_id, source=SOURCE)
    rows.blank_events(tx, "thread_id = '' AND message_id = :subject", subject=entry_id)
    return count
