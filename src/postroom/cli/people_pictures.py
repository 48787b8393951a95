"""Pictures of the people room's answers, for people."""

from __future__ import annotations

from postroom.cli.human import ago, line, lines, paint, table
from postroom.core import clock

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    Data = dict[str, Any]

_PREVIEW = 72


def _registered(data: Data) -> str:
    import json

    workspace = data["workspace"]
    return (
        f"{paint('bold', 'Workspace')} {workspace['workspace_id']}  {line(workspace['label'])}\n"
        f"  {line(workspace['path'])}, agent {line(workspace['agent'])}\n\n"
        f"Its token, shown this once:\n  export INBOX_TOKEN={data['token']}\n\n"
        f"Write this as .mcp.json into the workspace:\n{json.dumps(data['mcp_json'], indent=2)}\n"
    )


def _workspaces(data: Data) -> str:
    if not data["workspaces"]:
        return "No workspaces. Add one with `inbox workspace add PATH --label TEXT`.\n"
    rows = [(found["workspace_id"], line(found["label"]), line(found["agent"]), line(found["path"])) for found in data["workspaces"]]
    return table(("WORKSPACE", "LABEL", "AGENT", "PATH"), rows)


def _workspace(data: Data) -> str:
    found = data["workspace"]
    head = f"{paint('bold', found['workspace_id'])}  {line(found['label'])}\n"
    return f"{head}  {line(found['path'])}, agent {line(found['agent'])}\n  {data['mcp_url']}\n"


def _changed(data: Data) -> str:
    workspace = data["workspace"]
    opened = f"opened by: {line(workspace['focus'])}" if workspace["focus"] else "no command opens its session"
    return f"Changed {paint('bold', workspace['workspace_id'])}  {line(workspace['label'])}\n  {opened}\n"


def _removed(data: Data) -> str:
    return f"Removed {data['workspace']['workspace_id']}. Its token is void; what it pushed stays.\n"


def _token(data: Data) -> str:
    return f"The token of {paint('bold', line(data['name']))}, shown this once:\n  {data['token']}\n"


def _revoked(data: Data) -> str:
    name = paint("bold", line(data["name"]))
    return f"The token of {name} is void.\n" if data["revoked"] else f"{name} had no token.\n"


def _told(said: str) -> Callable[[Data], str]:
    return lambda data: f"{paint('bold', said)} {_summary(data['entry'])}\n"


def _when(entry: Data) -> str:
    return ago(clock.stamp(entry["ts"] * 1000))


def _summary(entry: Data) -> str:
    docs = [doc["path"] for doc in entry.get("docs", [])]
    said = line(" ".join([*docs, entry.get("comments", "").strip()]))
    return f"{entry['id']}  {line(entry['workspaceLabel'])}: {said[:_PREVIEW]}{'…' if len(said) > _PREVIEW else ''}"


def _entries(data: Data) -> str:
    if not data["entries"]:
        return "Nothing here.\n"
    rows = []
    for entry in data["entries"]:
        state = entry["question"]["state"] if "question" in entry else "read" if entry["readAt"] else "unread"
        rows.append(f"{paint('dim', f'{_when(entry):>10}')}  {state:8}  {_summary(entry)}\n")
    return "".join(rows) + (f"There are more: --before {data['entries'][-1]['id']}\n" if data["hasMore"] else "")


def _entry(data: Data) -> str:
    entry = data["entry"]
    text = f"{paint('bold', line(entry['workspaceLabel']))}  {entry['id']}  {_when(entry)}\n"
    text += "".join(f"  document {line(doc['path'])}\n" for doc in entry.get("docs", []))
    text += lines(entry["comments"], "  │ ") if "comments" in entry else ""
    if "question" in entry:
        text += _question(entry["question"])
    for reply in data["replies"]:
        way = f"{reply['via']}{_doubt(reply)}"
        text += f"{paint('dim', ago(reply['at']))}  {line(reply['from'])} replied ({way})\n" + lines(reply["body"], "  │ ")
    for stamp in data["receipts"]:
        facts = f"{stamp['step']:13}  {line(stamp['by'])}  {stamp['door']}"
        text += f"  {paint('dim', stamp['at'])}  {facts.rstrip()}\n"
    return text


def _doubt(said: Data) -> str:
    """Whoever can write the file can write any name."""
    return "" if said["verified"] else ", unverified"


def _question(question: Data) -> str:
    text = f"  asked of {line(question['to'])}: {question['state']}"
    text += f", choices: {line(', '.join(question['choices']))}" if question["choices"] else ""
    text += f", until {question['deadline']}, then {question['onSilence']}" if question["deadline"] else ""
    return text + (f"\n  answer: {line(question['answer'])}\n" if question["answer"] else "\n")


def _answer(data: Data) -> str:
    answer = data["answer"]
    if answer["state"] == "open":
        return f"Nobody has answered yet. Go on waiting: inbox ask --entry {data['entry']['id']}\n"
    if answer["state"] == "refused":
        return "Nobody answered in time: take it as refused.\n"
    doubt = "" if answer["verified"] else " (unverified)"
    by = f"{line(answer['answered_by'])} answered{doubt}" if answer["answered_by"] else "Nobody answered in time: the default holds"
    return f"{by}\n" + lines(answer["answer"] or "", "  ")


def _replied(data: Data) -> str:
    ways = {"thread": "into the thread", "answer": "as the answer", "mailbox": f"into the mailbox of {line(data['entry']['from'])}"}
    return f"{paint('bold', 'Replied')} {ways[data['reply']['via']]}: stored, not yet seen.\n"


def _queues(data: Data) -> str:
    if not data["queues"]:
        return "No queues. Add one with `inbox queue add PATH`.\n"
    return table(("LABEL", "PATH"), [(line(found["label"]), line(found["path"])) for found in data["queues"]])


def _queue(said: str) -> Callable[[Data], str]:
    return lambda data: f"{paint('bold', said)} {line(data['queue']['label'])}: {line(data['queue']['path'])}\n"


PICTURES: dict[str, Callable[[Data], str]] = {
    "people registered": _registered,
    "people workspaces": _workspaces,
    "people workspace": _workspace,
    "people changed": _changed,
    "people removed": _removed,
    "people token": _token,
    "people token revoked": _revoked,
    "people pushed": _told("Pushed"),
    "people notified": _told("Noted"),
    "people read": _told("Read"),
    "people unread": _told("Unread"),
    "people asked": _told("Asked"),
    "people deleted": lambda data: f"Deleted {line(data['deleted'])}.\n",
    "people entries": _entries,
    "people entry": _entry,
    "people answer": _answer,
    "people replied": _replied,
    "people queues": _queues,
    "people queue added": _queue("Watching"),
    "people queue removed": _queue("No longer watching"),
}
