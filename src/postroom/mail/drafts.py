"""Drafts: check a message as its sender wrote it, in snake_case or camelCase. Unknown fields are kept."""

from __future__ import annotations

from postroom._fastpath import json_text as jsontext
from postroom.core import checks, limits
from postroom.core.errors import InvalidInput
from postroom.core.records import Record
from postroom.core.records.mail import TRACE_FIELD
from postroom.core.states import CHANNEL_PREFIX
from postroom.core.text import short_repr

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Any

REPLY_ID_PREFIX = "reply:"  # of the ids of messages that carry a person's reply. No sender may choose such an id
PROTOCOL_VERSION = "1.0"  # that our own senders state
MAX_CREATED_AT_SECONDS = 2**64 - 1  # the protocol's uint64

_SNAKE_CASE_NAMES = {"msgId": "msg_id", "createdAt": "created_at", "protocolVersion": "protocol_version"}
_PROTOCOL_FIELDS = frozenset(("msg_id", "from", "to", "payload", "created_at", "attempt"))


def known_fields(given: Mapping[str, Any], names: Iterable[str]) -> dict[str, Any]:
    """Return the fields that the protocol knows, under their snake_case names. Others are ignored, as the protocol requires.

    Refuses with `InvalidInput` a field that was given in both spellings, with different values.
    """
    spellings = {spelling: name for name in names for spelling in (name, _to_camel_case(name))}
    fields: dict[str, Any] = {}
    for key, value in given.items():
        name = spellings.get(key)
        if name is not None:
            _refuse_two_values(fields, name, value)
            fields[name] = value
    return fields


def _to_camel_case(name: str) -> str:
    first, *others = name.split("_")
    return first + "".join(word.capitalize() for word in others)


def _refuse_two_values(fields: dict[str, Any], name: str, value: Any) -> None:
    if name in fields and fields[name] != value:
        raise InvalidInput(f"{name} was given twice, with different values", field=name, hint="Leave one spelling out.")


class Draft(Record):
    """A checked message before it is stored. The store supplies the fields that are None. `created_at` is in Unix seconds."""

    msg_id: str | None
    sender: str
    to: str
    payload: str
    created_at: int | None
    extra_json: str


def parse_message(message: Mapping[str, Any]) -> Draft:
    """Return the draft of a message. Refuses with `InvalidInput` and the name of the field."""
    fields, extra = _split_fields(message)
    if "attempt" in fields:
        _check_whole_number("attempt", fields["attempt"], 2**32 - 1)
    return Draft(
        None if fields.get("msg_id") is None else _check_msg_id(fields["msg_id"]),
        checks.name("from", fields.get("from"), hint="Name the sender."),
        _check_receiver(fields.get("to")),
        _check_payload(fields.get("payload")),
        None if fields.get("created_at") is None else _check_whole_number("created_at", fields["created_at"], MAX_CREATED_AT_SECONDS),
        _extra_to_json(extra),
    )


def add_trace(extra_json: str, traceparent: str | None) -> str:
    """Return the extra fields of a message with the trace in which it is sent, unless its sender has named one."""
    if traceparent is None or TRACE_FIELD in (fields := jsontext.loads(extra_json)):
        return extra_json
    return jsontext.dumps({**fields, TRACE_FIELD: traceparent})


def _split_fields(message: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Split a message into the fields of the protocol, under their snake_case names, and the unknown fields."""
    if not hasattr(message, "items"):
        raise InvalidInput(f"a message is an object, not {type(message).__name__}", field="message")
    fields: dict[str, Any] = {}
    extra: dict[str, Any] = {}
    for key, value in message.items():
        name = _SNAKE_CASE_NAMES.get(key, key)
        target = fields if name in _PROTOCOL_FIELDS else extra
        if name in target:
            _refuse_two_values(target, name, value)
        target[name] = value
    return fields, extra


def _check_msg_id(value: Any) -> str:
    msg_id = checks.indexed("msg_id", checks.name("msg_id", value, max_chars=limits.MAX_MESSAGE_ID_CHARS))
    if msg_id.startswith(REPLY_ID_PREFIX):
        hint = "Choose another id, or leave it out."
        raise InvalidInput(f"msg_id must not begin with {REPLY_ID_PREFIX!r}: such ids are for replies of people", field="msg_id", hint=hint)
    return msg_id


def _check_receiver(value: Any) -> str:
    session = checks.name("to", value, hint="Name the session that receives it.")
    if session.startswith(CHANNEL_PREFIX):
        raise InvalidInput(f"to must not begin with {CHANNEL_PREFIX!r}: a channel gets alerts only", field="to", hint="Name a session.")
    return session


def _check_payload(value: Any) -> str:
    if type(value) is str and value.isascii() and len(value) <= limits.MAX_MAIL_PAYLOAD_BYTES:
        return value  # most payloads: nothing below refuses them
    if value is None:
        raise InvalidInput("'payload' is missing", field="payload", hint="It may be empty, and is always text.")
    without_nul = value.replace("\0", " ") if isinstance(value, str) else value  # a payload may contain NUL
    checks.text("payload", without_nul, max_bytes=limits.MAX_MAIL_PAYLOAD_BYTES, hint="Store it in a file, and send its path.")
    return str(value)


def _check_whole_number(field: str, value: Any, maximum: int) -> int:
    whole = isinstance(value, int) or (isinstance(value, float) and value.is_integer())
    if not whole or isinstance(value, bool) or not 0 <= value <= maximum:
        raise InvalidInput(f"{field} must be a whole number from 0 to {maximum}, not {short_repr(value)}", field=field)
    return int(value)


def _extra_to_json(extra: dict[str, Any]) -> str:
    return checks.json_value("message", extra, max_bytes=limits.MAX_METADATA_JSON_BYTES) if extra else "{}"
