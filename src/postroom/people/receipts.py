"""Receipts: every hop of an entry and of the replies to it. Stored is not offered, offered is not seen, seen is not answered."""

from __future__ import annotations

from postroom.core import jsontext
from postroom.core.entries import OPEN, Ask, Detail, Entry, PersonReply, Stamp
from postroom.core.records import Event
from postroom.core.verbs import verb
from postroom.people import folding, ledger

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from postroom.store.port import Store, Transaction


@verb
def show_entry(store: Store, entry_id: str) -> Detail:
    """An entry, the replies to it, and what became of each."""
    folding.fold(store)
    with store.read() as tx:
        return detail(tx, entry_id)


def detail(tx: Transaction, entry_id: str) -> Detail:
    entry = ledger.found(tx, entry_id)
    replies = tuple(PersonReply(*row) for row in tx.all(tx.sql.replies_of_entry, entry_id=entry_id))
    stamps = [*_of_entry(tx, entry), *_of_ask(entry.ask)]
    for reply in replies:
        stamps += [stamp.replace(reply=reply.reply_id) for stamp in _of_reply(tx, entry, reply)]
    return Detail(entry, replies, tuple(sorted(stamps, key=lambda stamp: stamp.at)))


def _of_entry(tx: Transaction, entry: Entry) -> Iterator[Stamp]:
    yield Stamp("stored", entry.stored_at, entry.agent, entry.door)
    if entry.offered_at is not None:
        yield Stamp("offered", entry.offered_at, entry.offered_to or "", entry.offered_door or "")
    for row in tx.all(tx.sql.events_of_subject, message_id=entry.id):
        event = Event(*row)
        if event.event_type == "entry.read":  # each time: an entry may be marked as unread, and escalated
            yield Stamp("seen", event.created_at, event.source, jsontext.loads(event.payload_json)["door"])


def _of_ask(ask: Ask | None) -> Iterator[Stamp]:
    if ask is None:
        return
    if ask.escalated_at is not None:
        yield Stamp("escalated", ask.escalated_at, "", "")
    if ask.state != OPEN:
        yield Stamp(ask.state, ask.answered_at or "", ask.answered_by or "", ask.answered_door or "")


def _of_reply(tx: Transaction, entry: Entry, reply: PersonReply) -> Iterator[Stamp]:
    yield Stamp("reply_stored", reply.created_at, reply.person, reply.door)
    if reply.via == "mailbox":
        for row in tx.all(tx.sql.events_of_subject, message_id=reply.message_id):
            event = Event(*row)
            step = {"mail.offered": "reply_offered", "mail.acked": "reply_seen"}.get(event.event_type)
            if step is not None:
                facts = jsontext.loads(event.payload_json)
                yield Stamp(step, event.created_at, facts.get("receiver", event.source), facts.get("door", ""))
    elif reply.via == "answer" and entry.ask is not None and entry.ask.collected_at is not None:
        yield Stamp("reply_seen", entry.ask.collected_at, entry.agent, entry.ask.collected_door or "")
    elif reply.via == "thread" and entry.ask is not None:
        yield from _of_thread(tx, entry, entry.ask, reply)


def _of_thread(tx: Transaction, entry: Entry, ask: Ask, reply: PersonReply) -> Iterator[Stamp]:
    """Seen once the asker has read so far. Of several replies that were read since, the time is that of the last reading."""
    message = tx.one(tx.sql.message_find, message_id=reply.message_id)
    read = tx.one(tx.sql.read_of_thread, agent=entry.agent, thread_id=ask.thread_id)
    if message is not None and read is not None and read[0] >= message[9] and read[1] is not None:
        yield Stamp("reply_seen", read[1], entry.agent, read[2] or "")
