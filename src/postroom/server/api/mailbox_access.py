"""The mailbox verbs for every network interface: HTTP routes, SSE and WebSockets. Results have the JSON form that the commands print.

Every verb goes through `rpc.calls`, which checks permissions. `check_receiver` is for streams and sockets, which call no verb at first.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from postroom.core import checks
from postroom.core.errors import Forbidden, InvalidInput
from postroom.core.records.mail import Delivery
from postroom.mail import dead_letters, mailbox, reading, sweeping
from postroom.mail.identity import resolve_session
from postroom.mail.waiting import DueMailWake, is_message_ready
from postroom.server.http.auth import Caller
from postroom.server.rpc.calls import VerbCall, make_call
from postroom.server.runtime.broadcaster import BroadcastEvent, EventFilter
from postroom.server.runtime.store_access import MAX_WAIT_SECONDS, StoreAccess

JsonObject = dict[str, Any]
_TAKING_STEPS = ("mail.offered", "mail.extended")  # these events leave no message to take


async def resolve_receiver(store_access: StoreAccess, caller: Caller, name: str) -> str:
    """Return the session that a name stands for, if this caller may read and take from its mailbox."""
    checks.name("session", name)
    return check_receiver(caller, await store_access.read(partial(resolve_session, name=name)))


def check_receiver(caller: Caller, session: str) -> str:
    """Return the session if this caller may read and take from its mailbox. An alias is resolved before."""
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
    session = await resolve_receiver(store_access, caller, session)
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


async def ack(store_access: StoreAccess, caller: Caller, session: str, msg_id: str, **given: object) -> JsonObject:
    """Acknowledge a delivered message. Return `{msg_id, state, changed}`."""
    call = make_call(caller, mailbox.ack, session=session, msg_id=msg_id, **_delivery_options(given))
    return await _write(store_access, call)


async def nack(store_access: StoreAccess, caller: Caller, session: str, msg_id: str, reason: object = None, **given: object) -> JsonObject:
    """Report a message as not delivered. Return `{msg_id, state, changed, retry_at}`."""
    why = "" if reason is None else checks.reason("reason", reason)  # type: ignore[arg-type] # checked at run time
    call = make_call(caller, mailbox.nack, session=session, msg_id=msg_id, reason=why, **_delivery_options(given))
    return await _write(store_access, call)


async def extend(
    store_access: StoreAccess, caller: Caller, session: str, msg_id: str, seconds: object = None, **given: object
) -> JsonObject:
    """Restart the time in flight of a message. Return `{msg_id, in_flight_until}`."""
    if isinstance(seconds, bool):
        raise InvalidInput("seconds must be a number", field="seconds")
    checked_seconds = None if seconds is None else checks.seconds("seconds", seconds)  # type: ignore[arg-type] # checked at run time
    call = make_call(caller, mailbox.extend, session=session, msg_id=msg_id, seconds=checked_seconds, **_delivery_options(given))
    return await _write(store_access, call)


def _delivery_options(given: dict[str, object]) -> dict[str, Any]:
    """Return the delivery token and the sender of a message, as arguments of a verb."""
    token, sender = given.get("delivery_token"), given.get("from")
    return {
        "delivery_token": None if token is None else checks.text("delivery_token", token),  # type: ignore[arg-type] # checked at run time
        "sent_by": None if sender is None else checks.name("from", sender),  # type: ignore[arg-type] # checked at run time
    }


async def peek(store_access: StoreAccess, caller: Caller, session: str, **page: Any) -> JsonObject:
    """List a page of the unfinished messages. Return `{messages, total, more, after}`."""
    call = make_call(caller, reading.peek, session=session, **page)
    return await store_access.run_in_thread(lambda store: call(store).to_json(), call.door)


async def purge(store_access: StoreAccess, caller: Caller, session: str) -> JsonObject:
    """Delete the unfinished messages. Return `{purged}`."""
    call = make_call(caller, sweeping.purge, session=session)
    return {"purged": await store_access.run_in_thread(call, call.door)}


async def peek_dead_letter(store_access: StoreAccess, caller: Caller, session: str, **page: Any) -> JsonObject:
    """List a page of the dead letters. Return `{entries, total, more, after}`."""
    call = make_call(caller, dead_letters.peek_dead_letter, session=session, **page)
    return await store_access.run_in_thread(lambda store: call(store).to_json(), call.door)


async def purge_dead_letter(store_access: StoreAccess, caller: Caller, session: str, **given: Any) -> JsonObject:
    """Delete dead letters: those with the given ids, or all that a listing shows, or all. Return `{purged}`."""
    options = {**_letter_options(given), "everything": bool(given.get("all"))}
    call = make_call(caller, dead_letters.purge_dead_letter, session=session, **options)
    return {"purged": await store_access.run_in_thread(call, call.door)}


async def retry_dead_letter(store_access: StoreAccess, caller: Caller, session: str, **given: Any) -> JsonObject:
    """Make dead letters pending again: those with the given ids, or all. Return `{retried}`."""
    call = make_call(caller, dead_letters.retry_dead_letter, session=session, **_letter_options(given))
    return {"retried": await store_access.run_in_thread(call, call.door)}


def _letter_options(given: dict[str, Any]) -> dict[str, Any]:
    """Return the ids and the sender of dead letters, as arguments of a verb. None stands for all; the verb refuses an empty id."""
    return {"msg_id": given.get("msg_id"), "sent_by": given.get("from")}
