"""Parse large JSON in a thread, in small steps, and no further than a bound.

The C parser of Python holds the interpreter until it has finished, so that a thread alone would not help: 11 MiB of small objects stopped
every other thread for half a second. Here each value is a step of its own, and other threads run between them.
"""

from __future__ import annotations

import re
from functools import partial
from json import JSONDecoder
from typing import Any

from postroom.core.errors import TooLarge
from postroom.core.limits import MAX_JSON_LEVELS, MAX_JSON_VALUES

LARGE_BYTES = 256 * 1024  # from which a text is parsed here. The C parser needs a few milliseconds for less
MAX_LEVELS = MAX_JSON_LEVELS + 10  # of a text: a call has some levels around the value of a caller
_skip_space = re.compile(r"[ \t\n\r]*").match


def _refuse_constant(name: str) -> object:
    raise ValueError(f"{name} is not JSON")


_scan_scalar: Any = JSONDecoder(parse_constant=_refuse_constant).scan_once  # type: ignore[attr-defined] # set by its constructor


def parse_in_steps(text: str) -> Any:
    """Return the value of a JSON text. Raises `ValueError` for malformed text, and `TooLarge` for more than `MAX_JSON_VALUES` values."""
    parser = _Parser(text)
    value, at = parser.parse_value(parser.skip(0), 0)
    if parser.skip(at) != len(text):
        raise ValueError(f"text after the value, at character {at}")
    return value


class _Parser:
    def __init__(self, text: str) -> None:
        self._text = text
        self._values = 0

    def skip(self, at: int) -> int:
        """Return the position behind white space."""
        return _skip_space(self._text, at).end()  # type: ignore[union-attr] # it matches everywhere

    def parse_value(self, at: int, level: int) -> tuple[Any, int]:
        """Return the value at a position, and the position behind it."""
        self._values += 1
        if self._values > MAX_JSON_VALUES:
            raise TooLarge(f"the JSON holds more than {MAX_JSON_VALUES} values", hint="Send several smaller requests.")
        if level > MAX_LEVELS:
            raise ValueError("nested too deeply")
        mark = self._text[at : at + 1]
        if mark == "{":
            return self._parse_items(at, "}", partial(self._parse_member, level + 1), dict)
        if mark == "[":
            return self._parse_items(at, "]", lambda begin: self.parse_value(begin, level + 1), list)
        try:
            value, end = _scan_scalar(self._text, at)
        except StopIteration:
            raise ValueError(f"a value is missing at character {at}") from None
        return value, end

    def _parse_items(self, at: int, closing: str, parse_item: Any, make: Any) -> tuple[Any, int]:
        """Return the object or list that begins at a position, and the position behind it."""
        items: list[Any] = []
        at = self.skip(at + 1)
        if self._text[at : at + 1] == closing:
            return make(items), at + 1
        while True:
            item, at = parse_item(at)
            items.append(item)
            at = self.skip(at)
            mark = self._text[at : at + 1]
            if mark == closing:
                return make(items), at + 1
            if mark != ",":
                raise ValueError(f"a comma is missing at character {at}")
            at = self.skip(at + 1)

    def _parse_member(self, level: int, at: int) -> tuple[tuple[str, Any], int]:
        if self._text[at : at + 1] != '"':
            raise ValueError(f"a name in quotes is missing at character {at}")
        name, at = _scan_scalar(self._text, at)
        at = self.skip(at)
        if self._text[at : at + 1] != ":":
            raise ValueError(f"a colon is missing at character {at}")
        value, at = self.parse_value(self.skip(at + 1), level)
        return (name, value), at
