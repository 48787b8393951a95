"""The mailbox verbs for every network interface: HTTP routes, SSE and WebSockets. Results have the JSON form that the commands print.

Every verb goes through `rpc.calls`, which checks permissions. `check_receiver` is for streams and sockets, which call no verb at first.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from postroom.core import checks
from postroom.core.errors import Forbidden, InvalidInput
from postroom.core.records.mail import Delivery
from postroom.mail import mailbox
from postroom.mail.waiting import DueMailWake, is_message_ready
from postroom.server.http.auth import Caller
from postroom.server.rpc.calls import VerbCall, make_call
from postroom.server.runtime.broadcaster import BroadcastEvent, EventFilter
from postroom.server.runtime.store_access import MAX_WAIT_SECONDS, StoreAccess

JsonObject = dict[str, Any]
_TAKING_STEPS = ("mail.offered", "mail.extended")  # these events leave no message to take


def check_receiver(caller: Caller, session: str) -> str:
    """Return the session if this caller may read and take from its mailbox."""
    checks.name("session", session)
    if caller.agent and session != caller.name:
        raise Forbidden("that mailbox belongs to another name", hint="An agent has the mailbox of its own name.")
    return session


async def enqueue(store_access: StoreAccess, caller: Caller, message: object) -> JsonObject:
    """Store a message. Return `{msg_id, queued, pending}`. The sender defaults to the caller."""
    if not isinstance(message, dict):
        raise InvalidInput(f"a message is an object, not {type(message).__name__}", field="message")
    sent = {**message, "from": caller.name} if message.get("from") is None else message
    return await _write(store_access, make_call(caller, mailbox.enqueue, message=sent))


async def _write(store_access: StoreAccess, call: VerbCall) -> JsonObject:
    result: JsonObject = (await store_access.write(call, call.door)).to_json()
    return result


async def dequeue(store_access: StoreAccess, caller: Caller, session: str, wait: float = 0) -> JsonObject | None:
    """Take the next message. Return `{message, delivery_token, in_flight_until}`.

    Returns None if no message came within `wait` seconds, or if the server stops. Refuses if the caller's token is revoked meanwhile.
    """
    checks.name("session", session)
    call = make_call(caller, mailbox.dequeue, session=session, receiver=caller.name)

    async def take_next() -> Delivery | None:
        if not await store_access.read(partial(is_message_ready, session=session)):
            return None
        delivery: Delivery | None = await store_access.write(call, call.door)
        return delivery

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
    delivery = {"session": session, "msg_id": msg_id, "delivery_token": _check_token(delivery_token)}
    return await _write(store_access, make_call(caller, mailbox.ack, **delivery))


async def nack(
    store_access: StoreAccess, caller: Caller, session: str, msg_id: str, reason: object = None, delivery_token: object = None
) -> JsonObject:
    """Report a message as not delivered. Return `{msg_id, state, changed, retry_at}`."""
    why = "" if reason is None else checks.reason("reason", reason)  # type: ignore[arg-type] # checked at run time
    delivery = {"session": session, "msg_id": msg_id, "delivery_token": _check_token(delivery_token)}
    return await _write(store_access, make_call(caller, mailbox.nack, reason=why, **delivery))


async def extend(
    store_access: StoreAccess, caller: Caller, session: str, msg_id: str, seconds: object = None, delivery_token: object = None
) -> JsonObject:
    """Restart the time in flight of a message. Return `{msg_id, in_flight_until}`."""
    if isinstance(seconds, bool):
        raise InvalidInput("seconds must be a number", field="seconds")
    checked_seconds = None if seconds is None else checks.seconds("seconds", seconds)  # type: ignore[arg-type] # checked at run time
    delivery = {"session": session, "msg_id": msg_id, "delivery_token": _check_token(delivery_token)}
    return await _write(store_access, make_call(caller, mailbox.extend, seconds=checked_seconds, **delivery))


def _check_token(delivery_token: object) -> str | None:
    return None if delivery_token is None else checks.text("delivery_token", delivery_token)  # type: ignore[arg-type] # checked at run time
