"""Erasing of one thread, entry or message from every table that may repeat its text. The SQL in this module is the same on both engines.

Rows that others refer to stay with an empty text: events, whose ids are cursors, and the ids that may not be used again.
"""

from __future__ import annotations

from postroom._fastpath import json_text as jsontext

TYPE_CHECKING = False
if TYPE_CHECKING:
    from postroom.store.interface import Transaction

ERASED = "[erased]"
# The facts of an event by which readers select it. None of them is a text that somebody wrote.
_KEPT_FACTS = frozenset(("kind", "to", "from", "in_reply_to", "status", "assigned_to", "created_by", "session", "state", "attempt", "at"))
_KEPT_ENTRY_FACTS = frozenset(("agent", "workspace_id", "section", "root_id"))


def find_entries_of_thread(tx: Transaction, thread_id: str) -> list[str]:
    """Return the ids of the entries in which messages of a thread are shown."""
    rows = tx.fetch_all(
        """
        SELECT coalesce(e.root_id, e.id) FROM entries e JOIN messages m ON m.message_id = e.message_id WHERE m.thread_id = :thread_id
        UNION SELECT matter_id FROM asks WHERE thread_id = :thread_id""",
        thread_id=thread_id,
    )
    return [entry_id for (entry_id,) in rows]


def find_entries_of_message(tx: Transaction, message_id: str) -> list[str]:
    """Return the id of the entry in which a message of a thread is shown, if there is one."""
    rows = tx.fetch_all("SELECT coalesce(root_id, id) FROM entries WHERE message_id = :message_id", message_id=message_id)
    return [entry_id for (entry_id,) in rows]


def find_messages_of_entry(tx: Transaction, entry_id: str) -> list[str]:
    """Return the messages that an entry shows, those that answer them in their threads, and those that carried replies to the entry."""
    rows = tx.fetch_all(
        """
        SELECT message_id FROM entries WHERE (id = :entry_id OR root_id = :entry_id) AND message_id IS NOT NULL
        UNION SELECT m.message_id FROM messages m JOIN entries e ON e.message_id = m.in_reply_to
          WHERE e.id = :entry_id OR e.root_id = :entry_id
        UNION SELECT r.message_id FROM replies r JOIN entries e ON e.id = r.entry_id
          WHERE (e.id = :entry_id OR e.root_id = :entry_id) AND r.message_id IS NOT NULL""",
        entry_id=entry_id,
    )
    return [message_id for (message_id,) in rows]


def find_tasks_of_thread(tx: Transaction, thread_id: str) -> list[str]:
    """Return the tasks that a thread is the work of, and the results that answer them."""
    own = [task_id for (task_id,) in tx.fetch_all("SELECT task_id FROM tasks WHERE thread_id = :thread_id", thread_id=thread_id)]
    results = [row for task_id in own for row in tx.fetch_all("SELECT task_id FROM tasks WHERE answers = :task_id", task_id=task_id)]
    return [*own, *(task_id for (task_id,) in results)]


def erase_task(tx: Transaction, task_id: str) -> None:
    """Delete a task in any state, and the texts of its events."""
    tx.execute("DELETE FROM tasks WHERE task_id = :task_id", task_id=task_id)
    blank_events(tx, "thread_id = '' AND message_id = :subject", subject=task_id)


def erase_message(tx: Transaction, message_id: str, thread_id: str) -> None:
    """Remove the text of a message from its thread, whose subject and task may repeat it. The message itself stays, as an empty one."""
    before = tx.fetch_one("SELECT summary FROM messages WHERE message_id = :message_id", message_id=message_id)
    is_first = """NOT EXISTS (SELECT 1 FROM messages b, messages m WHERE m.message_id = :message_id AND b.thread_id = :thread_id
                          AND b.event_id < m.event_id)"""
    tx.execute(
        f"UPDATE threads SET subject = :erased WHERE thread_id = :thread_id AND (subject = :summary OR {is_first})",
        thread_id=thread_id,
        message_id=message_id,
        summary=before[0],
        erased=ERASED,
    )
    tx.execute("DELETE FROM artifacts WHERE message_id = :message_id", message_id=message_id)
    tx.execute(
        "UPDATE messages SET summary = :erased, body = '', payload_json = '{}' WHERE message_id = :message_id",
        message_id=message_id,
        erased=ERASED,
    )
    tx.execute(
        f"UPDATE tasks SET description = :erased, context_json = '{{}}' WHERE thread_id = :thread_id AND {is_first}",
        thread_id=thread_id,
        message_id=message_id,
        erased=ERASED,
    )
    blank_events(tx, "thread_id = :thread_id AND message_id = :subject", thread_id=thread_id, subject=message_id)


def forget_reply(tx: Transaction, message_id: str) -> list[tuple[str, str, str]]:
    """Remove what a message carried as a reply or answer to an entry. Return each such entry, its words in the search, and the reply."""
    rows: list[tuple[str, str, str]] = tx.fetch_all(
        """
        SELECT t.id, t.words, r.body FROM replies r JOIN entries e ON e.id = r.entry_id JOIN entries t ON t.id = coalesce(e.root_id, e.id)
        WHERE r.message_id = :message_id AND r.body <> ''""",
        message_id=message_id,
    )
    tx.execute("UPDATE replies SET body = '' WHERE message_id = :message_id", message_id=message_id)
    tx.execute(
        "UPDATE asks SET answer = :erased, decision_json = NULL WHERE answer_id = :message_id AND answer IS NOT NULL",
        message_id=message_id,
        erased=ERASED,
    )
    return rows


def put_words(tx: Transaction, entry_id: str, words: str) -> None:
    """Write the words by which a search finds an entry."""
    tx.execute("UPDATE entries SET words = :words WHERE id = :entry_id", entry_id=entry_id, words=words)


def forget_mail(tx: Transaction, msg_id: str) -> None:
    """Remove the digest of a deleted message, and what its events said."""
    tx.execute("UPDATE mail_ids SET payload_digest = NULL WHERE msg_id = :msg_id", msg_id=msg_id)
    blank_events(tx, "thread_id = '' AND message_id = :subject", subject=msg_id)


def forget_results(tx: Transaction, named_id: str) -> None:
    """Delete the kept results of calls that name an id. A repeat of such a call is executed again."""
    tx.execute("DELETE FROM idempotency_keys WHERE result LIKE :pattern", pattern=f"%{named_id}%")


def blank_events(tx: Transaction, condition: str, **binds: object) -> None:
    """Remove the texts of events. Their ids stay, because cursors count on them, and so do the facts that no person wrote."""
    rows = tx.fetch_all(f"SELECT event_id, payload_json FROM events WHERE {condition}", **binds)
    for event_id, payload_json in rows:
        facts = jsontext.loads(payload_json)
        kept = {name: value for name, value in facts.items() if name in _KEPT_FACTS | _KEPT_ENTRY_FACTS}
        tx.execute(
            "UPDATE events SET summary = '', payload_json = :payload_json WHERE event_id = :event_id",
            event_id=event_id,
            payload_json=jsontext.dumps(kept),
        )
