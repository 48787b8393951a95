"""The mailbox: a message comes in, is handed to one receiver at a time, and is acknowledged, or comes again."""

from __future__ import annotations

import os

from postroom.core import checks, clock
from postroom.core.errors import DeliveryLost, InvalidInput, InvalidState, NotFound
from postroom.core.letters import ACKED, DEAD_LETTER, IN_FLIGHT, Acked, Delivery, EnqueueAck, Extended, MailMessage, Nacked, Parcel
from postroom.core.verbs import verb
from postroom.core.words import quoted
from postroom.mail import boxes, drafts
from postroom.mail.boxes import PARCEL_FIELDS, Box
from postroom.store.attempts import retried

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Any

    from postroom.store.port import Store, Transaction


@verb
@retried
def enqueue(store: Store, message: Mapping[str, Any]) -> EnqueueAck:
    """Store a message for its receiver.

    Fields in snake_case or camelCase; unknown ones are kept. An id that was ever seen, by any mailbox, whatever became of it, is
    not stored again: `queued` is false then. Without an id, it gets `{from}:{nanoseconds}`.
    """
    draft = drafts.read(message)
    with store.write() as tx:
        return put_all(tx, [draft])[0]


@verb
def enqueue_all(store: Store, messages: Iterable[Mapping[str, Any]]) -> tuple[EnqueueAck, ...]:
    """Store many messages in one transaction: all of them, or none if one is refused."""
    # Read once, outside of what is tried again: an iterator has nothing left the second time.
    return _store_all(store, [_numbered(number, message) for number, message in enumerate(messages, 1)])


@retried
def _store_all(store: Store, read: list[drafts.Draft]) -> tuple[EnqueueAck, ...]:
    with store.write() as tx:
        return tuple(put_all(tx, read))


def _numbered(number: int, message: Mapping[str, Any]) -> drafts.Draft:
    try:
        return drafts.read(message)
    except InvalidInput as refusal:
        raise InvalidInput(f"message {number}: {refusal}", hint=refusal.hint, number=number, **refusal.facts) from None


def put_all(tx: Transaction, read: list[drafts.Draft]) -> list[EnqueueAck]:
    """Store drafts in this transaction. Each mailbox is opened once and closed once, however many messages it gets."""
    opened: dict[str, Box | None] = {}
    acks, steps = [], []
    instant = tx.now() * 1000
    for draft in read:
        alias = tx.one(tx.sql.alias_find, name=draft.to)
        session = alias[0] if alias else draft.to
        if session not in opened:
            box = opened[session] = boxes.locked(tx, session)
            if box is not None:
                boxes.carry_out(tx, box)
        box = opened[session]
        if draft.msg_id is not None and _known(tx, draft.msg_id):
            acks.append(EnqueueAck(draft.msg_id, False, box.counts["pending"] if box else 0))
            continue
        if box is None:
            box = opened[session] = boxes.opened(tx, session)
        msg_id = draft.msg_id
        if msg_id is None:
            instant = _free_nanosecond(tx, draft.sender, instant)
            msg_id = f"{draft.sender}:{instant}"
        store_draft(tx, box, draft, msg_id)
        acks.append(EnqueueAck(msg_id, True, box.counts["pending"]))
        payload = {"session": session, "from": draft.sender, "state": "pending", "attempt": 0}
        steps.append((draft.sender, msg_id, {**payload, "alias": draft.to} if alias else payload))
    for box in filter(None, opened.values()):
        box.close()
    for sender, msg_id, payload in steps:
        boxes.announce(tx, str(payload["session"]), "stored", source=sender, msg_id=msg_id, payload=payload)
    return acks


def store_draft(tx: Transaction, box: Box, draft: drafts.Draft, msg_id: str) -> None:
    """Put a message at the tail of its pair. A sender's clock that is ahead does not put it behind what came later."""
    now = tx.now() // clock.SECOND
    created_at = now if draft.created_at is None else draft.created_at
    expires_at = box.expiry()
    tx.run(
        tx.sql.delivery_insert,
        msg_id=msg_id,
        session=box.session,
        sender=draft.sender,
        created_at=created_at,
        rank=min(created_at, now),
        now=tx.now(),
        expires_at=expires_at,
        door=tx.door,
        extra_json=draft.extra_json,
        payload=draft.payload,
    )
    box.count(None, "pending")
    box.expect(expires_at)


def _known(tx: Transaction, msg_id: str) -> bool:
    return tx.one(tx.sql.delivery_known, msg_id=msg_id) is not None


