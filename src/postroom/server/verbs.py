"""Verbs from afar: the same functions as in the library, said by clients that have no file to open. Who may say what is here."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Awaitable, Callable
from functools import cache, partial
from hashlib import sha256
from secrets import token_hex
from time import monotonic
from typing import Any, NamedTuple

from starlette.requests import Request
from starlette.responses import Response

from postroom import mail, people, tasks, work
from postroom.core import jsontext, wire
from postroom.core.errors import Forbidden, InvalidInput, NotFound
from postroom.core.letters import Receipt
from postroom.core.records import RELAY
from postroom.core.verbs import VERBS
from postroom.core.waits import IN_VAIN, is_time, onward
from postroom.core.words import shown
from postroom.server.answers import Json
from postroom.server.callers import Caller, Token, identify, token_of
from postroom.server.desk import Desk
from postroom.server.patience import Attended, Audience, gone
from postroom.server.requests import Office, checked, json_object
from postroom.store.port import Store, Transaction

_log = logging.getLogger("postroom.server")
A_LOOK = 0.01  # seconds
TURN, SLICE = 25.0, 1.0  # seconds that one request waits, and after which a waiting thread looks whether the server stops
GIVEN = ("records.Attachment",)  # the records that a client may send

# What an agent may say, by the argument with which it names itself. Of the last it names nobody: those only read.
AGENTS = {
    "sender": "work.send work.reply people.notify",
    "agent": "work.claim work.renew work.release work.update work.done work.done_and_take work.fail work.cancel work.fetch work.take"
    " work.wait_take work.wait_reply work.watch work.mark_read work.outlook work.still_holds"
    " people.ask people.read_messages people.old_messages people.own_entries people.find_entry"
    " people.answer_of people.wait_answer people.workspace_for"
    " tasks.start_job tasks.accept tasks.accept_next tasks.complete tasks.fail tasks.cancel tasks.acknowledge tasks.waiting tasks.render"
    " tasks.open_thread",
    "source_agent": "tasks.submit",
    "name": "tasks.register",
    "session": "mail.dequeue mail.wait mail.ack mail.ack_and_dequeue mail.nack mail.extend mail.peek mail.peek_dead_letter mail.outlook"
    " mail.standing mail.policy",
    "from": "mail.enqueue mail.enqueue_all",
    "workspace_id": "people.push",
    "": "mail.show work.is_answered work.show work.list_threads work.list_agents work.show_agent"
    " tasks.get tasks.find tasks.card tasks.tasks tasks.wait",
}
OWN = {name: argument for argument, names in AGENTS.items() for name in names.split()}
# What concerns the server's machine, its files or its passes is said there alone, whoever asks.
ONLY_THERE = frozenset(
    f"people.{name}"
    for names in (
        ("add_workspace", "set_workspace", "rotate_token", "workspace_of", "add_queue", "remove_queue", "seed", "note_offered"),
        ("issue_link", "issue_bearer", "issue_agent_token", "revoke_agent_token", "redeem", "person_of", "revoke"),
    )
    for name in names
)
SPEAKERS = ("sender", "person", "agent")
KEY_LENGTH = 200


class Saying(NamedTuple):
    """A verb as somebody says it: who, with which token, what with, once by which key, and how to tell that they have left."""

    caller: Caller
    brought: Token | None
    name: str
    given: dict[str, Any]
    key: str | None
    digest: bytes
    left: Callable[[], Awaitable[object]]


@cache
def table() -> dict[str, Callable[..., Any]]:
    """Every verb that can be said from afar."""
    for room in (work, mail, people, tasks):
        for name in room.__all__:
            getattr(room, name)  # loaded now
    return dict(VERBS)


async def say(request: Request, office: Office, caller: Caller) -> Response:
    """A verb over HTTP."""
    given = checked(await json_object(request, jsontext.loads), args=list, named=dict)
    key, digest = request.headers.get("idempotency-key"), sha256(await request.body()).digest()
    left = partial(gone, request.receive)
    saying = Saying(caller, token_of(request.headers), request.path_params["verb"], given, key, digest, left)
    return Json(b'{"ok":true,"result":%b}' % await perform(office, saying))


async def perform(office: Office, saying: Saying) -> bytes:
    """Run a verb for whoever may say it; its result as the wire has it."""
    name, caller, given, key = saying.name, saying.caller, saying.given, saying.key
    found = table().get(name)
    if found is None:
        raise NotFound(f"there is no verb {shown(name)}", hint="It is {room}.{verb}, as in the library: work.send, mail.enqueue.")
    if key is not None and len(key) > KEY_LENGTH:
        raise InvalidInput(f"a key has at most {KEY_LENGTH} characters", field="key")
    bound = _bound(found, given.get("args", []), given.get("named", {}))
    for own in ("receiver", OWN.get(name) if caller.agent else None):
        if own in _optional(found) and bound.get(own) is None:  # who does not say so means itself
            bound[own] = caller.name
    await _allowed(office, caller, name, bound)
    act = partial(_run, office, saying, found, bound)
    return await office.patience.once((caller.name, name, key or token_hex(16), saying.digest), act, saying.left)


async def _run(office: Office, saying: Saying, verb: Callable[..., Any], named: dict[str, Any], audience: Audience) -> bytes:
    name, door = saying.name, _door(saying.caller, named)
    try:
        if name in IN_VAIN and not is_a_look(named):
            store, over = office.desk.apart(door), partial(_over, office.desk, audience)
            attended = Attended(store, over, partial(_still, store, saying.brought))
            return await office.patience.wait(saying.caller, partial(_turns, attended, name, verb, named))
        return await office.desk.aside(lambda store: _looked(store, saying, verb, named), door)
    except (TypeError, ValueError, AttributeError, OverflowError) as error:  # of a kind that the library leaves to who calls it
        _log.warning("%s could not be said: %s: %s", name, type(error).__name__, error)
        raise InvalidInput(f"{name} cannot do with that: {error}", field="named", hint="Say it as in the library.") from None


def _encoded(result: Any) -> bytes:
    return jsontext.dumps(wire.encode(result)).encode()


def _looked(store: Store, saying: Saying, verb: Callable[..., Any], named: dict[str, Any]) -> bytes:
    """What does not wait. Of a verb that could, who has lost its token meanwhile takes nothing."""
    if saying.name in IN_VAIN:
        _still(store, saying.brought)
    found = verb(store, **named)
    if saying.caller.agent and isinstance(found, Receipt) and not _concerns(found, saying.caller.name):
        raise Forbidden("that message is between others", hint="An agent sees what became of what it sent, and of what was sent to it.")
    return _encoded(found)


def _concerns(receipt: Receipt, name: str) -> bool:
    return receipt.message is not None and name in (receipt.message.sender, receipt.message.to)


def waits(name: str, given: dict[str, Any]) -> bool:
    """Whether a verb may take its time."""
    return name in IN_VAIN and not is_a_look(given.get("named", {}))


def is_a_look(named: dict[str, Any]) -> bool:
    """Whether a verb that can wait is to look and no more: for that there is always a seat."""
    given = named.get("timeout_seconds")
    return given is not None and is_time(given) and 0 < given <= A_LOOK


def _still(store: Store, brought: Token | None) -> None:
    """Refuses if the token that somebody came with is not valid any more."""
    if brought is not None:
        with store.read() as tx:
            identify(tx, *brought)


def _over(desk: Desk, audience: Audience) -> bool:
    """Whether a wait is for nobody any more."""
    return desk.hub.stopping or audience.gone


def _turns(store: Attended, name: str, verb: Callable[..., Any], named: dict[str, Any]) -> bytes:
    """Wait in short turns, so that a server that stops is not held up, and nothing is taken for who has left, or was sent away."""
    given = named.get("timeout_seconds", 0)
    if not is_time(given):
        return _encoded(verb(store, **named))  # which refuses it
    until = monotonic() + min(given or TURN, TURN)
    while True:
        store.allowed()
        left = until - monotonic()
        found = verb(store, **{**named, "timeout_seconds": max(min(left, SLICE), 0.001)})
        if not IN_VAIN[name](found) or left <= SLICE or store.over():
            return _encoded(found)
        named = onward(named, found)


@cache
def _optional(verb: Callable[..., Any]) -> frozenset[str]:
    parameters = inspect.signature(verb.__wrapped__).parameters.values()  # type: ignore[attr-defined]
    return frozenset(one.name for one in parameters if one.default is None)


def _bound(verb: Callable[..., Any], args: Any, named: Any) -> dict[str, Any]:
    """The arguments by their names."""
    try:
        args, named = wire.decode(args, only=GIVEN), wire.decode(named, only=GIVEN)
        bound = inspect.signature(verb.__wrapped__).bind(None, *args, **named)  # type: ignore[attr-defined]
    except (TypeError, RecursionError) as error:
        raise InvalidInput(f"the verb does not take that: {error}", field="named", hint="Say it as in the library.") from None
    return dict(list(bound.arguments.items())[1:])


async def _allowed(office: Office, caller: Caller, name: str, bound: dict[str, Any]) -> None:
    if name in ONLY_THERE:
        raise Forbidden(f"{name} is said on the server's machine alone", hint="Run the command there, with --db PATH.")
    if caller.agent:
        _as_agent(caller, name, bound)
        return
    for speaker in _speakers(bound) - {caller.name}:
        known = await office.desk.read(partial(_kind, name=speaker))
        if known == "human":
            raise Forbidden(f"{shown(speaker)} is another person", hint="Speak for yourself.")


def _speakers(bound: dict[str, Any]) -> set[str]:
    """Whose names the arguments speak in."""
    named = [bound.get(key) for key in SPEAKERS] + _senders(bound)
    return {name for name in named if isinstance(name, str) and _is_text(name)}  # of what is none, the verb itself says so


def _is_text(name: str) -> bool:
    return "\0" not in name and not any("\ud800" <= char <= "\udfff" for char in name)


def _door(caller: Caller, bound: dict[str, Any]) -> str:
    """A person who speaks in an agent's name relays it: nobody vouched for that."""
    return caller.door if _speakers(bound) <= {caller.name} else RELAY


def _kind(tx: Transaction, *, name: str) -> str | None:
    row = tx.one(tx.sql.agent_find, name=name)
    return None if row is None else str(row[1])


def _as_agent(caller: Caller, name: str, bound: dict[str, Any]) -> None:
    own = OWN.get(name)
    if own is None:
        raise Forbidden(f"{name} is not for agents", hint="Ask a person.")
    if bound.get("receiver", caller.name) != caller.name:
        raise Forbidden("an agent takes what it takes itself", hint=f"Leave the receiver out, or name yourself {caller.name}.")
    if not own:
        return
    said = _senders(bound) if own == "from" else [bound.get(own)]
    mine = caller.workspace and caller.workspace.workspace_id if own == "workspace_id" else caller.name
    if any(one != mine for one in said):
        raise Forbidden(f"this token is {caller.name}'s", hint=f"Name yourself {caller.name}, or bring the other's token.")


def _senders(bound: dict[str, Any]) -> list[Any]:
    given = (bound.get("message"),) if "message" in bound else bound.get("messages")
    messages = given if isinstance(given, (tuple, list)) else ()
    return [one.get("from") if isinstance(one, dict) else None for one in messages]
