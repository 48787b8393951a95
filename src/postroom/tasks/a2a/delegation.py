"""Parse the answers in an agent's output: lines `@complete ID: text`, `@fail ID: text` and `@delegate NAME: text`.

Accepts what models write: list items, also with a checkbox, emphasis, other case, and a fence of nothing but answers. Lines in other
code and in quotations are never answers, because the agent may quote a text of others. Those in code are reported.
"""

from __future__ import annotations

import re
from typing import NamedTuple

COMPLETE, FAIL, DELEGATE = "complete", "fail", "delegate"
_LIST_MARK = r"(?:(?:[-*+]|\d{1,3}[.)])[ \t]+(?:\[[ xX]\][ \t]+)?)?"
_START = re.compile(
    rf" {{0,3}}{_LIST_MARK}(?P<emphasis>\*{{1,3}}|_{{1,3}})?@(?P<verb>delegate|complete|fail)(?![\w-])(?P<rest>.*)",
    re.DOTALL | re.IGNORECASE,
)
_LOOKALIKE = re.compile(r"(?:\[[xX]\]|[\s`*_#\d.)+\[\]-]){0,20}@(?P<verb>[A-Za-z][\w-]*)(?P<rest>.*)", re.DOTALL)
_INSIDE = re.compile(rf"[^>]*(?<!\w)@(?:{COMPLETE}|{FAIL}|{DELEGATE})\s+[^\s:]+\s*:\s*\S.*", re.DOTALL | re.IGNORECASE)
_NAME_AND_TEXT = re.compile(r"\s+[^\s:]+\s*:\s*\S")
_PLAIN_FENCES = ("", "text", "txt", "plain", "markdown", "md")
_INDENTS = ("  ", "\t")
_AROUND_NAMES = "`<>[]\"'"
_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})(.*)", re.DOTALL)
_TICKS = re.compile(r"\\`|`+")
_JSON_OBJECT = re.compile(r"[^:\uff1a]*[:\uff1a][\s*_]*\{.*\}\s*")
_NAME = re.compile(r"[A-Za-z0-9_-](?:[\w.-]{0,198}[\w-])?", re.ASCII)


class Delegation(NamedTuple):
    """A task for another agent. `line` is its line number in the output, from 1."""

    agent: str
    text: str
    line: int


class ParsedAnswer(NamedTuple):
    """One answer. `verb` is `COMPLETE`, `FAIL` or `DELEGATE`. `name` is the id of the task, or the name of the agent."""

    verb: str
    name: str
    text: str
    line: int


class Misunderstood(NamedTuple):
    """A line that begins like an answer but is not valid. `why` is the reason."""

    line: int
    text: str
    why: str


class Delegations(NamedTuple):
    understood: tuple[Delegation, ...]
    misunderstood: tuple[Misunderstood, ...]


class Answers(NamedTuple):
    """`lookalikes` are lines that stand where no answer can stand, or whose verb is unknown."""

    understood: tuple[ParsedAnswer, ...]
    misunderstood: tuple[Misunderstood, ...]
    lookalikes: tuple[Misunderstood, ...]


def parse_delegations(text: str) -> Delegations:
    """Return the delegations in a text, and the lines that begin like one but are not valid."""
    answers = parse_answers(text)
    found = tuple(Delegation(one.name, one.text, one.line) for one in answers.understood if one.verb == DELEGATE)
    return Delegations(found, tuple(one for one in answers.misunderstood if f"@{DELEGATE}" in one.text.casefold()))


def parse_answers(text: str) -> Answers:
    """Return the answers in a text, the lines that begin like one but are not valid, and those that only look like one."""
    understood: list[ParsedAnswer] = []
    misunderstood: list[Misunderstood] = []
    lookalikes: list[Misunderstood] = []
    rows = [row.rstrip("\r") for row in text.split("\n")]
    code = _Code(rows)
    row_number = 0
    while row_number < len(rows):
        is_code = code.contains_row(row_number)
        match = None if is_code else _START.fullmatch(rows[row_number])
        if match is None:
            lookalikes += _find_lookalike(row_number + 1, rows[row_number], is_code)
            code.read_row(row_number)
            row_number += 1
            continue
        end = _find_end(rows, row_number, code)
        parsed = _parse_answer(row_number + 1, match, rows[row_number + 1 : end])
        if isinstance(parsed, ParsedAnswer):
            understood.append(parsed)
        else:
            misunderstood.append(parsed)
        code.skip_to_row(end)
        row_number = end
    return Answers(tuple(understood), tuple(misunderstood), tuple(lookalikes))


