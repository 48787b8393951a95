"""Checks of input values. Each function returns the value, or refuses with an `InvalidInput` that names the field.

The verbs of the rooms call these checks before they open a transaction.
"""

from __future__ import annotations

from postroom.core import limits
from postroom.core.errors import InvalidInput
from postroom.core.text import short_repr

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterable
    from typing import Any, TypeVar

    T = TypeVar("T")

MAX_WAIT_SECONDS = 366 * 86400.0
AFTER_ALL_IDS = 2**62  # later than every event, delivery and entry
_CONTAINER_TYPES = (dict, list, tuple)


def text(field: str, value: str, *, max_bytes: int = limits.MAX_BODY_BYTES, hint: str = "Write it into a file, and send its path.") -> str:
    """Return a text of at most `max_bytes`. Refuses NUL, at which strings of SQLite and C end and which PostgreSQL cannot store."""
    if not isinstance(value, str):
        raise InvalidInput(f"{field} must be text, not {type(value).__name__}", field=field)
    if "\0" in value:
        raise InvalidInput(f"{field} contains a NUL character", field=field, hint="Remove it: text may hold any other character.")
    try:
        is_too_large = len(value) > max_bytes or len(value.encode()) > max_bytes
    except UnicodeEncodeError:
        raise InvalidInput(f"{field} is not valid UTF-8", field=field, hint="Encode it as UTF-8.") from None
    if is_too_large:
        raise InvalidInput(f"{field} is larger than {size_text(max_bytes)}", field=field, hint=hint)
    return value


def line(field: str, value: str) -> str:
    """Return a short text, as a subject or a summary. It appears in every list, so it has at most `MAX_LINE_BYTES`."""
    return text(field, value, max_bytes=limits.MAX_LINE_BYTES, hint="Put the rest into the body.")


def indexed(field: str, value: str) -> str:
    """Return a text that becomes a part of an index. It may be short enough for its field, and have too many bytes for an index."""
    return text(field, value, max_bytes=limits.MAX_INDEXED_BYTES, hint="Choose a shorter one.")


def reason(field: str, value: str) -> str:
    """Return the reason of a refusal or a failure, in at most `MAX_REASON_CHARS` characters."""
    if len(text(field, value)) > limits.MAX_REASON_CHARS:
        raise InvalidInput(f"{field} is longer than {limits.MAX_REASON_CHARS} characters", field=field, hint="Say it briefly.")
    return value


def size_text(size: int) -> str:
    """Return a number of bytes for a person, in MiB, KiB or bytes."""
    if size < limits.KIB:
        return f"{size} bytes"
    return f"{size // limits.MIB} MiB" if size >= limits.MIB else f"{size // limits.KIB} KiB"


def items(field: str, values: Iterable[T], *, maximum: int = limits.MAX_BATCH_ITEMS) -> list[T]:
    """Return the items of a batch as a list. Stops reading, and refuses, at more than `maximum`."""
    taken: list[T] = []
    for value in values:
        if len(taken) == maximum:
            raise InvalidInput(f"{field} has more than {maximum} items", field=field, hint="Send them in several batches.")
        taken.append(value)
    return taken


def name(field: str, value: str | None, *, hint: str = "", max_chars: int = limits.MAX_NAME_CHARS) -> str:
    """Return the name of an agent or an object: one printable line, not empty, of at most `max_chars` characters."""
    if type(value) is str and value.isascii() and value.isprintable() and value.strip(" ") == value and 0 < len(value) <= max_chars:
        return value  # most names: nothing below refuses them
    if value is None or not text(field, value).strip():
        raise InvalidInput(f"'{field}' is missing", field=field, hint=hint)
    if len(value) > max_chars:
        raise InvalidInput(f"{field} is longer than {max_chars} characters", field=field)
    if not value.isprintable() or value != value.strip():
        raise InvalidInput(f"{field} must be one line without control characters or outer spaces, not {short_repr(value)}", field=field)
    if not value.isascii():
        _check_characters(field, value)
    return value


def _check_characters(field: str, value: str) -> None:
    """Refuse a name with an invisible character, and one that another spelling of the same letters would not equal."""
    from unicodedata import is_normalized

    from postroom.core.hidden_characters import describe_hidden

    hidden = describe_hidden(value)
    if hidden:
        raise InvalidInput(f"{field} has characters that cannot be seen: {hidden}", field=field, hint="Leave them out.")
    if not is_normalized("NFC", value):
        raise InvalidInput(
            f"{field} is not in the normal form NFC of Unicode", field=field, hint="Write each letter with its accent as one."
        )


def path(field: str, value: str) -> str:
    """Return a file path as its sender wrote it: one printable line. The file need not exist."""
    if not text(field, value).strip():
        raise InvalidInput(f"{field} is empty", field=field, hint="Name a file.")
    if len(value) > limits.MAX_PATH_CHARS or not value.isprintable():
        raise InvalidInput(
            f"{field} must be one line of at most {limits.MAX_PATH_CHARS} characters, without control characters", field=field
        )
    return value


