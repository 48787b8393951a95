"""The description of the HTTP interface, OpenAPI 3.1. Served, written to docs/reference/openapi.json, and held to by tests."""

from __future__ import annotations

from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from postroom import __version__
from postroom.core.entries import ON_SILENCE, SECTIONS
from postroom.core.states import STATUSES
from postroom.server.answers import Json

Schema = dict[str, Any]

_TEXT: Schema = {"type": "string"}
_MAYBE: Schema = {"type": ["string", "null"]}
_WHOLE: Schema = {"type": "integer"}
_TRUTH: Schema = {"type": "boolean"}


def _object(required: str, **properties: Schema) -> Schema:
    return {"type": "object", "properties": properties, "required": required.split()}


def _list(items: Schema) -> Schema:
    return {"type": "array", "items": items}


def _ref(name: str) -> Schema:
    return {"$ref": f"#/components/schemas/{name}"}


_QUESTION = _object(
    "state to choices onSilence",
    state={"enum": ["open", "answered", "default", "refused", "ended"]},
    to=_TEXT,
    choices=_list(_TEXT),
    deadline=_MAYBE,
    onSilence={"enum": list(ON_SILENCE)},
    default=_MAYBE,
    escalateTo=_MAYBE,
    escalatedAt=_MAYBE,
    answer=_MAYBE,
    choice=_MAYBE,
    answeredBy=_MAYBE,
    answeredAt=_MAYBE,
)
_DOC = _object("path", path=_TEXT, sha256=_MAYBE, size={"type": ["integer", "null"]})
_ENTRY = _object(
    "id ts workspaceId workspaceLabel kind from door readAt readBy replies",
    id=_TEXT,
    ts={"type": "integer", "description": "Milliseconds since 1970"},
    workspaceId=_TEXT,
    workspaceLabel=_TEXT,
    docs=_list(_ref("Doc")),
    comments=_TEXT,
    kind={"enum": ["push", "question", "notice"]},
    door=_TEXT,
    readAt=_MAYBE,
    readBy=_MAYBE,
    replies=_WHOLE,
    question=_ref("Question"),
    threadId=_TEXT,
) | {"description": "What a person sees"}
_ENTRY["properties"]["from"] = _TEXT
_REPLY = _object(
    "id entryId body door at via verified",
    **dict.fromkeys(("id", "entryId", "from", "body", "door", "at"), _TEXT),
    via={"enum": ["thread", "answer", "mailbox"]},
    verified=_TRUTH,
)
_THREAD = _object(
    "thread_id subject created_by assigned_to status priority created_at updated_at",
    **dict.fromkeys(
        ["thread_id", "run_id", "task_id", "subject", "created_by", "assigned_to", "priority", "created_at", "updated_at"], _TEXT
    ),
    status={"enum": list(STATUSES)},
    latest_message_id=_MAYBE,
)
_MESSAGE = _object(
    "message_id thread_id from_agent to_agent kind summary body created_at event_id door verified",
    **dict.fromkeys(
        ["message_id", "thread_id", "from_agent", "to_agent", "kind", "summary", "body", "payload_json", "created_at", "door"], _TEXT
    ),
    event_id=_WHOLE,
    verified=_TRUTH,
    artifacts=_list({"type": "object"}),
)
_FILE = _object(
    "path kind html size sha256 pushedSha256 changed gone truncated download",
    path=_TEXT,
    kind={"enum": ["markdown", "text", "code", "binary", "image", None]},
    html=_MAYBE,
    text=_MAYBE,
    size={"type": ["integer", "null"]},
    sha256=_MAYBE,
    pushedSha256=_MAYBE,
    changed={"type": ["boolean", "null"]},
    gone=_TRUTH,
    truncated=_TRUTH,
    download=_MAYBE,
)
_ERROR = _object("ok error", ok={"const": False}, error=_object("code message hint", code=_TEXT, message=_TEXT, hint=_TEXT))

