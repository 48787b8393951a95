"""The OpenAPI 3.1 description of the HTTP interface. It is served and written to docs/reference/openapi.json. Tests verify it."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response

from postroom import __version__
from postroom.core.records.people import DECISIONS, ON_SILENCE, SECTIONS, TRIAGE_STATES, EntryReceiptStep, Workspace
from postroom.server.api.schemas import openapi_rooms, openapi_tasks
from postroom.server.api.schemas.builders import (
    BOOLEAN,
    FLAG,
    HTML,
    ID,
    INTEGER,
    KEY,
    LIMIT,
    NULLABLE_TEXT,
    TEXT,
    Schema,
    array_of,
    describe_operation,
    object_of,
    query_parameter,
    request_body,
    schema_ref,
)
from postroom.server.api.schemas.record_schema import public_schema, record_schema
from postroom.server.http.responses import JsonResponse
from postroom.server.rpc import verb_schemas

_QUESTION = object_of(
    "questionId state to choices onSilence",
    questionId={"type": "string", "description": "Of the message that asked it in a thread, or else of the entry"},
    state={"enum": ["open", "answered", "default", "refused", "ended"]},
    to=TEXT,
    choices=array_of(TEXT),
    deadline=NULLABLE_TEXT,
    onSilence={"enum": list(ON_SILENCE)},
    default=NULLABLE_TEXT,
    escalateTo=NULLABLE_TEXT,
    escalatedAt=NULLABLE_TEXT,
    answer=NULLABLE_TEXT,
    choice=NULLABLE_TEXT,
    answeredBy=NULLABLE_TEXT,
    answeredAt=NULLABLE_TEXT,
    answerId={"type": ["string", "null"], "description": "Of the message in the thread, or of the reply, that settled it"},
    entryId={"type": "string", "description": "Of the entry, or of the part of it, that asks: reply to this one"},
    dangerous={**array_of(TEXT), "description": "Choices that need a confirmation"},
    proposal={"type": ["object", "null"], "description": "A text, or an action with its args, to approve, edit or reject"},
    decision={"type": ["object", "null"], "description": "Its type, the proposal that holds, and the reason"},
)
_DOC = object_of("path", path=TEXT, sha256=NULLABLE_TEXT, size={"type": ["integer", "null"]})
_ENTRY = object_of(
    "id ts workspaceId workspaceLabel kind from door readAt readBy replies title activeTs parts state snoozedUntil pinned",
    id=TEXT,
    ts={"type": "integer", "description": "Milliseconds since 1970"},
    workspaceId=TEXT,
    workspaceLabel=TEXT,
    docs=array_of(schema_ref("Doc")),
    comments=TEXT,
    latest={"type": "string", "description": "In lists: the open question that was added, or else what was added last"},
    kind={"enum": ["push", "question", "notice"]},
    door=TEXT,
    readAt=NULLABLE_TEXT,
    readBy=NULLABLE_TEXT,
    replies=INTEGER,
    question=schema_ref("Question"),
    threadId=TEXT,
    title={"type": "string", "description": "Given by the agent, or the first heading or line"},
    activeTs={"type": "integer", "description": "When its agent last wrote, in milliseconds since 1970"},
    parts={"type": "integer", "description": "How many parts its agent added"},
    entryId={"type": "string", "description": "Of a part: the entry to which it was added"},
    state={"enum": list(TRIAGE_STATES)},
    snoozedUntil={"type": ["integer", "null"]},
    pinned=BOOLEAN,
) | {"description": "An item in a person's inbox: a push, a question or a notice"}
_ENTRY["properties"]["from"] = TEXT
_ROOM_HIT = object_of(
    "kind title text from at", kind={"enum": ["thread", "mail"]}, threadId=TEXT, session=TEXT, msgId=TEXT, title=TEXT, text=TEXT, at=TEXT
)
_ROOM_HIT["properties"]["from"] = TEXT
_REPLY = object_of(
    "id entryId body door at via verified",
    **dict.fromkeys(("id", "entryId", "from", "body", "door", "at"), TEXT),
    via={"enum": ["thread", "answer", "mailbox"]},
    messageId=NULLABLE_TEXT,
    verified=BOOLEAN,
)
_FILE = object_of(
    "path kind html size sha256 gone truncated more download",
    path=TEXT,
    kind={"enum": ["markdown", "text", "code", "table", "binary", "image", "pdf", None]},
    html=NULLABLE_TEXT,
    text=NULLABLE_TEXT,
    size={"type": ["integer", "null"]},
    sha256=NULLABLE_TEXT,
    pushedSha256=NULLABLE_TEXT,
    changed={"type": ["boolean", "null"]},
    gone=BOOLEAN,
    truncated=BOOLEAN,
    download=NULLABLE_TEXT,
    diff={"type": ["array", "null"], "items": object_of("op text", op={"enum": [" ", "+", "-", "@"]}, text=TEXT, parts=array_of({}))},
    more={"type": "boolean", "description": "This is the beginning; ask for part=rest"},
    pieces=array_of(TEXT),
    readAt=NULLABLE_TEXT,
    changedSinceRead={"type": ["boolean", "null"], "description": "Since this person's visit before"},
    readDiff={"type": ["array", "null"], "items": {"type": "object"}},
    rows={"type": ["integer", "null"], "description": "Of a table, without its head"},
    pushedText={"type": "boolean", "description": "The file is gone, and this is its text as it was pushed"},
    reason={"type": "string", "description": "Why the file is gone"},
)
_ERROR = object_of("ok error", ok={"const": False}, error=object_of("code message hint", code=TEXT, message=TEXT, hint=TEXT))

SCHEMAS: dict[str, Schema] = {
    "Question": _QUESTION,
    "Doc": _DOC,
    "Entry": _ENTRY,
    "Page": object_of("entries hasMore", entries=array_of(schema_ref("Entry")), hasMore=BOOLEAN, after=TEXT),
    "Reply": _REPLY,
    "Receipt": record_schema(EntryReceiptStep),
    "Detail": object_of(
        "entry replies receipts parts",
        entry=schema_ref("Entry"),
        replies=array_of(schema_ref("Reply")),
        receipts=array_of(schema_ref("Receipt")),
        parts=array_of(schema_ref("Entry")),
        html=object_of("comments texts", comments=NULLABLE_TEXT, texts={"type": "object"}),
    ),
    "Workspace": public_schema(Workspace, optional=("created_at",)),
    "Summary": object_of(
        "person version dev eventId unread questions notices any",
        person=TEXT,
        version=TEXT,
        dev=BOOLEAN,
        eventId={"type": "integer", "description": "The latest event: pass it to /api/events as after"},
        unread={"type": "integer", "description": "Counted up to 1000, like questions and notices"},
        questions=INTEGER,
        notices=INTEGER,
        any=BOOLEAN,
    ),
    "File": _FILE,
    "Error": _ERROR,
    **openapi_rooms.SCHEMAS,
    **openapi_tasks.SCHEMAS,
}

_PATHS_OF_DOCS = {
    "type": "array",
    "maxItems": 50,
    "items": {**object_of("path", path={"type": "string", "minLength": 1, "maxLength": 1024}), "additionalProperties": False},
}
_ENTRY_ANSWER = object_of("entry", entry=schema_ref("Entry"))
_WORKSPACE_ANSWER = object_of("workspace", workspace=schema_ref("Workspace"))
_NONEMPTY_TEXT = {"type": "string", "minLength": 1, "maxLength": 262144}
_DECISION = {
    **object_of("type", type={"enum": list(DECISIONS)}, proposal={"type": "object"}, reason=TEXT),
    "description": "About the proposal of an open question, instead of a body",
}
_COMMENT = {"type": "boolean", "description": "Settle a question with choices or a proposal in other words than those offered"}
_EVENTS = describe_operation(
    "Stream the events of the store as Server-Sent Events; Last-Event-ID resumes",
    "200",
    None,
    parameters=(
        query_parameter("types", TEXT, "Prefixes of event types, separated by commas"),
        query_parameter("thread", TEXT, "Only events of this thread"),
        query_parameter("workspaceId", TEXT, "Only events of this workspace's entries"),
        query_parameter("agent", TEXT, "Only events that concern this agent"),
        query_parameter("after", {"type": "integer", "minimum": 0}, "Only events after this one, like Last-Event-ID"),
    ),
)
_EVENTS["responses"]["200"]["content"] = {"text/event-stream": {"schema": TEXT}}
_WAKE_STREAM = describe_operation(
    "Stream a notification whenever there may be new work for an agent, or a message in a mailbox",
    "200",
    None,
    parameters=(
        query_parameter("topic", TEXT, "agent:NAME or mail:SESSION; may be repeated. An agent can name only itself", required=True),
    ),
)
_WAKE_STREAM["responses"]["200"]["content"] = {"text/event-stream": {"schema": TEXT}}
_FILE_OPERATION = describe_operation(
    "Return a document of a workspace, read live: rendered, or as a download",
    "200",
    schema_ref("File"),
    parameters=(
        ID,
        query_parameter("path", {"type": "string", "minLength": 1, "maxLength": 1024}, "Relative to the workspace", required=True),
        query_parameter("entry", TEXT, "Compare with the version that this entry pushed"),
        query_parameter("part", {"enum": ["all", "beginning", "rest"]}, "Of a long document; the rest comes as pieces of HTML"),
        query_parameter("visit", TEXT, "Say what changed since this person's visit before this one"),
        query_parameter("download", FLAG, "Return the file's bytes as a download"),
    ),
)
_FILE_OPERATION["responses"]["200"]["content"]["application/octet-stream"] = {"schema": {"type": "string", "format": "binary"}}

PATHS: dict[str, dict[str, Schema]] = {
    "/api/summary": {
        "get": describe_operation(
            "Return the person, the counts and the latest event: what the web page needs at start", "200", schema_ref("Summary")
        )
    },
    "/api/inbox/history": {
        "get": describe_operation(
            "List entries, newest first",
            "200",
            schema_ref("Page"),
            parameters=(
                LIMIT,
                query_parameter("before", TEXT, "Only entries older than this one"),
                query_parameter("workspaceId", TEXT, "Only entries of this workspace"),
                query_parameter("section", {"enum": list(SECTIONS)}, "Default: inbox"),
                query_parameter("unread", FLAG, "Only unread entries"),
                query_parameter("open", FLAG, "Only open questions"),
                query_parameter("state", {"enum": list(TRIAGE_STATES)}, "Only entries in this state"),
                query_parameter("pinned", FLAG, "Only pinned entries"),
            ),
        )
    },
    "/api/inbox/questions": {
        "get": describe_operation(
            "List the entries with an open question, the most urgent first",
            "200",
            schema_ref("Page"),
            parameters=(LIMIT, query_parameter("after", TEXT, "`after` of the page before")),
        )
    },
    "/api/inbox/search": {
        "get": describe_operation(
            "List the entries that contain every word",
            "200",
            schema_ref("Page"),
            parameters=(
                query_parameter(
                    "q",
                    {"type": "string", "minLength": 1},
                    "Words or their beginnings; also from:NAME, is:unread, in:done, before:2026-11-30, after:2026-11-01",
                    required=True,
                ),
                LIMIT,
                query_parameter("before", TEXT, "Only entries older than this one"),
                query_parameter("workspaceId", TEXT, "Only entries of this workspace"),
                query_parameter("section", {"enum": list(SECTIONS)}, "Default: both"),
                query_parameter("unread", FLAG, "Only unread entries"),
                query_parameter("open", FLAG, "Only open questions"),
                query_parameter("state", {"enum": list(TRIAGE_STATES)}, "Only entries in this state"),
            ),
        )
    },
    "/api/search": {
        "get": describe_operation(
            "List the newest threads and mails that contain every word",
            "200",
            object_of("hits since", hits=array_of(_ROOM_HIT), since={**NULLABLE_TEXT, "description": "It looked back to this time"}),
            parameters=(
                query_parameter(
                    "q", {"type": "string", "minLength": 1}, "Words or their beginnings; also from:NAME, before:, after:", required=True
                ),
                LIMIT,
            ),
        )
    },
    "/api/notices": {
        "post": describe_operation("Leave a notice for people", "201", _ENTRY_ANSWER, body=request_body("text", text=_NONEMPTY_TEXT))
    },
    "/api/inbox/read": {
        "post": describe_operation(
            "Mark all entries of a section, or of a workspace, as read",
            "200",
            object_of("count", count=INTEGER),
            body=request_body("", section={"enum": list(SECTIONS)}, workspaceId={"type": "string", "minLength": 1, "maxLength": 200}),
        )
    },
    "/api/inbox/seed": {
        "post": describe_operation(
            "Append an entry by hand (only with --dev)",
            "201",
            _ENTRY_ANSWER,
            body=request_body(
                "",
                workspaceId=TEXT,
                workspaceLabel=TEXT,
                docs=_PATHS_OF_DOCS,
                comments={"type": "string", "maxLength": 262144},
                ts={"type": "integer", "minimum": 0, "maximum": 253402300799000},
            ),
        )
    },
    "/api/inbox/push": {
        "post": describe_operation(
            "Show a person documents or a comment (with a workspace's token)",
            "201",
            object_of("ok entryId ts", ok={"const": True}, entryId=TEXT, ts=INTEGER),
            body=request_body(
                "",
                docs=_PATHS_OF_DOCS,
                comments={"type": "string", "maxLength": 262144},
                title={"type": "string", "maxLength": 200},
                entryId=TEXT,
            ),
        )
    },
    "/api/inbox/{id}": {
        "get": describe_operation("Show one entry, with its replies and receipts", "200", schema_ref("Detail"), parameters=(ID, HTML)),
        "delete": describe_operation("Delete an entry permanently", "204", None, parameters=(ID,)),
    },
    "/api/inbox/{id}/read": {
        "put": describe_operation("Mark an entry as read", "200", _ENTRY_ANSWER, parameters=(ID,)),
        "delete": describe_operation("Mark an entry as unread", "200", _ENTRY_ANSWER, parameters=(ID,)),
    },
    "/api/inbox/{id}/state": {
        "put": describe_operation(
            "Move an entry to the inbox, to the done ones, or to the snoozed ones until a time in milliseconds since 1970",
            "200",
            _ENTRY_ANSWER,
            body=request_body("state", state={"enum": list(TRIAGE_STATES)}, until={"type": "integer", "minimum": 1}),
            parameters=(ID,),
        )
    },
    "/api/inbox/{id}/pin": {
        "put": describe_operation("Keep an entry at the top of the list", "200", _ENTRY_ANSWER, parameters=(ID,)),
        "delete": describe_operation("Stop keeping an entry at the top", "200", _ENTRY_ANSWER, parameters=(ID,)),
    },
    "/api/inbox/{id}/reply": {
        "post": describe_operation(
            "Reply to the agent. A repeated request with the same Idempotency-Key sends nothing twice",
            "201",
            object_of("entry reply", entry=schema_ref("Entry"), reply=schema_ref("Reply"), note=TEXT),
            body=request_body("", body=_NONEMPTY_TEXT, decision=_DECISION, comment=_COMMENT),
            parameters=(ID, KEY),
        )
    },
    "/api/workspaces": {
        "get": describe_operation("List every workspace", "200", object_of("workspaces", workspaces=array_of(schema_ref("Workspace"))))
    },
    "/api/workspaces/{id}/file": {"get": _FILE_OPERATION},
    "/api/workspaces/{id}/focus": {
        "post": describe_operation(
            "Bring a workspace's session to the front, with the command that was set on the server's machine",
            "200",
            object_of("code output", code=INTEGER, output=TEXT),
            body=request_body(""),
            parameters=(ID,),
        )
    },
    "/api/workspaces/{id}/mute": {
        "put": describe_operation("Let what a workspace pushes arrive as done", "200", _WORKSPACE_ANSWER, parameters=(ID,)),
        "delete": describe_operation("Let what a workspace pushes arrive in the inbox", "200", _WORKSPACE_ANSWER, parameters=(ID,)),
    },
    **openapi_rooms.PATHS,
    **openapi_tasks.PATHS,
    "/api/events": {"get": _EVENTS},
    "/api/bell": {"get": _WAKE_STREAM},
    "/api/openapi.json": {"get": describe_operation("Return this description", "200", {"type": "object"})},
    "/api/asyncapi.json": {"get": describe_operation("Return the AsyncAPI description of the WebSockets", "200", {"type": "object"})},
    "/api/sign-out": {"post": describe_operation("Revoke the session or the token of this request", "204", None)},
}


def build_description() -> Schema:
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Postroom",
            "version": __version__,
            "description": "The durable inbox for AI agents and the people they work for",
        },
        "security": [{"bearer": []}, {"cookie": [], "page_key": []}],
        "paths": {**PATHS, **verb_schemas.verb_paths()},
        "components": {
            "schemas": {**SCHEMAS, **verb_schemas.component_schemas()},
            "responses": verb_schemas.refusal_responses(),
            "securitySchemes": {
                "bearer": {"type": "http", "scheme": "bearer"},
                "cookie": {"type": "apiKey", "in": "cookie", "name": "postroom_session_8420", "description": "Its name has the port"},
                "page_key": {"type": "apiKey", "in": "header", "name": "X-Postroom-Key", "description": "The page keeps it"},
            },
        },
    }


async def serve_description(request: Request) -> Response:
    return JsonResponse(build_description())