def _free_nanosecond(tx: Transaction, sender: str, instant: int) -> int:
    """The first, from an instant on, at which this sender made no id yet."""
    while _known(tx, f"{sender}:{instant}"):
        instant += 1
    return instant


@verb
def dequeue(store: Store, session: str, *, receiver: str | None = None) -> Delivery | None:
    """Take the next message of a mailbox: in flight from now on. None if there is none to take.

    Of each sender only the first that has not ended is offered; among senders, the oldest `created_at` goes first. It must be acked
    before `in_flight_until`, or it is nacked by itself. `receiver` is for the receipt.
    """
    checks.name("session", session)
    taker = _receiver(receiver)
    while True:
        delivery, look_again = _take(store, session, taker)
        if delivery is not None or not look_again:
            return delivery


@retried
def _take(store: Store, session: str, receiver: str) -> tuple[Delivery | None, bool]:
    """The next message, if there is one; else whether so much was due that there may be one after another look."""
    with store.write() as tx:
        box = boxes.locked(tx, session)
        if box is None:
            return None, False
        more = boxes.carry_out(tx, box)
        delivery = _offer(tx, box, receiver)
        box.close()
        return delivery, more and delivery is None


def _offer(tx: Transaction, box: Box, receiver: str) -> Delivery | None:
    """Hand the first message of a mailbox to a receiver, if there is one."""
    row = tx.one(tx.sql.delivery_offer, session=box.session)
    offered = None if row is None else Parcel(*row[:PARCEL_FIELDS])
    if row is None or offered is None or (offered.due_at is not None and offered.due_at <= tx.now()):
        return None
    token = tx.fresh("dlv")
    until = box.in_flight_until()
    taken = boxes.move(tx, box, offered, IN_FLIGHT, at=tx.now(), move_at=until, delivery_token=token)
    boxes.tell(tx, taken, "offered", source=receiver, receiver=receiver, door=tx.door)
    return Delivery(message_of(taken, *row[PARCEL_FIELDS:]), token, clock.stamp(taken.due_at or until))


def take_all(tx: Transaction, session: str, *, receiver: str, limit: int, upto: int | None = None) -> list[tuple[MailMessage, Parcel]]:
    """Take and ack what waits in a mailbox, in this transaction: for who reads it at once and cannot lose it after.

    With `upto`, only what is offered first and was stored by then.
    """
    box = boxes.locked(tx, session)
    if box is None:
        return []
    boxes.carry_out(tx, box)
    taken: list[tuple[MailMessage, Parcel]] = []
    while len(taken) < limit and _offered_by(tx, box, upto) and (delivery := _offer(tx, box, receiver)) is not None:
        row = tx.one(tx.sql.delivery_find, msg_id=delivery.message.msg_id)
        assert row is not None
        _ack(tx, box, Parcel(*row))
        taken.append((delivery.message, Parcel(*row)))
    box.close()
    return taken


def _offered_by(tx: Transaction, box: Box, upto: int | None) -> bool:
    row = None if upto is None else tx.one(tx.sql.delivery_offer, session=box.session)
    return upto is None or (row is not None and Parcel(*row[:PARCEL_FIELDS]).stored_at <= upto)


def _receiver(named: str | None) -> str:
    return f"{os.uname().nodename}:{os.getpid()}" if named is None else checks.name("receiver", named)


@verb
@retried
def ack(store: Store, session: str, msg_id: str, *, delivery_token: str | None = None) -> Acked:
    """Delivered. Said twice, the second time changes nothing. `DeliveryLost` if the token is not the current delivery's."""
    with store.write() as tx:
        box, parcel = _addressed(tx, session, msg_id, delivery_token)
        acked = _ack(tx, box, parcel)
        box.close()
        return acked


@verb
@retried
def ack_and_dequeue(
    store: Store, session: str, msg_id: str, *, delivery_token: str | None = None, receiver: str | None = None
) -> tuple[Acked, Delivery | None]:
    """Ack a message and take the next, in one transaction: half the cost of a receiver's loop."""
    taker = _receiver(receiver)
    with store.write() as tx:
        box, parcel = _addressed(tx, session, msg_id, delivery_token)
        acked = _ack(tx, box, parcel)
        delivery = _offer(tx, box, taker)
        box.close()
        return acked, delivery


