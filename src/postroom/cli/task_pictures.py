"""Pictures of the tasks room's answers, for people."""

from __future__ import annotations

from postroom.cli.human import ago, line, lines, paint, table
from postroom.core.jsontext import dumps

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    Data = dict[str, Any]


def _told(said: str) -> Callable[[Data], str]:
    return lambda data: f"{paint('bold', said)} {_summary(data['task'])}\n"


def _summary(task: Data) -> str:
    what = line(task["description"].strip().split("\n", 1)[0])[:100]
    return f"{task['task_id']}  {task['status']}  {line(task['source_agent'])} → {line(task['target_agent'])}: {what}"


def _shown(data: Data) -> str:
    task = data["task"]
    rows = [_summary(task), f"{task['kind']}, {task['priority']}, attempt {task['attempt']}, given {ago(task['created_at'])}"]
    rows += [f"deadline {ago(task['deadline'])}"] if task["deadline"] else []
    rows += [f"answers {task['answers']}, {task['outcome']}"] if task["answers"] else []
    rows += [f"thread {line(task['thread_id'])}"] if task["thread_id"] else []
    rows += [f"reason: {line(task['reason'])}"] if task["reason"] else []
    text = "".join(f"{row}\n" for row in rows) + lines(task["description"], "  ")
    for name in ("context", "artifacts"):
        if task[name]:
            text += f"{name}\n" + lines(dumps(task[name]), "  ")
    return text


def _accepted(data: Data) -> str:
    return f"{paint('bold', 'Accepted')} {_summary(data['task'])}\n  lease {data['lease_token']}\n" + lines(
        data["task"]["description"], "  "
    )


_COLUMNS = ("kind", "status", "priority", "source_agent", "target_agent", "task_id")


def _list(data: Data) -> str:
    if not data["tasks"]:
        return "No tasks.\n"
    rows = [
        (
            task["kind"],
            task["status"],
            task["priority"],
            line(task["source_agent"]),
            line(task["target_agent"]),
            task["task_id"],
            _what(task),
        )
        for task in data["tasks"]
    ]
    return table(("KIND", "STATUS", "PRIORITY", "FROM", "TO", "TASK", "DESCRIPTION"), rows)


def _what(task: Data) -> str:
    return line(task["description"].strip().split("\n", 1)[0])


def _card(data: Data) -> str:
    return _one_card(data["card"])


def _one_card(card: Data) -> str:
    skills = f"  {', '.join(line(skill) for skill in card['skills'])}" if card["skills"] else ""
    return f"{paint('bold', line(card['name']))}{skills}\n" + (lines(card["description"], "  ") if card["description"] else "")


def _cards(data: Data) -> str:
    return "".join(_one_card(card) for card in data["cards"]) or "Nobody has that skill.\n"


PICTURES: dict[str, Callable[[Data], str]] = {
    "task card": _card,
    "task cards": _cards,
    "task submitted": _told("Submitted"),
    "task shown": _shown,
    "task list": _list,
    "task none": lambda data: "No task to accept.\n",
    "task accepted": _accepted,
    "task completed": _told("Completed"),
    "task failed": _told("Failed"),
    "task cancelled": _told("Cancelled"),
    "task read": _told("Read"),
    "task ended": _shown,
    "task thread": lambda data: f"{paint('bold', 'Opened')} {line(data['thread_id'])} for {_summary(data['task'])}\n",
}
