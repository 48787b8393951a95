"""The description of the HTTP interface, OpenAPI 3.1. Served, written to docs/reference/openapi.json, and held to by tests."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response

from postroom import __version__
from postroom.core.entries import ON_SILENCE, SECTIONS
from postroom.server import openapi_rooms
from postroom.server.answers import Json
from postroom.server.describing import (
    FLAG,
    HTML,
    ID,
    KEY,
    LIMIT,
    MAYBE,
    TEXT,
    TRUTH,
    WHOLE,
    Schema,
    body,
    many,
    operation,
    query,
    ref,
    shape,
)

_QUESTION = shape(
    "state to choices onSilence",
    state={"enum": ["open", "answered", "default", "refused", "ended"]},
    to=TEXT,
    choices=many(TEXT),
    deadline=MAYBE,
    onSilence={"enum": list(ON_SILENCE)},
    default=MAYBE,
    escalateTo=MAYBE,
    escalatedAt=MAYBE,
    answer=MAYBE,
    choice=MAYBE,
    answeredBy=MAYBE,
    answeredAt=MAYBE,
)
_DOC = shape("path", path=TEXT, sha256=MAYBE, size={"type": ["integer", "null"]})
_ENTRY = shape(
    "id ts workspaceId workspaceLabel kind from door readAt readBy replies",
    id=TEXT,
    ts={"type": "integer", "description": "Milliseconds since 1970"},
    workspaceId=TEXT,
    workspaceLabel=TEXT,
    docs=many(ref("Doc")),
    comments=TEXT,
    kind={"enum": ["push", "question", "notice"]},
    door=TEXT,
    readAt=MAYBE,
    readBy=MAYBE,
    replies=WHOLE,
    question=ref("Question"),
    threadId=TEXT,
) | {"description": "What a person sees"}
_ENTRY["properties"]["from"] = TEXT
_REPLY = shape(
    "id entryId body door at via verified",
    **dict.fromkeys(("id", "entryId", "from", "body", "door", "at"), TEXT),
    via={"enum": ["thread", "answer", "mailbox"]},
    verified=TRUTH,
)
_FILE = shape(
    "path kind html size sha256 pushedSha256 changed gone truncated download",
    path=TEXT,
    kind={"enum": ["markdown", "text", "code", "binary", "image", None]},
    html=MAYBE,
    text=MAYBE,
    size={"type": ["integer", "null"]},
    sha256=MAYBE,
    pushedSha256=MAYBE,
    changed={"type": ["boolean", "null"]},
    gone=TRUTH,
    truncated=TRUTH,
    download=MAYBE,
    diff={"type": ["array", "null"], "items": shape("op text", op={"enum": [" ", "+", "-", "@"]}, text=TEXT)},
)
_ERROR = shape("ok error", ok={"const": False}, error=shape("code message hint", code=TEXT, message=TEXT, hint=TEXT))

SCHEMAS: dict[str, Schema] = {
    "Question": _QUESTION,
    "Doc": _DOC,
    "Entry": _ENTRY,
    "Page": shape("entries hasMore", entries=many(ref("Entry")), hasMore=TRUTH),
    "Reply": _REPLY,
    "Receipt": shape("step at by door reply", step=TEXT, at=TEXT, by=TEXT, door=TEXT, reply=MAYBE),
    "Detail": shape(
        "entry replies receipts",
        entry=ref("Entry"),
        replies=many(ref("Reply")),
        receipts=many(ref("Receipt")),
        html=shape("comments", comments=MAYBE),
    ),
    "Workspace": shape(
        "workspace_id label path agent focus", workspace_id=TEXT, label=TEXT, path=TEXT, agent=TEXT, created_at=TEXT, focus=MAYBE
    ),
    "Summary": shape(
        "person version dev eventId unread questions notices any",
        person=TEXT,
        version=TEXT,
        dev=TRUTH,
        eventId={"type": "integer", "description": "Listen from here"},
        unread={"type": "integer", "description": "Counted up to 1000, as the others"},
        questions=WHOLE,
        notices=WHOLE,
        any=TRUTH,
    ),
    "File": _FILE,
    "Error": _ERROR,
    **openapi_rooms.SCHEMAS,
}

_PATHS_OF_DOCS = {
    "type": "array",
    "maxItems": 50,
    "items": {**shape("path", path={"type": "string", "minLength": 1, "maxLength": 1024}), "additionalProperties": False},
}
_ENTRY_ANSWER = shape("entry", entry=ref("Entry"))
_SAID = {"type": "string", "minLength": 1, "maxLength": 262144}
_EVENTS = operation(
    "Everything that happens, as Server-Sent Events; Last-Event-ID resumes",
    "200",
    None,
    parameters=(
        query("types", TEXT, "Beginnings of event types, separated by commas"),
        query("thread", TEXT, "Of this thread"),
        query("workspaceId", TEXT, "Of entries of this workspace"),
        query("agent", TEXT, "That concern this agent"),
        query("after", {"type": "integer", "minimum": 0}, "Only later ones; as Last-Event-ID"),
    ),
)
_EVENTS["responses"]["200"]["content"] = {"text/event-stream": {"schema": TEXT}}
_BELL = operation(
    "A stream that says when to look again: when there may be something for an agent to take, or in a mailbox",
    "200",
    None,
    parameters=(query("topic", TEXT, "agent:NAME or mail:SESSION; may be repeated. An agent's are its own", required=True),),
)
_BELL["responses"]["200"]["content"] = {"text/event-stream": {"schema": TEXT}}
_FILE_OPERATION = operation(
    "A document of a workspace, read live: rendered, or as a download",
    "200",
    ref("File"),
    parameters=(
        ID,
        query("path", {"type": "string", "minLength": 1, "maxLength": 1024}, "Relative to the workspace", required=True),
        query("entry", TEXT, "Compare with what this entry pushed"),
        query("download", FLAG, "The bytes themselves"),
    ),
)
_FILE_OPERATION["responses"]["200"]["content"]["application/octet-stream"] = {"schema": {"type": "string", "format": "binary"}}

PATHS: dict[str, dict[str, Schema]] = {
    "/api/summary": {"get": operation("What a page needs to begin", "200", ref("Summary"))},
    "/api/inbox/history": {
        "get": operation(
            "Entries, newest first",
            "200",
            ref("Page"),
            parameters=(
                LIMIT,
                query("before", TEXT, "Only older ones than this entry"),
                query("workspaceId", TEXT, "Only of this workspace"),
                query("section", {"enum": list(SECTIONS)}, "Default: inbox"),
                query("unread", FLAG, "Only those that nobody has read"),
                query("open", FLAG, "Only questions that wait for an answer"),
            ),
        )
    },
    "/api/inbox/search": {
        "get": operation(
            "Entries that hold every word",
            "200",
            ref("Page"),
            parameters=(query("q", {"type": "string", "minLength": 1}, "Words, or beginnings of words", required=True), LIMIT),
        )
    },
    "/api/inbox/seed": {
        "post": operation(
            "Append an entry by hand (only with --dev)",
            "201",
            _ENTRY_ANSWER,
            body=body("", workspaceId=TEXT, workspaceLabel=TEXT, docs=_PATHS_OF_DOCS, comments={"type": "string", "maxLength": 262144}),
        )
    },
    "/api/verbs/{verb}": {
        "post": operation(
            "A verb of the library, said here, as `work.send`; with an Idempotency-Key it is done once, however often it is tried",
            "200",
            shape("ok result", ok={"const": True}, result={"description": "What the verb gave, as postroom.core.wire writes it"}),
            body=body("", args={"type": "array"}, named={"type": "object"}),
            parameters=({"name": "verb", "in": "path", "required": True, "schema": {"type": "string", "minLength": 1}}, KEY),
        )
    },
    "/api/inbox/push": {
        "post": operation(
            "Show a person something (with a workspace's token)",
            "201",
            shape("ok entryId ts", ok={"const": True}, entryId=TEXT, ts=WHOLE),
            body=body("", docs=_PATHS_OF_DOCS, comments={"type": "string", "maxLength": 262144}),
        )
    },
    "/api/inbox/{id}": {
        "get": operation("One entry, with replies and receipts", "200", ref("Detail"), parameters=(ID, HTML)),
        "delete": operation("Delete an entry for good", "204", None, parameters=(ID,)),
    },
    "/api/inbox/{id}/read": {
        "put": operation("Mark as read", "200", _ENTRY_ANSWER, parameters=(ID,)),
        "delete": operation("Mark as unread", "200", _ENTRY_ANSWER, parameters=(ID,)),
    },
    "/api/inbox/{id}/reply": {
        "post": operation(
            "Reply to the agent; said again with the same Idempotency-Key, nothing is sent twice",
            "201",
            shape("entry reply", entry=ref("Entry"), reply=ref("Reply")),
            body=body("body", body=_SAID),
            parameters=(ID, KEY),
        )
    },
    "/api/workspaces": {"get": operation("Every workspace", "200", shape("workspaces", workspaces=many(ref("Workspace"))))},
    "/api/workspaces/{id}/file": {"get": _FILE_OPERATION},
    "/api/workspaces/{id}/focus": {
        "post": operation(
            "Bring its session to the front, by the command that was set on the server's machine",
            "200",
            shape("code output", code=WHOLE, output=TEXT),
            body=body(""),
            parameters=(ID,),
        )
    },
    **openapi_rooms.PATHS,
    "/api/events": {"get": _EVENTS},
    "/api/bell": {"get": _BELL},
    "/api/openapi.json": {"get": operation("This description", "200", {"type": "object"})},
    "/api/asyncapi.json": {"get": operation("The description of the WebSockets", "200", {"type": "object"})},
    "/api/sign-out": {"post": operation("Void the session, or the token, that comes with this", "204", None)},
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
