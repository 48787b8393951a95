"""Read the messages to an agent. They are taken and acked in one transaction, so that none comes twice. Old replies can be read again."""

from __future__ import annotations

from postroom.core import checks, clock, limits
from postroom.core.errors import InvalidInput
from postroom.core.records.handovers import ReceivedMessage, ReceivedPage
from postroom.core.states import UNVERIFIED_DOORS
from postroom.core.verbs import OWN_NAME, READ, WRITE, verb
from postroom.mail import mailbox
from postroom.mail.drafts import REPLY_ID_PREFIX
from postroom.mail.mailbox import build_message
from postroom.people.questions import asking, due_questions
from postroom.store.agents import note_seen
from postroom.store.retries import retry_on_contention

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from postroom.core.records.mail import DeliveryRow, MailMessage, StoredMessage
    from postroom.core.records.people import Entry, PersonReply
    from postroom.store.interface import Store, Transaction

    OldCursor = tuple[str, str, int]  # a place in the replies of an agent, by time and id, and in its acked mail, by delivery id

_NEWEST_OLD = ("~", "", checks.AFTER_ALL_IDS)  # the text sorts behind every time
_CURSOR_SEPARATOR = "|"  # in no time and no id
_ACKED_PER_STEP = 10  # each may have 10 MiB


@verb(caller="agent", access=OWN_NAME, mode=WRITE)
def read_messages(store: Store, *, agent: str, limit: int = 20) -> tuple[ReceivedMessage, ...]:
    """Take the messages to an agent, oldest first: its mail, and the answers to questions that it did not wait for.

    Takes at most `limit`, and no more after `MAX_RECEIVED_BYTES`. The next call returns the others.
    """
    checks.name("agent", agent)
    checks.limit("limit", limit)
    due_questions.sync(store)
    return _take_messages(store, agent, limit)


@retry_on_contention
def _take_messages(store: Store, agent: str, limit: int) -> tuple[ReceivedMessage, ...]:
    with store.write() as tx:
        received: list[ReceivedMessage] = []
        for entry in lock_uncollected(tx, agent, limit):
            answer = answer_message(entry)
            received += _take_mail(tx, agent, limit - len(received), upto=clock.parse_stamp(answer.at))
            if len(received) == limit or size_of(received) >= limits.MAX_RECEIVED_BYTES:
                break
            asking.write_collected(tx, entry)
            received.append(answer)
        if size_of(received) < limits.MAX_RECEIVED_BYTES:
            received += _take_mail(tx, agent, limit - len(received))
        note_seen(tx, "agent", agent)
    return tuple(received)


def lock_uncollected(tx: Transaction, agent: str, limit: int) -> list[Entry]:
    """Lock and return the oldest answers that an agent has not collected, and that are not handed to it now.

    They are read again once they are locked: on PostgreSQL, another receiver of the agent may have got them before.
    """
    locked: set[str] = set()
    while True:
        found = tx.fetch_all(tx.sql.asks_uncollected, agent=agent, now=tx.now(), limit=limit)
        new_ids = [entry.id for entry in found if entry.id not in locked]
        if not new_ids:
            return found
        for entry_id in new_ids:
            tx.fetch_one(tx.sql.entry_lock, id=entry_id)
        locked.update(new_ids)


def _take_mail(tx: Transaction, agent: str, limit: int, *, upto: int | None = None) -> list[ReceivedMessage]:
    """Take up to `limit` messages from the agent's mailbox. `upto`, in microseconds, takes only those stored by then."""
    taken = mailbox.take_and_ack_all(tx, agent, receiver=agent, limit=limit, upto=upto) if limit else []
    return [mail_message(tx, message, delivery) for message, delivery in taken]


def size_of(received: list[ReceivedMessage]) -> int:
    """Return the characters of the messages together."""
    return sum(len(message.body) for message in received)


def has_messages(tx: Transaction, *, agent: str) -> bool:
    """Return whether there is a message to receive. This only reads, so it does not wait for writers."""
    from postroom.mail.waiting import is_message_ready

    return bool(tx.fetch_all(tx.sql.asks_uncollected, agent=agent, now=tx.now(), limit=1)) or is_message_ready(tx, agent)


@verb(caller="agent", access=OWN_NAME, mode=READ)
def old_messages(store: Store, *, agent: str, limit: int = 20, after: str | None = None) -> ReceivedPage:
    """Return the messages that an agent received before, newest first, for an agent that lost a response. Changes nothing.

    `after` is the cursor of a page. A page ends early after `MAX_RECEIVED_BYTES`.
    """
    checks.name("agent", agent)
    checks.limit("limit", limit)
    start = _NEWEST_OLD if after is None else _parse_old_cursor(after)
    with store.read() as tx:
        replies = tx.fetch_all(tx.sql.replies_of_agent, agent=agent, limit=limit + 1, before_at=start[0], before_id=start[1])
        decisions = {reply.reply_id: _find_decision(tx, reply) for reply in replies}
        acked = _read_acked(tx, agent, limit + 1, start[2])
        mail = [(mail_message(tx, build_message(one.delivery, one.contents), one.delivery), one.delivery.delivery_id) for one in acked]
    return _merge_old([_old_reply(reply, decisions[reply.reply_id]) for reply in replies], mail, limit, start)


