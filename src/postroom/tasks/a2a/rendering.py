"""Render tasks as Markdown for a prompt. Each line of foreign text is quoted, so that it cannot imitate our headings."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable
from typing import NamedTuple

from postroom.core.hidden_characters import HIDDEN_CODES, escape_table
from postroom.core.states import RESULT
from postroom.tasks.a2a.models import A2ATask

DEFAULT_BUDGET_CHARS = 10_000
MIN_DESCRIPTION_CHARS = 200  # a description is not cut to less than this
MIN_TASK_CHARS = 32  # the heading of a task is at least this long
HEADING = "## Incoming A2A tasks\n"
ANSWER_FORMS = """
### How to answer

Answer each task with a line of its own, at the beginning of a line. Indent further lines of an answer by two spaces.

@complete ID: the result, as text or as a JSON object
@fail ID: why it cannot be done
@delegate NAME: a new task for another agent

ID is the id of a task above; its first 8 characters are enough. A task without an answer is shown again.
"""
_LINE_ENDS = ("\r\n", "\r", "\x0b", "\x0c", "\x1c", "\x1d", "\x1e", "\x85", "\u2028", "\u2029")
_LINE_ESCAPES = escape_table((*range(0x20), *HIDDEN_CODES))
_TEXT_ESCAPES = {**_LINE_ESCAPES, 0x0A: "\n", 0x09: "\t"}


class Rendered(NamedTuple):
    """The text, the ids of the tasks in it, and the number of the given tasks that did not fit."""

    text: str
    shown: tuple[str, ...]
    left_out: int


def render_sheet(tasks: Iterable[A2ATask], budget: int, *, more: bool, unverified: Collection[str] = ()) -> Rendered:
    """Render tasks as `render_tasks` does, and how to answer them, if that takes at most a quarter of the budget."""
    waiting = list(tasks)
    forms = ANSWER_FORMS if any(task.kind != RESULT for task in waiting) and 4 * len(ANSWER_FORMS) <= budget else ""
    rendered = render_tasks(waiting, budget - len(forms), more=more, unverified=unverified)
    return rendered._replace(text=rendered.text + forms)


def render_text(tasks: Iterable[A2ATask], budget: int = DEFAULT_BUDGET_CHARS) -> str:
    return render_tasks(tasks, budget).text


def render_tasks(
    tasks: Iterable[A2ATask], budget: int = DEFAULT_BUDGET_CHARS, *, more: bool = False, unverified: Collection[str] = ()
) -> Rendered:
    """Render as many tasks as fit into `budget` characters, most urgent first. The first one's heading is always rendered.

    `more` is whether others wait beside these. Then the text says that at least so many were left out. `unverified` are the ids of the
    tasks in the name of a person whom no server has checked.
    """
    waiting = sort_by_urgency(tasks)
    if not waiting:
        return Rendered("", (), 0)
    parts, chars_left, count = [HEADING], budget - len(HEADING), 0
    for index, task in enumerate(waiting):
        remaining = len(waiting) - index - 1
        heading = _format_heading(task, is_verified=task.task_id not in unverified)
        part = _fit_task(task, heading, chars_left - (len(_format_more(remaining, more)) if remaining or more else 0))
        if part is None and index > 0:
            break
        parts.append(part if part is not None else heading)
        chars_left -= len(parts[-1])
        count += 1
        if part is None:
            break
    left_out = len(waiting) - count
    if left_out or more:
        parts.append(_format_more(left_out, more))
    return Rendered("".join(parts), tuple(task.task_id for task in waiting[:count]), left_out)


def _format_more(count: int, is_minimum: bool) -> str:
    return f"\nAnd {f'at least {max(count, 1)}' if is_minimum else count} more.\n"


def _fit_task(task: A2ATask, heading: str, max_chars: int) -> str | None:
    """Render a task in at most `max_chars`: whole, without details, or with a cut description. Returns None if none of them fits."""
    description, details = _quote_lines(task.description), _format_details(task)
    for text in (heading + description + details, heading + description + _format_left_out(details), heading + description):
        if len(text) <= max_chars:
            return text
    cut = _cut_description(task.description, max_chars - len(heading))
    return None if cut is None else heading + cut


def _format_left_out(details: str) -> str:
    return f"\n> [… {len(details)} characters of details more]\n" if details else ""


def _cut_description(description: str, max_chars: int) -> str | None:
    keep = min(max_chars, len(description) - 1)
    while keep >= MIN_DESCRIPTION_CHARS:
        part = _quote_lines(description[:keep]) + f"> [… {len(description) - keep} characters more]\n"
        if len(part) <= max_chars:
            return part
        keep -= max(len(part) - max_chars, 1)
    return None


def _format_heading(task: A2ATask, *, is_verified: bool) -> str:
    is_result = task.kind == RESULT
    rows = [
        f"\n### {'Result' if is_result else 'Task'} {_escape_line(task.task_id)}\n",
        f"From: {_escape_line(task.source_agent)}{'' if is_verified else ' (unverified)'}{_format_job(task)}",
    ]
    if is_result:
        rows.append(f"Answers: {_escape_line(task.answers or '')}")
        rows.append(f"Status: {_escape_line(task.outcome or ('failed' if task.reason or task.reason_code else 'completed'))}")
        if task.reason:
            rows.append(f"Reason: {_escape_line(task.reason)[:1000]}")
    if task.priority != "normal":
        rows.append(f"Priority: {_escape_line(task.priority)}")
    if task.deadline:
        rows.append(f"Deadline: {_escape_line(task.deadline)}")
    if task.attempt > 0:
        rows.append(f"Attempt: {task.attempt + 1}")
    return "\n".join(rows) + "\n\n"


def _format_job(task: A2ATask) -> str:
    return f" (job {_escape_line(task.source_job_id)})" if task.source_job_id else ""


def _format_details(task: A2ATask) -> str:
    parts = [_format_json("Context", task.context) if task.context else ""]
    if task.kind == RESULT and task.artifacts:
        parts.append(_format_json("Artifacts", task.artifacts))
    return "".join(parts)


def _format_json(title: str, value: object) -> str:
    return f"\n{title}:\n{_quote_lines(json.dumps(value, ensure_ascii=False, indent=2))}"


def _quote_lines(text: str) -> str:
    for end in _LINE_ENDS:
        text = text.replace(end, "\n")
    return "".join(f"> {row}\n" for row in text.translate(_TEXT_ESCAPES).split("\n"))


def _escape_line(text: str) -> str:
    return str(text).translate(_LINE_ESCAPES)


def sort_by_urgency(tasks: Iterable[A2ATask]) -> list[A2ATask]:
    """Return the tasks, most urgent first, then oldest first."""
    return sorted(tasks, key=lambda task: (task.urgency, task.created_at))
