"""The mailbox verbs: enqueue a message, deliver it to one receiver at a time, and ack, nack or extend the delivery."""

from __future__ import annotations

import os

from postroom.core import checks, clock, limits, tracing
from postroom.core.errors import InvalidInput
from postroom.core.records.mail import (
    ACKED,
    DEAD_LETTER,
    IN_FLIGHT,
    PENDING,
    AckResult,
    Delivery,
    DeliveryRow,
    EnqueueAck,
    ExtendResult,
    MailMessage,
    NackResult,
)
from postroom.core.verbs import MESSAGE_SENDER, OWN_NAME, WRITE, verb
from postroom.mail import drafts, identity, transitions
from postroom.store import mail_values
from postroom.store.agents import check_acting_name
from postroom.store.retries import retry_on_contention

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Any

    from postroom.core.records.mail import DeliveryContents
    from postroom.mail.transitions import LockedMailbox
    from postroom.store.interface import Store, Transaction


@verb(caller=MESSAGE_SENDER, access=OWN_NAME, mode=WRITE)
@retry_on_contention
def enqueue(store: Store, message: Mapping[str, Any], *, strict: bool = False) -> EnqueueAck:
    """Store a message for its receiver.

    Fields are in snake_case or camelCase. Unknown fields are kept. A repeat (the same sender, id, recipient and payload) is not
    stored again, even after the message was acked or purged: then `queued` is false. A message without an id gets
    `{from}:{nanoseconds}`. Refuses with `InvalidInput` and the name of the field, and with `IdConflict` if the sender has used
    the id for another message. The note says if the receiver was never seen and resembles a name that was. `strict` refuses every
    receiver that was never seen, with `NotFound`.
    """
    draft = drafts.parse_message(message)
    with store.write() as tx:
        return store_drafts(tx, [draft], strict=strict)[0]


@verb(caller=MESSAGE_SENDER, access=OWN_NAME, mode=WRITE)
def enqueue_all(store: Store, messages: Iterable[Mapping[str, Any]], *, strict: bool = False) -> tuple[EnqueueAck, ...]:
    """Store up to 1,000 messages in one transaction: all of them, or none if one is refused. `strict` is that of `enqueue`."""
    # Parse outside of the retried function: an iterator is empty on the second attempt.
    parsed = [_parse_numbered(number, message) for number, message in enumerate(checks.items("messages", messages), 1)]
    if sum(len(draft.payload) for draft in parsed) > limits.MAX_BATCH_BYTES:
        raise InvalidInput(
            f"the messages are larger than {checks.size_text(limits.MAX_BATCH_BYTES)}", field="messages", hint="Send several batches."
        )
    return _store_all(store, parsed, strict)


@retry_on_contention
def _store_all(store: Store, parsed: list[drafts.Draft], strict: bool) -> tuple[EnqueueAck, ...]:
    with store.write() as tx:
        return tuple(store_drafts(tx, parsed, strict=strict))


def _parse_numbered(number: int, message: Mapping[str, Any]) -> drafts.Draft:
    """Parse one message of several. A refusal names its number, from 1 on."""
    try:
        return drafts.parse_message(message)
    except InvalidInput as refusal:
        raise InvalidInput(f"message {number}: {refusal}", hint=refusal.hint, number=number, **refusal.facts) from None


