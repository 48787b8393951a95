"""Send a person's reply to an agent: into the thread that asked, as the answer to its question, or into its mailbox.

The CLI and the server's inbox routes call `reply`.
"""

from __future__ import annotations

from postroom._fastpath import json_text as jsontext
from postroom.core import checks, clock
from postroom.core.errors import InvalidInput, InvalidState
from postroom.core.records.people import ANSWERED, OPEN, Entry, PersonReply, ReplyResult
from postroom.core.states import RETRIED_STATUSES, TERMINAL_STATUSES
from postroom.core.text import shell_quote, short_repr
from postroom.core.verbs import PEOPLE, WRITE, verb
from postroom.mail import mailbox
from postroom.mail.drafts import PROTOCOL_VERSION, REPLY_ID_PREFIX, Draft
from postroom.people import repository
from postroom.people.access import tokens
from postroom.people.questions import asking, decisions, due_questions, question_sync
from postroom.store.retries import retry_on_contention
from postroom.work import messages, threads

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from postroom.core.records.work import Message
    from postroom.store.interface import Store, Transaction
    from postroom.work.messages import Content

MAX_SUMMARY_CHARS = 200
DECLINED_SUMMARY = "The question was deleted without an answer"
THREAD, ANSWER, MAILBOX = "thread", "answer", "mailbox"


@verb(caller=PEOPLE, mode=WRITE)
def reply(
    store: Store,
    entry_id: str,
    *,
    person: str,
    body: str = "",
    key: str | None = None,
    decision: dict[str, Any] | None = None,
    comment: bool = False,
) -> ReplyResult:
    """Reply to an entry as a person, mark it as read, and return the entry and the stored reply.

    A reply to an entry with one open question answers that question. `decision` settles a question with a proposal: `{"type": "approve"}`,
    `{"type": "edit", "proposal": …}` with the changed text or arguments, or `{"type": "reject", "reason": …}`. If the question offers
    choices or has a proposal, any other text is refused with `InvalidInput` and the question stays open, unless it is sent as a `comment`:
    that settles the question in the person's own words, and the agent is told that no choice was made.

    To retry safely, pass the same `key` again: the stored reply is returned and nothing is sent twice.
    Refuses with `InvalidState` if the key was used for another text, or if no agent would get the reply.
    """
    checks.name("person", person)
    repository.check_nonempty_text("body", body) if decision is None else repository.check_text("body", body)
    if key is not None:
        checks.name("key", key)
    due_questions.sync(store)
    return _store_reply(store, entry_id, person, body, key, decision, comment)


@retry_on_contention
def _store_reply(
    store: Store, entry_id: str, person: str, body: str, key: str | None, decision: dict[str, Any] | None, comment: bool
) -> ReplyResult:
    with store.write() as tx:
        return write_reply(tx, entry_id, person, body, key=key, decision=decision, comment=comment)


def write_reply(
    tx: Transaction,
    entry_id: str,
    person: str,
    body: str,
    *,
    key: str | None = None,
    decision: dict[str, Any] | None = None,
    comment: bool = False,
) -> ReplyResult:
    """Write a reply to an entry. The transaction's part of `reply`."""
    root = repository.lock_matter(tx, entry_id)
    entry = _find_replied(tx, root, entry_id)
    repository.require_person(tx, "person", person)
    checked = None if decision is None else decisions.check_decision(decision)
    body = body if checked is None or body.strip() else decisions.describe(checked)
    reply_id = tx.new_id("rep") if key is None else _keyed_reply_id(entry_id, person, key)
    existing = None if key is None else tx.fetch_one(tx.sql.reply_find, reply_id=reply_id)
    if existing is not None:
        return _return_existing_reply(entry, existing, body)
    decided = None if checked is None else decisions.decide(entry, checked)
    if decided is None and not comment:
        _require_choice(entry, body)
    entry, via, message_id = _send_reply(tx, entry, reply_id, person, body, decided)
    written = PersonReply(reply_id, entry.id, entry.agent, person, body, tx.door, clock.format_stamp(tx.now()), via, message_id)
    tx.execute(tx.sql.reply_insert, **dict(written.items()))
    root = _add_search_terms(tx, repository.get_entry(tx, root.id), body)
    repository.append_entry_event(tx, "replied", entry.id, source=person, reply_id=reply_id, via=via, **repository.event_facts(entry))
    read = repository.mark_entry_read(tx, root, person)
    return _make_result(read.replace(ask=entry.ask) if entry.ask is not None else read, written)


def _find_replied(tx: Transaction, root: Entry, entry_id: str) -> Entry:
    """Return the entry to which a reply belongs: the named part, or of a listed report its one open question, else the entry itself.

    A listed question keeps its own replies: a second answer to it must not settle a question that was asked later.
    Refuses with `InvalidState` if the listed entry has several open questions: the reply must name one.
    """
    if entry_id != root.id:
        return repository.lock_entry(tx, entry_id)
    asking_parts = [part for part in (root, *repository.list_parts(tx, root)) if part.ask is not None and part.ask.state == OPEN]
    if len(asking_parts) > 1:
        ids = ", ".join(part.id for part in asking_parts)
        raise InvalidState("this entry has several open questions", hint=f"Reply to one of them: {ids}.", questions=ids)
    return repository.lock_entry(tx, asking_parts[0].id) if asking_parts and root.ask is None else root


def _keyed_reply_id(entry_id: str, person: str, key: str) -> str:
    """Return the id that a reply with this key always gets."""
    return f"rep_{tokens.hash_token(chr(10).join((entry_id, person, key)))[:32]}"


