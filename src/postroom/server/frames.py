"""Frames of sockets: what a client may say, read and checked, and what it is told. One JSON object each."""

from __future__ import annotations

from typing import Any, NamedTuple

import orjson

from postroom.core import checks, jsontext
from postroom.core.errors import InvalidInput, Refusal
from postroom.core.letters import Delivery
from postroom.core.words import shown
from postroom.server.answers import encoded, failure

PROTOCOL = "postroom.mailbox.v1"
MOST_CREDIT = 1000
MOST_WRONG = 20  # frames that make no sense: then the socket is closed
ID_LENGTH, LARGEST_ID = 200, 2**53
GOODBYE = '{"op":"goodbye"}'
Id = str | int | None
Fields = dict[str, dict[str, tuple[type, ...]]]  # by operation, its fields and their types

_MESSAGE = {"msg_id": (str,), "delivery_token": (str, type(None))}
# asyncapi.py says the same, and a test compares.
FIELDS: Fields = {
    "credit": {"n": (int,)},
    "enqueue": {"message": (dict,)},
    "ack": _MESSAGE,
    "nack": {**_MESSAGE, "reason": (str, type(None))},
    "extend": {**_MESSAGE, "seconds": (int, float, type(None))},
    "ping": {},
}
VERB_FIELDS: Fields = {
    "say": {"verb": (str,), "args": (list,), "named": (dict,), "key": (str, type(None))},
    "ping": {},
}
REQUIRED = {"n", "message", "msg_id", "verb"}


class Asked(NamedTuple):
    """What a client asks for: an operation with its fields, or, if it cannot be read, why not."""

    op: str
    id: Id
    fields: dict[str, Any]
    wrong: InvalidInput | None = None


def read(text: str, known: Fields = FIELDS) -> Asked:
    try:
        found = jsontext.loads(text)
    except ValueError as error:
        return _wrong(None, InvalidInput(f"the frame is not JSON: {error}", field="frame", hint="Send one JSON object in a frame."))
    if not isinstance(found, dict):
        return _wrong(None, InvalidInput(f"a frame is a JSON object, not {type(found).__name__}", field="frame"))
    identity = None
    try:
        identity = _id(found.pop("id", None))
        op = found.pop("op", None)
        if not isinstance(op, str) or op not in known:
            raise InvalidInput(f"there is no operation {shown(op)}", field="op", hint=f"Known: {', '.join(known)}.")
        _check(op, found, known[op])
    except InvalidInput as refusal:
        return _wrong(identity, refusal)
    return Asked(op, identity, found)


def _wrong(identity: Id, refusal: InvalidInput) -> Asked:
    return Asked("", identity, {}, refusal)


def _id(given: Any) -> Id:
    """What an answer is known by: a text or a whole number, which every program can hold."""
    if given is None:
        return None
    if isinstance(given, str) and len(given) <= ID_LENGTH:
        return checks.text("id", given)
    if isinstance(given, int) and not isinstance(given, bool) and abs(given) < LARGEST_ID:
        return given
    raise InvalidInput(f"id must be a text of at most {ID_LENGTH} characters, or a whole number below 2^53", field="id")


def _check(op: str, given: dict[str, Any], fields: dict[str, tuple[type, ...]]) -> None:
    for name, value in given.items():
        if name not in fields:
            raise InvalidInput(f"{op} has no field {shown(name)}", field="frame", hint=f"Known: {', '.join(('op', 'id', *fields))}.")
        if not isinstance(value, fields[name]) or isinstance(value, bool):
            raise InvalidInput(f"{name} is of the wrong type", field=name)
    for name in REQUIRED.intersection(fields):
        if name not in given:
            raise InvalidInput(f"'{name}' is missing", field=name)


def ok(identity: Id, result: dict[str, Any]) -> str:
    return orjson.dumps({"op": "ok", "id": identity, "result": result}).decode()


def said(identity: Id, result: bytes) -> str:
    """The answer to a verb, which is JSON already."""
    return (b'{"op":"said","id":%b,"result":%b}' % (orjson.dumps(identity), result)).decode()


def refused(identity: Id, refusal: Refusal) -> str:
    return encoded({"op": "refused", "id": identity, "error": failure(refusal)["error"]}).decode()


def delivery(taken: Delivery) -> str:
    """A sender may have added numbers that are longer than other encoders take."""
    return jsontext.dumps({"op": "delivery", "delivery": taken.plain()})
