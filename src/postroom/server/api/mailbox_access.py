"""The mailbox verbs with permission checks, for every network interface. HTTP routes, SSE and WebSockets call this module.

An agent can use only the mailbox of its own name, and sends as itself. A person can use every mailbox, and can send under any name
but another person's. Results have the JSON form that the commands print.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

from postroom.core import checks
from postroom.core.errors import Forbidden, InvalidInput
from postroom.core.records.mail import Delivery
from postroom.core.states import RELAY_DOOR
from postroom.mail import mailbox
from postroom.mail.waiting import DueMailWake, is_message_ready
from postroom.server.http.auth import Caller
from postroom.server.runtime.broadcaster import BroadcastEvent, EventFilter
from postroom.server.runtime.store_access import MAX_WAIT_SECONDS, StoreAccess
from postroom.store.agents import is_person
from postroom.store.interface import Transaction

JsonObject = dict[str, Any]
CheckAllowed = Callable[[], Awaitable[object]]
_TAKING_STEPS = ("mail.offered", "mail.extended")  # these events leave no message to take


def check_receiver(caller: Caller, session: str) -> str:
    """Return the session if this caller may read and take from its mailbox."""
    checks.name("session", session)
    if caller.agent and session != caller.name:
        raise Forbidden("that mailbox belongs to another name", hint="An agent has the mailbox of its own name.")
    return session


def with_sender(caller: Caller, message: object) -> JsonObject:
    """Return the message with its sender. Refuses an agent that sends under another name. `enqueue` checks the sender of a person."""
    if not isinstance(message, dict):
        raise InvalidInput(f"a message is an object, not {type(message).__name__}", field="message")
    sender = message.get("from")
    if sender is None:
        return {**message, "from": caller.name}
    if caller.agent and sender != caller.name:
        raise Forbidden("an agent sends as itself", hint="Leave `from` out, or write your own name.", field="from")
    return message


async def enqueue(store_access: StoreAccess, caller: Caller, message: object) -> JsonObject:
    """Store a message. Return `{msg_id, queued, pending}`."""
    sent = with_sender(caller, message)
    door = caller.door
    if sent["from"] != caller.name:
        await store_access.read(partial(_refuse_other_person, sender=checks.name("from", sent["from"])))
        door = RELAY_DOOR  # the sender's name is not verified
    return (await store_access.write(partial(mailbox.enqueue, message=sent), door)).to_json()


def _refuse_other_person(tx: Transaction, sender: str) -> None:
    if is_person(tx, sender):
        raise Forbidden(f"{sender} is another person", hint="Leave `from` out: you send as yourself.", field="from")


async def dequeue(
    store_access: StoreAccess, caller: Caller, session: str, wait: float = 0, check_allowed: CheckAllowed | None = None
) -> JsonObject | None:
    """Take the next message. Return `{message, delivery_token, in_flight_until}`.

    Returns None if no message came within `wait` seconds, or if the server stops. `check_allowed` is awaited before a message is
    taken. It refuses if the caller's token was revoked meanwhile.
    """
    check_receiver(caller, session)

    async def take_next() -> Delivery | None:
        if not await store_access.read(partial(is_message_ready, session=session)):
            return None
        if check_allowed is not None:
            await check_allowed()
        return await store_access.write(partial(mailbox.dequeue, session=session, receiver=caller.name), caller.door)

    if wait:
        due_mail = partial(DueMailWake.seconds_for_session, session=session)
        delivery = await store_access.wait(take_next, mailbox_filter(session), min(wait, MAX_WAIT_SECONDS), due_mail)
    else:
        delivery = await take_next()
    return None if delivery is None else delivery.to_json()


def mailbox_filter(session: str) -> EventFilter:
    """Return a filter for the events after which a mailbox may have a message to take."""

    def may_have_message(broadcast: BroadcastEvent) -> bool:
        return broadcast.event.event_type not in _TAKING_STEPS and broadcast.facts.get("session") == session

    return may_have_message


async def ack(store_access: StoreAccess, caller: Caller, session: str, msg_id: str, delivery_token: object = None) -> JsonObject:
    """Acknowledge a delivered message. Return `{msg_id, state, changed}`."""
    verb = partial(mailbox.ack, session=check_receiver(caller, session), msg_id=msg_id, delivery_token=_check_token(delivery_token))
    return (await store_access.write(verb, caller.door)).to_json()


async def nack(
    store_access: StoreAccess, caller: Caller, session: str, msg_id: str, reason: object = None, delivery_token: object = None
) -> JsonObject:
    """Report a message as not delivered. Return `{msg_id, state, changed, retry_at}`."""
    why = "" if reason is None else checks.reason("reason", reason)  # type: ignore[arg-type] # checked at run time
    verb = partial(
        mailbox.nack, session=check_receiver(caller, session), msg_id=msg_id, reason=why, delivery_token=_check_token(delivery_token)
    )
    return (await store_access.write(verb, caller.door)).to_json()


async def extend(
    store_access: StoreAccess, caller: Caller, session: str, msg_id: str, seconds: object = None, delivery_token: object = None
) -> JsonObject:
    """Restart the time in flight of a message. Return `{msg_id, in_flight_until}`."""
    if isinstance(seconds, bool):
        raise InvalidInput("seconds must be a number", field="seconds")
    checked_seconds = None if seconds is None else checks.seconds("seconds", seconds)  # type: ignore[arg-type] # checked at run time
    verb = partial(
        mailbox.extend,
        session=check_receiver(caller, session),
        msg_id=msg_id,
        seconds=checked_seconds,
        delivery_token=_check_token(delivery_token),
    )
    return (await store_access.write(verb, caller.door)).to_json()


def _check_token(delivery_token: object) -> str | None:
    return None if delivery_token is None else checks.text("delivery_token", delivery_token)  # type: ignore[arg-type] # checked at run time
