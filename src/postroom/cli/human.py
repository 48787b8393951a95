"""Pictures for people: one function for each kind of answer. Text is data: nothing that was sent can steer a terminal."""

from __future__ import annotations

import os

from postroom.core import clock
from postroom.core.words import quoted

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from postroom.core.errors import Refusal

    Data = dict[str, Any]

_COLOURS = {
    "pending": "33",
    "claimed": "36",
    "in_progress": "36",
    "blocked": "35",
    "done": "32",
    "failed": "31",
    "cancelled": "90",
    "dim": "90",
    "bold": "1",
    "error": "31",
}
_HIDDEN = frozenset((*range(0x20), *range(0x7F, 0xA0), *range(0x2028, 0x202F), *range(0x2066, 0x206A)))
_VISIBLE = {code: f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" for code in _HIDDEN}
_LINES = {**_VISIBLE, 0x0A: "\n", 0x09: "\t"}
_ONE_LINE = {**_VISIBLE, 0x0A: " ", 0x0D: " ", 0x09: " "}


def picture(name: str, data: Data) -> str:
    """The text for an answer, by the name of its picture."""
    if name not in _PICTURES:
        module = {"task": "task_pictures", "people": "people_pictures"}.get(name.split(maxsplit=1)[0], "mail_pictures")
        pictures: dict[str, Callable[[Data], str]] = __import__(f"postroom.cli.{module}", fromlist=("PICTURES",)).PICTURES
        return pictures[name](data)
    return _PICTURES[name](data)


def refusal(error: Refusal) -> str:
    hint = f"{paint('dim', 'hint:', 2)} {line(error.hint)}\n" if error.hint else ""
    return f"{paint('error', 'error:', 2)} {line(str(error))}\n{hint}"


def line(text: str) -> str:
    """Anything, on one line, harmless."""
    return text.translate(_ONE_LINE)


def lines(text: str, indent: str) -> str:
    """Anything, as it was laid out, harmless and indented."""
    return "".join(f"{indent}{row}\n" for row in text.translate(_LINES).rstrip("\n").split("\n"))


def paint(colour: str, text: str, descriptor: int = 1) -> str:
    """Colour on a terminal, and never with NO_COLOR."""
    if os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb" or not os.isatty(descriptor):
        return text
    return f"\x1b[{_COLOURS[colour]}m{text}\x1b[0m"


def ago(stamp: str | None) -> str:
    """`3 min ago`, `in 14 min`, `never`."""
    if stamp is None:
        return "never"
    seconds = (clock.now() - clock.instant(stamp)) // clock.SECOND
    for size, unit in ((86400, "d"), (3600, "h"), (60, "min"), (1, "s")):
        if abs(seconds) >= size:
            amount = f"{abs(seconds) // size} {unit}"
            return f"{amount} ago" if seconds > 0 else f"in {amount}"
    return "just now"


def table(heads: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    """Aligned columns; the last one takes what is left of the line."""
    cells = [tuple(line(cell) for cell in row) for row in rows]
    widths = [max(_width(row[i]) for row in (heads, *cells)) for i in range(len(heads) - 1)]
    room = _columns() - sum(widths) - 2 * len(widths)
    drawn = [paint("dim", _row(heads, widths))]
    for row in cells:
        drawn.append(_row((*row[:-1], _cut(row[-1], room)), widths))
    return "".join(f"{text}\n" for text in drawn)


def _row(cells: tuple[str, ...], widths: list[int]) -> str:
    padded = [_tint(cell) + " " * (width - _width(cell)) for cell, width in zip(cells, widths)]
    return "  ".join((*padded, cells[-1])).rstrip()


def _tint(cell: str) -> str:
    return paint(cell, cell) if cell in _COLOURS else cell


def _width(text: str) -> int:
    if text.isascii():
        return len(text)
    from unicodedata import combining, east_asian_width

    return sum(0 if combining(letter) else 2 if east_asian_width(letter) in "WF" else 1 for letter in text)


def _cut(text: str, room: int) -> str:
    if _width(text) <= max(room, 20):
        return text
    while text and _width(text) > max(room, 20) - 1:
        text = text[:-1]
    return text + "…"


def _columns() -> int:
    said = os.environ.get("COLUMNS", "")
    try:
        return int(said) if said.isdigit() else os.get_terminal_size(1).columns
    except OSError:
        return 10_000  # a pipe: whoever reads it may want all of it


def _thread(data: Data, verb: str) -> str:
    thread = data["thread"]
    return f"{paint('bold', verb)} {thread['thread_id']}  {paint(thread['status'], thread['status'])}  {line(thread['subject'])}\n"


def _sent(data: Data) -> str:
    message = data["message"]
    return _thread(data, "Sent") + f"  {message['kind']} to {line(message['to_agent'])}, {message['message_id']}\n"


def _replied(data: Data) -> str:
    message = data["message"]
    return _thread(data, "Replied in") + f"  {message['kind']} to {line(message['to_agent'])}, {message['message_id']}\n"


def _claimed(data: Data) -> str:
    lease = data["lease"]
    return _thread(data, "Claimed") + f"  lease {lease['lease_token']}, runs out {ago(lease['expires_at'])}\n"


def _renewed(data: Data) -> str:
    return _thread(data, "Renewed") + f"  the lease runs out {ago(data['lease']['expires_at'])}\n"


def _updated(data: Data) -> str:
    thread = data["thread"]
    if thread["status"] != "blocked":
        return _thread(data, "Updated")
    who, where = quoted(data["message"]["from_agent"]), quoted(thread["thread_id"])
    wait = f"inbox wait-reply --agent {who} --thread {where} --after-event {data['next_event_id']}"
    return _thread(data, "Blocked") + f"  asked {line(data['message']['to_agent'])}; wait with `{wait}`\n"


def _finished(data: Data) -> str:
    text = _thread(data, "Finished" if data["thread"]["status"] == "done" else "Failed")
    if "next" in data:
        text += _claimed(data["next"]) if data["next"] else "Nothing more to take.\n"
    return text


def _candidates(data: Data) -> str:
    return _offers(data) if data["threads"] else "Nothing to work on.\n"


def _unread(data: Data) -> str:
    return _offers(data) if data["threads"] else "Nothing unread.\n"


def _offers(data: Data) -> str:
    rows = [
        (thread["thread_id"], thread["status"], thread["priority"], thread["created_by"], ago(thread["created_at"]), _offered(thread))
        for thread in data["threads"]
    ]
    return table(("THREAD", "STATUS", "PRIORITY", "FROM", "SENT", "SUBJECT"), rows)


def _offered(thread: Data) -> str:
    lapsed = f"  (lapsed, was {thread['held_by']}'s)" if thread["lapsed"] else ""
    return f"{thread['subject']}{lapsed}"


def _threads(data: Data) -> str:
    if not data["threads"]:
        return "No threads.\n"
    rows = [
        (
            thread["thread_id"],
            thread["status"],
            thread["priority"],
            thread["created_by"],
            thread["assigned_to"],
            ago(thread["updated_at"]),
            thread["subject"],
        )
        for thread in data["threads"]
    ]
    more = paint("dim", "There are more: raise --limit.") + "\n" if data["more"] else ""
    return table(("THREAD", "STATUS", "PRIORITY", "FROM", "TO", "UPDATED", "SUBJECT"), rows) + more


def _conversation(data: Data) -> str:
    thread, lease = data["thread"], data["lease"]
    facts = [paint(thread["status"], thread["status"]), thread["priority"], f"{line(thread['created_by'])} → {line(thread['assigned_to'])}"]
    facts += [f"{name} {line(thread[f'{name}_id'])}" for name in ("run", "task") if thread[f"{name}_id"]]
    text = f"{paint('bold', line(thread['subject']))}\n{thread['thread_id']} · {' · '.join(facts)}\n"
    if lease is not None:
        lapsed = lease["expires_at"] <= clock.stamp(clock.now())
        state = f"lapsed {ago(lease['expires_at'])}: anyone may take it" if lapsed else f"lease runs out {ago(lease['expires_at'])}"
        text += f"held by {line(lease['agent_id'])}, {state}\n"
    return text + "".join(_said(message, data.get("humans", ())) for message in data["messages"])


def _said(message: Data, humans: Any) -> str:
    doubt = " (unverified)" if message["from_agent"] in humans and not message["verified"] else ""
    head = f"{line(message['from_agent'])}{doubt} → {line(message['to_agent'])}  {message['kind']}  "
    text = f"\n{paint('bold', head)}{paint('dim', ago(message['created_at']))}\n"
    if message["summary"]:
        text += lines(message["summary"], "  ")
    if message["body"] and message["body"].strip() != message["summary"].strip():
        text += lines(message["body"], "  ")
    if message["payload_json"] != "{}":
        text += paint("dim", f"+ payload: {line(message['payload_json'])}") + "\n"
    for artifact in message["artifacts"]:  # not indented, so that no text can pose as one
        text += f"+ {line(artifact['kind'])}: {line(artifact['path'])}\n"
    return text


def _woken(data: Data) -> str:
    return _said(data["message"], data["humans"]).lstrip("\n")


def _activity(data: Data) -> str:
    rows = [
        (str(event["event_id"]), event["event_type"], event["source"], event["thread_id"], event["summary"]) for event in data["events"]
    ]
    return table(("EVENT", "WHAT", "BY", "THREAD", "SUMMARY"), rows)


def _nothing(data: Data) -> str:
    if "next_event_id" in data:
        return f"Nothing came. Go on with --after-event {data['next_event_id']}.\n"
    return "Nothing to take.\n"


def _initialised(data: Data) -> str:
    return f"{'Created' if data['created'] else 'Already there:'} {data['db']}\n"


def _agent(data: Data) -> str:
    agent = data["agent"]
    text = f"{paint('bold', line(agent['name']))}  {agent['kind']}, last seen {ago(agent['last_seen_at'])}\n"
    if "unread" in data:
        text += f"unread threads: {data['unread']}\n"
    for held in data.get("holds", ()):
        text += f"holds {held['thread']['thread_id']}  {held['thread']['status']}, lease runs out {ago(held['lease']['expires_at'])}\n"
    return text


def _agents(data: Data) -> str:
    rows = [(agent["name"], agent["kind"], ago(agent["last_seen_at"])) for agent in data["agents"]]
    return table(("NAME", "KIND", "LAST SEEN"), rows)


def _checks(data: Data) -> str:
    marks = {"ok": paint("done", "ok  "), "warn": paint("pending", "warn"), "fail": paint("failed", "fail")}
    return "".join(f"{marks[check['state']]}  {check['what']}: {line(check['says'])}\n" for check in data["checks"])


def _worked(data: Data) -> str:
    return f"{data['done']} done, {data['failed']} failed, {data['released']} given back, {data['parked']} waiting for an answer\n"


def _text(data: Data) -> str:
    return str(data["text"])


_PICTURES: dict[str, Callable[[Data], str]] = {
    "sent": _sent,
    "replied": _replied,
    "claimed": _claimed,
    "renewed": _renewed,
    "updated": _updated,
    "finished": _finished,
    "released": lambda data: _thread(data, "Gave back"),
    "cancelled": lambda data: _thread(data, "Cancelled"),
    "candidates": _candidates,
    "unread": _unread,
    "threads": _threads,
    "conversation": _conversation,
    "woken": _woken,
    "activity": _activity,
    "nothing": _nothing,
    "initialised": _initialised,
    "agent": _agent,
    "agents": _agents,
    "checks": _checks,
    "worked": _worked,
    "text": _text,
}