def _return_existing_reply(entry: Entry, existing: PersonReply, body: str) -> ReplyResult:
    """Return the reply that was stored with the same key. Refuses if its text is another."""
    if existing.body != body:
        raise InvalidState("that key was used for another reply", hint="A key stands for one reply: choose a new one.")
    return _make_result(entry, existing)


def _make_result(entry: Entry, written: PersonReply) -> ReplyResult:
    """Return the result of a reply. Its note says so if the question was settled before, and what became of the reply."""
    ask = entry.ask
    if ask is None or ask.state == OPEN or ask.answer_id in (written.reply_id, written.message_id):
        return ReplyResult(entry, written)
    settled = f"was already answered by {ask.answered_by}" if ask.state == ANSWERED else f"is not open any more ({ask.state})"
    where = "stored in the thread as a remark" if written.via == THREAD else f"sent to the mailbox of {entry.agent}"
    return ReplyResult(entry, written, f"the question {settled}; this reply was {where}, and settles nothing")


def _require_choice(entry: Entry, body: str) -> None:
    """Refuse a text that decides nothing about an open question with choices or a proposal."""
    if entry.ask is None or entry.ask.state != OPEN or body in entry.ask.choices:
        return
    if entry.ask.choices:
        offered = ", ".join(entry.ask.choices)
        hint = f"Choose one of: {offered}. To answer in your own words, send it as a comment (--comment)."
        raise InvalidInput(f"{short_repr(body)} is none of the choices; the question stays open", field="body", hint=hint)
    if entry.ask.terms.get("proposal") is not None:
        hint = "Decide with --approve or --reject. To answer in your own words, send it as a comment (--comment)."
        raise InvalidInput("the question has a proposal, and this decides nothing; it stays open", field="body", hint=hint)


def _send_reply(
    tx: Transaction, entry: Entry, reply_id: str, person: str, body: str, decision: dict[str, Any] | None
) -> tuple[Entry, str, str | None]:
    """Send the reply. Return the entry, how it was sent (`THREAD`, `ANSWER` or `MAILBOX`) and the id of its message, if it has one."""
    if entry.ask is not None and entry.ask.thread_id is not None:
        entry, message = _reply_in_thread(tx, entry, entry.ask.thread_id, person, body)
        return entry, THREAD, message.message_id
    if entry.ask is not None and entry.ask.state == OPEN:
        outcome: dict[str, Any] = {
            "by": person,
            "door": tx.door,
            "at": clock.format_stamp(tx.now()),
            "answer_id": reply_id,
            "decision": decision,
        }
        return asking.close_question(tx, entry, ANSWERED, answer=body, **outcome), ANSWER, None
    _require_receiver(tx, entry)
    extra = jsontext.dumps({"protocol_version": PROTOCOL_VERSION, "entry_id": entry.id, "reply_id": reply_id})
    draft = Draft(f"{REPLY_ID_PREFIX}{reply_id}", person, entry.agent, body, None, extra)
    return entry, MAILBOX, mailbox.store_drafts(tx, [draft])[0].msg_id


def _require_receiver(tx: Transaction, entry: Entry) -> None:
    """Refuse a reply that no agent would get: its workspace is not known here, or was removed."""
    hint = "This entry can only be read."
    if not entry.agent:
        raise InvalidState("no agent would get this reply: the entry's workspace is not known here", hint=hint)
    if entry.workspace_id and tx.fetch_one(tx.sql.workspace_of_agent, agent=entry.agent) is None:
        raise InvalidState("no agent would get this reply: the workspace was removed", hint=hint)


def _reply_in_thread(tx: Transaction, entry: Entry, thread_id: str, person: str, body: str) -> tuple[Entry, Message]:
    """Post the reply in the thread of the entry's question. It settles that question if it is open, and no other one."""
    thread, _ = messages.lock_thread(tx, thread_id)
    if thread.status in TERMINAL_STATUSES:
        hint = "No agent waits for this answer any more. To start something new, send a thread."
        if thread.status in RETRIED_STATUSES and not thread.task_id:
            hint = f"No agent waits for this answer any more. `inbox retry {shell_quote(thread_id)}` reopens the thread."
        raise InvalidState(f"the thread has ended: it is {thread.status}", hint=hint, status=thread.status)
    message, settled = _post_answer(tx, entry, thread_id, person, messages.check_content(summary_of(body), body, "{}", ()))
    return (question_sync.close_answered(tx, entry, message) if settled else entry), message


def _post_answer(tx: Transaction, entry: Entry, thread_id: str, person: str, content: Content) -> tuple[Message, bool]:
    """Post an answer in the thread of an entry's question. Return it, and whether it settled that question."""
    thread, lease = messages.lock_thread(tx, thread_id)
    asked = tx.fetch_one(tx.sql.message_find, message_id=entry.message_id)
    settled = asked if asked is not None and asked.is_open else None
    address = {"sender": person, "to": entry.agent, "kind": "answer", "event_type": "thread.replied"}
    return threads.post_in_thread(tx, thread, lease, content, question=settled, **address).message, settled is not None


def decline_thread_question(tx: Transaction, entry: Entry, person: str) -> None:
    """Tell a thread that its open question was deleted, so that its worker does not wait for ever."""
    if entry.ask is None or entry.ask.thread_id is None or entry.ask.state != OPEN:
        return
    messages.lock_thread(tx, entry.ask.thread_id)
    asked = tx.fetch_one(tx.sql.message_find, message_id=entry.message_id)
    if asked is not None and asked.is_open:  # the thread may have settled it since its entry was brought up to date
        content = messages.check_content(DECLINED_SUMMARY, "", jsontext.dumps({"declined": True}), ())
        _post_answer(tx, entry, entry.ask.thread_id, person, content)


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