def store_drafts(tx: Transaction, parsed: list[drafts.Draft], *, strict: bool = False) -> list[EnqueueAck]:
    """Store drafts in this transaction. Each mailbox is locked once and written back once. `strict` is that of `enqueue`."""
    opened: dict[str, LockedMailbox | None] = {}
    sessions: dict[str, str] = {}  # by the names that the senders wrote
    acks = []
    steps = []
    nanosecond = 0
    for sender in {draft.sender for draft in parsed}:
        check_acting_name(tx, "from", sender)
    if len(parsed) == 1 and parsed[0].msg_id is not None:
        tx.prefetch(tx.sql.mailbox_lock_named, name=parsed[0].to)
        tx.prefetch(tx.sql.delivery_known, msg_id=parsed[0].msg_id, sender=parsed[0].sender)
    for draft in parsed:
        if draft.to not in sessions:
            sessions[draft.to] = _open_for_sender(tx, draft.to, opened)
        session = sessions[draft.to]
        locked = opened[session]
        if draft.msg_id is not None and identity.is_repeat(tx, draft, session):
            acks.append(EnqueueAck(draft.msg_id, False, locked.counts["pending"] if locked else 0))
            continue
        note = ""
        if locked is None:
            from postroom.mail.receivers import note_new_receiver  # most messages go to a mailbox that exists

            note = note_new_receiver(tx, draft.to, strict=strict) if session == draft.to else ""
            locked = opened[session] = transitions.open_mailbox(tx, session)
        msg_id = draft.msg_id
        if msg_id is None:
            nanosecond = _free_nanosecond(tx, draft.sender, nanosecond or tx.now() * 1000)
            msg_id = f"{draft.sender}:{nanosecond}"
        store_draft(tx, locked, draft, msg_id)
        acks.append(EnqueueAck(msg_id, True, locked.counts["pending"], note))
        payload = {"session": session, "from": draft.sender, "state": "pending", "attempt": 0}
        steps.append((draft.sender, msg_id, payload if session == draft.to else {**payload, "alias": draft.to}))
    for locked in filter(None, opened.values()):
        locked.write_back()
    for sender, msg_id, payload in steps:
        transitions.append_mail_event(tx, str(payload["session"]), "stored", source=sender, msg_id=msg_id, payload=payload)
    return acks


def _open_for_sender(tx: Transaction, name: str, opened: dict[str, LockedMailbox | None]) -> str:
    """Lock the mailbox that a sender named, and apply its overdue moves. Returns its session, under which it is in `opened`."""
    locked = transitions.lock_named_mailbox(tx, name)
    session = identity.resolve_session(tx, name) if locked is None else locked.session
    if session not in opened:
        opened[session] = locked
        if locked is not None:
            transitions.apply_overdue_moves(tx, locked)
    return session


def store_draft(tx: Transaction, locked: LockedMailbox, draft: drafts.Draft, msg_id: str) -> None:
    """Insert a message behind the other messages of its sender.

    The rank is at most the current time, so that a sender whose clock is ahead does not fall behind later messages.
    """
    now = tx.now() // clock.MICROSECONDS_PER_SECOND
    created_at = now if draft.created_at is None else draft.created_at
    expires_at = locked.expiry_instant()
    tx.execute(
        tx.sql.delivery_insert,
        msg_id=msg_id,
        session=locked.session,
        sender=draft.sender,
        created_at=mail_values.encode_created_at(created_at),
        rank=min(created_at, now),
        now=tx.now(),
        expires_at=expires_at,
        door=tx.door,
        extra_json=drafts.add_trace(draft.extra_json, tracing.current_traceparent()),
        payload=mail_values.encode_payload(draft.payload),
    )
    locked.count_move(None, "pending")
    locked.note_due_at(expires_at)


def _free_nanosecond(tx: Transaction, sender: str, nanosecond: int) -> int:
    """Return the first nanosecond, from the given one on, that no id of this sender uses."""
    while tx.fetch_one(tx.sql.delivery_known, msg_id=f"{sender}:{nanosecond}", sender=sender) is not None:
        nanosecond += 1
    return nanosecond


@verb(caller="session", access=OWN_NAME, mode=WRITE)
def dequeue(store: Store, session: str, *, receiver: str | None = None) -> Delivery | None:
    """Take the next message of a mailbox. It is in flight from now on. Returns None if there is no message to take.

    Only the first unfinished message of each sender is offered. Among senders, the oldest `created_at` is first. A message that
    is not acked before `in_flight_until` is nacked by the store. `receiver` is recorded in the receipt.
    """
    checks.name("session", session)
    taker = _receiver_name(receiver)
    while True:
        delivery, retry = _take_next(store, session, taker)
        if delivery is not None or not retry:
            return delivery


