"""Text views of the answers of the people room. `views.work.render_view` calls them."""

from __future__ import annotations

from postroom.cli.framework.terminal import (
    colour_text,
    indented_lines,
    one_line,
    relative_time,
    render_more,
    render_note,
    render_table,
    short_id,
)
from postroom.core import clock
from postroom.core.records.people import UNTIL_ACTIVITY
from postroom.core.text import shell_quote

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    Data = dict[str, Any]

_PREVIEW_CHARS = 72


def _render_registered(data: Data) -> str:
    import json

    workspace = data["workspace"]
    return (
        f"{colour_text('bold', 'Workspace')} {workspace['workspace_id']}  {one_line(workspace['label'])}\n"
        f"  {one_line(workspace['path'])}, agent {one_line(workspace['agent'])}\n\n"
        f"Its token, shown this once:\n  export INBOX_TOKEN={data['token']}\n\n"
        f"Write this as .mcp.json into the workspace:\n{json.dumps(data['mcp_json'], indent=2)}\n"
        + "".join(f"\n{colour_text('pending', 'Warning:')} {one_line(warning)}\n" for warning in data.get("warnings", ()))
    )


def _render_workspaces(data: Data) -> str:
    if not data["workspaces"]:
        return "No workspaces. Add one with `inbox workspace add PATH --label TEXT`.\n"
    rows = [
        (workspace["workspace_id"], one_line(workspace["label"]), one_line(workspace["agent"]), one_line(workspace["path"]))
        for workspace in data["workspaces"]
    ]
    return render_table(("WORKSPACE", "LABEL", "AGENT", "PATH"), rows)


def _render_workspace(data: Data) -> str:
    workspace = data["workspace"]
    head = f"{colour_text('bold', workspace['workspace_id'])}  {one_line(workspace['label'])}\n"
    return f"{head}  {one_line(workspace['path'])}, agent {one_line(workspace['agent'])}\n  {data['mcp_url']}\n"


def _render_changed(data: Data) -> str:
    workspace = data["workspace"]
    opened = f"opened by: {one_line(workspace['focus'])}" if workspace["focus"] else "no command opens its session"
    return f"Changed {colour_text('bold', workspace['workspace_id'])}  {one_line(workspace['label'])}\n  {opened}\n"


def _render_removed(data: Data) -> str:
    return f"Removed {data['workspace']['workspace_id']}. Its token is void; what it pushed stays.\n"


def _render_token(data: Data) -> str:
    return f"The token of {colour_text('bold', one_line(data['name']))}, shown this once:\n  {data['token']}\n"


def _render_revoked(data: Data) -> str:
    name = colour_text("bold", one_line(data["name"]))
    return f"The token of {name} is void.\n" if data["revoked"] else f"{name} had no token.\n"


def _render_passes(data: Data) -> str:
    if not data["passes"]:
        return "No passes. `inbox sign-in` makes a link for a person, `inbox agent token NAME` a token for an agent.\n"
    rows = [
        (
            *(
                listed["pass_id"],
                "leader" if listed["scope"] == "all" else listed["kind"],
                one_line(listed["name"]),
                relative_time(listed["last_used_at"]),
            ),
            *(relative_time(listed["expires_at"]), relative_time(listed["created_at"])),
        )
        for listed in data["passes"]
    ]
    return render_table(("PASS", "KIND", "NAME", "LAST USED", "EXPIRES", "CREATED"), rows) + render_more(data)


def _render_passes_revoked(data: Data) -> str:
    lines = [
        f"Revoked {listed['pass_id']}  {'token' if listed['kind'] == 'agent' else listed['kind']} of {one_line(listed['name'])}\n"
        for listed in data["revoked"]
    ]
    return "".join(lines) or "There was nothing to revoke.\n"


def _entry_confirmation(word: str) -> Callable[[Data], str]:
    return lambda data: f"{colour_text('bold', word)} {_entry_summary(data['entry'])}\n"


def _render_notified(data: Data) -> str:
    return _entry_confirmation("Noted")(data) + "".join(f"{warning}\n" for warning in data.get("warnings", ()))


def _render_state(data: Data) -> str:
    entry = data["entry"]
    words = {"inbox": "In the inbox", "done": "Done", "snoozed": "Snoozed"}[entry["state"]]
    if entry["state"] == "snoozed" and entry["snoozedUntil"] < UNTIL_ACTIVITY:
        words = f"Snoozed until {clock.format_stamp(entry['snoozedUntil'] * 1000)}"
    return f"{colour_text('bold', words)}{', pinned' if entry['pinned'] else ''} {_entry_summary(entry)}\n"


def _entry_age(entry: Data) -> str:
    return relative_time(clock.format_stamp(entry["activeTs"] * 1000))


def _entry_summary(entry: Data) -> str:
    docs = [doc["path"] for doc in entry.get("docs", [])]
    comments = entry.get("comments", "").strip()
    title = [] if entry["title"] in (one_line(comments.partition("\n")[0]), *docs) else [f"{entry['title']} ·"]
    content = one_line(" ".join([*title, *docs, comments]))
    return f"{entry['id']}  {one_line(entry['workspaceLabel'])}: {content[:_PREVIEW_CHARS]}{'…' if len(content) > _PREVIEW_CHARS else ''}"


def _render_entries(data: Data) -> str:
    if not data["entries"]:
        return "Nothing here.\n"
    rows = []
    for entry in data["entries"]:
        state = entry["question"]["state"] if "question" in entry else "read" if entry["readAt"] else "unread"
        summary = f"{short_id(entry['id'])}{_entry_summary(entry).removeprefix(entry['id'])}"
        rows.append(f"{colour_text('dim', f'{_entry_age(entry):>10}')}  {state:8}  {summary}\n")
    if "after" in data:  # open questions, by urgency
        return "".join(rows) + f"There are more: --after {shell_quote(data['after'])}\n"
    return "".join(rows) + (f"There are more: --before {data['entries'][-1]['id']}\n" if data["hasMore"] else "")