SCHEMAS: dict[str, Schema] = {
    "Question": _QUESTION,
    "Doc": _DOC,
    "Entry": _ENTRY,
    "Page": _object("entries hasMore", entries=_list(_ref("Entry")), hasMore=_TRUTH),
    "Reply": _REPLY,
    "Receipt": _object("step at by door", step=_TEXT, at=_TEXT, by=_TEXT, door=_TEXT),
    "Detail": _object("entry replies receipts", entry=_ref("Entry"), replies=_list(_ref("Reply")), receipts=_list(_ref("Receipt"))),
    "Workspace": _object("workspace_id label path agent", workspace_id=_TEXT, label=_TEXT, path=_TEXT, agent=_TEXT, created_at=_TEXT),
    "File": _FILE,
    "Thread": _THREAD,
    "Message": _MESSAGE,
    "Posted": _object("thread message", thread=_ref("Thread"), message=_ref("Message")),
    "Agent": _object("name kind", name=_TEXT, kind={"enum": ["agent", "human"]}, card_json=_TEXT, created_at=_TEXT, last_seen_at=_MAYBE),
    "Error": _ERROR,
}

_WRONG = {
    "400": "The request cannot be carried out as it stands",
    "401": "Nobody knows who asks",
    "403": "Not for this caller, or from another site",
    "404": "What was named is not there",
    "405": "Another method is meant",
    "409": "Something is in the way",
    "413": "Too large",
    "421": "Not a name of this server",
    "429": "Too many; Retry-After says when to come back",
    "503": "The store could not do it; Retry-After says when to come back",
}


def _query(name: str, schema: Schema, description: str, *, required: bool = False) -> Schema:
    return {"name": name, "in": "query", "schema": schema, "description": description, "required": required}


_ID = {"name": "id", "in": "path", "required": True, "schema": {"type": "string", "minLength": 1, "maxLength": 200}}
_KEY = {"name": "Idempotency-Key", "in": "header", "schema": {"type": "string", "minLength": 1, "maxLength": 200, "pattern": "^[!-~]+$"}}
_FLAG = {"enum": ["true", "false", "1", "0"]}
_LIMIT = _query("limit", {"type": "integer", "minimum": 1, "maximum": 500}, "At most this many")


def _body(required: str, **properties: Schema) -> Schema:
    schema = {**_object(required, **properties), "additionalProperties": False}
    return {"required": True, "content": {"application/json": {"schema": schema}}}


def _operation(
    summary: str, status: str, answer: Schema | None, *, body: Schema | None = None, parameters: tuple[Schema, ...] = ()
) -> Schema:
    good: Schema = {"description": summary}
    if answer is not None:
        good["content"] = {"application/json": {"schema": answer}}
    wrong = {code: {"description": text, "content": {"application/json": {"schema": _ref("Error")}}} for code, text in _WRONG.items()}
    operation: Schema = {"summary": summary, "responses": {status: good, **wrong}}
    if parameters:
        operation["parameters"] = list(parameters)
    if body is not None:
        operation["requestBody"] = body
    return operation


_PATHS_OF_DOCS = {
    "type": "array",
    "maxItems": 50,
    "items": {**_object("path", path={"type": "string", "minLength": 1, "maxLength": 1024}), "additionalProperties": False},
}
_ENTRY_ANSWER = _object("entry", entry=_ref("Entry"))
_SAID = {"type": "string", "minLength": 1, "maxLength": 262144}
_EVENTS = _operation(
    "Everything that happens, as Server-Sent Events; Last-Event-ID resumes",
    "200",
    None,
    parameters=(
        _query("types", _TEXT, "Beginnings of event types, separated by commas"),
        _query("thread", _TEXT, "Of this thread"),
        _query("workspaceId", _TEXT, "Of entries of this workspace"),
        _query("agent", _TEXT, "That concern this agent"),
        _query("after", {"type": "integer", "minimum": 0}, "Only later ones; as Last-Event-ID"),
    ),
)
_EVENTS["responses"]["200"]["content"] = {"text/event-stream": {"schema": _TEXT}}
_FILE_OPERATION = _operation(
    "A document of a workspace, read live: rendered, or as a download",
    "200",
    _ref("File"),
    parameters=(
        _ID,
        _query("path", {"type": "string", "minLength": 1, "maxLength": 1024}, "Relative to the workspace", required=True),
        _query("entry", _TEXT, "Compare with what this entry pushed"),
        _query("download", _FLAG, "The bytes themselves"),
    ),
)
_FILE_OPERATION["responses"]["200"]["content"]["application/octet-stream"] = {"schema": {"type": "string", "format": "binary"}}

