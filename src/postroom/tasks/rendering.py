"""Tasks as Markdown for a prompt. What strangers wrote is quoted line by line, so that none of it can pose as ours."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import NamedTuple

from postroom.tasks.models import RESULT, A2ATask

BUDGET = 10_000
LEAST = 200  # of a description, if it has to be cut at all
HEADING = "## Incoming A2A tasks\n"
_ENDS = ("\r\n", "\r", "\x0b", "\x0c", "\x1c", "\x1d", "\x1e", "\x85", "\u2028", "\u2029")
_HIDDEN = frozenset(
    (*range(0x20), *range(0x7F, 0xA0), *range(0x200B, 0x2010), *range(0x2028, 0x202F), *range(0x2060, 0x206A), 0xFEFF, 0x061C, 0x180E, 0xAD)
)
_VISIBLE = {code: f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" for code in _HIDDEN}
_IN_TEXT = {**_VISIBLE, 0x0A: "\n", 0x09: "\t"}


class Rendered(NamedTuple):
    """What was shown of the tasks, and how many were not."""

    text: str
    shown: tuple[str, ...]
    left_out: int


def render(tasks: Iterable[A2ATask], budget: int = BUDGET) -> str:
    return rendered(tasks, budget).text


def rendered(tasks: Iterable[A2ATask], budget: int = BUDGET) -> Rendered:
    """As many tasks as fit into that many characters, in their order; at least the first one's heading."""
    waiting = order(tasks)
    if not waiting:
        return Rendered("", (), 0)
    parts, left, shown = [HEADING], budget - len(HEADING), 0
    for place, task in enumerate(waiting):
        after = len(waiting) - place - 1
        room = left - (len(_more(after)) if after else 0)
        part = _fitted(task, room)
        if part is None and place > 0:
            break
        parts.append(part if part is not None else _head(task))
        left -= len(parts[-1])
        shown += 1
        if part is None:
            break
    missing = len(waiting) - shown
    if missing:
        parts.append(_more(missing))
    return Rendered("".join(parts), tuple(task.task_id for task in waiting[:shown]), missing)


def _more(count: int) -> str:
    return f"\nAnd {count} more.\n"


def _fitted(task: A2ATask, room: int) -> str | None:
    """A task in that many characters: whole, or with its description cut; None if not even that fits."""
    head, details = _head(task), _details(task)
    said = _quoted(task.description)
    for whole in (head + said + details, head + said + _left_out(details), head + said):
        if len(whole) <= room:
            return whole
    kept = _cut(task.description, room - len(head))
    return None if kept is None else head + kept


def _left_out(details: str) -> str:
    return f"\n> [… {len(details)} characters of details more]\n" if details else ""


def _cut(description: str, room: int) -> str | None:
    keep = min(room, len(description) - 1)
    while keep >= LEAST:
        part = _quoted(description[:keep]) + f"> [… {len(description) - keep} characters more]\n"
        if len(part) <= room:
            return part
        keep -= max(len(part) - room, 1)
    return None


def _head(task: A2ATask) -> str:
    answers = task.kind == RESULT
    rows = [
        f"\n### {'Result' if answers else 'Task'} {_line(task.task_id)}\n",
        f"From: {_line(task.source_agent)}{_of_job(task)}",
    ]
    if answers:
        rows.append(f"Answers: {_line(task.answers or '')}")
        rows.append(f"Status: {_line(task.outcome or ('failed' if task.reason or task.reason_code else 'completed'))}")
        if task.reason:
            rows.append(f"Reason: {_line(task.reason)[:1000]}")
    if task.priority != "normal":
        rows.append(f"Priority: {_line(task.priority)}")
    if task.deadline:
        rows.append(f"Deadline: {_line(task.deadline)}")
    if task.attempt > 0:
        rows.append(f"Attempt: {task.attempt + 1}")
    return "\n".join(rows) + "\n\n"


def _of_job(task: A2ATask) -> str:
    return f" (job {_line(task.source_job_id)})" if task.source_job_id else ""


def _details(task: A2ATask) -> str:
    parts = [_json("Context", task.context) if task.context else ""]
    if task.kind == RESULT and task.artifacts:
        parts.append(_json("Artifacts", task.artifacts))
    return "".join(parts)


def _json(title: str, value: object) -> str:
    return f"\n{title}:\n{_quoted(json.dumps(value, ensure_ascii=False, indent=2))}"


def _quoted(text: str) -> str:
    for end in _ENDS:
        text = text.replace(end, "\n")
    return "".join(f"> {row}\n" for row in text.translate(_IN_TEXT).split("\n"))


def _line(text: str) -> str:
    return str(text).translate(_VISIBLE)


def order(tasks: Iterable[A2ATask]) -> list[A2ATask]:
    """The most urgent first, and of those the oldest."""
    return sorted(tasks, key=lambda task: (task.urgency, task.created_at))
