"""Text views of the answers of the work room, and `render_view`, which finds the view of any room by its name."""

from __future__ import annotations

from postroom.cli.framework.terminal import colour_text, indented_lines, one_line, relative_time, render_more, render_note, render_table
from postroom.core import clock
from postroom.core.text import shell_quote

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    Data = dict[str, Any]

_MODULES = {
    "task": "inbox.tasks.views",
    "people": "inbox.people.views",
    "run": "inbox.runs",
    "harness": "inbox.harness.views",
    "store": "inbox.maintenance.views",
    "channel": "inbox.channels.views",
    "status": "inbox.status.views",
}


def render_view(name: str, data: Data) -> str:
    """Return the text of an answer. The first word of a name selects the module, by default that of mail."""
    if name not in VIEWS:
        module = _MODULES.get(name.split(maxsplit=1)[0], "mailbox.views")
        views: dict[str, Callable[[Data], str]] = __import__(f"postroom.cli.{module}", fromlist=("VIEWS",)).VIEWS
        return views[name](data)
    return VIEWS[name](data)


def _thread_headline(data: Data, verb: str) -> str:
    thread = data["thread"]
    status = colour_text(thread["status"], thread["status"])
    return f"{colour_text('bold', verb)} {thread['thread_id']}  {status}  {one_line(thread['subject'])}\n"


def _render_sent(data: Data) -> str:
    message = data["message"]
    text = _thread_headline(data, "Sent") + f"  {message['kind']} to {one_line(message['to_agent'])}, {message['message_id']}\n"
    return text + render_note(data)


def _render_sent_batch(data: Data) -> str:
    notes = "".join(f"  {colour_text('pending', 'note:')} {one_line(note)}\n" for note in data["notes"])
    return f"Sent {data['sent']} thread{'' if data['sent'] == 1 else 's'}.\n{notes}"


def _render_replied(data: Data) -> str:
    message = data["message"]
    settled = f", settles {message['in_reply_to']}" if message["in_reply_to"] else ""
    text = f"  {message['kind']} to {one_line(message['to_agent'])}, {message['message_id']}{settled}\n"
    return _thread_headline(data, "Replied in") + text + render_note(data)


def _render_claimed(data: Data) -> str:
    lease = data["lease"]
    return _thread_headline(data, "Claimed") + f"  lease {lease['lease_token']}, runs out {relative_time(lease['expires_at'])}\n"


def _render_renewed(data: Data) -> str:
    return _thread_headline(data, "Renewed") + f"  the lease runs out {relative_time(data['lease']['expires_at'])}\n"


def _render_updated(data: Data) -> str:
    thread = data["thread"]
    if thread["status"] != "blocked":
        return _thread_headline(data, "Updated")
    agent = shell_quote(data["message"]["from_agent"])
    thread_id = shell_quote(thread["thread_id"])
    wait = f"inbox wait-reply --agent {agent} --thread {thread_id} --after-event {data['next_event_id']}"
    return (
        _thread_headline(data, "Blocked")
        + f"  asked {one_line(data['message']['to_agent'])}, {data['message']['message_id']}; wait with `{wait}`\n"
    )


def _render_finished(data: Data) -> str:
    text = _thread_headline(data, "Finished" if data["thread"]["status"] == "done" else "Failed") + render_note(data)
    if "next" in data:
        text += _render_claimed(data["next"]) if data["next"] else "Nothing more to take.\n"
    return text


def _render_candidates(data: Data) -> str:
    return _candidates_table(data) if data["threads"] else "Nothing to work on.\n"


def _render_unread(data: Data) -> str:
    if not data["threads"] and data["more"]:
        return "Nothing among the unread threads that were looked at.\n" + render_more(data)
    return _candidates_table(data) if data["threads"] else "Nothing unread.\n"


def _candidates_table(data: Data) -> str:
    rows = [
        (
            thread["thread_id"],
            thread["status"],
            thread["priority"],
            thread["created_by"],
            relative_time(thread["created_at"]),
            _candidate_subject(thread),
        )
        for thread in data["threads"]
    ]
    return render_table(("THREAD", "STATUS", "PRIORITY", "FROM", "SENT", "SUBJECT"), rows) + render_more(data)


