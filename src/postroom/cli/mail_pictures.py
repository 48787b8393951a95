"""Pictures of the mail room's answers, for people."""

from __future__ import annotations

from postroom.cli.human import ago, line, lines, paint, table
from postroom.core import clock

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    Data = dict[str, Any]

_OURS = ("msg_id", "from", "to", "payload", "created_at", "attempt")


def _queued(data: Data) -> str:
    said = "Stored" if data["queued"] else "Already known:"
    return f"{paint('bold', said)} {line(data['msg_id'])}  {data['pending']} pending\n"


def _no_mail(data: Data) -> str:
    return "No message to take.\n"


def _delivery(data: Data) -> str:
    taken = f"in flight, runs out {ago(data['in_flight_until'])}, token {data['delivery_token']}"
    return _message(data["message"]) + paint("dim", taken) + "\n"


def _message(message: Data) -> str:
    """The payload is indented, so that no text can pose as something else."""
    attempt = f", attempt {message['attempt']}" if message["attempt"] else ""
    head = f"{line(message['msg_id'])}\n{line(message['from'])} → {line(message['to'])}  {_since(message['created_at'])}{attempt}\n"
    extras = "".join(f"+ {line(name)}: {line(str(value))}\n" for name, value in message.items() if name not in _OURS)
    return paint("bold", head.partition("\n")[0]) + "\n" + head.partition("\n")[2] + lines(message["payload"], "  ") + extras


def _since(seconds: int) -> str:
    return ago(clock.stamp(seconds * clock.SECOND))


def _told(data: Data) -> str:
    said = f"{line(data['msg_id'])} is {data['state']}"
    again = f", and comes again {ago(data['retry_at'])}" if data.get("retry_at") else ""
    text = f"{said}{again}\n" if data["changed"] else f"{said} already; nothing changed\n"
    if "next" in data:
        text += _delivery(data["next"]) if data["next"] else _no_mail(data)
    return text


def _extended(data: Data) -> str:
    return f"{line(data['msg_id'])} is in flight; its time runs out {ago(data['in_flight_until'])}\n"


def _waiting(data: Data) -> str:
    if not data["messages"]:
        return "Nothing waits here.\n"
    rows = [(m["msg_id"], m["state"], str(m["attempt"]), _since(m["created_at"]), _due(m), m["from"]) for m in data["messages"]]
    left = data["total"] - len(rows)
    more = paint("dim", f"and {left} more: raise --limit") + "\n" if left else ""
    return table(("MESSAGE", "STATE", "ATTEMPT", "SENT", "DUE", "FROM"), rows) + more


def _due(message: Data) -> str:
    return ago(message["due_at"]) if message["due_at"] else "-"


def _dead(data: Data) -> str:
    if not data["entries"]:
        return "No dead letters.\n"
    rows = [
        (entry["msg_id"], entry["from"], str(entry["attempts"]), _since(entry["failed_at"]), entry["reason"]) for entry in data["entries"]
    ]
    return table(("MESSAGE", "FROM", "ATTEMPTS", "FAILED", "REASON"), rows)


def _receipt(data: Data) -> str:
    gone = f"Only its id is left: {data['state']}.\n"
    text = _message(data["message"]) + f"state: {data['state']}\n" if data["message"] else gone
    rows = [(step["at"], step["step"], _facts(step)) for step in data["steps"]]
    return text + "\n" + table(("WHEN", "WHAT", "ABOUT"), rows)


def _facts(step: Data) -> str:
    about = {name: value for name, value in step.items() if name not in ("at", "step") and value not in (None, "")}
    if "reason" in about:
        about["reason"] = repr(about.pop("reason"))  # in quotes and last, so that it cannot pose as another fact
    return ", ".join(f"{name.replace('_', ' ')} {value}" for name, value in about.items())


def _mailboxes(data: Data) -> str:
    if not data["sessions"]:
        return "No mailboxes yet.\n"
    states = ("pending", "in_flight", "nacked", "acked", "dead_letter", "expired")
    rows = [(*(str(box[state]) for state in states), box["session"]) for box in data["sessions"]]
    return table(("PENDING", "IN FLIGHT", "NACKED", "ACKED", "DEAD", "EXPIRED", "SESSION"), rows)


def _policy(data: Data) -> str:
    policy = data["policy"]
    ttl = "never" if policy["ttl_secs"] is None else f"{policy['ttl_secs']:g} s after they were stored"
    return (
        f"{paint('bold', line(policy['session']))}\n"
        f"  first retry after   {policy['base_backoff_secs']:g} s, each later one twice as long\n"
        f"  retries             {policy['max_retries']}, then it is a dead letter\n"
        f"  in flight for       {policy['inflight_timeout_secs']:g} s\n"
        f"  messages expire     {ttl}\n"
    )


def _alias(data: Data) -> str:
    alias = data["alias"]
    if data.get("removed"):
        return f"{line(alias['name'])} is no alias any more (it was {line(alias['session'])})\n"
    return f"{line(alias['name'])} → {line(alias['session'])}\n"


def _aliases(data: Data) -> str:
    rows = [(alias["name"], alias["session"]) for alias in data["aliases"]]
    return table(("ALIAS", "SESSION"), rows) if rows else "No aliases.\n"


def _swept(data: Data) -> str:
    return ", ".join(f"{number} {name.replace('_', ' ')}" for name, number in data["swept"].items()) + "\n"


def _delivered(data: Data) -> str:
    return f"{data['acked']} acked, {data['nacked']} nacked, {data['lost']} lost\n"


PICTURES: dict[str, Callable[[Data], str]] = {
    "queued": _queued,
    "queued all": lambda data: f"Stored {data['stored']} of {len(data['messages'])}; the others were known already.\n",
    "no mail": _no_mail,
    "delivery": _delivery,
    "told": _told,
    "extended": _extended,
    "waiting": _waiting,
    "purged": lambda data: f"Purged {data['purged']}; the ids stay known.\n",
    "dead": _dead,
    "retried": lambda data: f"{data['retried']} pending again.\n",
    "receipt": _receipt,
    "mailboxes": _mailboxes,
    "policy": _policy,
    "alias": _alias,
    "aliases": _aliases,
    "swept": _swept,
    "delivered": _delivered,
}