@retry_on_contention
def _take_next(store: Store, session: str, receiver: str) -> tuple[Delivery | None, bool]:
    """Take the next message, if there is one. If not, also return whether to call again.

    One transaction makes a limited number of overdue moves. The remaining ones may leave a message to take.
    """
    with store.write() as tx:
        tx.prefetch(tx.sql.mailbox_lock_named, name=session)
        tx.prefetch(tx.sql.delivery_offer, session=session)
        locked = transitions.lock_named_mailbox(tx, session)
        if locked is None:
            return None, False
        more = transitions.apply_overdue_moves(tx, locked)
        offered = _offer_first(tx, locked, receiver)
        locked.write_back()
        return (None, more) if offered is None else (offered[0], False)


def _offer_first(tx: Transaction, locked: LockedMailbox, receiver: str) -> tuple[Delivery, DeliveryRow] | None:
    """Put the first message of a mailbox in flight. Returns its delivery and its row, or None if there is no message to take."""
    first = tx.fetch_one(tx.sql.delivery_offer, session=locked.session)
    if first is None or (first.delivery.due_at is not None and first.delivery.due_at <= tx.now()):
        return None
    token = tx.new_id("dlv")
    until = locked.in_flight_until()
    taken = transitions.move_message(tx, locked, first.delivery, IN_FLIGHT, at=tx.now(), move_at=until, delivery_token=token)
    transitions.append_step_event(tx, taken, "offered", source=receiver, receiver=receiver, door=tx.door)
    return Delivery(build_message(taken, first.contents), token, clock.format_stamp(taken.due_at or until)), taken


def take_and_ack_all(
    tx: Transaction, session: str, *, receiver: str, limit: int, upto: int | None = None
) -> list[tuple[MailMessage, DeliveryRow]]:
    """Take and ack at most `limit` messages of a mailbox, in this transaction. Stops after `MAX_RECEIVED_BYTES` of payloads.

    `session` is not resolved as an alias.

    For a caller that stores the messages in the same transaction and so cannot lose them. With `upto`, an instant in
    microseconds, stop at the first message that was stored later.
    """
    locked = transitions.lock_mailbox(tx, session)
    if locked is None:
        return []
    transitions.apply_overdue_moves(tx, locked)
    taken: list[tuple[MailMessage, DeliveryRow]] = []
    size = 0
    while (
        len(taken) < limit
        and size < limits.MAX_RECEIVED_BYTES
        and _is_first_stored_by(tx, locked, upto)
        and (offered := _offer_first(tx, locked, receiver)) is not None
    ):
        delivery, row = offered
        _ack_delivery(tx, locked, row)
        taken.append((delivery.message, row))
        size += len(delivery.message.payload)
    locked.write_back()
    return taken


def _is_first_stored_by(tx: Transaction, locked: LockedMailbox, upto: int | None) -> bool:
    if upto is None:
        return True
    first = tx.fetch_one(tx.sql.delivery_offer, session=locked.session)
    return first is not None and first.delivery.stored_at <= upto


def _receiver_name(named: str | None) -> str:
    return f"{os.uname().nodename}:{os.getpid()}" if named is None else checks.name("receiver", named)


@verb(caller="session", access=OWN_NAME, mode=WRITE)
@retry_on_contention
def ack(store: Store, session: str, msg_id: str, *, delivery_token: str | None = None, sent_by: str | None = None) -> AckResult:
    """Acknowledge a message. A second ack changes nothing. Refuses with `DeliveryLost` if the token is not the current one.

    `sent_by` is the sender, as in `nack` and `extend`. It is necessary only if two senders used the id, and no token is given.
    """
    with store.write() as tx:
        locked, row = identity.lock_delivery(tx, session, msg_id, sent_by, delivery_token)
        acked = _ack_delivery(tx, locked, row)
        locked.write_back()
        return acked


@verb(caller="session", access=OWN_NAME, mode=WRITE)
@retry_on_contention
def ack_and_dequeue(
    store: Store,
    session: str,
    msg_id: str,
    *,
    delivery_token: str | None = None,
    receiver: str | None = None,
    sent_by: str | None = None,
) -> tuple[AckResult, Delivery | None]:
    """Ack a message and take the next one, in one transaction. This costs half of an `ack` and a `dequeue`."""
    taker = _receiver_name(receiver)
    with store.write() as tx:
        locked, row = identity.lock_delivery(tx, session, msg_id, sent_by, delivery_token)
        acked = _ack_delivery(tx, locked, row)
        offered = _offer_first(tx, locked, taker)
        locked.write_back()
        return acked, None if offered is None else offered[0]