def _candidate_subject(thread: Data) -> str:
    lapsed = f"  (lapsed, was {thread['held_by']}'s)" if thread["lapsed"] else ""
    return f"{thread['subject']}{lapsed}"


def _render_threads(data: Data) -> str:
    if not data["threads"]:
        return "No threads.\n" + render_note(data)
    rows = [
        (
            thread["thread_id"],
            thread["status"],
            thread["priority"],
            thread["created_by"],
            thread["assigned_to"],
            relative_time(thread["updated_at"]),
            _lease_text(thread),
            thread["subject"],
        )
        for thread in data["threads"]
    ]
    return render_table(("THREAD", "STATUS", "PRIORITY", "FROM", "TO", "UPDATED", "LEASE", "SUBJECT"), rows) + render_more(data)


def _lease_text(thread: Data) -> str:
    """Return when the lease of a thread runs out, or that it has. The holder is the agent in the column TO."""
    if thread["held_by"] is None:
        return ""
    when = relative_time(thread["lease_expires_at"])
    return f"lapsed {when}" if thread["lapsed"] else when


def _render_conversation(data: Data) -> str:
    thread, lease = data["thread"], data["lease"]
    facts = [
        colour_text(thread["status"], thread["status"]),
        thread["priority"],
        f"{one_line(thread['created_by'])} → {one_line(thread['assigned_to'])}",
    ]
    facts += [f"{name} {one_line(thread[f'{name}_id'])}" for name in ("run", "task") if thread[f"{name}_id"]]
    text = f"{colour_text('bold', one_line(thread['subject']))}\n{thread['thread_id']} · {' · '.join(facts)}\n"
    if lease is not None:
        expiry = relative_time(lease["expires_at"])
        lapsed = lease["expires_at"] <= clock.format_stamp(clock.now())
        state = f"lapsed {expiry}: anyone may take it" if lapsed else f"lease runs out {expiry}"
        text += f"held by {one_line(lease['agent_id'])}, {state}\n"
    return text + _messages_page(data, data.get("humans", ()))


def _messages_page(data: Data, humans: Any) -> str:
    """Return the messages, and lines about earlier and later ones. Those lines are not indented, so that no text can imitate them."""
    text = f"\n{colour_text('dim', data['note'])}\n" if data.get("note") else ""
    text += "" if data["first_message"] is None else _render_message(data["first_message"], humans)
    if data["next_before_event"] is not None:
        text += "\n" + colour_text("dim", f"There are earlier messages: add --before-event {data['next_before_event']}.") + "\n"
    text += "".join(_render_message(message, humans) for message in data["messages"])
    if data["next_after_event"] is not None:
        text += "\n" + colour_text("dim", f"There are later messages: add --after-event {data['next_after_event']}.") + "\n"
    return text


def _render_message(message: Data, humans: Any) -> str:
    unverified = " (unverified)" if message["from_agent"] in humans and not message["verified"] else ""
    head = f"{one_line(message['from_agent'])}{unverified} → {one_line(message['to_agent'])}  {message['kind']}{_question_note(message)}  "
    text = f"\n{colour_text('bold', head)}{colour_text('dim', relative_time(message['created_at']))}\n"
    if message["summary"]:
        text += indented_lines(message["summary"], "  ")
    if message["body"] and message["body"].strip() != message["summary"].strip():
        text += indented_lines(message["body"], "  ")
    if message["payload_json"] != "{}":
        text += colour_text("dim", f"+ payload: {one_line(message['payload_json'])}") + "\n"
    for artifact in message["artifacts"]:  # not indented, so that no text can imitate one
        text += f"+ {one_line(artifact['kind'])}: {one_line(artifact['path'])}\n"
    return text


def _question_note(message: Data) -> str:
    """Return the id of a question and whether it is open, or the question that an answer settled."""
    if message["kind"] == "question":
        return f" {message['message_id']}{', open' if message['is_open'] else ''}"
    return f", settles {message['in_reply_to']}" if message["in_reply_to"] else ""


