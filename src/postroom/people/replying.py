"""Send a person's reply to an agent: into the thread that asked, as the answer to its question, or into its mailbox.

The CLI and the server's inbox routes call `reply`.
"""

from __future__ import annotations

from postroom._fastpath import json_text as jsontext
from postroom.core import checks, clock
from postroom.core.errors import InvalidState
from postroom.core.records.people import ANSWERED, Entry, PersonReply, ReplyResult
from postroom.core.states import TERMINAL_STATUSES
from postroom.core.verbs import PEOPLE, WRITE, verb
from postroom.mail import mailbox
from postroom.mail.drafts import PROTOCOL_VERSION, REPLY_ID_PREFIX, Draft
from postroom.people import asking, question_sync, repository, tokens
from postroom.store.retries import retry_on_contention
from postroom.work import messages, threads

TYPE_CHECKING = False
if TYPE_CHECKING:
    from postroom.core.records.work import Message
    from postroom.store.interface import Store, Transaction

MAX_SUMMARY_CHARS = 200
THREAD, ANSWER, MAILBOX = "thread", "answer", "mailbox"


@verb(caller=PEOPLE, mode=WRITE)
def reply(store: Store, entry_id: str, *, person: str, body: str, key: str | None = None) -> ReplyResult:
    """Reply to an entry as a person, mark it as read, and return the entry and the stored reply.

    To retry safely, pass the same `key` again: the stored reply is returned and nothing is sent twice.
    Refuses with `InvalidState` if the key was used for another text, or if no agent would get the reply.
    """
    checks.name("person", person)
    repository.check_nonempty_text("body", body)
    if key is not None:
        checks.name("key", key)
    question_sync.sync(store)
    return _store_reply(store, entry_id, person, body, key)


@retry_on_contention
def _store_reply(store: Store, entry_id: str, person: str, body: str, key: str | None) -> ReplyResult:
    with store.write() as tx:
        entry = repository.lock_entry(tx, entry_id)
        repository.require_person(tx, "person", person)
        reply_id = tx.new_id("rep") if key is None else _keyed_reply_id(entry_id, person, key)
        existing = None if key is None else tx.fetch_one(tx.sql.reply_find, reply_id=reply_id)
        if existing is not None:
            return _return_existing_reply(entry, existing, body)
        entry, via, message_id = _send_reply(tx, entry, reply_id, person, body)
        written = PersonReply(reply_id, entry_id, entry.agent, person, body, tx.door, clock.format_stamp(tx.now()), via, message_id)
        tx.execute(tx.sql.reply_insert, **dict(written.items()))
        entry = _add_search_terms(tx, entry, body)
        repository.append_entry_event(tx, "replied", entry_id, source=person, reply_id=reply_id, via=via, **repository.event_facts(entry))
        return ReplyResult(repository.mark_entry_read(tx, entry, person), written)


def _keyed_reply_id(entry_id: str, person: str, key: str) -> str:
    """Return the id that a reply with this key always gets."""
    return f"rep_{tokens.hash_token(chr(10).join((entry_id, person, key)))[:32]}"


def _return_existing_reply(entry: Entry, existing: PersonReply, body: str) -> ReplyResult:
    """Return the reply that was stored with the same key. Refuses if its text is another."""
    if existing.body != body:
        raise InvalidState("that key was used for another reply", hint="A key stands for one reply: choose a new one.")
    return ReplyResult(entry, existing)


def _send_reply(tx: Transaction, entry: Entry, reply_id: str, person: str, body: str) -> tuple[Entry, str, str | None]:
    """Send the reply. Return the entry, how it was sent (`THREAD`, `ANSWER` or `MAILBOX`) and the id of its message, if it has one."""
    if entry.ask is not None and entry.ask.thread_id is not None:
        entry, message = _reply_in_thread(tx, entry, entry.ask.thread_id, person, body)
        return entry, THREAD, message.message_id
    if entry.ask is not None and entry.is_open:
        outcome = {"by": person, "door": tx.door, "at": clock.format_stamp(tx.now()), "answer_id": reply_id}
        return asking.close_question(tx, entry, ANSWERED, answer=body, **outcome), ANSWER, None
    if not entry.agent:
        raise InvalidState("no agent would get this reply: the entry's workspace is not known here", hint="This entry can only be read.")
    extra = jsontext.dumps({"protocol_version": PROTOCOL_VERSION, "entry_id": entry.id, "reply_id": reply_id})
    draft = Draft(f"{REPLY_ID_PREFIX}{reply_id}", person, entry.agent, body, None, extra)
    return entry, MAILBOX, mailbox.store_drafts(tx, [draft])[0].msg_id


def _reply_in_thread(tx: Transaction, entry: Entry, thread_id: str, person: str, body: str) -> tuple[Entry, Message]:
    """Post the reply in the thread of the entry's question. It settles that question if it is open, and no other one."""
    thread, lease = messages.lock_thread(tx, thread_id)
    if thread.status in TERMINAL_STATUSES:
        hint = "No agent waits for this answer any more. To start something new, send a thread."
        raise InvalidState(f"the thread has ended: it is {thread.status}", hint=hint, status=thread.status)
    content = messages.check_content(summary_of(body), body, "{}", ())
    asked = tx.fetch_one(tx.sql.message_find, message_id=entry.message_id)
    settled = asked if asked is not None and asked.is_open else None
    address = {"sender": person, "to": entry.agent, "kind": "answer", "event_type": "thread.replied"}
    message = threads.post_in_thread(tx, thread, lease, content, question=settled, **address).message
    return (entry if settled is None else question_sync.close_answered(tx, entry, message)), message


def summary_of(body: str) -> str:
    """Return the first line of a reply, at most `MAX_SUMMARY_CHARS` long."""
    return body.strip().partition("\n")[0][:MAX_SUMMARY_CHARS]


def _add_search_terms(tx: Transaction, entry: Entry, body: str) -> Entry:
    """Count the reply and add its words to the search index of the entry. Return the changed entry."""
    from postroom.people.search_terms import search_terms

    words = " ".join(search_terms(entry.words, body))
    tx.execute(tx.sql.words_delete, seq=entry.seq, words=entry.words)
    tx.execute(tx.sql.entry_replied, id=entry.id, words=words)
    tx.execute(tx.sql.words_insert, seq=entry.seq, words=words)
    return entry.replace(words=words, replies=entry.replies + 1)
