"""The frames of WebSockets, one JSON object each: parsing and checking what clients send, and encoding what they receive."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import orjson

from postroom._fastpath import json_text as jsontext
from postroom.core import checks
from postroom.core.errors import InvalidInput, Refusal, TooLarge
from postroom.core.records.mail import Delivery
from postroom.core.text import short_repr
from postroom.mail.drafts import known_fields
from postroom.server.http.responses import encode_json, refusal_json

PROTOCOL = "postroom.mailbox.v1"
MAX_CREDIT_MESSAGES = 1000
MAX_MALFORMED_FRAMES = 20  # after so many malformed frames in a row the socket is closed
MAX_ID_CHARS, MAX_ID_NUMBER = 200, 2**53
GOODBYE = '{"op":"goodbye"}'
Id = str | int | None
Fields = dict[str, dict[str, tuple[type, ...]]]  # by operation, its fields and their types

_NONE = type(None)
_MESSAGE = {"msg_id": (str,), "delivery_token": (str, _NONE), "from": (str, _NONE)}
_PAGE = {"limit": (int,), "after": (str, _NONE)}
# asyncapi.py describes the same fields. A test compares them.
FIELDS: Fields = {
    "credit": {"n": (int,)},
    "enqueue": {"message": (dict,)},
    "ack": _MESSAGE,
    "nack": {**_MESSAGE, "reason": (str, _NONE)},
    "extend": {**_MESSAGE, "seconds": (int, float, _NONE)},
    "peek": _PAGE,
    "purge": {},
    "peek_dead_letter": _PAGE,
    "purge_dead_letter": {"msg_id": (str, list, _NONE), "from": (str, _NONE), "all": (bool,)},
    "ping": {},
}
VERB_FIELDS: Fields = {
    "call": {"verb": (str,), "args": (list,), "named": (dict,), "key": (str, type(None)), "traceparent": (str,)},
    "ping": {},
}
REQUIRED = {"credit": "n", "enqueue": "message", "ack": "msg_id", "nack": "msg_id", "extend": "msg_id", "call": "verb"}
READING_OPS = frozenset(("peek", "peek_dead_letter"))  # their answers may be large
_OPS_IN_CAMEL_CASE = {"peekDeadLetter": "peek_dead_letter", "purgeDeadLetter": "purge_dead_letter"}


class Frame(NamedTuple):
    """A frame of a client: an operation with its fields. `error` is set if the frame is malformed."""

    op: str
    id: Id
    fields: dict[str, Any]
    error: InvalidInput | TooLarge | None = None


def parse_frame(text: str, known: Fields = FIELDS, loads: Callable[[str], Any] = jsontext.loads) -> Frame:
    """Parse the text of a frame. Never raises: a malformed frame is returned with its error, and with its id where that is readable."""
    try:
        parsed = loads(text)
    except TooLarge as refusal:
        return _malformed_frame(None, refusal)
    except ValueError as error:
        return _malformed_frame(
            None, InvalidInput(f"the frame is not JSON: {error}", field="frame", hint="Send one JSON object in a frame.")
        )
    if not isinstance(parsed, dict):
        return _malformed_frame(None, InvalidInput(f"a frame is a JSON object, not {type(parsed).__name__}", field="frame"))
    frame_id = None
    try:
        frame_id = _check_id(parsed.pop("id", None))
        op = parsed.pop("op", None)
        if known is FIELDS and isinstance(op, str):
            op = _OPS_IN_CAMEL_CASE.get(op, op)
            parsed = known_fields(parsed, FIELDS.get(op, ()))  # the protocol ignores unknown fields
        if not isinstance(op, str) or op not in known:
            raise InvalidInput(f"there is no operation {short_repr(op)}", field="op", hint=f"Known: {', '.join(known)}.")
        _check_fields(op, parsed, known[op])
    except InvalidInput as refusal:
        return _malformed_frame(frame_id, refusal)
    return Frame(op, frame_id, parsed)


def _malformed_frame(frame_id: Id, refusal: InvalidInput | TooLarge) -> Frame:
    return Frame("", frame_id, {}, refusal)


def _check_id(given: Any) -> Id:
    """Return the id that the answer repeats: text, or an integer below 2^53, which JSON parsers of every language keep exactly."""
    if given is None:
        return None
    if isinstance(given, str) and len(given) <= MAX_ID_CHARS:
        return checks.text("id", given)
    if isinstance(given, int) and not isinstance(given, bool) and abs(given) < MAX_ID_NUMBER:
        return given
    raise InvalidInput(f"id must be a text of at most {MAX_ID_CHARS} characters, or a whole number below 2^53", field="id")


def _check_fields(op: str, given: dict[str, Any], fields: dict[str, tuple[type, ...]]) -> None:
    for name, value in given.items():
        if name not in fields:
            raise InvalidInput(f"{op} has no field {short_repr(name)}", field="frame", hint=f"Known: {', '.join(('op', 'id', *fields))}.")
        if not isinstance(value, fields[name]) or (isinstance(value, bool) and bool not in fields[name]):
            raise InvalidInput(f"{name} is of the wrong type", field=name)
    required = REQUIRED.get(op)
    if required is not None and required not in given:
        raise InvalidInput(f"'{required}' is missing", field=required)


def ok_frame(frame_id: Id, result: dict[str, Any]) -> str:
    answer = {"op": "ok", "id": frame_id, "result": result}
    try:
        return orjson.dumps(answer).decode()
    except TypeError:  # integers over 64 bits, which a sender may have put into a dead letter
        return jsontext.dumps(answer)


def result_frame(frame_id: Id, result: bytes) -> str:
    """Return the answer to a verb. `result` is JSON text."""
    return (b'{"op":"result","id":%b,"result":%b}' % (orjson.dumps(frame_id), result)).decode()


def refused_frame(frame_id: Id, refusal: Refusal) -> str:
    return encode_json({"op": "refused", "id": frame_id, "error": refusal_json(refusal)["error"]}).decode()


def delivery_frame(delivery: Delivery) -> str:
    """Return the frame of a delivery. orjson cannot encode integers over 64 bits, which a sender may have put into the message."""
    return jsontext.dumps({"op": "delivery", "delivery": delivery.to_json()})