def _render_woken(data: Data) -> str:
    return _render_message(data["message"], data["humans"]).lstrip("\n")


def _render_activity(data: Data) -> str:
    rows = [
        (str(event["event_id"]), event["event_type"], event["source"], event["thread_id"], event["summary"]) for event in data["events"]
    ]
    return render_table(("EVENT", "WHAT", "BY", "THREAD", "SUMMARY"), rows)


def _render_nothing(data: Data) -> str:
    if "next_event_id" in data:
        return f"Nothing came. Go on with --after-event {data['next_event_id']}.\n"
    return "Nothing to take.\n"


def _render_initialised(data: Data) -> str:
    if "upgraded_from" in data:
        return f"Upgraded from schema {data['upgraded_from']} to {data['upgraded_to']}: {data['db']}\n"
    if "adopted" in data:
        return f"Adopted the tables and rows of another program: {data['db']}\n"
    return f"{'Created' if data['created'] else 'Already there:'} {data['db']}\n"


def _render_agent(data: Data) -> str:
    agent = data["agent"]
    text = f"{colour_text('bold', one_line(agent['name']))}  {agent['kind']}, last seen {relative_time(agent['last_seen_at'])}\n"
    if "unread" in data:
        text += f"unread threads: {data['unread']}\n"
    for held in data.get("holds", ()):
        thread, expiry = held["thread"], relative_time(held["lease"]["expires_at"])
        text += f"holds {thread['thread_id']}  {thread['status']}, lease runs out {expiry}\n"
    for route in data.get("routes", ()):
        facts = f"{one_line(route['program'])} by {route['route']}, {route['probe']}"
        text += f"woken in {facts}" + (f": {one_line(route['reason'])}" if route["reason"] else "") + "\n"
    return text


def _render_agents(data: Data) -> str:
    rows = [(agent["name"], agent["kind"], relative_time(agent["last_seen_at"])) for agent in data["agents"]]
    return render_table(("NAME", "KIND", "LAST SEEN"), rows) + render_more(data)


def _render_checks(data: Data) -> str:
    marks = {"ok": colour_text("done", "ok  "), "warn": colour_text("pending", "warn"), "fail": colour_text("failed", "fail")}
    text = ""
    for check in data["checks"]:
        text += f"{marks[check['state']]}  {check['what']}: {one_line(check['says'])}\n"
        text += "".join(f"      {one_line(line)}\n" for line in (check["why"], check["mend"] and f"-> {check['mend']}") if line)
    return text


def _render_worked(data: Data) -> str:
    retried = f", {data['retried']} tried again" if data["retried"] else ""
    return f"{data['done']} done, {data['failed']} failed, {data['released']} given back, {data['parked']} waiting for an answer{retried}\n"


def _render_text(data: Data) -> str:
    return str(data["text"])


VIEWS: dict[str, Callable[[Data], str]] = {
    "sent": _render_sent,
    "sent batch": _render_sent_batch,
    "replied": _render_replied,
    "claimed": _render_claimed,
    "renewed": _render_renewed,
    "updated": _render_updated,
    "finished": _render_finished,
    "released": lambda data: _thread_headline(data, "Gave back"),
    "cancelled": lambda data: _thread_headline(data, "Cancelled"),
    "reassigned": lambda data: _thread_headline(data, "Reassigned") + f"  now for {one_line(data['thread']['assigned_to'])}\n",
    "retried": lambda data: _thread_headline(data, "Reopened") + f"  pending for {one_line(data['thread']['assigned_to'])}\n",
    "candidates": _render_candidates,
    "unread": _render_unread,
    "threads": _render_threads,
    "conversation": _render_conversation,
    "woken": _render_woken,
    "activity": _render_activity,
    "nothing": _render_nothing,
    "initialised": _render_initialised,
    "agent": _render_agent,
    "agents": _render_agents,
    "checks": _render_checks,
    "worked": _render_worked,
    "text": _render_text,
}
