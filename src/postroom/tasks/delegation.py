"""Parse the delegations in an agent's output: lines `@delegate name: text`. Lines in code and in quotations are ignored."""

from __future__ import annotations

import re
from typing import NamedTuple

_START = re.compile(r" {0,3}@delegate(?![\w-])(.*)", re.DOTALL)
_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})(.*)", re.DOTALL)
_TICKS = re.compile(r"\\`|`+")
_NAME = re.compile(r"[A-Za-z0-9_-](?:[\w.-]{0,198}[\w-])?", re.ASCII)


class Delegation(NamedTuple):
    """A task for another agent. `line` is its line number in the output, from 1."""

    agent: str
    text: str
    line: int


class Misunderstood(NamedTuple):
    """A line that begins like a delegation but is not valid. `why` is the reason."""

    line: int
    text: str
    why: str


class Delegations(NamedTuple):
    understood: tuple[Delegation, ...]
    misunderstood: tuple[Misunderstood, ...]


def parse_delegations(text: str) -> Delegations:
    """Return the delegations in a text, and the lines that begin like one but are not valid."""
    understood: list[Delegation] = []
    misunderstood: list[Misunderstood] = []
    rows = [row.rstrip("\r") for row in text.split("\n")]
    code = _Code(rows)
    row_number = 0
    while row_number < len(rows):
        match = None if code.contains_row(row_number) else _START.fullmatch(rows[row_number])
        if match is None:
            code.read_row(row_number)
            row_number += 1
            continue
        end = _find_end(rows, row_number)
        parsed = _parse_delegation(row_number + 1, match[1], rows[row_number + 1 : end])
        if isinstance(parsed, Delegation):
            understood.append(parsed)
        else:
            misunderstood.append(parsed)
        code.skip_to_row(end)
        row_number = end
    return Delegations(tuple(understood), tuple(misunderstood))


class _Code:
    """The rows that begin inside code: in a fence, or between two back-tick runs of equal length in one paragraph.

    A run that no other run closes is plain text. A run inside a delegation does not open code that ends after the delegation.
    """

    def __init__(self, rows: list[str]) -> None:
        self._fenced: set[int] = set()
        self._runs: list[tuple[int, int, str]] = []  # row number, paragraph number, back-ticks
        self._next_run, self._code_end_row = 0, -1
        fence, paragraph = "", 0
        for row_number, row in enumerate(rows):
            fence, fenced = _update_fence(row, fence)
            if fenced:
                self._fenced.add(row_number)
            if fenced or not row.strip():
                paragraph += 1
            else:
                self._runs += [(row_number, paragraph, run[0]) for run in _TICKS.finditer(row) if not run[0].startswith("\\")]
        self._closing_runs = self._find_closing_runs()

    def _find_closing_runs(self) -> list[int | None]:
        """Return for each run the index of the next run that closes it, or None."""
        closing: list[int | None] = [None] * len(self._runs)
        next_index: dict[tuple[int, str], int] = {}
        for index in range(len(self._runs) - 1, -1, -1):
            _, paragraph, ticks = self._runs[index]
            closing[index] = next_index.get((paragraph, ticks))
            next_index[paragraph, ticks] = index
        return closing

    def contains_row(self, row_number: int) -> bool:
        """Return whether the row begins inside code. The rows before it must have been read or skipped."""
        return row_number in self._fenced or row_number <= self._code_end_row

    def read_row(self, row_number: int) -> None:
        """Open and close code by the runs of a row that is not a delegation."""
        while self._next_run < len(self._runs) and self._runs[self._next_run][0] <= row_number:
            closing = self._closing_runs[self._next_run]
            if closing is None:
                self._next_run += 1
            else:
                self._code_end_row = self._runs[closing][0]
                self._next_run = closing + 1

    def skip_to_row(self, row_number: int) -> None:
        """Ignore the runs before a row, because they belong to a delegation."""
        while self._next_run < len(self._runs) and self._runs[self._next_run][0] < row_number:
            self._next_run += 1


def _update_fence(row: str, fence: str) -> tuple[str, bool]:
    """Return the fence that is open after a row, or "", and whether the row belongs to a fence."""
    marker = _FENCE.fullmatch(row)
    if fence:
        closes = marker is not None and marker[1][0] == fence[0] and len(marker[1]) >= len(fence) and not marker[2].strip()
        return ("" if closes else fence), True
    if marker is not None and not (marker[1][0] == "`" and "`" in marker[2]):
        return marker[1], True
    return "", False


def _find_end(rows: list[str], start: int) -> int:
    """Return the row number after a delegation's last indented row."""
    end = start + 1
    for row_number in range(start + 1, len(rows)):
        row = rows[row_number]
        if not row.strip():
            continue
        if not row.startswith(("  ", "\t")):
            break
        end = row_number + 1
    return end


def _parse_delegation(line: int, rest: str, continuation: list[str]) -> Delegation | Misunderstood:
    """Parse what follows `@delegate` in a line, and the indented lines after it."""
    name, colon, first = rest.partition(":")
    source = f"@delegate{rest}"
    name = name.strip()
    if not name:
        return Misunderstood(line, source, "no agent is named")
    if not colon:
        return Misunderstood(line, source, "there is no colon after the name")
    if _NAME.fullmatch(name) is None or not rest[:1].isspace():
        return Misunderstood(line, source, f"{name!r} is not a name: letters, digits, and . _ - inside")
    text = "\n".join([first.strip(), *_remove_indentation(continuation)]).strip("\n")
    if not text.strip():
        return Misunderstood(line, source, "there is no text after the name")
    return Delegation(name, text, line)


def _remove_indentation(rows: list[str]) -> list[str]:
    """Return the rows without the indentation that all of them share."""
    depth = min((len(row) - len(row.lstrip(" \t")) for row in rows if row.strip()), default=0)
    return [row[depth:].rstrip() for row in rows]