def _parse_old_cursor(after: str) -> OldCursor:
    parts = after.split(_CURSOR_SEPARATOR) if isinstance(after, str) else []
    if len(parts) != 3 or not (parts[2].isascii() and parts[2].isdigit()):
        raise InvalidInput("after is not the cursor of old messages", field="after", hint="Pass `after` of the page before.")
    reply_id = checks.name("after", parts[1]) if parts[1] else ""
    return checks.name("after", parts[0]), reply_id, min(int(parts[2][:20]), checks.AFTER_ALL_IDS)


def _find_decision(tx: Transaction, reply: PersonReply) -> dict[str, Any] | None:
    """Return what a reply decided about a proposal."""
    ask = tx.fetch_one(tx.sql.ask_find, entry_id=reply.entry_id) if reply.via == "answer" else None
    return ask.decision if ask is not None and ask.answer_id == reply.reply_id else None


def _merge_old(replies: list[ReceivedMessage], mail: list[tuple[ReceivedMessage, int]], limit: int, start: OldCursor) -> ReceivedPage:
    """Return the newest of both, and the cursor behind them. Mail that carries a reply is left out: the reply is in the list."""
    merged: list[ReceivedMessage] = []
    (at, reply_id, delivery_id), size = start, 0
    replies, mail = replies[::-1], mail[::-1]  # the newest last, to pop them
    while (replies or mail) and len(merged) < limit and size < limits.MAX_RECEIVED_BYTES:
        if mail and (not replies or mail[-1][0].at >= replies[-1].at):
            message, delivery_id = mail.pop()
            if message.kind != "mail":
                continue
        else:
            message = replies.pop()
            at, reply_id = message.at, message.id
        merged.append(message)
        size += len(message.body)
    more = bool(replies or mail)
    return ReceivedPage(tuple(merged), more, _CURSOR_SEPARATOR.join((at, reply_id, str(delivery_id))) if more else None)


def _old_reply(reply: PersonReply, decision: dict[str, Any] | None) -> ReceivedMessage:
    told = (reply.reply_id, reply.person, reply.body, reply.entry_id, reply.created_at)
    return ReceivedMessage("reply", *told, is_verified(reply.door), decision, reply.door)


def _read_acked(tx: Transaction, agent: str, limit: int, before: int) -> list[StoredMessage]:
    """Return the newest acked messages of a mailbox, in small steps: at most `limit`, and one more after `MAX_RECEIVED_BYTES`."""
    read: list[StoredMessage] = []
    size = 0
    while len(read) < limit:
        before = read[-1].delivery.delivery_id if read else before
        step = tx.fetch_all(tx.sql.deliveries_acked, session=agent, before=before, limit=min(limit - len(read), _ACKED_PER_STEP))
        for stored in step:
            read.append(stored)
            if size >= limits.MAX_RECEIVED_BYTES:
                return read  # the last one is not shown: it says that there are more
            size += len(stored.contents.payload)
        if len(step) < _ACKED_PER_STEP:
            break
    return read


def answer_message(entry: Entry) -> ReceivedMessage:
    ask = entry.ask
    assert ask is not None
    body = "" if ask.answer is None else ask.answer
    return ReceivedMessage(
        ask.state if ask.state != "answered" else "answer",
        entry.id,
        ask.answered_by or "",
        body,
        entry.id,
        ask.answered_at or "",
        ask.answered_door is not None and is_verified(ask.answered_door),  # no door is recorded for the outcome of silence
        ask.decision,
        ask.answered_door or "",
    )


def mail_message(tx: Transaction, message: MailMessage, delivery: DeliveryRow) -> ReceivedMessage:
    """Return a message of a mailbox: a person's reply to an entry, or mail from another agent."""
    reply = find_reply(tx, message.msg_id, message.sender)
    kind, entry_id = ("mail", None) if reply is None else ("reply", reply.entry_id)
    at = clock.format_stamp(delivery.stored_at)
    return ReceivedMessage(
        kind, message.msg_id, message.sender, message.payload, entry_id, at, is_verified(delivery.door), None, delivery.door
    )


def find_reply(tx: Transaction, msg_id: str, sender: str) -> PersonReply | None:
    """Return the stored reply that a message carries. The content of a message does not make it a reply: its sender wrote that."""
    if not msg_id.startswith(REPLY_ID_PREFIX):
        return None
    reply = tx.fetch_one(tx.sql.reply_find, reply_id=msg_id.removeprefix(REPLY_ID_PREFIX))
    return reply if reply is not None and (reply.message_id, reply.person) == (msg_id, sender) else None


def is_verified(door: str) -> bool:
    return door not in UNVERIFIED_DOORS
