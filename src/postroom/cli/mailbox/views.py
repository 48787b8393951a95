"""Text views of the answers of the mail room. `inbox.views.work.render_view` calls them."""

from __future__ import annotations

from postroom.cli.framework.terminal import colour_text, indented_lines, one_line, relative_time, render_more, render_note, render_table
from postroom.core import clock

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    Data = dict[str, Any]

LAST_SECOND_OF_YEAR_9999 = 253_402_300_799
_KNOWN_FIELDS = ("msg_id", "from", "to", "payload", "created_at", "attempt", "protocol_version")


def _render_queued(data: Data) -> str:
    status = "Stored" if data["queued"] else "Already known:"
    return f"{colour_text('bold', status)} {one_line(data['msg_id'])}  {data['pending']} pending\n" + render_note(data)


def _render_queued_all(data: Data) -> str:
    total, stored = len(data["messages"]), data["stored"]
    if not total:
        return "The batch has no message; nothing was stored.\n"
    notes = "".join(render_note(message) for message in data["messages"])
    return f"Stored {stored} of {total}{'' if stored == total else '; the others were known already'}.\n{notes}"


def _render_no_mail(data: Data) -> str:
    return "No message to take.\n"


def _render_delivery(data: Data) -> str:
    taken = f"in flight, runs out {relative_time(data['in_flight_until'])}, token {data['delivery_token']}"
    return _render_message(data["message"]) + colour_text("dim", taken) + "\n"


def _render_message(message: Data) -> str:
    """Return a message. Its payload is indented, so that it cannot imitate another part of the output."""
    attempt = f", attempt {message['attempt']}" if message["attempt"] else ""
    names = f"{one_line(message['from'])} → {one_line(message['to'])}"
    details = f"{names}  {_time_since(message['created_at'])}{attempt}\n"
    extras = "".join(f"+ {one_line(name)}: {one_line(str(value))}\n" for name, value in message.items() if name not in _KNOWN_FIELDS)
    return colour_text("bold", one_line(message["msg_id"])) + "\n" + details + indented_lines(message["payload"], "  ") + extras


def _time_since(seconds: int) -> str:
    if seconds > LAST_SECOND_OF_YEAR_9999:
        return "after the year 9999"
    return relative_time(clock.format_stamp(seconds * clock.MICROSECONDS_PER_SECOND))


def _render_settled(data: Data) -> str:
    state = f"{one_line(data['msg_id'])} is {data['state']}"
    again = f", and comes again {relative_time(data['retry_at'])}" if data.get("retry_at") else ""
    text = f"{state}{again}\n" if data["changed"] else f"{state} already; nothing changed\n"
    if "next" in data:
        text += _render_delivery(data["next"]) if data["next"] else _render_no_mail(data)
    return text


def _render_extended(data: Data) -> str:
    return f"{one_line(data['msg_id'])} is in flight; its time runs out {relative_time(data['in_flight_until'])}\n"


def _render_waiting_messages(data: Data) -> str:
    if not data["messages"]:
        return "Nothing waits here. `mailbox peek --acked` lists what was acked.\n"
    return _render_summaries(data)


def _render_acked_messages(data: Data) -> str:
    return _render_summaries(data) if data["messages"] else "No acked message is kept here.\n"


def _render_summaries(data: Data) -> str:
    rows = [(m["msg_id"], m["state"], str(m["attempt"]), _time_since(m["created_at"]), _due_time(m), m["from"]) for m in data["messages"]]
    return render_table(("MESSAGE", "STATE", "ATTEMPT", "SENT", "DUE", "FROM"), rows) + render_more(data)


def _due_time(message: Data) -> str:
    return relative_time(message["due_at"]) if message["due_at"] else "-"


def _render_dead_letters(data: Data) -> str:
    if not data["entries"]:
        return "No dead letters.\n"
    rows = [
        (entry["msg_id"], entry["from"], str(entry["attempts"]), _time_since(entry["failed_at"]), entry["reason"])
        for entry in data["entries"]
    ]
    return render_table(("MESSAGE", "FROM", "ATTEMPTS", "FAILED", "REASON"), rows) + render_more(data)


def _render_receipt(data: Data) -> str:
    text = f"Only its id is left: {data['state']}.\n"
    if data["message"]:
        text = _render_message(data["message"]) + f"state: {data['state']}\n"
    rows = [(step["at"], step["step"], _step_facts(step)) for step in data["steps"]]
    return text + "\n" + render_table(("WHEN", "WHAT", "ABOUT"), rows) + render_more(data)


def _step_facts(step: Data) -> str:
    facts = {name: value for name, value in step.items() if name not in ("at", "step") and value not in (None, "")}
    if "reason" in facts:
        facts["reason"] = repr(facts.pop("reason"))  # in quotes and last, so that it cannot imitate another fact
    return ", ".join(f"{name.replace('_', ' ')} {value}" for name, value in facts.items())


def _render_mailboxes(data: Data) -> str:
    if not data["sessions"]:
        return "No mailboxes yet.\n"
    states = ("pending", "in_flight", "nacked", "acked", "dead_letter", "expired")
    rows = [(*(str(mailbox[state]) for state in states), mailbox["session"]) for mailbox in data["sessions"]]
    return render_table(("PENDING", "IN FLIGHT", "NACKED", "ACKED", "DEAD", "EXPIRED", "SESSION"), rows) + render_more(data)


def _render_policy(data: Data) -> str:
    policy = data["policy"]
    ttl = "never" if policy["ttl_secs"] is None else f"{policy['ttl_secs']:g} s after they were stored"
    return (
        f"{colour_text('bold', one_line(policy['session']))}\n"
        f"  first retry after   {policy['base_backoff_secs']:g} s, each later one twice as long\n"
        f"  retries             {policy['max_retries']}, then it is a dead letter\n"
        f"  in flight for       {policy['inflight_timeout_secs']:g} s\n"
        f"  messages expire     {ttl}\n"
    )


def _render_alias(data: Data) -> str:
    alias = data["alias"]
    if data.get("removed"):
        return f"{one_line(alias['name'])} is no alias any more (it was {one_line(alias['session'])})\n"
    return f"{one_line(alias['name'])} → {one_line(alias['session'])}\n"


def _render_aliases(data: Data) -> str:
    rows = [(alias["name"], alias["session"]) for alias in data["aliases"]]
    return render_table(("ALIAS", "SESSION"), rows) + render_more(data) if rows else "No aliases.\n"


def _render_swept(data: Data) -> str:
    return ", ".join(f"{number} {name.replace('_', ' ')}" for name, number in data["swept"].items()) + "\n"


def _render_delivered(data: Data) -> str:
    totals = f"{data['acked']} acked, {data['nacked']} nacked, {data['lost']} lost\n"
    return totals + ("what was nacked comes again after its pause; `mailbox peek` shows when\n" if data["nacked"] else "")


VIEWS: dict[str, Callable[[Data], str]] = {
    "queued": _render_queued,
    "queued all": _render_queued_all,
    "no mail": _render_no_mail,
    "delivery": _render_delivery,
    "settled": _render_settled,
    "extended": _render_extended,
    "waiting": _render_waiting_messages,
    "acked": _render_acked_messages,
    "purged": lambda data: f"Purged {data['purged']}; the ids stay known.\n",
    "dead": _render_dead_letters,
    "retried letters": lambda data: f"{data['retried']} pending again.\n",
    "receipt": _render_receipt,
    "mailboxes": _render_mailboxes,
    "policy": _render_policy,
    "alias": _render_alias,
    "aliases": _render_aliases,
    "swept": _render_swept,
    "delivered": _render_delivered,
}
