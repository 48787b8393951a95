"""Drafts: check a message as its sender wrote it, in snake_case or camelCase. Unknown fields are kept."""

from __future__ import annotations

from postroom._fastpath import json_text as jsontext
from postroom.core import checks
from postroom.core.errors import InvalidInput
from postroom.core.records import Record
from postroom.core.text import short_repr

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

MAX_ID_CHARS = 400
MAX_PAYLOAD_BYTES = 10 * 1024 * 1024
MAX_EXTRA_BYTES = 64 * 1024
MAX_NESTING_LEVELS = 100
MAX_CREATED_AT_SECONDS = 253_402_300_799  # the last second of the year 9999

_SNAKE_CASE_NAMES = {"msgId": "msg_id", "createdAt": "created_at", "protocolVersion": "protocol_version"}
_CONTAINER_TYPES = (dict, list, tuple)
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
        None if fields.get("msg_id") is None else checks.name("msg_id", fields["msg_id"], max_chars=MAX_ID_CHARS),
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


def _check_payload(value: Any) -> str:
    if value is None:
        raise InvalidInput("'payload' is missing", field="payload", hint="It may be empty, and is always text.")
    payload = checks.text("payload", value)
    if len(payload) * 4 > MAX_PAYLOAD_BYTES and len(payload.encode()) > MAX_PAYLOAD_BYTES:
        raise InvalidInput(
            f"payload is larger than {MAX_PAYLOAD_BYTES // 1024 // 1024} MiB",
            field="payload",
            hint="Store it in a file, and send its path.",
        )
    return payload


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
    if not extra:
        return "{}"
    try:
        text = checks.text("message", jsontext.dumps(extra))
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidInput(f"an unknown field is not JSON: {error}", field="message") from None
    if len(text.encode()) > MAX_EXTRA_BYTES:
        raise InvalidInput(
            f"the unknown fields are larger than {MAX_EXTRA_BYTES // 1024} KiB", field="message", hint="Put them into the payload."
        )
    if _is_too_deep(extra):
        raise InvalidInput(
            f"an unknown field is nested deeper than {MAX_NESTING_LEVELS} levels", field="message", hint="Put it into the payload."
        )
    return text


def _is_too_deep(extra: dict[str, Any]) -> bool:
    """Return whether fields are nested too deep for a receiver's recursive JSON parser."""
    level: list[Any] = [extra]
    for _ in range(MAX_NESTING_LEVELS):
        children = [child for parent in level for child in (parent.values() if isinstance(parent, dict) else parent)]
        level = [child for child in children if isinstance(child, _CONTAINER_TYPES)]
        if not level:
            return False
    return True
