"""Checks whether a caller may call a verb with its arguments. The only module that reads `Verb.caller`.

An agent acts in its own name only. A person may also act in the name of an agent, but not of another person.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from postroom.core.errors import Forbidden
from postroom.core.records.mail import MailReceipt
from postroom.core.states import RELAY_DOOR
from postroom.core.text import short_repr
from postroom.core.verbs import ANY_AGENT, MESSAGE_SENDER, PEOPLE, SERVER_MACHINE, Verb
from postroom.server.http.auth import Caller
from postroom.server.runtime.store_access import StoreAccess
from postroom.store.agents import is_person

Arguments = dict[str, Any]
ACTING_ARGUMENTS = ("sender", "person", "agent")
RECEIVER = "receiver"  # defaults to the caller
NO_ARGUMENT = frozenset((ANY_AGENT, PEOPLE, SERVER_MACHINE, MESSAGE_SENDER))  # values of `Verb.caller` that name no argument


def fill_in_caller(verb: Verb, optional: frozenset[str], caller: Caller, arguments: Arguments) -> None:
    """Set the receiver, and for an agent the acting argument, to the name of the caller where they are left out."""
    for name in (RECEIVER, verb.caller if caller.agent else None):
        if name in optional and arguments.get(name) is None:
            arguments[name] = caller.name


async def check_allowed(store_access: StoreAccess, caller: Caller, verb: Verb, arguments: Arguments) -> str:
    """Return the channel that the write is recorded with, or raise `Forbidden`."""
    if verb.caller == SERVER_MACHINE:
        raise Forbidden(f"{verb.name} can only be called on the server's machine", hint="Run the command there, with --db PATH.")
    others = _acting_names(arguments) - {caller.name}
    if caller.agent:
        _check_agent(caller, verb, arguments)
    else:
        for name in filter(_is_storable, others):
            if await store_access.read(partial(is_person, name=name)):
                raise Forbidden(f"{short_repr(name)} is another person", hint="Act in your own name.")
    return RELAY_DOOR if others else caller.door  # a person acted in an agent's name, which no token confirms


def check_result(caller: Caller, result: Any) -> None:
    """Refuse a receipt to an agent that neither sent nor received the message."""
    if not caller.agent or not isinstance(result, MailReceipt):
        return
    if result.message is None or caller.name not in (result.message.sender, result.message.to):
        raise Forbidden("you are neither sender nor receiver of this message", hint="An agent sees the messages that it sent or received.")


def describe_caller(verb: Verb) -> str:
    """Return who may call a verb over the network, for the reference page."""
    if verb.caller in (PEOPLE, SERVER_MACHINE):
        return verb.caller
    if verb.caller == ANY_AGENT:
        return "any agent, people"
    name = "the sender of each message" if verb.caller == MESSAGE_SENDER else f"the agent named by `{verb.caller}`"
    return f"{name}, people"


def _check_agent(caller: Caller, verb: Verb, arguments: Arguments) -> None:
    if verb.caller == PEOPLE:
        raise Forbidden(f"agents may not call {verb.name}", hint="Ask a person.")
    if arguments.get(RECEIVER, caller.name) != caller.name:
        raise Forbidden(
            "an agent cannot receive on behalf of another receiver", hint=f"Leave the receiver out, or name yourself {caller.name}."
        )
    if verb.caller == ANY_AGENT:
        return
    named = _message_senders(arguments) if verb.caller == MESSAGE_SENDER else [arguments.get(verb.caller)]
    own = caller.workspace and caller.workspace.workspace_id if verb.caller == "workspace_id" else caller.name
    if any(name != own for name in named):
        raise Forbidden(f"this token belongs to {caller.name}", hint=f"Name yourself {caller.name}, or use the other agent's token.")


def _acting_names(arguments: Arguments) -> set[str]:
    """Return the names in which the call acts. Values that are not text are rejected later, by the verb."""
    named = [arguments.get(key) for key in ACTING_ARGUMENTS] + _message_senders(arguments)
    return {name for name in named if isinstance(name, str)}


def _is_storable(name: str) -> bool:
    """Return whether a name can be looked up: PostgreSQL rejects NUL, and lone surrogates have no UTF-8."""
    return "\0" not in name and not any("\ud800" <= char <= "\udfff" for char in name)


def _message_senders(arguments: Arguments) -> list[Any]:
    given = (arguments.get("message"),) if "message" in arguments else arguments.get("messages")
    messages = given if isinstance(given, (tuple, list)) else ()
    return [message.get("from") if isinstance(message, dict) else None for message in messages]