def _render_entry(data: Data) -> str:
    entry = data["entry"]
    text = f"{colour_text('bold', one_line(entry['workspaceLabel']))}  {entry['id']}  {_entry_age(entry)}\n"
    text += _render_content(entry)
    for part in data["parts"]:
        text += f"{colour_text('dim', _entry_age(part))}  added {part['id']}\n{_render_content(part)}"
    for reply in data["replies"]:
        way = f"{reply['via']}{_unverified_suffix(reply)}"
        text += f"{colour_text('dim', relative_time(reply['at']))}  {one_line(reply['from'])} replied ({way})\n" + indented_lines(
            reply["body"], "  │ "
        )
    for stamp in data["receipts"]:
        facts = f"{stamp['step']:13}  {one_line(stamp['by'])}  {stamp['door']}  {stamp['answer'] or ''}"
        text += f"  {colour_text('dim', stamp['at'])}  {facts.rstrip()}\n"
    return text


def _render_content(entry: Data) -> str:
    """Return the title, documents, comments and question of an entry or of a part of it."""
    comments = entry.get("comments", "")
    text = "" if entry["title"] == one_line(comments.strip().partition("\n")[0]) else f"  {one_line(entry['title'])}\n"
    text += "".join(f"  document {one_line(doc['path'])}\n" for doc in entry.get("docs", []))
    text += indented_lines(comments, "  │ ") if comments else ""
    return text + (_render_question(entry) if "question" in entry else "")


def _unverified_suffix(message: Data) -> str:
    """Mark a sender that no server checked: every process that can write the store can use any name."""
    return "" if message["verified"] else ", unverified"


def _render_question(entry: Data) -> str:
    question = entry["question"]
    text = f"  asked of {one_line(question['to'])}: {question['state']}"
    text += f", question {question['questionId']} in {one_line(entry['threadId'])}" if "threadId" in entry else ""
    text += f", choices: {one_line(', '.join(question['choices']))}" if question["choices"] else ""
    text += f", until {question['deadline']}, then {question['onSilence']}" if question["deadline"] else ""
    return text + (f"\n  answer: {one_line(question['answer'])}\n" if question["answer"] else "\n")


def _render_answer(data: Data) -> str:
    answer = data["answer"]
    if answer["state"] == "open":
        return f"Nobody has answered yet. Go on waiting: inbox ask --entry {data['entry']['id']}\n"
    if answer["state"] == "refused":
        return "Nobody answered in time: take it as refused.\n"
    if answer["state"] == "ended":
        return "The question ended without an answer.\n"
    unverified = "" if answer["verified"] else " (unverified)"
    by = (
        f"{one_line(answer['answered_by'])} answered{unverified}" if answer["answered_by"] else "Nobody answered in time: the default holds"
    )
    return f"{by}\n" + indented_lines(answer["answer"] or "", "  ")


def _render_waiting(data: Data) -> str:
    if not data["waiting"]:
        return f"Nothing waits for {one_line(data['agent'])}.\n"
    rows = [
        (item["kind"], one_line(item["from"]), "" if item["verified"] else "unverified", one_line(item["text"])[:_PREVIEW_CHARS])
        for item in data["waiting"]
    ]
    end = "There is more; see --limit.\n" if data["more"] else ""
    return render_table(("KIND", "FROM", "", "TEXT"), rows) + end


def _render_replied(data: Data) -> str:
    ways = {"thread": "into the thread", "answer": "as the answer", "mailbox": f"into the mailbox of {one_line(data['entry']['from'])}"}
    return f"{colour_text('bold', 'Replied')} {ways[data['reply']['via']]}: stored, not yet seen.\n" + render_note(data)


def _render_queues(data: Data) -> str:
    if not data["queues"]:
        return "No queues. Add one with `inbox queue add PATH`.\n"
    return render_table(("LABEL", "PATH"), [(one_line(queue["label"]), one_line(queue["path"])) for queue in data["queues"]])


def _queue_confirmation(words: str) -> Callable[[Data], str]:
    return lambda data: f"{colour_text('bold', words)} {one_line(data['queue']['label'])}: {one_line(data['queue']['path'])}\n"


VIEWS: dict[str, Callable[[Data], str]] = {
    "people registered": _render_registered,
    "people workspaces": _render_workspaces,
    "people workspace": _render_workspace,
    "people changed": _render_changed,
    "people removed": _render_removed,
    "people token": _render_token,
    "people token revoked": _render_revoked,
    "people passes": _render_passes,
    "people passes revoked": _render_passes_revoked,
    "people pushed": _entry_confirmation("Pushed"),
    "people notified": _render_notified,
    "people state": _render_state,
    "people read": _entry_confirmation("Read"),
    "people unread": _entry_confirmation("Unread"),
    "people asked": _entry_confirmation("Asked"),
    "people deleted": lambda data: f"Deleted {one_line(data['deleted'])}.\n",
    "people entries": _render_entries,
    "people entry": _render_entry,
    "people answer": _render_answer,
    "people printed answer": lambda data: indented_lines(data["answer"]["answer"] or "", ""),
    "people printed state": lambda data: f"{data['answer']['state']}\n",
    "people printed id": lambda data: f"{data['entry']['id']}\n",
    "people replied": _render_replied,
    "people waiting": _render_waiting,
    "people queues": _render_queues,
    "people queue added": _queue_confirmation("Watching"),
    "people queue removed": _queue_confirmation("No longer watching"),
}
