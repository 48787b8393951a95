"""Dictionaries and lists that cannot be changed: what a snapshot holds stays as it was."""

from __future__ import annotations

from math import isfinite
from typing import Any, NoReturn

from postroom.core import jsontext
from postroom.core.errors import InvalidInput

DEEPEST = 100


def _refuse(*_: object, **__: object) -> NoReturn:
    raise TypeError("a task is a snapshot: make a new one instead of changing it")


class FrozenDict(dict[str, Any]):
    """Compares, prints and serialises like any other."""

    __setitem__ = __delitem__ = __ior__ = clear = pop = popitem = setdefault = update = _refuse

    def __hash__(self) -> int:  # type: ignore[override]
        return hash(jsontext.dumps(self))

    def __copy__(self) -> FrozenDict:
        return self

    def __deepcopy__(self, memo: object) -> FrozenDict:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        return freeze, (dict(self),)


class FrozenList(list[Any]):
    """Compares, prints and serialises like any other."""

    __setitem__ = __delitem__ = __iadd__ = __imul__ = append = clear = extend = insert = pop = remove = reverse = sort = _refuse

    def __hash__(self) -> int:  # type: ignore[override]
        return hash(jsontext.dumps(self))

    def __copy__(self) -> FrozenList:
        return self

    def __deepcopy__(self, memo: object) -> FrozenList:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        return freeze, (list(self),)


def freeze(value: Any) -> Any:
    """A copy that cannot be changed, however deep."""
    if isinstance(value, dict):
        return FrozenDict({key: freeze(inner) for key, inner in value.items()})
    if isinstance(value, list | tuple):
        return FrozenList([freeze(inner) for inner in value])
    return value


def json_object(field: str, value: object, *, largest: int) -> FrozenDict:
    """A JSON object as a caller gives it, checked and frozen."""
    if not isinstance(value, dict):
        hint = 'Pass one such as {"key": "value"}.'
        raise InvalidInput(f"{field} must be a JSON object, not {type(value).__name__}", field=field, hint=hint)
    try:
        _check(value, 1)
        text = jsontext.dumps(value)
        size = len(text.encode())
    except (TypeError, ValueError, RecursionError, SystemError) as error:
        hint = "Keep to text, numbers, true, false, null, lists and objects."
        raise InvalidInput(f"{field} is not JSON: {error}", field=field, hint=hint) from None
    if size > largest:
        hint = "Write it into a file, and pass the file's path."
        raise InvalidInput(f"{field} has {size} bytes as JSON; at most {largest} are taken", field=field, hint=hint)
    frozen: FrozenDict = freeze(value)
    return frozen


def _check(value: Any, depth: int) -> None:
    """What JSON would quietly turn into something else, or never end."""
    if depth > DEEPEST:
        raise ValueError(f"it is nested deeper than {DEEPEST} levels")
    if isinstance(value, dict):
        if not all(isinstance(key, str) and "\0" not in key for key in value):
            raise ValueError("a key is not text without NUL")
        for inner in value.values():
            _check(inner, depth + 1)
    elif isinstance(value, list | tuple):
        for inner in value:
            _check(inner, depth + 1)
    elif isinstance(value, str) and "\0" in value:
        raise ValueError("it contains a NUL character")
    elif isinstance(value, float) and not isfinite(value):
        raise ValueError(f"{value} is not a number that JSON knows")