def _ack(tx: Transaction, box: Box, parcel: Parcel) -> Acked:
    if parcel.state == ACKED:
        return Acked(parcel.msg_id, ACKED, False)
    _in_flight(parcel)
    boxes.tell(tx, boxes.move(tx, box, parcel, ACKED, at=tx.now()), "acked", door=tx.door)
    return Acked(parcel.msg_id, ACKED, True)


@verb
@retried
def nack(store: Store, session: str, msg_id: str, reason: str = "", *, delivery_token: str | None = None) -> Nacked:
    """Not delivered: it comes again after its backoff, or is dead after the last retry. Of one that ended so, nothing changes."""
    checks.text("reason", reason)
    with store.write() as tx:
        box, parcel = _addressed(tx, session, msg_id, delivery_token)
        if parcel.state in (ACKED, DEAD_LETTER):
            box.close()  # something else may have fallen due
            return Nacked(msg_id, parcel.state, False, None)
        _in_flight(parcel)
        nacked = boxes.nack(tx, box, parcel, at=tx.now(), reason=reason, by="receiver")
        box.close()
        return Nacked(msg_id, nacked.state, True, None if nacked.move_at is None else clock.stamp(nacked.move_at))


@verb
@retried
def extend(store: Store, session: str, msg_id: str, *, seconds: float | None = None, delivery_token: str | None = None) -> Extended:
    """Still at it: the in-flight time starts anew, by the policy's length or this many seconds, and never beyond the TTL."""
    if seconds is not None:
        checks.seconds("seconds", seconds)
    with store.write() as tx:
        box, parcel = _addressed(tx, session, msg_id, delivery_token)
        _in_flight(parcel)
        until = box.in_flight_until(seconds)
        extended = boxes.move(tx, box, parcel, IN_FLIGHT, at=tx.now(), move_at=until)
        box.close()
        in_flight_until = clock.stamp(extended.due_at or until)
        boxes.tell(tx, extended, "extended", in_flight_until=in_flight_until)
        return Extended(msg_id, in_flight_until)


def message_of(parcel: Parcel, extra_json: str, payload: str) -> MailMessage:
    return MailMessage(parcel.msg_id, parcel.sender, parcel.session, payload, parcel.created_at, parcel.attempt, extra_json)


def found(tx: Transaction, session: str, msg_id: str) -> tuple[Box, Parcel]:
    """A mailbox with what is due carried out, and a message of it, or what is remembered of one; else it was never there."""
    checks.name("session", session)
    checks.name("msg_id", msg_id, longest=drafts.ID_LENGTH)
    box = boxes.locked(tx, session)
    if box is not None:
        boxes.carry_out(tx, box)
        row = tx.one(tx.sql.delivery_find, msg_id=msg_id)
        if row is not None and row[2] == session:
            return box, boxes.settle(tx, box, Parcel(*row))
        gone = tx.one(tx.sql.mail_id_find, msg_id=msg_id) if row is None else None
        if gone is not None and gone[0] == session:
            return box, _remembered(msg_id, session, gone[1])
    raise NotFound(
        f"there is no message {msg_id} in the mailbox {session}", hint=f"See `mailbox peek --session {quoted(session)}`.", msg_id=msg_id
    )


def not_allowed(msg_id: str, state: str, hint: str) -> InvalidState:
    return InvalidState(f"{msg_id} is {state}", hint=hint, msg_id=msg_id, state=state)


def _addressed(tx: Transaction, session: str, msg_id: str, delivery_token: str | None) -> tuple[Box, Parcel]:
    """The message that a receiver speaks of, if it may."""
    box, parcel = found(tx, session, msg_id)
    if not parcel.delivery_id:
        if parcel.state != ACKED:
            raise not_allowed(msg_id, parcel.state, "Nothing is left to do for it.")
        return box, parcel
    if delivery_token is not None and delivery_token != parcel.delivery_token:
        raise DeliveryLost(
            f"this delivery of {msg_id} is over: it timed out, or another followed it",
            hint="Stop working on it: it comes again, to whoever asks first.",
            msg_id=msg_id,
            state=parcel.state,
        )
    return box, parcel


def _remembered(msg_id: str, session: str, state: str) -> Parcel:
    """What is left of a message that was purged or forgotten: its id and its state. Without a delivery_id: it is in no mailbox."""
    return Parcel(0, msg_id, session, "", 0, 0, state, 0, 0, None, 0, 0, None, None, None, 0, "", "")


def _in_flight(parcel: Parcel) -> None:
    if parcel.state != IN_FLIGHT:
        raise not_allowed(parcel.msg_id, parcel.state, "Only a message in flight can be acked, nacked or extended; dequeue it first.")
