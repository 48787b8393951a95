"""The tools as an agent sees them: names, descriptions, schemas. Few and short, for they stand in its prompt."""

from __future__ import annotations

from typing import Any

INSTRUCTIONS = (
    "Postroom is your line to the people you work for, and to other agents. Push what they should see, ask when only they can"
    " decide, read what they replied. Work comes as threads: fetch, claim, report, finish."
)
_WAIT = {"type": "number", "minimum": 0, "maximum": 50, "description": "Wait up to this many seconds. If nothing came, call again."}
_TEXT = {"type": "string", "maxLength": 262144}
_DOCS = {
    "type": "array",
    "maxItems": 50,
    "description": "Files to show, as paths relative to the workspace's root. They are shown live: later edits are seen.",
    "items": {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"], "additionalProperties": False},
}
_ID = {"type": "string", "minLength": 1, "maxLength": 200}
_LEASE_TOKEN = {**_ID, "description": "From work_claim. Refused if another process took the thread meanwhile."}

TOOLS: dict[str, tuple[str, dict[str, Any], tuple[str, ...]]] = {
    "inbox_push": (
        "Show the person something in their inbox. Give docs, comments, or both. Push when there is something they should see: a piece of"
        " work that they asked for is finished (point to the report), a decision blocks you (or use inbox_ask), a long job has news."
        " Do not push intermediate steps, scratch or debugging output. Their reply comes with inbox_read.",
        {"docs": _DOCS, "comments": {**_TEXT, "description": "Markdown: your voice to the person, shown below the documents."}},
        (),
    ),
    "inbox_read": (
        "Read what was said to you: replies to what you pushed, answers to what you asked, mail from other agents. Each comes once and is"
        " then acknowledged; `old` shows replies again. `entries` lists what you pushed and asked, with its state.",
        {
            "waitSeconds": _WAIT,
            "old": {"type": "boolean", "description": "Show the latest replies again, changing nothing."},
            "entries": {"type": "boolean", "description": "Also list your own latest entries."},
            "limit": {"type": "integer", "minimum": 1, "maximum": 100},
        },
        (),
    ),
    "inbox_ask": (
        "Ask a person something that only they can decide, and wait for the answer. With `choices` they press a button. A deadline and"
        " `onSilence` say what holds if nobody answers: wait (the default), default (take `default`), refuse (take it as a no), or"
        " escalate (to the person `escalateTo`). If the answer says state `open`, call again with its `entryId` to go on waiting, or do"
        " something else: the answer also comes with inbox_read.",
        {
            "question": {"type": "string", "maxLength": 16384, "description": "Markdown. Say what you need to know, and why."},
            "entryId": {**_ID, "description": "Instead of a question: go on waiting for one that you asked."},
            "choices": {"type": "array", "items": {"type": "string", "minLength": 1, "maxLength": 200}, "maxItems": 20},
            "to": {**_ID, "description": "Which person; default: the user."},
            "deadlineSeconds": {"type": "number", "exclusiveMinimum": 0, "maximum": 31622400},
            "onSilence": {"enum": ["wait", "default", "refuse", "escalate"]},
            "default": _TEXT,
            "escalateTo": _ID,
            "docs": _DOCS,
            "waitSeconds": {**_WAIT, "description": "How long this call waits; default 45. 0 asks and returns at once."},
        },
        (),
    ),
    "work_fetch": (
        "List the threads of work that you could claim: those sent to you, and those whose worker was lost. Changes nothing.",
        {"waitSeconds": _WAIT, "limit": {"type": "integer", "minimum": 1, "maximum": 100}},
        (),
    ),
    "work_claim": (
        "Claim a thread of work; without a threadId, the most urgent one. It is yours until its lease runs out without a sign of life."
        " The answer holds all that was said in it, and a leaseToken for the calls that follow.",
        {
            "threadId": _ID,
            "leaseSeconds": {
                "type": "number",
                "exclusiveMinimum": 0,
                "maximum": 31622400,
                "description": "Default 900; every call of yours renews it.",
            },
            "takeover": {"type": "boolean", "description": "Replace your own live lease, when its token was lost."},
        },
        (),
    ),
    "work_update": (
        "Report progress on a thread that you hold, or, with status blocked, ask what you need to know to go on: of whoever sent it, or of"
        " `to`. With waitSeconds it waits for the reply; if none came, call again with the threadId, afterEvent and waitSeconds alone.",
        {
            "threadId": _ID,
            "status": {"enum": ["in_progress", "blocked"]},
            "summary": {**_TEXT, "description": "One line."},
            "body": _TEXT,
            "to": _ID,
            "choices": {"type": "array", "items": {"type": "string", "minLength": 1, "maxLength": 200}, "maxItems": 20},
            "leaseToken": _LEASE_TOKEN,
            "waitSeconds": _WAIT,
            "afterEvent": {
                "type": "integer",
                "minimum": 0,
                "maximum": 9007199254740991,
                "description": "next_event_id of the call before: only wait, say nothing.",
            },
        },
        ("threadId",),
    ),
    "work_done": (
        "End your work on a thread: done with its result, failed with what went wrong, or released for somebody else to take.",
        {
            "threadId": _ID,
            "outcome": {"enum": ["done", "failed", "released"]},
            "summary": {**_TEXT, "description": "One line."},
            "body": _TEXT,
            "leaseToken": _LEASE_TOKEN,
        },
        ("threadId", "outcome"),
    ),
}


def schema(name: str) -> dict[str, Any]:
    _, properties, required = TOOLS[name]
    return {"type": "object", "properties": properties, "required": list(required), "additionalProperties": False}


SCHEMAS = {name: schema(name) for name in TOOLS}
