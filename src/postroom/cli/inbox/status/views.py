"""The text of `inbox status`."""

from __future__ import annotations

from postroom.cli.framework.terminal import colour_text, one_line, relative_time, render_table, short_id

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    Data = dict[str, Any]


def _render_status(data: Data) -> str:
    sections = [
        "" if data["waiting"] is None else _render_waiting(data["waiting"]),
        "" if data["held"] is None else _render_held(data["held"]),
        "" if data["questions"] is None else _render_questions(data["questions"]),
        _render_thread_questions(data["thread_questions"]) if data["thread_questions"] and data["thread_questions"]["questions"] else "",
        "" if not data["tasks"] or not data["tasks"]["pending"] else _render_tasks(data["tasks"]),
        "" if not data["mailboxes"] or not data["mailboxes"]["sessions"] else _render_mailboxes(data["mailboxes"]),
        _render_queues(data["queues"]) if data["queues"] else "",
        _render_server(data["server"]) if data["server"] else "",
    ]
    return "\n".join(section for section in sections if section)


def _heading(text: str, more: bool = False) -> str:
    return colour_text("bold", text + (" or more" if more else "")) + "\n"


def _render_waiting(waiting: Data) -> str:
    if not waiting["threads"]:
        return _heading("No work waits.")
    rows = [
        (one_line(row["agent"]), str(row["threads"]), relative_time(row["oldest_at"]), "" if row["seen"] else "never seen")
        for row in waiting["agents"]
    ]
    count = waiting["threads"]
    return _heading(f"Waiting: {count} thread{'' if count == 1 else 's'}", waiting["more"]) + render_table(
        ("FOR", "THREADS", "OLDEST", ""), rows
    )


def _render_held(held: Data) -> str:
    if not held["threads"]:
        return _heading("Nobody holds work.")
    rows = [
        (
            one_line(row["held_by"]),
            "lapsed" if row["lapsed"] else row["status"],
            relative_time(row["claimed_at"]),
            row["thread_id"],
            one_line(row["subject"]),
        )
        for row in held["threads"]
    ]
    return _heading(f"Held: {held['total']}", held["more"]) + render_table(("BY", "STATUS", "SINCE", "THREAD", "SUBJECT"), rows)


def _render_questions(questions: Data) -> str:
    if not questions["entries"]:
        return _heading("No question waits for a person.")
    rows = [
        (
            short_id(row["entry_id"]),
            one_line(row["from"]),
            one_line(row["to"]),
            relative_time(row["asked_at"]),
            relative_time(row["deadline"]) if row["deadline"] else "none",
            one_line(row["text"]) + (f"  [{' | '.join(map(one_line, row['choices']))}]" if row["choices"] else ""),
        )
        for row in questions["entries"]
    ]
    table = render_table(("ENTRY", "FROM", "TO", "ASKED", "DEADLINE", "QUESTION"), rows)
    hint = colour_text("dim", "answer with `inbox entry reply ENTRY --body TEXT`, or in `inbox top`") + "\n"
    return _heading(f"Questions: {len(rows)}", questions["more"]) + table + hint


def _render_thread_questions(questions: Data) -> str:
    lines = "".join(
        f"{one_line(row['thread_id'])}  {one_line(row['from'])} → {one_line(row['to'])}  {relative_time(row['asked_at'])}"
        f"  {one_line(row['text'])}\n" + colour_text("dim", f"  answer with `{one_line(row['answer_with'])}`") + "\n"
        for row in questions["questions"]
    )
    return _heading(f"Questions to agents: {len(questions['questions'])}", questions["more"]) + lines


def _render_tasks(tasks: Data) -> str:
    return _heading(f"Tasks that wait: {tasks['pending']}", tasks["more"])


def _render_mailboxes(mailboxes: Data) -> str:
    rows = [(one_line(row["session"]), str(row["waiting"]), str(row["in_flight"]), str(row["dead"])) for row in mailboxes["sessions"]]
    return _heading(f"Mailboxes: {len(rows)}", mailboxes["more"]) + render_table(("SESSION", "WAITING", "IN FLIGHT", "DEAD"), rows)


def _render_queues(queues: list[Data]) -> str:
    rows = [(one_line(row["consumer"] or ""), str(row["lag"]), one_line(row["queue"]), one_line(row["trouble"] or "")) for row in queues]
    return _heading("Queues that lag") + render_table(("CONSUMER", "LAG", "QUEUE", "TROUBLE"), rows)


def _render_server(server: Data) -> str:
    if server["url"] is None:
        return _heading("No server runs; commands need none.")
    if server["trouble"]:
        return _heading(f"The server does not answer: {one_line(server['trouble'])}")
    return _heading(f"A server answers at {one_line(server['url'])}")


VIEWS: dict[str, Callable[[Data], str]] = {"status": _render_status}
