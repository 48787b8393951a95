"""Drafts: check a message as its sender wrote it, in snake_case or camelCase. Unknown fields are kept."""

from __future__ import annotations

from postroom.core import checks, limits
from postroom.core.errors import InvalidInput
from postroom.core.records import Record
from postroom.core.text import short_repr

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

MAX_ID_CHARS = 400
REPLY_ID_PREFIX = "reply:"  # of the ids of messages that carry a person's reply. No sender may choose such an id
MAX_CREATED_AT_SECONDS = 253_402_300_799  # the last second of the year 9999

_SNAKE_CASE_NAMES = {"msgId": "msg_id", "createdAt": "created_at", "protocolVersion": "protocol_version"}
_PROTOCOL_FIELDS = frozenset(("msg_id", "from", "to", "payload", "created_at", "attempt"))


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
        checks.name("to", fields.get("to"), hint="Name the session that receives it."),
        _check_payload(fields.get("payload")),
        None if fields.get("created_at") is None else _check_created_at(fields["created_at"]),
        _extra_to_json(extra),
    )


def _split_fields(message: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Split a message into the fields of the protocol, under their snake_case names, and the unknown fields."""
    if not hasattr(message, "items"):
        raise InvalidInput(f"a message is an object, not {type(message).__name__}", field="message")
    fields: dict[str, Any] = {}
    extra: dict[str, Any] = {}
    for key, value in message.items():
        name = _SNAKE_CASE_NAMES.get(key, key)
        target = fields if name in _PROTOCOL_FIELDS else extra
        if target.get(name, value) != value:
            raise InvalidInput(f"{name} was given twice, with different values", field=name, hint="Leave one spelling out.")
        target[name] = value
    return fields, extra


def _check_msg_id(value: Any) -> str:
    msg_id = checks.name("msg_id", value, max_chars=MAX_ID_CHARS)
    if msg_id.startswith(REPLY_ID_PREFIX):
        hint = "Choose another id, or leave it out."
        raise InvalidInput(f"msg_id must not begin with {REPLY_ID_PREFIX!r}: such ids are for replies of people", field="msg_id", hint=hint)
    return msg_id


def _check_payload(value: Any) -> str:
    if value is None:
        raise InvalidInput("'payload' is missing", field="payload", hint="It may be empty, and is always text.")
    return checks.text("payload", value, max_bytes=limits.MAX_MAIL_PAYLOAD_BYTES, hint="Store it in a file, and send its path.")


def _check_created_at(value: Any) -> int:
    if isinstance(value, (int, float)) and value > MAX_CREATED_AT_SECONDS:
        raise InvalidInput(
            f"created_at is after the year 9999: {short_repr(value)}", field="created_at", hint="It is Unix seconds, not milliseconds."
        )
    return _check_whole_number("created_at", value, MAX_CREATED_AT_SECONDS)


def _check_whole_number(field: str, value: Any, maximum: int) -> int:
    whole = isinstance(value, int) or (isinstance(value, float) and value.is_integer())
    if not whole or isinstance(value, bool) or not 0 <= value <= maximum:
        raise InvalidInput(f"{field} must be a whole number from 0 to {maximum}, not {short_repr(value)}", field=field)
    return int(value)


def _extra_to_json(extra: dict[str, Any]) -> str:
    return checks.json_value("message", extra, max_bytes=limits.MAX_METADATA_JSON_BYTES) if extra else "{}"
