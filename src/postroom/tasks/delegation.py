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
    code = _code(rows)
    place = 0
    while place < len(rows):
        started = None if place in code else _START.fullmatch(rows[place])
        if started is None:
            place += 1
            continue
        after = _end_of(rows, place)
        said = _read(place + 1, started[1], rows[place + 1 : after])
        if isinstance(said, Delegation):
            understood.append(said)
        else:
            misunderstood.append(said)
        place = after
    return Delegations(tuple(understood), tuple(misunderstood))


def _code(rows: list[str]) -> set[int]:
    """The rows that begin inside code: in a fence, or between back-ticks that stand in an earlier row of the same paragraph."""
    inside: set[int] = set()
    fence = ""
    paragraph: list[int] = []
    for place, row in enumerate([*rows, ""]):
        fence, fenced = _fenced(row, fence) if place < len(rows) else (fence, False)
        if fenced:
            inside.add(place)
        if fenced or not row.strip():
            inside |= _ticked(rows, paragraph)
            paragraph = []
        else:
            paragraph.append(place)
    return inside


def _ticked(rows: list[str], paragraph: list[int]) -> set[int]:
    """The rows of a paragraph that begin between two runs of as many back-ticks. A run without its like is only a character."""
    runs = [(place, run[0]) for place in paragraph for run in _TICKS.finditer(rows[place]) if not run[0].startswith("\\")]
    inside: set[int] = set()
    at = 0
    while at < len(runs):
        place, ticks = runs[at]
        closing = next((later for later in range(at + 1, len(runs)) if runs[later][1] == ticks), None)
        if closing is None:
            at += 1
            continue
        inside.update(range(place + 1, runs[closing][0] + 1))
        at = closing + 1
    return inside


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