def choice(field: str, value: str, allowed: Collection[str], *, advice: str = "") -> str:
    """Return a value that is one of `allowed`. The refusal lists them, and ends with `advice`."""
    if value not in allowed:
        hint = f"Choose one of: {', '.join(allowed)}. {advice}".rstrip()
        raise InvalidInput(f"{field} cannot be {short_repr(value)}", field=field, hint=hint)
    return value


def choices(field: str, values: Iterable[str], allowed: Collection[str]) -> tuple[str, ...]:
    """Return the values without duplicates. Each must be one of `allowed`, and there must be at least one."""
    chosen = tuple(dict.fromkeys(choice(field, value, allowed) for value in values))
    if not chosen:
        raise InvalidInput(f"{field} is empty", field=field, hint=f"Choose from: {', '.join(allowed)}.")
    return chosen


def seconds(field: str, value: float, *, allow_zero: bool = False) -> float:
    """Return a duration in seconds as a float. `allow_zero` accepts 0, where the caller gives 0 a meaning (no wait, no limit)."""
    is_number = isinstance(value, int | float)
    if not is_number or not 0 <= value <= MAX_WAIT_SECONDS or (value == 0 and not allow_zero):  # `not 0 <=` refuses NaN too
        bound = "0" if allow_zero else "more than 0"
        given = f"{value:g}" if isinstance(value, float) else short_repr(value)
        raise InvalidInput(f"{field} must be from {bound} to {MAX_WAIT_SECONDS:.0f} seconds, not {given}", field=field)
    return float(value)


def limit(field: str, value: int) -> int:
    """Return the maximum number of items of a page: 1 to `MAX_ITEMS`."""
    if not isinstance(value, int) or not 1 <= value <= limits.MAX_ITEMS:
        raise InvalidInput(f"{field} must be from 1 to {limits.MAX_ITEMS}, not {short_repr(value)}", field=field)
    return value


def event_id(field: str, value: int) -> int:
    """Return an event id: an integer from 0 that fits into 64 bits with a sign."""
    if not isinstance(value, int) or not 0 <= value < 2**63:
        raise InvalidInput(f"{field} must be an event id, 0 or more, not {short_repr(value)}", field=field)
    return value


def json_object(field: str, value: str, *, max_bytes: int = limits.MAX_PAYLOAD_JSON_BYTES) -> str:
    """Return the text of a JSON object, unchanged. Refuses what a strict reader of JSON would refuse, as `json_value` does."""
    if value == "{}":
        return value
    from postroom._fastpath import json_text as jsontext

    try:
        parsed = jsontext.loads(text(field, value, max_bytes=max_bytes))
    except ValueError as error:
        raise InvalidInput(f"{field} is not JSON: {error}", field=field, hint='Pass an object such as \'{"key": "value"}\'.') from None
    if not isinstance(parsed, dict):
        raise InvalidInput(f"{field} must be a JSON object, not {type(parsed).__name__}", field=field)
    json_value(field, parsed, max_bytes=max_bytes * 10)  # 1e15 is written out as 1000000000000000.0
    return value


def json_value(field: str, value: Any, *, max_bytes: int) -> str:
    """Return a value as JSON text.

    Refuses what some reader of JSON cannot take: infinite numbers, lone surrogates, and more than `MAX_JSON_LEVELS` levels. One such
    message would otherwise cost its receiver the whole answer.
    """
    from postroom._fastpath import json_text as jsontext

    if is_nested_too_deep(value):
        raise InvalidInput(f"{field} is nested deeper than {limits.MAX_JSON_LEVELS} levels", field=field, hint="Flatten it.")
    try:
        written = jsontext.dumps(value)
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidInput(f"{field} is not JSON: {error}", field=field, hint="Keep to finite numbers, text, lists and objects.") from None
    return text(field, written, max_bytes=max_bytes)


def is_nested_too_deep(value: Any) -> bool:
    """Return whether a value has more levels than a recursive reader of JSON can be expected to take."""
    level: list[Any] = [value] if isinstance(value, _CONTAINER_TYPES) else []
    for _ in range(limits.MAX_JSON_LEVELS):
        children = [child for parent in level for child in (parent.values() if isinstance(parent, dict) else parent)]
        level = [child for child in children if isinstance(child, _CONTAINER_TYPES)]
        if not level:
            return False
    return True


def wrong_cursor_error(after: object) -> InvalidInput:
    """Return the refusal of a text that no listing gave as its cursor."""
    return InvalidInput(
        f"after is not the cursor of a listing: {short_repr(after)}", field="after", hint="Pass `after` of the page before."
    )
