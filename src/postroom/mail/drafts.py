"""Drafts: a message as its sender wrote it, in snake_case or camelCase, checked. What we do not know is kept."""

from __future__ import annotations

from postroom.core import checks, jsontext
from postroom.core.errors import InvalidInput
from postroom.core.records import Record
from postroom.core.words import shown

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

ID_LENGTH = 400
PAYLOAD_BYTES = 10 * 1024 * 1024
EXTRA_BYTES = 64 * 1024
DEEPEST = 100
LATEST = 253_402_300_799  # the last second of the year 9999

_CAMEL = {"msgId": "msg_id", "createdAt": "created_at", "protocolVersion": "protocol_version"}
_NESTING = (dict, list, tuple)
_OURS = frozenset(("msg_id", "from", "to", "payload", "created_at", "attempt"))


class Draft(Record):
    """A message before it is stored. What is None, the store supplies."""

    msg_id: str | None
    sender: str
    to: str
    payload: str
    created_at: int | None
    extra_json: str


def read(message: Mapping[str, Any]) -> Draft:
    """The draft, or the refusal that names the field."""
    fields, extra = _sorted(message)
    if "attempt" in fields:
        _whole("attempt", fields["attempt"], 2**32 - 1)
    return Draft(
        None if fields.get("msg_id") is None else checks.name("msg_id", fields["msg_id"], longest=ID_LENGTH),
        checks.name("from", fields.get("from"), hint="Say who sends it."),
        checks.name("to", fields.get("to"), hint="Say which session it is for."),
        _payload(fields.get("payload")),
        None if fields.get("created_at") is None else _created(fields["created_at"]),
        _extra(extra),
    )


def _sorted(message: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """The fields of the protocol, by their snake_case names, and the rest."""
    if not hasattr(message, "items"):
        raise InvalidInput(f"a message is an object, not {type(message).__name__}", field="message")
    fields: dict[str, Any] = {}
    extra: dict[str, Any] = {}
    for key, value in message.items():
        name = _CAMEL.get(key, key)
        known = fields if name in _OURS else extra
        if known.get(name, value) != value:
            raise InvalidInput(f"{name} was given twice, with different values", field=name, hint="Leave one spelling out.")
        known[name] = value
    return fields, extra


def _payload(value: Any) -> str:
    if value is None:
        raise InvalidInput("'payload' is missing", field="payload", hint="It may be empty, and is always text.")
    payload = checks.text("payload", value)
    if len(payload) * 4 > PAYLOAD_BYTES and len(payload.encode()) > PAYLOAD_BYTES:
        raise InvalidInput(
            f"payload is larger than {PAYLOAD_BYTES // 1024 // 1024} MiB", field="payload", hint="Store it in a file, and send its path."
        )
    return payload


def _created(value: Any) -> int:
    if isinstance(value, (int, float)) and value > LATEST:
        raise InvalidInput(
            f"created_at is after the year 9999: {shown(value)}", field="created_at", hint="It is Unix seconds, not milliseconds."
        )
    return _whole("created_at", value, LATEST)


def _whole(field: str, value: Any, most: int) -> int:
    whole = isinstance(value, int) or (isinstance(value, float) and value.is_integer())
    if not whole or isinstance(value, bool) or not 0 <= value <= most:
        raise InvalidInput(f"{field} must be a whole number from 0 to {most}, not {shown(value)}", field=field)
    return int(value)


def _extra(extra: dict[str, Any]) -> str:
    if not extra:
        return "{}"
    try:
        text = checks.text("message", jsontext.dumps(extra))
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidInput(f"an unknown field is not JSON: {error}", field="message") from None
    if len(text.encode()) > EXTRA_BYTES:
        raise InvalidInput(
            f"the unknown fields are larger than {EXTRA_BYTES // 1024} KiB", field="message", hint="Put it into the payload."
        )
    if _is_deep(extra):
        raise InvalidInput(f"an unknown field is nested deeper than {DEEPEST} levels", field="message", hint="Put it into the payload.")
    return text


def _is_deep(extra: dict[str, Any]) -> bool:
    """Whoever is handed it must be able to read it, however deep in a program they are."""
    level: list[Any] = [extra]
    for _ in range(DEEPEST):
        level = [each for outer in level for each in (outer.values() if isinstance(outer, dict) else outer) if isinstance(each, _NESTING)]
        if not level:
            return False
    return True
