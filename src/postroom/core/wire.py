"""The wire: records, and what they hold, as JSON that gives the same records again.

A tuple is a list. What JSON has no word for is an object with "~": a record by its module and name, a list, a dictionary of odd keys.
"""

from __future__ import annotations

from math import isfinite

from postroom.core.errors import InvalidInput
from postroom.core.records import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

MODULES = ("records", "letters", "entries", "histories", "watching")
MARK, IS = "~", "is"
VERB_PROTOCOL = "postroom.verbs.v1"  # of the WebSocket on which verbs are said
MOST_FRAME = 256 * 1024  # bytes that a client may say in one frame of a WebSocket


def teach(name: str, kind: type, pack: Callable[[Any], list[Any]], unpack: Callable[[list[Any]], Any]) -> None:
    """Let values of another kind travel: a room that has its own kinds of values says how."""
    _NAMES[kind] = (name, pack)
    _KINDS[name] = unpack


_NAMES: dict[type, tuple[str, Callable[[Any], list[Any]]]] = {}
_KINDS: dict[str, Callable[[list[Any]], Any]] = {}


def encode(value: Any, field: str = "named") -> Any:
    """A value as JSON can hold it. `field`: what it is called, should it be nothing that can travel."""
    if value is None or isinstance(value, (str, int)):
        return value
    if isinstance(value, float):
        return value if isfinite(value) else {MARK: "float", IS: [str(value)]}
    if type(value) in _NAMES:
        name, pack = _NAMES[type(value)]
        return {MARK: name, IS: [encode(item, field) for item in pack(value)]}
    if isinstance(value, Record):
        kind = type(value)
        return {MARK: f"{kind.__module__.rpartition('.')[2]}.{kind.__name__}", IS: [encode(item, name) for name, item in value.items()]}
    if hasattr(value, "keys"):
        if MARK in value or not all(isinstance(key, str) for key in value):
            return {MARK: "dict", IS: [[encode(key, field), encode(value[key], str(key))] for key in value]}
        return {key: encode(value[key], key) for key in value}
    if isinstance(value, list):
        return {MARK: "list", IS: [encode(item, field) for item in value]}
    if isinstance(value, tuple):
        return [encode(item, field) for item in value]
    raise InvalidInput(
        f"{field} is a {type(value).__name__}, which cannot be sent", field=field, hint="Give text, numbers, lists and objects."
    )


def argument(value: Any, field: str) -> Any:
    """An argument of a verb, as JSON can hold it."""
    try:
        return encode(settled(value), field)
    except RecursionError:
        raise InvalidInput(f"{field} is nested too deeply, or holds itself", field=field) from None


def settled(value: Any) -> Any:
    """A value that can be said more than once: of what can be gone through once, what it holds."""
    if isinstance(value, (str, bytes, bytearray, tuple, list, Record)) or hasattr(value, "keys") or not hasattr(value, "__iter__"):
        return value
    return tuple(value)


def decode(value: Any, *, only: tuple[str, ...] | None = None) -> Any:
    """The value again. `only`: the records that may be in it, where a stranger wrote it."""
    try:
        return _decoded(value, only)
    except RecursionError:
        raise _broken() from None


def _decoded(value: Any, only: tuple[str, ...] | None) -> Any:
    if isinstance(value, list):
        return tuple(_decoded(item, only) for item in value)
    if not isinstance(value, dict):
        return value
    if MARK not in value:
        return {key: _decoded(item, only) for key, item in value.items()}
    kind, held = value[MARK], value.get(IS)
    if not isinstance(kind, str) or not isinstance(held, list):
        raise _broken()
    items = [_decoded(item, only) for item in held]
    try:
        return _marked(kind, items, only)
    except (TypeError, ValueError, IndexError):
        raise _broken() from None


def _marked(kind: str, items: list[Any], only: tuple[str, ...] | None) -> Any:
    if kind == "list":
        return items
    if kind == "dict":
        if not all(isinstance(item, tuple) and len(item) == 2 for item in items):
            raise _broken()
        return dict(items)
    if kind == "float":
        return float(items[0])
    if only is not None and kind not in only:
        raise _broken()
    return _KINDS[kind](items) if kind in _KINDS else _record(kind)(*items)


def _record(kind: str) -> type[Record]:
    module, _, name = kind.partition(".")
    if module not in MODULES:
        raise _broken()
    found = getattr(__import__(f"postroom.core.{module}", fromlist=(name,)), name, None)
    if not isinstance(found, type) or not issubclass(found, Record):
        raise _broken()
    return found


def _broken() -> InvalidInput:
    return InvalidInput("what came is not as the wire has it", field="body", hint="Client and server are of different versions?")
