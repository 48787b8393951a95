"""Immutable dictionaries and lists, for the JSON values inside snapshots. Called by the models and by the inbox."""

from __future__ import annotations

from math import isfinite
from typing import Any, NoReturn

from postroom._fastpath import json_text as jsontext
from postroom.core.errors import InvalidInput
from postroom.core.limits import MAX_JSON_LEVELS


def _refuse_change(*_: object, **__: object) -> NoReturn:
    raise TypeError("a task is a snapshot: make a new one instead of changing it")


class FrozenDict(dict[str, Any]):
    """An immutable dictionary that compares, prints and serialises like a dict."""

    __setitem__ = __delitem__ = __ior__ = clear = pop = popitem = setdefault = update = _refuse_change

    def __hash__(self) -> int:  # type: ignore[override]
        return hash(jsontext.dumps(self))

    def __copy__(self) -> FrozenDict:
        return self

    def __deepcopy__(self, memo: object) -> FrozenDict:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        return freeze, (dict(self),)


class FrozenList(list[Any]):
    """An immutable list that compares, prints and serialises like a list."""

    __setitem__ = __delitem__ = __iadd__ = __imul__ = append = clear = extend = insert = pop = remove = reverse = sort = _refuse_change

    def __hash__(self) -> int:  # type: ignore[override]
        return hash(jsontext.dumps(self))

    def __copy__(self) -> FrozenList:
        return self

    def __deepcopy__(self, memo: object) -> FrozenList:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        return freeze, (list(self),)


def freeze(value: Any) -> Any:
    """Return an immutable deep copy of a JSON value."""
    if isinstance(value, dict):
        return FrozenDict({key: freeze(inner) for key, inner in value.items()})
    if isinstance(value, list | tuple):
        return FrozenList([freeze(inner) for inner in value])
    return value


def freeze_json_object(field: str, value: object, *, max_bytes: int) -> FrozenDict:
    """Check a JSON object and return an immutable copy.

    Refuses with `InvalidInput` if it is not a JSON object or has more than `max_bytes` bytes as JSON.
    """
    if not isinstance(value, dict):
        hint = 'Pass one such as {"key": "value"}.'
        raise InvalidInput(f"{field} must be a JSON object, not {type(value).__name__}", field=field, hint=hint)
    try:
        _check_json_value(value, 1)
        text = jsontext.dumps(value)
        size = len(text.encode())
    except (TypeError, ValueError, RecursionError, SystemError) as error:
        hint = "Keep to text, numbers, true, false, null, lists and objects."
        raise InvalidInput(f"{field} is not JSON: {error}", field=field, hint=hint) from None
    if size > max_bytes:
        hint = "Write it into a file, and pass the file's path."
        raise InvalidInput(f"{field} has {size} bytes as JSON; at most {max_bytes} are taken", field=field, hint=hint)
    frozen: FrozenDict = freeze(value)
    return frozen


def _check_json_value(value: Any, depth: int) -> None:
    """Raise `ValueError` for a value that JSON would change silently, or that is nested too deep."""
    if depth > MAX_JSON_LEVELS:
        raise ValueError(f"it is nested deeper than {MAX_JSON_LEVELS} levels")
    if isinstance(value, dict):
        if not all(isinstance(key, str) and "\0" not in key for key in value):
            raise ValueError("a key is not text without NUL")
        for inner in value.values():
            _check_json_value(inner, depth + 1)
    elif isinstance(value, list | tuple):
        for inner in value:
            _check_json_value(inner, depth + 1)
    elif isinstance(value, str) and "\0" in value:
        raise ValueError("it contains a NUL character")
    elif isinstance(value, float) and not isfinite(value):
        raise ValueError(f"{value} is not a number that JSON knows")
