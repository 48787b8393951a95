"""Proposals in questions, and the decisions of people about them: approve, edit and approve, or reject. Asking and replying call it."""

from __future__ import annotations

from postroom._fastpath import json_text as jsontext
from postroom.core import checks, limits
from postroom.core.errors import InvalidInput, InvalidState
from postroom.core.records.people import APPROVE, DECISIONS, EDIT, OPEN, REJECT

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from postroom.core.records.people import Entry

_EXAMPLE = '{"text": "…"} or {"action": "send_mail", "args": {…}}'


def check_terms(choices: Sequence[str], dangerous: Sequence[str], proposal: object) -> dict[str, Any]:
    """Check the dangerous choices and the proposal of a question. Return them, without those that were not given."""
    terms: dict[str, Any] = {}
    if isinstance(dangerous, str) or not isinstance(dangerous, list | tuple):
        raise InvalidInput("dangerous must be a list of choices", field="dangerous")
    unknown = [choice for choice in dangerous if choice not in choices]
    if unknown:
        raise InvalidInput("a dangerous choice is not one of the choices", field="dangerous", hint="Give it as a choice, too.")
    if dangerous:
        terms["dangerous"] = list(dict.fromkeys(dangerous))
    if proposal is not None:
        if choices:
            raise InvalidInput("choices and a proposal exclude each other", field="proposal", hint="A proposal is approved or rejected.")
        terms["proposal"] = check_proposal(proposal)
    return terms


def check_proposal(proposal: object) -> dict[str, Any]:
    """Return a proposal: a text, or an action with its arguments. Refuses with `InvalidInput`."""
    if not isinstance(proposal, dict) or not (set(proposal) == {"text"} or set(proposal) == {"action", "args"}):
        raise InvalidInput("a proposal is a text, or an action with its args", field="proposal", hint=f"Write {_EXAMPLE}.")
    if "text" in proposal:
        checks.text("proposal", proposal["text"], max_bytes=limits.MAX_COMMENT_BYTES)
    else:
        checks.name("action", proposal["action"])
        if not isinstance(proposal["args"], dict):
            raise InvalidInput("the args of a proposal are an object", field="proposal", hint=f"Write {_EXAMPLE}.")
    checks.json_value("proposal", proposal, max_bytes=limits.MAX_COMMENT_BYTES)
    return dict(proposal)


def check_decision(decision: object) -> dict[str, Any]:
    """Return a decision as it was given, whatever the state of its question is. An edit has its changed proposal."""
    if not isinstance(decision, dict) or not set(decision) <= {"type", "proposal", "reason"}:
        raise InvalidInput("a decision has a type, a proposal and a reason", field="decision", hint='Write {"type": "approve"}.')
    kind = checks.choice("decision", decision.get("type", ""), DECISIONS)
    if ("proposal" in decision) != (kind == EDIT):
        raise InvalidInput("only an edit has a proposal, and it needs one", field="decision", hint="Leave it out, or choose edit.")
    edited = check_proposal(decision["proposal"]) if kind == EDIT else None
    reason = checks.text("reason", decision.get("reason", ""), max_bytes=limits.MAX_QUESTION_BYTES)
    return {"type": kind, "proposal": edited, "reason": reason}


def decide(entry: Entry, decision: dict[str, Any]) -> dict[str, Any]:
    """Return a checked decision with the proposal that holds now. Refuses one about an entry without an open question with a proposal."""
    proposal = entry.ask.terms.get("proposal") if entry.ask is not None else None
    if proposal is None or entry.ask is None or entry.ask.state != OPEN:
        raise InvalidState("there is no open question with a proposal here", hint="Reply with a text.")
    edited = decision["proposal"]
    if edited is not None and (set(edited) != set(proposal) or edited.get("action") != proposal.get("action")):
        raise InvalidInput("an edit keeps the kind and the action of the proposal", field="decision", hint="Change its text or its args.")
    return {**decision, "proposal": None if decision["type"] == REJECT else edited or proposal}


def describe(decision: dict[str, Any]) -> str:
    """Return a decision as the text of a reply."""
    if decision["type"] == APPROVE:
        return "Approved"
    if decision["type"] == REJECT:
        return f"Rejected: {decision['reason']}" if decision["reason"].strip() else "Rejected"
    proposal = decision["proposal"]
    return f"Approved with changes:\n\n{proposal['text'] if 'text' in proposal else jsontext.dumps(proposal['args'])}"
