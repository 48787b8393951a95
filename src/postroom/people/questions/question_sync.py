"""Turn questions that agents asked in threads into entries, close the answered ones, and apply deadlines.

Every verb of this room calls `sync` first, so its results are right without a running server. A deadline takes effect as of its own
time, not of the time of the call.
"""

from __future__ import annotations

from postroom._fastpath import json_text as jsontext
from postroom.core import clock
from postroom.core.errors import StoreBusy
from postroom.core.limits import MAX_TITLE_CHARS
from postroom.core.records.people import ANSWERED, DEFAULT, ENDED, ESCALATE, QUESTION, REFUSED
from postroom.core.verbs import PEOPLE, WRITE, verb
from postroom.people import repository
from postroom.people.channels import planning
from postroom.people.questions import asking
from postroom.people.questions.due_questions import CURSOR_NAME
from postroom.store.retries import retry_on_contention

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from postroom.core.records.people import Entry
    from postroom.core.records.work import Message
    from postroom.store.interface import Store, Transaction

BATCH_ROWS = 200
MAX_QUESTION_CHARS = 200_000
_ENDING_KINDS_JSON = jsontext.dumps(["result", "control"])


def sync_questions(store: Store) -> int:
    """Make an entry for every question to a person, close the answered ones, and apply deadlines. Return the number of new entries."""
    from postroom.people import entries_mirror

    made = 0
    while True:
        more, count = _sync_batch(store)
        made += count
        if not more:
            break
    while _apply_deadlines(store) == BATCH_ROWS:
        pass
    while count := _wake_snoozed(store):
        made += count
    if made:
        entries_mirror.update_mirror(store)
    return made


@retry_on_contention
def _wake_snoozed(store: Store) -> int:
    with store.write() as tx:
        return repository.wake_snoozed(tx, BATCH_ROWS)


@retry_on_contention
def _sync_batch(store: Store) -> tuple[bool, int]:
    made = 0
    with store.write() as tx:
        after = tx.fetch_one(tx.sql.cursor_lock, name=CURSOR_NAME) or 0
        new_messages = tx.fetch_all(tx.sql.messages_to_people, after=after, limit=BATCH_ROWS)
        for message in new_messages:
            if message.kind == "question":
                made += _insert_question(tx, message)
            else:
                _close_questions(tx, message)
        if new_messages:
            moved = StoreBusy("another process applied the same messages", hint="Try again.")
            tx.execute_exactly_one(moved, tx.sql.cursor_move, name=CURSOR_NAME, event_id=new_messages[-1].event_id, seen=after)
    return len(new_messages) == BATCH_ROWS, made


@verb(caller=PEOPLE, mode=WRITE)
@retry_on_contention
def backfill_person(store: Store, name: str) -> int:
    """Make entries for the open questions to a name from before it was known as a person. Return their number."""
    with store.write() as tx:
        asked = sorted(tx.fetch_all(tx.sql.questions_to, agent=name), key=lambda message: message.event_id)
        return sum(_insert_question(tx, message) for message in asked)


def _insert_question(tx: Transaction, message: Message) -> bool:
    from postroom.store.agents import is_person

    if not is_person(tx, message.to_agent) or tx.fetch_one(tx.sql.entry_of_message, message_id=message.message_id):
        return False
    choices = asking.parse_choices(message.payload_json)
    question = "\n\n".join(part for part in (message.summary, message.body) if part.strip())
    content: dict[str, Any] = {
        "kind": QUESTION,
        "workspace": tx.fetch_one(tx.sql.workspace_of_agent, agent=message.from_agent),
        "agent": message.from_agent,
        "label": message.from_agent,
        "comments": question[:MAX_QUESTION_CHARS],
        "ts": clock.parse_stamp(message.created_at) // 1000,
        "door": message.door,
        "message_id": message.message_id,
        "ask": {
            "agent": message.from_agent,
            "thread_id": message.thread_id,
            "asked_event": message.event_id,
            "addressee": message.to_agent,
            "choices_json": jsontext.dumps(choices),
            "terms_json": jsontext.dumps(asking.parse_terms(message.payload_json, choices)),
        },
    }
    root = _find_thread_entry(tx, message)
    if root is None:
        thread = tx.fetch_one(tx.sql.thread_find, thread_id=message.thread_id)
        repository.insert_entry(tx, title="" if thread is None else thread.thread.subject[:MAX_TITLE_CHARS], **content)
    else:
        repository.add_part(tx, root, content)
    return True


