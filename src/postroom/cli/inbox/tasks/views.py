"""Text views of the answers of the tasks room. `views.work.render_view` calls them."""

from __future__ import annotations

from postroom._fastpath.json_text import dumps
from postroom.cli.framework.terminal import colour_text, indented_lines, one_line, relative_time, render_more, render_table

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection
    from typing import Any

    Data = dict[str, Any]

_PREVIEW_CHARS = 100


def _task_confirmation(word: str) -> Callable[[Data], str]:
    return lambda data: f"{colour_text('bold', word)} {_task_summary(data['task'])}\n"


def _task_summary(task: Data, humans: Collection[str] = ()) -> str:
    description = _first_description_line(task)[:_PREVIEW_CHARS]
    giver = one_line(task["source_agent"]) + (" (unverified)" if task["source_agent"] in humans and not task["verified"] else "")
    return f"{task['task_id']}  {task['status']}  {giver} → {one_line(task['target_agent'])}: {description}"


def _render_shown(data: Data) -> str:
    task = data["task"]
    rows = [
        _task_summary(task, data.get("humans", ())),
        f"{task['kind']}, {task['priority']}, attempt {task['attempt']}, given {relative_time(task['created_at'])}",
    ]
    rows += [f"deadline {relative_time(task['deadline'])}"] if task["deadline"] else []
    rows += [f"answers {task['answers']}, {task['outcome']}"] if task["answers"] else []
    rows += [f"thread {one_line(task['thread_id'])}"] if task["thread_id"] else []
    rows += [f"reason: {one_line(task['reason'])}"] if task["reason"] else []
    text = "".join(f"{row}\n" for row in rows) + indented_lines(task["description"], "  ")
    for name in ("context", "artifacts"):
        if task[name]:
            text += f"{name}\n" + indented_lines(dumps(task[name]), "  ")
    return text


def _render_history(data: Data) -> str:
    rows = [(relative_time(event["created_at"]), _step_word(event), one_line(event["source"])) for event in data["events"]]
    return _render_shown(data) + "history\n" + "".join(f"  {when}  {step} by {agent}\n" for when, step, agent in rows)


def _step_word(event: Data) -> str:
    """Return the name of an event of a task in words: `task.A2ATaskSubmitted` is `submitted`."""
    return one_line(str(event["event_type"]).removeprefix("task.A2ATask").lower())


def _render_accepted(data: Data) -> str:
    summary = _task_summary(data["task"], data.get("humans", ()))
    return f"{colour_text('bold', 'Accepted')} {summary}\n  lease {data['lease_token']}\n" + indented_lines(
        data["task"]["description"], "  "
    )


def _render_list(data: Data) -> str:
    if not data["tasks"]:
        return "No tasks.\n"
    rows = [
        (
            task["kind"],
            task["status"],
            task["priority"],
            one_line(task["source_agent"]),
            one_line(task["target_agent"]),
            task["task_id"],
            _first_description_line(task),
        )
        for task in data["tasks"]
    ]
    more = data.get("next_before_event")
    hint = f"There are more: --before-event {more}\n" if more is not None else ""
    return render_table(("KIND", "STATUS", "PRIORITY", "FROM", "TO", "TASK", "DESCRIPTION"), rows) + hint


def _first_description_line(task: Data) -> str:
    return one_line(task["description"].strip().split("\n", 1)[0])


def _render_card(data: Data) -> str:
    return _card_text(data["card"])


def _card_text(card: Data) -> str:
    skills = f"  {', '.join(one_line(skill) for skill in card['skills'])}" if card["skills"] else ""
    return f"{colour_text('bold', one_line(card['name']))}{skills}\n" + (
        indented_lines(card["description"], "  ") if card["description"] else ""
    )


def _render_cards(data: Data) -> str:
    return ("".join(_card_text(card) for card in data["cards"]) or "No agent has that skill.\n") + render_more(data)


def _job_summary(job: Data) -> str:
    lease = f", lease runs out {relative_time(job['lease_expires_at'])}" if job["status"] == "running" else ""
    return f"{one_line(job['job_id'])}  {job['status']}  {one_line(job['agent'])}, sheet {job['sheet']}{lease}"


def _job_confirmation(word: str) -> Callable[[Data], str]:
    return lambda data: f"{colour_text('bold', word)} {_job_summary(data['job'])}\n"


def _render_job_started(data: Data) -> str:
    word = "Continued" if data["job"]["resumed"] else "Started"
    return f"{colour_text('bold', word)} {_job_summary(data['job'])}\n  token {data['job']['lease_token']}\n"


def _render_job(data: Data) -> str:
    waiting = _render_list(data) if data["tasks"] else "Nothing waits in its inbox.\n"
    return f"{_job_summary(data['job'])}\n{waiting}" + ("There are more.\n" if data["more"] else "")


def _render_jobs(data: Data) -> str:
    if not data["jobs"]:
        return "No jobs.\n"
    rows = [
        (job["status"], one_line(job["agent"]), str(job["sheet"]), relative_time(job["updated_at"]), one_line(job["job_id"]))
        for job in data["jobs"]
    ]
    return render_table(("STATUS", "AGENT", "SHEET", "UPDATED", "JOB"), rows) + render_more(data)


def _render_answered(data: Data) -> str:
    text = _job_confirmation("Ended the sheet of")(data)
    for name, word in (("completed", "Completed"), ("failed", "Failed"), ("delegated", "Delegated")):
        text += "".join(f"  {word} {_task_summary(task)}\n" for task in data[name])
    return text + "".join(
        f"  not applied, line {one['line']}: {one_line(one['text'])}: {one_line(one['why'])}\n" for one in data["not_applied"]
    )


VIEWS: dict[str, Callable[[Data], str]] = {
    "task card": _render_card,
    "task cards": _render_cards,
    "task submitted": _task_confirmation("Submitted"),
    "task history": _render_history,
    "task list": _render_list,
    "task none": lambda data: "No task to accept.\n",
    "task time over": lambda data: f"The time is over before the end.\n{_render_list({'tasks': data.get('tasks') or [data['task']]})}",
    "task accepted": _render_accepted,
    "task completed": _task_confirmation("Completed"),
    "task failed": _task_confirmation("Failed"),
    "task cancelled": _task_confirmation("Cancelled"),
    "task read": _task_confirmation("Read"),
    "task read all": lambda data: f"{colour_text('bold', 'Read')} {data['read']} results\n",
    "task renewed": _task_confirmation("Renewed"),
    "task job": _render_job,
    "task jobs": _render_jobs,
    "task job started": _render_job_started,
    "task job renewed": _job_confirmation("Renewed"),
    "task job ended": _job_confirmation("Ended"),
    "task sheet answered": _render_answered,
    "task sheet ended": _job_confirmation("Ended the sheet of"),
    "task ended": _render_shown,
    "task thread": lambda data: f"{colour_text('bold', 'Opened')} {one_line(data['thread_id'])} for {_task_summary(data['task'])}\n",
}