PATHS: dict[str, dict[str, Schema]] = {
    "/api/inbox/history": {
        "get": _operation(
            "Entries, newest first",
            "200",
            _ref("Page"),
            parameters=(
                _LIMIT,
                _query("before", _TEXT, "Only older ones than this entry"),
                _query("workspaceId", _TEXT, "Only of this workspace"),
                _query("section", {"enum": list(SECTIONS)}, "Default: inbox"),
                _query("unread", _FLAG, "Only those that nobody has read"),
                _query("open", _FLAG, "Only questions that wait for an answer"),
            ),
        )
    },
    "/api/inbox/search": {
        "get": _operation(
            "Entries that hold every word",
            "200",
            _ref("Page"),
            parameters=(_query("q", {"type": "string", "minLength": 1}, "Words, or beginnings of words", required=True), _LIMIT),
        )
    },
    "/api/inbox/seed": {
        "post": _operation(
            "Append an entry by hand (only with --dev)",
            "201",
            _ENTRY_ANSWER,
            body=_body("", workspaceId=_TEXT, workspaceLabel=_TEXT, docs=_PATHS_OF_DOCS, comments={"type": "string", "maxLength": 262144}),
        )
    },
    "/api/inbox/push": {
        "post": _operation(
            "Show a person something (with a workspace's token)",
            "201",
            _object("ok entryId ts", ok={"const": True}, entryId=_TEXT, ts=_WHOLE),
            body=_body("", docs=_PATHS_OF_DOCS, comments={"type": "string", "maxLength": 262144}),
        )
    },
    "/api/inbox/{id}": {
        "get": _operation("One entry, with replies and receipts", "200", _ref("Detail"), parameters=(_ID,)),
        "delete": _operation("Delete an entry for good", "204", None, parameters=(_ID,)),
    },
    "/api/inbox/{id}/read": {
        "put": _operation("Mark as read", "200", _ENTRY_ANSWER, parameters=(_ID,)),
        "delete": _operation("Mark as unread", "200", _ENTRY_ANSWER, parameters=(_ID,)),
    },
    "/api/inbox/{id}/reply": {
        "post": _operation(
            "Reply to the agent; said again with the same Idempotency-Key, nothing is sent twice",
            "201",
            _object("entry reply", entry=_ref("Entry"), reply=_ref("Reply")),
            body=_body("body", body=_SAID),
            parameters=(_ID, _KEY),
        )
    },
    "/api/workspaces": {"get": _operation("Every workspace", "200", _object("workspaces", workspaces=_list(_ref("Workspace"))))},
    "/api/workspaces/{id}/file": {"get": _FILE_OPERATION},
    "/api/threads": {
        "get": _operation(
            "Threads, latest activity first",
            "200",
            _object("threads more", threads=_list(_ref("Thread")), more=_TRUTH),
            parameters=(
                _query("status", _TEXT, f"Of {', '.join(STATUSES)}; several separated by commas"),
                _query("agent", _TEXT, "Created by it, or assigned to it"),
                _query("limit", {"type": "integer", "minimum": 1, "maximum": 10000}, "At most this many"),
            ),
        )
    },
    "/api/threads/{id}": {
        "get": _operation(
            "One thread and all that was said",
            "200",
            _object(
                "thread lease messages next_event_id",
                thread=_ref("Thread"),
                lease={"type": ["object", "null"]},
                messages=_list(_ref("Message")),
                next_event_id=_WHOLE,
            ),
            parameters=(_ID,),
        )
    },
    "/api/threads/{id}/reply": {
        "post": _operation("Answer in a thread", "201", _ref("Posted"), body=_body("body", body=_SAID), parameters=(_ID,))
    },
    "/api/threads/{id}/cancel": {
        "post": _operation(
            "End a thread that is not wanted any more", "200", _ref("Posted"), body=_body("", reason=_TEXT), parameters=(_ID,)
        )
    },
    "/api/agents": {"get": _operation("Everybody who was ever seen", "200", _object("agents", agents=_list(_ref("Agent"))))},
    "/api/events": {"get": _EVENTS},
    "/api/openapi.json": {"get": _operation("This description", "200", {"type": "object"})},
    "/api/sign-out": {"post": _operation("Void the session, or the token, that comes with this", "204", None)},
}


def description() -> Schema:
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Postroom",
            "version": __version__,
            "description": "The durable inbox for AI agents and the people they work for",
        },
        "security": [{"bearer": []}, {"cookie": []}],
        "paths": PATHS,
        "components": {
            "schemas": SCHEMAS,
            "securitySchemes": {
                "bearer": {"type": "http", "scheme": "bearer"},
                "cookie": {"type": "apiKey", "in": "cookie", "name": "postroom_session"},
            },
        },
    }


async def serve(request: Request) -> Response:
    return Json(description())
