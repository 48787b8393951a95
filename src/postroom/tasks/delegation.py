"""What an agent delegates in its output: lines `@delegate name: text`. Code and quotations are not commands."""

from __future__ import annotations

import re
from typing import NamedTuple

_START = re.compile(r" {0,3}@delegate(?![\w-])(.*)", re.DOTALL)
_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})(.*)", re.DOTALL)
_TICKS = re.compile(r"\\`|`+")
_NAME = re.compile(r"[A-Za-z0-9_-](?:[\w.-]{0,198}[\w-])?", re.ASCII)


class Delegation(NamedTuple):
    """One thing to be done by another agent; `line` is where it was said."""

    agent: str
    text: str
    line: int


class Misunderstood(NamedTuple):
    """A line that begins like a delegation and is none."""

    line: int
    text: str
    why: str


class Delegations(NamedTuple):
    understood: tuple[Delegation, ...]
    misunderstood: tuple[Misunderstood, ...]


def parse(text: str) -> Delegations:
    """Every delegation in a text, and every line that may have been meant as one."""
    understood: list[Delegation] = []
    misunderstood: list[Misunderstood] = []
    rows = [row.rstrip("\r") for row in text.split("\n")]
    code = _Code(rows)
    place = 0
    while place < len(rows):
        started = None if code.holds(place) else _START.fullmatch(rows[place])
        if started is None:
            code.read(place)
            place += 1
            continue
        after = _end_of(rows, place)
        said = _read(place + 1, started[1], rows[place + 1 : after])
        if isinstance(said, Delegation):
            understood.append(said)
        else:
            misunderstood.append(said)
        code.skip(after)
        place = after
    return Delegations(tuple(understood), tuple(misunderstood))


class _Code:
    """The rows that begin inside code: in a fence, or between two runs of as many back-ticks in one paragraph.

    A run without its like is only a character. What a delegation says is its own: no code begins in it and ends after it.
    """

    def __init__(self, rows: list[str]) -> None:
        self._fenced: set[int] = set()
        self._runs: list[tuple[int, int, str]] = []  # each with its row and its paragraph
        self._at, self._until = 0, -1
        fence, paragraph = "", 0
        for place, row in enumerate(rows):
            fence, fenced = _fenced(row, fence)
            if fenced:
                self._fenced.add(place)
            if fenced or not row.strip():
                paragraph += 1
            else:
                self._runs += [(place, paragraph, run[0]) for run in _TICKS.finditer(row) if not run[0].startswith("\\")]
        self._like = self._likes()

    def _likes(self) -> list[int | None]:
        """Of each run, where the next one is that closes it."""
        found: list[int | None] = [None] * len(self._runs)
        last: dict[tuple[int, str], int] = {}
        for at in range(len(self._runs) - 1, -1, -1):
            _, paragraph, ticks = self._runs[at]
            found[at] = last.get((paragraph, ticks))
            last[paragraph, ticks] = at
        return found

    def holds(self, place: int) -> bool:
        return place in self._fenced or place <= self._until

    def read(self, place: int) -> None:
        """Go on after a row that is no delegation."""
        while self._at < len(self._runs) and self._runs[self._at][0] <= place:
            closing = self._like[self._at]
            if closing is None:
                self._at += 1
            else:
                self._until = self._runs[closing][0]
                self._at = closing + 1

    def skip(self, place: int) -> None:
        """Go on at a row, after a delegation."""
        while self._at < len(self._runs) and self._runs[self._at][0] < place:
            self._at += 1


def _fenced(row: str, fence: str) -> tuple[str, bool]:
    """The fence that is open after a row, and whether the row belongs to one."""
    found = _FENCE.fullmatch(row)
    if fence:
        closes = found is not None and found[1][0] == fence[0] and len(found[1]) >= len(fence) and not found[2].strip()
        return ("" if closes else fence), True
    if found is not None and not (found[1][0] == "`" and "`" in found[2]):
        return found[1], True
    return "", False


def _end_of(rows: list[str], place: int) -> int:
    """Where a delegation ends: after its last row that is indented."""
    end = place + 1
    for at in range(place + 1, len(rows)):
        row = rows[at]
        if not row.strip():
            continue
        if not row.startswith(("  ", "\t")):
            break
        end = at + 1
    return end


def _read(line: int, rest: str, more: list[str]) -> Delegation | Misunderstood:
    name, colon, first = rest.partition(":")
    said = f"@delegate{rest}"
    name = name.strip()
    if not name:
        return Misunderstood(line, said, "no agent is named")
    if not colon:
        return Misunderstood(line, said, "there is no colon after the name")
    if _NAME.fullmatch(name) is None or not rest[:1].isspace():
        return Misunderstood(line, said, f"{name!r} is not a name: letters, digits, and . _ - inside")
    text = "\n".join([first.strip(), *_outdented(more)]).strip("\n")
    if not text.strip():
        return Misunderstood(line, said, "nothing is said after the name")
    return Delegation(name, text, line)


def _outdented(rows: list[str]) -> list[str]:
    """Without the indentation that all of them share."""
    depth = min((len(row) - len(row.lstrip(" \t")) for row in rows if row.strip()), default=0)
    return [row[depth:].rstrip() for row in rows]