def _find_thread_entry(tx: Transaction, message: Message) -> Entry | None:
    """Return the entry of an earlier question of the same agent in the same thread, which the new one continues."""
    entry_id = tx.fetch_one(tx.sql.ask_of_thread, thread_id=message.thread_id)
    entry = None if entry_id is None else repository.lock_entry_if_exists(tx, entry_id)
    return entry if entry is not None and entry.agent == message.from_agent else None


def _close_questions(tx: Transaction, message: Message) -> None:
    """Close the entries whose question was settled or ended in the thread of this message.

    The work room decides which questions a message closes. An entry whose question was settled gets the answer of the message that
    settled it. The others ended without an answer.
    """
    for entry in tx.fetch_all(tx.sql.asks_closed_in_thread, thread_id=message.thread_id):
        answer = tx.fetch_one(tx.sql.message_in_reply_to, message_id=entry.message_id)
        if answer is None:
            end = _message_that_ended(tx, message)
            asking.close_question(tx, entry, ENDED, by=end.from_agent, door=end.door, at=end.created_at)
        else:
            close_answered(tx, entry, answer)


def close_answered(tx: Transaction, entry: Entry, answer: Message) -> Entry:
    """Close an entry with the message that settled its question in a thread, and return it."""
    text = answer.body or answer.summary
    outcome: dict[str, Any] = {"by": answer.from_agent, "door": answer.door, "at": answer.created_at, "answer_id": answer.message_id}
    return asking.close_question(tx, entry, ANSWERED, answer=text, **outcome)


def _message_that_ended(tx: Transaction, message: Message) -> Message:
    """Return the first message, from this one on, that can end questions: the result of the thread, or a control message."""
    span = {"thread_id": message.thread_id, "after": message.event_id - 1}
    return tx.fetch_one(tx.sql.message_after, kinds=_ENDING_KINDS_JSON, agent="", question="", **span) or message


# Deadlines


@retry_on_contention
def _apply_deadlines(store: Store) -> int:
    """Apply `on_silence` to a batch of questions whose deadline has passed. Return their number."""
    with store.write() as tx:
        due = tx.fetch_all(tx.sql.asks_due, now=tx.now(), limit=BATCH_ROWS)
        for entry in due:
            _apply_silence(tx, entry)
    return len(due)


def _apply_silence(tx: Transaction, seen: Entry) -> None:
    entry = repository.lock_entry_if_exists(tx, seen.id)
    if entry is None or entry.ask is None or entry.ask.due_at is None or entry.ask.due_at > tx.now() or not entry.is_open:
        return  # another process closed or escalated it before we locked it
    ask, at = entry.ask, clock.format_stamp(entry.ask.due_at)
    if ask.on_silence == ESCALATE:
        changed = StoreBusy(f"{entry.id} changed while it was being written", hint="Try again.")
        tx.execute_exactly_one(
            changed, tx.sql.ask_escalate, entry_id=entry.id, addressee=ask.escalate_to, escalated_at=at, due_at=ask.due_at
        )
        repository.append_entry_event(tx, "escalated", entry.id, source="", to=ask.escalate_to, at=at, **repository.event_facts(entry))
        repository.write_read_state(tx, repository.lock_matter(tx, entry.id), None, None, None)
        planning.plan_question(tx, repository.get_entry(tx, entry.id))
    elif ask.on_silence == DEFAULT:
        asking.close_question(tx, entry, DEFAULT, answer=ask.default_answer, by=None, door=None, at=at)
    else:
        asking.close_question(tx, entry, REFUSED, by=None, door=None, at=at)
