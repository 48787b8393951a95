"""Mail over the network, for every face that carries it: who may take from which mailbox, who may send as whom, and the verbs themselves.

An agent has the mailbox of its name and no other, and sends as itself. A person may do all but speak as another person. What comes back
is what the commands print.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

from postroom.core import checks
from postroom.core.errors import Forbidden, InvalidInput
from postroom.core.letters import Delivery
from postroom.core.records import RELAY
from postroom.mail import mailbox
from postroom.mail.waiting import Tide, is_ready
from postroom.server.callers import Caller
from postroom.server.desk import LONGEST_WAIT, Desk
from postroom.server.hub import Heard, Wanted
from postroom.store.port import Transaction

Answer = dict[str, Any]
Allowed = Callable[[], Awaitable[object]]
_TAKEN = ("mail.offered", "mail.extended")  # steps that leave nothing to take


def may_take(caller: Caller, session: str) -> str:
    """The mailbox, if it is this caller's to look into and to take from."""
    checks.name("session", session)
    if caller.agent and session != caller.name:
        raise Forbidden("that mailbox is another's", hint="An agent has the mailbox of its own name.")
    return session


def may_send(caller: Caller, message: object) -> Answer:
    """The message with its sender in it, if the caller may send as that. Who is a person is asked by `enqueue`."""
    if not isinstance(message, dict):
        raise InvalidInput(f"a message is an object, not {type(message).__name__}", field="message")
    sender = message.get("from")
    if sender is None:
        return {**message, "from": caller.name}
    if caller.agent and sender != caller.name:
        raise Forbidden("an agent sends as itself", hint="Leave `from` out, or write your own name.", field="from")
    return message


async def enqueue(desk: Desk, caller: Caller, message: object) -> Answer:
    """`{msg_id, queued, pending}`."""
    sent = may_send(caller, message)
    door = caller.door
    if sent["from"] != caller.name:
        await desk.read(partial(_not_another_person, sender=checks.name("from", sent["from"])))
        door = RELAY  # nobody vouched for that
    return (await desk.write(partial(mailbox.enqueue, message=sent), door)).plain()


def _not_another_person(tx: Transaction, sender: str) -> None:
    known = tx.one(tx.sql.agent_find, name=sender)
    if known is not None and known[1] == "human":
        raise Forbidden(f"{sender} is another person", hint="Leave `from` out: you send as yourself.", field="from")


async def dequeue(desk: Desk, caller: Caller, session: str, wait: float = 0, allowed: Allowed | None = None) -> Answer | None:
    """`{message, delivery_token, in_flight_until}`, or nothing when nothing came within `wait` seconds, or the server stops.

    `allowed` refuses if the caller was sent away meanwhile; it is asked before anything is taken.
    """
    may_take(caller, session)

    async def look() -> Delivery | None:
        if not await desk.read(partial(is_ready, session=session)):
            return None
        if allowed is not None:
            await allowed()
        return await desk.write(partial(mailbox.dequeue, session=session, receiver=caller.name), caller.door)

    tide = partial(Tide.of, session=session)
    found = await (desk.wait(look, of_mailbox(session), min(wait, LONGEST_WAIT), tide) if wait else look())
    return None if found is None else found.plain()


def of_mailbox(session: str) -> Wanted:
    """What may leave something to take in a mailbox."""

    def wanted(heard: Heard) -> bool:
        return heard.event.event_type not in _TAKEN and heard.facts.get("session") == session

    return wanted


async def ack(desk: Desk, caller: Caller, session: str, msg_id: str, delivery_token: object = None) -> Answer:
    """`{msg_id, state, changed}`."""
    verb = partial(mailbox.ack, session=may_take(caller, session), msg_id=msg_id, delivery_token=_token(delivery_token))
    return (await desk.write(verb, caller.door)).plain()


async def nack(desk: Desk, caller: Caller, session: str, msg_id: str, reason: object = None, delivery_token: object = None) -> Answer:
    """`{msg_id, state, changed, retry_at}`."""
    why = "" if reason is None else checks.text("reason", reason)  # type: ignore[arg-type] # that is what is checked
    verb = partial(mailbox.nack, session=may_take(caller, session), msg_id=msg_id, reason=why, delivery_token=_token(delivery_token))
    return (await desk.write(verb, caller.door)).plain()


async def extend(desk: Desk, caller: Caller, session: str, msg_id: str, seconds: object = None, delivery_token: object = None) -> Answer:
    """`{msg_id, in_flight_until}`."""
    if isinstance(seconds, bool):
        raise InvalidInput("seconds must be a number", field="seconds")
    given = None if seconds is None else checks.seconds("seconds", seconds)  # type: ignore[arg-type] # that is what is checked
    verb = partial(mailbox.extend, session=may_take(caller, session), msg_id=msg_id, seconds=given, delivery_token=_token(delivery_token))
    return (await desk.write(verb, caller.door)).plain()


def _token(given: object) -> str | None:
    return None if given is None else checks.text("delivery_token", given)  # type: ignore[arg-type] # that is what is checked
