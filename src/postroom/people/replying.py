"""Replying: a person's word goes back to the agent. Into the thread that asked, as the answer that is awaited, or into its mailbox."""

from __future__ import annotations

from postroom.core import checks, clock
from postroom.core.entries import ANSWERED, Entry, PersonReply, Replied
from postroom.core.errors import InvalidState
from postroom.core.states import TERMINAL
from postroom.core.verbs import verb
from postroom.mail import drafts, mailbox
from postroom.people import asking, folding, ledger, tokens
from postroom.store.attempts import retried
from postroom.work import messages, threads

TYPE_CHECKING = False
if TYPE_CHECKING:
    from postroom.store.port import Store, Transaction

SUMMARY = 200  # characters of the first line
THREAD, ANSWER, MAILBOX = "thread", "answer", "mailbox"


@verb
def reply(store: Store, entry_id: str, *, person: str, body: str, key: str | None = None) -> Replied:
    """Answer an entry, as a person. It counts as read from then on.

    Who cannot know whether the first try arrived says the same `key` again: the reply that is there is returned, and nothing is sent twice.
    """
    checks.name("person", person)
    ledger.said("body", body)
    if key is not None:
        checks.name("key", key)
    folding.fold(store)
    return _reply(store, entry_id, person, body, key)


@retried
def _reply(store: Store, entry_id: str, person: str, body: str, key: str | None) -> Replied:
    with store.write() as tx:
        entry = ledger.locked(tx, entry_id)
        ledger.human(tx, "person", person)
        reply_id = tx.fresh("rep") if key is None else f"rep_{tokens.hashed(chr(10).join((entry_id, person, key)))[:32]}"
        row = None if key is None else tx.one(tx.sql.reply_find, reply_id=reply_id)
        if row is not None:
            return _again(entry, PersonReply(*row), body)
        via, message_id = _send(tx, entry, reply_id, person, body)
        if entry.ask is not None and entry.is_open:
            entry = asking.settle(tx, entry, ANSWERED, answer=body, by=person, door=tx.door, at=clock.stamp(tx.now()))
        written = PersonReply(reply_id, entry_id, entry.agent, person, body, tx.door, clock.stamp(tx.now()), via, message_id)
        tx.run(tx.sql.reply_insert, **dict(written.items()))
        entry = _find_by(tx, entry, body)
        ledger.announce(tx, "replied", entry_id, source=person, reply_id=reply_id, via=via, **ledger.facts(entry))
        return Replied(ledger.see(tx, entry, person), written)


def _again(entry: Entry, written: PersonReply, body: str) -> Replied:
    if written.body != body:
        raise InvalidState("that key was used for another reply", hint="A key stands for one reply: choose a new one.")
    return Replied(entry, written)


def _send(tx: Transaction, entry: Entry, reply_id: str, person: str, body: str) -> tuple[str, str | None]:
    """The way that a reply goes, and the id of the message that carries it."""
    if entry.ask is not None and entry.ask.thread_id is not None:
        thread, lease = messages.locked(tx, entry.ask.thread_id)
        if thread.status in TERMINAL:
            hint = "Nobody waits for this answer any more; for anything new, send a thread."
            raise InvalidState(f"the thread has ended: it is {thread.status}", hint=hint, status=thread.status)
        said = messages.content(summary_of(body), body, "{}", ())
        posted = threads.say(tx, thread, lease, said, sender=person, to=entry.agent, kind="answer", event_type="thread.replied")
        return THREAD, posted.message.message_id
    if entry.ask is not None and entry.is_open:
        return ANSWER, None
    if not entry.agent:
        raise InvalidState("nobody would get this reply: the entry's workspace is not known here", hint="Only look at it.")
    letter = {"msg_id": f"reply:{reply_id}", "from": person, "to": entry.agent, "payload": body}
    draft = drafts.read({**letter, "entry_id": entry.id, "reply_id": reply_id})
    return MAILBOX, mailbox.put_all(tx, [draft])[0].msg_id


def summary_of(body: str) -> str:
    """The first line of what a person said, for where there is room for one."""
    return body.strip().partition("\n")[0][:SUMMARY]


def _find_by(tx: Transaction, entry: Entry, body: str) -> Entry:
    """From now on, a search finds the entry by the words of the reply too."""
    from postroom.people.words import words

    more = " ".join(words(entry.words, body))
    tx.run(tx.sql.words_delete, seq=entry.seq, words=entry.words)
    tx.run(tx.sql.entry_replied, id=entry.id, words=more)
    tx.run(tx.sql.words_insert, seq=entry.seq, words=more)
    return entry.replace(words=more, replies=entry.replies + 1)
