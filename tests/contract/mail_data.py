"""Data for tests of the mailbox: a message that was posted, one in flight, one in any state that there is."""

from __future__ import annotations

from typing import Any, NamedTuple

from postroom import mail
from postroom.core import clock as time
from postroom.core.records.mail import Delivery
from postroom.store.interface import Store
from tests.conftest import Clock
from tests.contract.thread_data import events

BOX = "box"
LIVE = ("pending", "in_flight", "nacked")
STATES = (*LIVE, "acked", "dead_letter", "expired")  # the document's
DAY = 86_400


class ArrangedMessage(NamedTuple):
    """A message, and the token of its latest delivery, if it ever had one."""

    msg_id: str
    token: str | None


def message(payload: str = "hello", *, sender: str = "ann", to: str = BOX, **fields: Any) -> dict[str, Any]:
    return {"from": sender, "to": to, "payload": payload, **fields}


def post(store: Store, payload: str = "hello", *, sender: str = "ann", to: str = BOX, **fields: Any) -> str:
    """The id of a new pending message."""
    told = mail.enqueue(store, message(payload, sender=sender, to=to, **fields))
    assert told.queued
    return told.msg_id


def taken(store: Store, session: str = BOX) -> Delivery:
    """The next delivery; there is one."""
    delivery = mail.dequeue(store, session)
    assert delivery is not None
    return delivery


def held(store: Store, session: str = BOX) -> ArrangedMessage:
    """A new message, in flight."""
    post(store, to=session)
    delivery = taken(store, session)
    return ArrangedMessage(delivery.message.msg_id, delivery.delivery_token)


def drained(store: Store, session: str = BOX) -> list[str]:
    """Take and acknowledge all that can be had now: the payloads, as they came."""
    payloads = []
    while (delivery := mail.dequeue(store, session)) is not None:
        payloads.append(delivery.message.payload)
        assert mail.ack(store, session, delivery.message.msg_id, delivery_token=delivery.delivery_token).changed
    return payloads


def killed(store: Store, clock: Clock, session: str = BOX, reason: str = "it broke") -> ArrangedMessage:
    """Take the next message and fail it until it is dead: four deliveries, three waits."""
    while True:
        delivery = taken(store, session)
        told = mail.nack(store, session, delivery.message.msg_id, reason, delivery_token=delivery.delivery_token)
        if told.retry_at is None:
            return ArrangedMessage(delivery.message.msg_id, delivery.delivery_token)
        clock.instant = time.parse_stamp(told.retry_at)


def brought(store: Store, clock: Clock, state: str) -> ArrangedMessage:
    """A new message, alone of its sender, in the state asked for; with a receiver's delivery wherever it can have had one."""
    if state == "pending":
        return ArrangedMessage(post(store), None)
    if state == "dead_letter":
        post(store)
        return killed(store, clock)
    scene = held(store)
    if state == "acked":
        mail.ack(store, BOX, scene.msg_id)
    elif state == "nacked":
        mail.nack(store, BOX, scene.msg_id, "it broke")
    elif state == "expired":
        mail.set_policy(store, BOX, ttl_secs=20)
        clock.advance(20)
    elif state == "purged":
        mail.purge(store, BOX)
    elif state == "forgotten":
        mail.ack(store, BOX, scene.msg_id)
        clock.advance(2 * DAY)
        mail.sweep(store, keep_days=1)
    assert state_of(store, scene.msg_id) == state
    return scene


def state_of(store: Store, msg_id: str) -> str:
    return mail.show(store, msg_id).state


def attempt_of(store: Store, msg_id: str) -> int:
    shown = mail.show(store, msg_id).message
    assert shown is not None
    return shown.attempt


def steps_of(store: Store, msg_id: str) -> list[str]:
    return [step.step for step in mail.show(store, msg_id).steps]


def waiting(store: Store, session: str = BOX) -> list[str]:
    """The ids of what is pending, in flight or nacked, in the order of delivery."""
    return [summary.msg_id for summary in mail.peek(store, session, limit=10_000).messages]


def dead(store: Store, session: str = BOX) -> list[str]:
    return [entry.to_json()["msg_id"] for entry in mail.peek_dead_letter(store, session, limit=10_000).entries]


def counts(store: Store) -> dict[str, dict[str, int]]:
    """Return the counts of `sessions` for each mailbox, without mailboxes that hold and held nothing."""
    told = {}
    for one in mail.sessions(store, limit=10_000).sessions:
        numbers = {state: getattr(one, state) for state in STATES}
        if any(numbers.values()):
            told[one.session] = numbers
    return told


def everything(store: Store) -> object:
    """All that can be seen of every mailbox, to compare before and after a refusal."""
    names = [one.session for one in mail.sessions(store, limit=10_000).sessions]
    boxes = [(name, mail.peek(store, name, limit=10_000), mail.peek_dead_letter(store, name), mail.policy(store, name)) for name in names]
    ids = [msg_id for name in names for msg_id in waiting(store, name) + dead(store, name)]
    return mail.sessions(store, limit=10_000), boxes, [mail.show(store, one) for one in ids], mail.aliases(store), events(store)


def at(clock: Clock, seconds: float = 0) -> str:
    """The stamp of an instant so far from now."""
    return time.format_stamp(clock.instant + round(seconds * time.MICROSECONDS_PER_SECOND))
