"""The words of an alert: its subject, its text, and its JSON. Pure. The texts of agents are data, and are marked as theirs."""

from __future__ import annotations

from postroom.core.records.channels import OVERVIEW, REMINDER, TRIAL

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from postroom.core.records.channels import AlertContent

MAX_SUBJECT_CHARS = 120
TYPES = {"question": "question.asked", "reminder": "question.reminder", "entry": "entry.created", "digest": "digest", "test": "test"}


def render_subject(content: AlertContent) -> str:
    """Return one line that says what it is about and which agent it came from."""
    title = " ".join(content.title.split())
    if content.alert.purpose == OVERVIEW:
        return f"Your inbox: {title}"
    if content.alert.purpose == TRIAL:
        return title
    words = {REMINDER: "Reminder: "}.get(content.alert.purpose, "")
    subject = f"{words}{title} ({' '.join(content.agent.split())})"
    return subject if len(subject) <= MAX_SUBJECT_CHARS else f"{subject[: MAX_SUBJECT_CHARS - 1]}…"


def render_text(content: AlertContent, *, can_reply: bool = False) -> str:
    """Return the whole message as plain text. `can_reply`: a reply to the message is an answer."""
    parts = [f"{content.agent} wrote:\n\n{_quote(content.text)}" if content.agent else content.text]
    parts += ["\n".join(f"- {' '.join(item.split())}" for item in content.lines)]
    if content.proposal is not None:
        parts.append(f"It proposes:\n\n{_quote(content.proposal)}")
    if content.choices:
        parts.append("Choices:\n" + "\n".join(f"  {number}. {choice}" for number, choice in enumerate(content.choices, 1)))
    if content.deadline is not None:
        parts.append(f"Answer by {content.deadline[:16].replace('T', ' ')} UTC. Without an answer, {content.silence}.")
    parts.append(_say_how(content, can_reply=can_reply))
    return "\n\n".join(part for part in parts if part.strip()) + "\n"


def _say_how(content: AlertContent, *, can_reply: bool) -> str:
    """Return how to answer or to see more."""
    if content.question_id is None:
        return "" if content.url is None or content.alert.purpose == TRIAL else f"Open your inbox: {content.url}/"
    ways = []
    if content.link is not None:
        ways.append(f"Answer here, once: {content.link}\nThe link opens this question only. Do not pass it on.")
    if can_reply:
        ways.append("Or reply to this message: the first lines, above what is quoted, are your answer.")
    return "\n\n".join(ways) or f'Answer with: inbox entry reply {content.alert.entry_id} --body "…"'


def to_json(content: AlertContent) -> dict[str, Any]:
    """Return an alert as the JSON of a webhook, in the form of Standard Webhooks: type, timestamp and data."""
    data: dict[str, Any] = {"alertId": content.alert.alert_id, "person": content.channel.person, "title": content.title}
    data |= {
        "text": content.text,
        "from": content.agent,
        "entryId": content.alert.entry_id or None,
    }
    if content.lines:
        data["waiting"] = list(content.lines)
    if content.question_id is not None:
        data["question"] = {
            "questionId": content.question_id,
            "choices": list(content.choices),
            "dangerous": list(content.dangerous),
            "proposal": content.proposal,
            "deadline": content.deadline,
            "withoutAnswer": content.silence or None,
            "url": content.link,
            "answerUrl": content.link,
        }
    return {"type": TYPES[content.alert.purpose], "timestamp": content.alert.created_at, "data": data}


def to_ntfy_json(content: AlertContent, topic: str) -> dict[str, Any]:
    """Return an alert as the JSON of ntfy's publishing. Up to three harmless choices are buttons that answer."""
    from json import dumps

    message = content.text or "\n".join(content.lines) or content.title
    fields: dict[str, Any] = {"topic": topic, "title": render_subject(content), "message": message, "tags": ["incoming_envelope"]}
    if content.deadline is not None:
        fields["priority"] = 4
    where = content.link or content.url
    if where is not None:
        fields["click"] = where
    if content.link is not None and 0 < len(content.choices) <= 3 and not content.dangerous:
        button = {"action": "http", "url": content.link, "method": "POST", "headers": {"Content-Type": "application/json"}, "clear": True}
        fields["actions"] = [{**button, "label": choice, "body": dumps({"answer": choice})} for choice in content.choices]
    return fields


def _quote(text: str) -> str:
    """Return a text of an agent with a mark before each line, so that it cannot pose as a line of ours."""
    return "\n".join(f"| {line}" for line in text.splitlines())
