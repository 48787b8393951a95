"""Checks of input values. Each function returns the value, or refuses with an `InvalidInput` that names the field.

The verbs of the rooms call these checks before they open a transaction.
"""

from __future__ import annotations

from postroom.core.errors import InvalidInput
from postroom.core.text import short_repr

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

MAX_NAME_CHARS = 200
MAX_PATH_CHARS = 4096
MAX_WAIT_SECONDS = 366 * 86400.0
MAX_LIMIT_ITEMS = 10_000


def text(field: str, value: str) -> str:
    """Return a text of any length. Refuses NUL, at which strings of SQLite and C end and which PostgreSQL cannot store."""
    if not isinstance(value, str):
        raise InvalidInput(f"{field} must be text, not {type(value).__name__}", field=field)
    if "\0" in value:
        raise InvalidInput(f"{field} contains a NUL character", field=field, hint="Remove it: text may hold any other character.")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise InvalidInput(f"{field} is not valid UTF-8", field=field, hint="Encode it as UTF-8.") from None
    return value


def name(field: str, value: str | None, *, hint: str = "", max_chars: int = MAX_NAME_CHARS) -> str:
    """Return the name of an agent or an object: one printable line, not empty, of at most `max_chars` characters."""
    if value is None or not text(field, value).strip():
        raise InvalidInput(f"'{field}' is missing", field=field, hint=hint)
    if len(value) > max_chars:
        raise InvalidInput(f"{field} is longer than {max_chars} characters", field=field)
    if not value.isprintable() or value != value.strip():
        raise InvalidInput(f"{field} must be one line without control characters or outer spaces, not {short_repr(value)}", field=field)
    return value


def path(field: str, value: str) -> str:
    """Return a file path as its sender wrote it: one printable line. The file need not exist."""
    if not text(field, value).strip():
        raise InvalidInput(f"{field} is empty", field=field, hint="Name a file.")
    if len(value) > MAX_PATH_CHARS or not value.isprintable():
        raise InvalidInput(f"{field} must be one line of at most {MAX_PATH_CHARS} characters, without control characters", field=field)
    return value


def choice(field: str, value: str, allowed: Collection[str]) -> str:
    """Return a value that is one of `allowed`."""
    if value not in allowed:
        raise InvalidInput(f"{field} cannot be {short_repr(value)}", field=field, hint=f"Choose one of: {', '.join(allowed)}.")
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
    """Return the maximum number of items of a page: 1 to 10000."""
    if not isinstance(value, int) or not 1 <= value <= MAX_LIMIT_ITEMS:
        raise InvalidInput(f"{field} must be from 1 to {MAX_LIMIT_ITEMS}, not {short_repr(value)}", field=field)
    return value


def event_id(field: str, value: int) -> int:
    """Return an event id: an integer from 0 that fits into 64 bits with a sign."""
    if not isinstance(value, int) or not 0 <= value < 2**63:
        raise InvalidInput(f"{field} must be an event id, 0 or more, not {short_repr(value)}", field=field)
    return value


def json_object(field: str, value: str) -> str:
    """Return the text of a JSON object, unchanged."""
    if value == "{}":
        return value
    from postroom._fastpath import json_text as jsontext

    try:
        parsed = jsontext.loads(text(field, value))
    except ValueError as error:
        raise InvalidInput(f"{field} is not JSON: {error}", field=field, hint='Pass an object such as \'{"key": "value"}\'.') from None
    if not isinstance(parsed, dict):
        raise InvalidInput(f"{field} must be a JSON object, not {type(parsed).__name__}", field=field)
    return value
