"""The MCP tools as an agent sees them: names, descriptions and input schemas. They are short because they go into its prompt."""

from __future__ import annotations

from typing import Any

INSTRUCTIONS = (
    "Postroom connects you to the people you work for, and to other agents. Push what they should see, ask when only they can"
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
_EVENT = {"type": "integer", "minimum": 0, "maximum": 9007199254740991}
_LEASE_TOKEN = {**_ID, "description": "From work_claim. Refused if another process took the thread meanwhile."}

TOOLS: dict[str, tuple[str, dict[str, Any], tuple[str, ...]]] = {
    "inbox_push": (
        "Show the person something in their inbox. Give docs, comments, or both. Push when there is something they should see: a piece of"
        " work that they asked for is finished (point to the report), a decision blocks you (or use inbox_ask), a long job has news."
        " Do not push intermediate steps, scratch or debugging output. Their reply comes with inbox_read.",
        {"docs": _DOCS, "comments": {**_TEXT, "description": "Markdown: your message to the person, shown below the documents."}},
        (),
    ),
    "inbox_read": (
        "Read your messages: replies to what you pushed, answers to what you asked, mail from other agents. Each comes once and is"
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
        "Ask a person something that only they can decide, and wait for the answer. With `choices` they press a button. `onSilence`"
        " defines what happens at the deadline if nobody answered: wait (the default), default (take `default`), refuse (take it as a"
        " no), or escalate (to the person `escalateTo`). If the state is `open`, call again with the `entryId` to go on waiting, or do"
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
        "List the threads of work that you could claim: those sent to you, and those whose worker was lost. With a threadId: read the"
        " messages of that thread. Changes nothing.",
        {
            "waitSeconds": _WAIT,
            "limit": {"type": "integer", "minimum": 1, "maximum": 100},
            "threadId": {**_ID, "description": "Read this thread instead: one that you sent, hold, or were sent."},
            "beforeEvent": {**_EVENT, "description": "With threadId: the messages before this event; nextBeforeEvent of the page before."},
        },
        (),
    ),
    "work_claim": (
        "Claim a thread of work; without a threadId, the most urgent one. It is yours until its lease runs out without a sign of life."
        " The answer holds its newest messages, its first one (firstMessage, if it is not among them), and a leaseToken for the calls that"
        " follow.",
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
        "Report progress on a thread that you hold. With status blocked, ask its sender, or `to`, what you need to know to go on."
        " With waitSeconds it waits for the reply; if none came, call again with only the threadId, afterEvent and waitSeconds.",
        {
            "threadId": _ID,
            "status": {"enum": ["in_progress", "blocked"]},
            "summary": {**_TEXT, "description": "One line."},
            "body": _TEXT,
            "to": _ID,
            "choices": {"type": "array", "items": {"type": "string", "minLength": 1, "maxLength": 200}, "maxItems": 20},
            "leaseToken": _LEASE_TOKEN,
            "waitSeconds": _WAIT,
            "afterEvent": {**_EVENT, "description": "next_event_id of the call before: only wait, send nothing."},
        },
        ("threadId",),
    ),
    "work_done": (
        "End your work on a thread: done with its result, failed with what went wrong, or released for another worker to take.",
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


def input_schema(name: str) -> dict[str, Any]:
    _, properties, required = TOOLS[name]
    return {"type": "object", "properties": properties, "required": list(required), "additionalProperties": False}


SCHEMAS = {name: input_schema(name) for name in TOOLS}