def _find_lookalike(line: int, row: str, is_code: bool) -> list[Misunderstood]:
    """Return a line that is no answer, but that its author may have meant as one."""
    match = _LOOKALIKE.fullmatch(row)
    if (match is not None and match["verb"].lower() in (COMPLETE, FAIL, DELEGATE)) or (not is_code and _INSIDE.fullmatch(row)):
        return [Misunderstood(line, row.strip(), "an answer begins its line, outside of code")]
    if match is not None and not is_code and _NAME_AND_TEXT.match(match["rest"]):
        return [Misunderstood(line, row.strip(), f"an answer begins with @{COMPLETE}, @{FAIL} or @{DELEGATE}")]
    return []


class _Code:
    """The rows that begin inside code: in a fence, or between two back-tick runs of equal length in one paragraph.

    A run that no other run closes is plain text. A run inside a delegation does not open code that ends after the delegation.
    """

    def __init__(self, rows: list[str]) -> None:
        self._fenced: set[int] = set()
        self.fence_ends: dict[int, int] = {}  # the last row of each closed fence with code, by its first row
        self._runs: list[tuple[int, int, str]] = []  # row number, paragraph number, back-ticks
        self._next_run, self._code_end_row = 0, -1
        fence, fence_start, paragraph = "", 0, 0
        for row_number, row in enumerate(rows):
            before, (fence, fenced) = fence, _update_fence(row, fence)
            if fence and not before:
                fence_start = row_number
            elif before and not fence:
                self._add_fence(rows, fence_start, row_number)
            if fenced:
                self._fenced.add(row_number)
            if fenced or not row.strip():
                paragraph += 1
            else:
                self._runs += [(row_number, paragraph, run[0]) for run in _TICKS.finditer(row) if not run[0].startswith("\\")]
        self._closing_runs = self._find_closing_runs()

    def _add_fence(self, rows: list[str], start: int, end: int) -> None:
        if _is_answer_fence(rows, start, end):
            self._fenced.difference_update(range(start + 1, end))
        else:
            self.fence_ends[start] = end

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


def _find_end(rows: list[str], start: int, code: _Code) -> int:
    """Return the row number after an answer's last row. Its rows are indented, or follow directly, as models write them."""
    row_number = end = start + 1
    is_direct = _JSON_OBJECT.fullmatch(rows[start]) is None
    while row_number < len(rows):
        after = row_number + 1
        if not rows[row_number].strip():
            is_direct = False
        elif rows[row_number].startswith(_INDENTS) or (is_direct and not _ends_answer(rows[row_number], code.contains_row(row_number))):
            end = after
        elif is_direct and row_number in code.fence_ends:
            end = after = code.fence_ends[row_number] + 1
        else:
            break
        row_number = after
    return end


def _ends_answer(row: str, is_code: bool) -> bool:
    """Return whether a row cannot belong to an answer that stands directly above it: a quotation, code, or another answer."""
    return is_code or row.lstrip().startswith(">") or _START.fullmatch(row) is not None or bool(_find_lookalike(0, row, is_code=False))


def _is_answer_fence(rows: list[str], start: int, end: int) -> bool:
    """Return whether a closed fence without a language holds nothing but answers: models wrap their answers in such."""
    opening = _FENCE.fullmatch(rows[start])
    content = [row for row in rows[start + 1 : end] if row.strip()]
    heads = [row for number, row in enumerate(content) if number == 0 or not row.startswith(_INDENTS)]
    is_plain = opening is not None and opening[2].strip().casefold() in _PLAIN_FENCES
    return is_plain and bool(heads) and all(_START.fullmatch(head) for head in heads)


def _parse_answer(line: int, match: re.Match[str], continuation: list[str]) -> ParsedAnswer | Misunderstood:
    """Parse what follows the verb in a line, and the lines that belong to it."""
    verb, rest, source = match["verb"].lower(), match["rest"].replace("\uff1a", ":", 1), match[0].strip()
    if match["emphasis"]:
        rest = rest.replace(match["emphasis"], "", 1)  # its end
    name, colon, first = rest.partition(":")
    name, what = name.strip().strip(_AROUND_NAMES).strip(), "agent" if verb == DELEGATE else "task"
    if verb != DELEGATE and name[:5].casefold() == "task ":
        name = name[5:].strip().strip(_AROUND_NAMES)
    if not name:
        return Misunderstood(line, source, f"no {what} is named")
    if not colon:
        return Misunderstood(line, source, "there is no colon after the name")
    if _NAME.fullmatch(name) is None or not rest[:1].isspace():
        return Misunderstood(line, source, f"{name!r} is not a name: letters, digits, and . _ - inside")
    text = "\n".join([first.strip(), *_remove_indentation(continuation)]).strip("\n")
    if not text.strip():
        return Misunderstood(line, source, "there is no text after the name")
    return ParsedAnswer(verb, name, text, line)


def _remove_indentation(rows: list[str]) -> list[str]:
    """Return the rows without the indentation that all of them share."""
    depth = min((len(row) - len(row.lstrip(" \t")) for row in rows if row.strip()), default=0)
    return [row[depth:].rstrip() for row in rows]