def _ack_delivery(tx: Transaction, locked: LockedMailbox, row: DeliveryRow) -> AckResult:
    if row.state == ACKED:
        return AckResult(row.msg_id, ACKED, False)
    _require_in_flight(row)
    transitions.append_step_event(tx, transitions.move_message(tx, locked, row, ACKED, at=tx.now()), "acked", door=tx.door)
    return AckResult(row.msg_id, ACKED, True)


@verb(caller="session", access=OWN_NAME, mode=WRITE)
@retry_on_contention
def nack(
    store: Store, session: str, msg_id: str, reason: str = "", *, delivery_token: str | None = None, sent_by: str | None = None
) -> NackResult:
    """Reject a message. It is delivered again after its backoff, or becomes a dead letter after the last retry.

    A message that is acked or a dead letter does not change. Refuses with `DeliveryLost` if the token is not the current one.
    """
    checks.reason("reason", reason)
    with store.write() as tx:
        locked, row = identity.lock_delivery(tx, session, msg_id, sent_by, delivery_token)
        if row.state in (ACKED, DEAD_LETTER):
            locked.write_back()  # `lock_delivery` may have moved other messages
            return NackResult(msg_id, row.state, False, None)
        _require_in_flight(row)
        nacked = transitions.nack_message(tx, locked, row, at=tx.now(), reason=reason, by="receiver")
        locked.write_back()
        return NackResult(msg_id, nacked.state, True, None if nacked.move_at is None else clock.format_stamp(nacked.move_at))


@verb(caller="session", access=OWN_NAME, mode=WRITE)
@retry_on_contention
def release(store: Store, session: str, msg_id: str, *, delivery_token: str | None = None, sent_by: str | None = None) -> NackResult:
    """Give a message back as if it had not been taken: it is pending at once, and no attempt is counted.

    Refuses with `InvalidState` if it is not in flight, and with `DeliveryLost` if the token is not the current one.
    """
    with store.write() as tx:
        locked, row = identity.lock_delivery(tx, session, msg_id, sent_by, delivery_token)
        _require_in_flight(row)
        released = transitions.move_message(tx, locked, row, PENDING, at=tx.now(), delivery_token=None)
        transitions.append_step_event(tx, released, "released")
        locked.write_back()
        return NackResult(msg_id, released.state, True, None)


@verb(caller="session", access=OWN_NAME, mode=WRITE)
@retry_on_contention
def extend(
    store: Store,
    session: str,
    msg_id: str,
    *,
    seconds: float | None = None,
    delivery_token: str | None = None,
    sent_by: str | None = None,
) -> ExtendResult:
    """Restart the in-flight time of a message, with `seconds` or else the policy's timeout. It never exceeds the TTL."""
    if seconds is not None:
        checks.seconds("seconds", seconds)
    with store.write() as tx:
        locked, row = identity.lock_delivery(tx, session, msg_id, sent_by, delivery_token)
        _require_in_flight(row)
        until = locked.in_flight_until(seconds)
        extended = transitions.move_message(tx, locked, row, IN_FLIGHT, at=tx.now(), move_at=until)
        locked.write_back()
        in_flight_until = clock.format_stamp(extended.due_at or until)
        transitions.append_step_event(tx, extended, "extended", in_flight_until=in_flight_until)
        return ExtendResult(msg_id, in_flight_until)


def build_message(row: DeliveryRow, contents: DeliveryContents) -> MailMessage:
    """Build the message that a receiver gets from its stored parts."""
    return MailMessage(row.msg_id, row.sender, row.session, contents.payload, row.created_at, row.attempt, contents.extra_json)


def _require_in_flight(row: DeliveryRow) -> None:
    if row.state != IN_FLIGHT:
        raise identity.wrong_state_error(
            row.msg_id, row.state, "Only a message in flight can be acked, nacked or extended; dequeue it first."
        )
