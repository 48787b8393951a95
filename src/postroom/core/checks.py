"""What a value must be before it is let in. Each check returns the value or refuses, naming the field."""

from __future__ import annotations

from postroom.core.errors import InvalidInput
from postroom.core.words import shown

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

NAME_LENGTH = 200
PATH_LENGTH = 4096
LONGEST_WAIT = 366 * 86400.0


def text(field: str, value: str) -> str:
    """Any Unicode of any size. NUL is refused: SQLite's and C's strings end there, and PostgreSQL has none."""
    if not isinstance(value, str):
        raise InvalidInput(f"{field} must be text, not {type(value).__name__}", field=field)
    if "\0" in value:
        raise InvalidInput(f"{field} contains a NUL character", field=field, hint="Remove it: text may hold any other character.")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise InvalidInput(f"{field} is not valid UTF-8", field=field, hint="Encode it as UTF-8.") from None
    return value


def name(field: str, value: str | None, *, hint: str = "", longest: int = NAME_LENGTH) -> str:
    """Who somebody is, or which thing: one line, not empty, not absurdly long."""
    if value is None or not text(field, value).strip():
        raise InvalidInput(f"'{field}' is missing", field=field, hint=hint)
    if len(value) > longest:
        raise InvalidInput(f"{field} is longer than {longest} characters", field=field)
    if not value.isprintable() or value != value.strip():
        raise InvalidInput(f"{field} must be one line without control characters or outer spaces, not {shown(value)}", field=field)
    return value


def path(field: str, value: str) -> str:
    """A reference to a file, as its sender names it."""
    if not text(field, value).strip():
        raise InvalidInput(f"{field} is empty", field=field, hint="Name a file.")
    if len(value) > PATH_LENGTH or not value.isprintable():
        raise InvalidInput(f"{field} must be one line of at most {PATH_LENGTH} characters, without control characters", field=field)
    return value


def choice(field: str, value: str, allowed: Collection[str]) -> str:
    if value not in allowed:
        raise InvalidInput(f"{field} cannot be {shown(value)}", field=field, hint=f"Choose one of: {', '.join(allowed)}.")
    return value


def choices(field: str, values: Iterable[str], allowed: Collection[str]) -> tuple[str, ...]:
    chosen = tuple(dict.fromkeys(choice(field, value, allowed) for value in values))
    if not chosen:
        raise InvalidInput(f"{field} is empty", field=field, hint=f"Choose from: {', '.join(allowed)}.")
    return chosen


def seconds(field: str, value: float, *, zero: bool = False) -> float:
    """A duration; `zero` where nothing, or for ever, is a sensible one."""
    if not isinstance(value, int | float) or not 0 <= value <= LONGEST_WAIT or (value == 0 and not zero):  # "not": NaN is refused too
        bound = "0" if zero else "more than 0"
        said = f"{value:g}" if isinstance(value, float) else shown(value)
        raise InvalidInput(f"{field} must be from {bound} to {LONGEST_WAIT:.0f} seconds, not {said}", field=field)
    return float(value)


def limit(field: str, value: int) -> int:
    if not isinstance(value, int) or not 1 <= value <= 10_000:
        raise InvalidInput(f"{field} must be from 1 to 10000, not {shown(value)}", field=field)
    return value


def event(field: str, value: int) -> int:
    if not isinstance(value, int) or not 0 <= value < 2**63:
        raise InvalidInput(f"{field} must be an event id, 0 or more, not {shown(value)}", field=field)
    return value


def json_object(field: str, value: str) -> str:
    """A JSON object, kept as the text that came in."""
    if value == "{}":
        return value
    from postroom.core import jsontext

    try:
        parsed = jsontext.loads(text(field, value))
    except ValueError as error:
        raise InvalidInput(f"{field} is not JSON: {error}", field=field, hint='Pass an object such as \'{"key": "value"}\'.') from None
    if not isinstance(parsed, dict):
        raise InvalidInput(f"{field} must be a JSON object, not {type(parsed).__name__}", field=field)
    return value
