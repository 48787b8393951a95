"""List the steps of an entry and of the replies to it: stored, offered, seen, answered. Each step is recorded separately."""

from __future__ import annotations

from postroom._fastpath import json_text as jsontext
from postroom.core.records.channels import SENT
from postroom.core.records.people import OPEN, EntryDetail, EntryReceiptStep
from postroom.core.verbs import PEOPLE, STEPS, verb
from postroom.people import entries, repository
from postroom.people.questions import due_questions

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from postroom.core.records.people import Ask, Entry, PersonReply
    from postroom.store.interface import Store, Transaction


@verb(caller=PEOPLE, mode=STEPS)
def show_entry(store: Store, entry_id: str) -> EntryDetail:
    """Return an entry, the replies to it, and the receipt steps of both, oldest first."""
    due_questions.sync(store)
    with store.read() as tx:
        return read_entry_detail(tx, entry_id)


def read_entry_detail(tx: Transaction, entry_id: str) -> EntryDetail:
    """Return an entry with its parts, replies and receipt steps. The transaction's part of `show_entry`.

    For a part, return the entry to which it was added.
    """
    entry = repository.get_entry(tx, entry_id)
    if entry.root_id is not None:
        entry = repository.get_entry(tx, entry.root_id)
    parts = tuple(repository.list_parts(tx, entry))
    replies: list[PersonReply] = []
    steps = list(_entry_steps(tx, entry))
    for part in (entry, *parts):
        own = tx.fetch_all(tx.sql.replies_of_entry, entry_id=part.id)
        steps += [*_question_steps(part.ask), *([] if part is entry else _part_steps(part)), *_alert_steps(tx, part)]
        for reply in own:
            steps += [step.replace(reply=reply.reply_id) for step in _reply_steps(tx, part, reply)]
        replies += own
    replies.sort(key=lambda reply: (reply.created_at, reply.reply_id))
    # Each part has its own question. An entry that asks nothing itself has that of its row.
    shown = entry if entry.ask is not None else entries.with_shown_question(tx, entry)
    return EntryDetail(shown, tuple(replies), tuple(sorted(steps, key=lambda step: step.at)), parts)


def _part_steps(part: Entry) -> Iterator[EntryReceiptStep]:
    yield EntryReceiptStep("added", part.stored_at, part.agent, part.door)


def _entry_steps(tx: Transaction, entry: Entry) -> Iterator[EntryReceiptStep]:
    yield EntryReceiptStep("stored", entry.stored_at, entry.agent, entry.door)
    if entry.offered_at is not None:
        yield EntryReceiptStep("offered", entry.offered_at, entry.offered_to or "", entry.offered_door or "")
    for event in tx.fetch_all(tx.sql.events_of_subject, message_id=entry.id, types="entry.%"):
        if event.event_type == "entry.read":  # may happen again after the entry was marked as unread or escalated
            yield EntryReceiptStep("seen", event.created_at, event.source, jsontext.loads(event.payload_json)["door"])


def _alert_steps(tx: Transaction, entry: Entry) -> Iterator[EntryReceiptStep]:
    """Yield when an alert was queued, failed for good, and was sent, to which person by which kind of channel. Sent is not seen."""
    for alert in tx.fetch_all(tx.sql.alerts_of_entry, entry_id=entry.id):
        channel = tx.fetch_one(tx.sql.channel_find, channel_id=alert.channel_id)
        if channel is None or alert.queued_at is None:
            continue
        yield EntryReceiptStep("alert_queued", alert.queued_at, channel.person, channel.kind)
        for event in tx.fetch_all(tx.sql.events_of_subject, message_id=alert.alert_id, types="mail.dead_letter"):
            if jsontext.loads(event.payload_json).get("session") == channel.session:
                yield EntryReceiptStep("alert_failed", event.created_at, channel.person, channel.kind)
        if alert.state == SENT and alert.ended_at is not None:
            yield EntryReceiptStep("alert_sent", alert.ended_at, channel.person, channel.kind)


def _question_steps(ask: Ask | None) -> Iterator[EntryReceiptStep]:
    if ask is None:
        return
    if ask.escalated_at is not None:
        yield EntryReceiptStep("escalated", ask.escalated_at, "", "")
    if ask.state != OPEN:
        step = EntryReceiptStep(ask.state, ask.answered_at or "", ask.answered_by or "", ask.answered_door or "")
        yield step.replace(answer=ask.answer_id)


def _reply_steps(tx: Transaction, entry: Entry, reply: PersonReply) -> Iterator[EntryReceiptStep]:
    yield EntryReceiptStep("reply_stored", reply.created_at, reply.person, reply.door)
    if reply.via == "mailbox":
        for event in tx.fetch_all(tx.sql.events_of_subject, message_id=reply.message_id, types="mail.%"):
            step = {"mail.offered": "reply_offered", "mail.acked": "reply_seen"}.get(event.event_type)
            if step is not None:
                facts = jsontext.loads(event.payload_json)
                yield EntryReceiptStep(step, event.created_at, facts.get("receiver", event.source), facts.get("door", ""))
        yield from _wake_steps(tx, reply.message_id or "", entry.agent)
    elif reply.via == "answer" and entry.ask is not None:
        yield from _wake_steps(tx, entry.id, entry.agent)
        if entry.ask.collected_at is not None:
            yield EntryReceiptStep("reply_seen", entry.ask.collected_at, entry.agent, entry.ask.collected_door or "")
    elif reply.via == "thread" and entry.ask is not None:
        yield from _wake_steps(tx, reply.message_id or "", entry.agent)
        yield from _thread_reply_steps(tx, entry, entry.ask, reply)


def _wake_steps(tx: Transaction, message_id: str, agent: str) -> Iterator[EntryReceiptStep]:
    """Yield the announcements of a message to its agent: offered by which route, and put into the agent's context. The door is the route.

    Another agent may have named this message too: what it wrote is not shown.
    """
    for event in tx.fetch_all(tx.sql.events_of_subject, message_id=message_id, types="wake.%"):
        step = {"wake.offered": "reply_offered", "wake.injected": "reply_injected"}.get(event.event_type)
        if step is not None and event.source == agent:
            facts = jsontext.loads(event.payload_json)
            yield EntryReceiptStep(step, event.created_at, f"{facts['program']} {facts['session']}".strip(), facts["route"])


def _thread_reply_steps(tx: Transaction, entry: Entry, ask: Ask, reply: PersonReply) -> Iterator[EntryReceiptStep]:
    """Yield the "seen" step once the asking agent has read the thread up to the reply.

    Only the last reading is stored, so several replies may share its time.
    """
    message = tx.fetch_one(tx.sql.message_find, message_id=reply.message_id)
    read = tx.fetch_one(tx.sql.read_of_thread, agent=entry.agent, thread_id=ask.thread_id)
    if message is not None and read is not None and read.read_event_id >= message.event_id and read.read_at is not None:
        yield EntryReceiptStep("reply_seen", read.read_at, entry.agent, read.read_door or "")
