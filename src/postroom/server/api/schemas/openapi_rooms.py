"""The part of the OpenAPI description about threads, runs, agents, mailboxes and queues. `openapi` includes it."""

from __future__ import annotations

from postroom.core import limits
from postroom.core.records.mail import STATES, TERMINAL_STATES, Delivery, MailboxCounts
from postroom.core.records.runs import RunEvent, RunSummary
from postroom.core.records.watched_queues import QueueReport
from postroom.core.records.work import Lease, Message, Thread
from postroom.core.states import PRIORITIES, STATUSES
from postroom.server.api.schemas.builders import (
    BOOLEAN,
    HTML,
    ID,
    INTEGER,
    KEY,
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

_LEASE: Schema = {**public_schema(Lease, hidden=("lease_token",)), "type": ["object", "null"]}
_THREAD = public_schema(Thread, optional=("run_id", "task_id", "latest_message_id"), status={"enum": list(STATUSES)})
_MESSAGE = public_schema(
    Message,
    optional=("payload_json", "traceparent", "artifacts"),
    artifacts=array_of({"type": "object"}),
    payload={"type": "object"},
    is_open=BOOLEAN,
    verified=BOOLEAN,
)
_AGENT = object_of(
    "name kind holds alive unread",
    name=TEXT,
    kind={"enum": ["agent", "human"]},
    card_json=TEXT,
    created_at=TEXT,
    last_seen_at=NULLABLE_TEXT,
    holds=array_of(
        object_of(
            "thread_id subject status expires_at lapsed",
            **dict.fromkeys(("thread_id", "subject", "expires_at"), TEXT),
            status={"enum": list(STATUSES)},
            lapsed=BOOLEAN,
        )
    ),
    alive={"type": "boolean", "description": "Active within the last five minutes, or holds a live lease"},
    unread={"type": "integer", "description": "Number of threads with unread messages to this agent"},
)
_RUN = record_schema(RunSummary)
_RUN_EVENT = record_schema(RunEvent)
_HISTORY = object_of(
    "run_id threads events truncated",
    run_id=TEXT,
    threads=array_of({"allOf": [schema_ref("Thread"), object_of("lease", lease=_LEASE)]}),
    events=array_of(_RUN_EVENT),
    truncated={"type": "boolean", "description": "There are more threads or more events than are listed"},
)
_COUNTS: Schema = {"type": "object", "additionalProperties": array_of(INTEGER)}
_ACTIVITY = object_of(
    "from step_seconds buckets complete agents sessions total",
    step_seconds=INTEGER,
    buckets=INTEGER,
    complete={"type": "boolean", "description": "Whether the latest 5000 events cover the whole period"},
    agents=_COUNTS,
    sessions=_COUNTS,
    total=array_of(INTEGER),
)
_ACTIVITY["properties"]["from"] = TEXT
_WAITING = object_of(
    "msg_id from created_at attempt state due_at",
    msg_id=TEXT,
    created_at=INTEGER,
    attempt=INTEGER,
    state={"enum": [state for state in STATES if state not in TERMINAL_STATES]},
    due_at=NULLABLE_TEXT,
)
_WAITING["properties"]["from"] = TEXT
_MAIL_MESSAGE = object_of(
    "msg_id from to payload created_at attempt", **dict.fromkeys(("msg_id", "to", "payload"), TEXT), created_at=INTEGER, attempt=INTEGER
)
_MAIL_MESSAGE["properties"]["from"] = TEXT
_MAIL_MESSAGE["description"] = "The message as its sender wrote it. It may have other fields"
_DELIVERY = public_schema(Delivery, message=schema_ref("Letter"))
_DEAD: Schema = {
    "allOf": [
        schema_ref("Letter"),
        object_of(
            "reason failed_at attempts",
            reason=TEXT,
            failed_at={"type": "integer", "description": "Seconds since 1970"},
            attempts=INTEGER,
        ),
    ]
}
_QUEUE = public_schema(
    QueueReport,
    rate={**array_of(INTEGER), "description": "Events in each of the last 24 hours, oldest first"},
    error={**NULLABLE_TEXT, "description": "Why the queue cannot be read"},
)

SCHEMAS: dict[str, Schema] = {
    "Thread": _THREAD,
    "Message": _MESSAGE,
    "Posted": object_of("thread message", thread=schema_ref("Thread"), message=schema_ref("Message"), note=TEXT),
    "Agent": _AGENT,
    "Run": _RUN,
    "RunHistory": _HISTORY,
    "Activity": _ACTIVITY,
    "Mailbox": record_schema(MailboxCounts),
    "Waiting": _WAITING,
    "Letter": _MAIL_MESSAGE,
    "Delivery": _DELIVERY,
    "DeadLetter": _DEAD,
    "Queue": _QUEUE,
}

_NONEMPTY_TEXT = {"type": "string", "minLength": 1, "maxLength": 262144}
_SESSION = {**ID, "name": "session"}
_RUN_ID = {
    "name": "run",
    "in": "path",
    "required": True,
    "schema": {"type": "string", "minLength": 1},
    "description": "~ is the run without a name",
}
_MSG_ID = {"type": "string", "minLength": 1, "maxLength": 400}
_MESSAGE_ID = {"name": "msg_id", "in": "path", "required": True, "schema": _MSG_ID}
_TOKEN: Schema = {**NULLABLE_TEXT, "description": "The delivery that is meant. Refused if it is not the current one any more"}
_LIMIT = query_parameter("limit", {"type": "integer", "minimum": 1, "maximum": limits.MAX_ITEMS}, "At most this many")
_AFTER = query_parameter("after", TEXT, "`after` of the page before")
_EVENT_ID: Schema = {"type": "integer", "minimum": 0}

_HOLD_FIELDS = {"held_by": NULLABLE_TEXT, "lease_expires_at": NULLABLE_TEXT, "lapsed": BOOLEAN, "claimed_at": NULLABLE_TEXT}
_HOLD = object_of("held_by lease_expires_at lapsed", **_HOLD_FIELDS)

_THREAD_PATHS: dict[str, dict[str, Schema]] = {
    "/api/threads": {
        "get": describe_operation(
            "List threads, latest activity first",
            "200",
            object_of("threads more after", threads=array_of({"allOf": [schema_ref("Thread"), _HOLD]}), more=BOOLEAN, after=NULLABLE_TEXT),
            parameters=(
                query_parameter("status", TEXT, f"One or more of {', '.join(STATUSES)}, separated by commas"),
                query_parameter("agent", TEXT, "Only threads that this agent created or is assigned to"),
                query_parameter("run", TEXT, "Only threads of this run. Empty: threads without a run"),
                query_parameter("task", {"type": "string", "minLength": 1}, "Only threads of this task"),
                _LIMIT,
                _AFTER,
            ),
        ),
        "post": describe_operation(
            "Begin a thread: work that a person gives to an agent",
            "201",
            schema_ref("Posted"),
            body=request_body(
                "to",
                to={"type": "string", "minLength": 1, "maxLength": 200},
                subject={"type": "string", "maxLength": 4096},
                body={"type": "string", "maxLength": 262144},
                priority={"enum": list(PRIORITIES)},
                run=TEXT,
            ),
            parameters=(KEY,),
        ),
    },
    "/api/threads/{id}": {
        "get": describe_operation(
            "Show one thread and a page of its messages: the newest, or those before or after an event",
            "200",
            object_of(
                "thread lease messages next_event_id more next_before_event next_after_event first_message",
                thread=schema_ref("Thread"),
                lease=_LEASE,
                messages=array_of(schema_ref("Message")),
                next_event_id=INTEGER,
                more={"type": "boolean", "description": "There are further messages in the same direction"},
                next_before_event={"type": ["integer", "null"], "description": "Pass it as before_event to get the page before"},
                next_after_event={"type": ["integer", "null"], "description": "Pass it as after_event to get the page after"},
                first_message={
                    "anyOf": [schema_ref("Message"), {"type": "null"}],
                    "description": "With the newest page: the thread's first message, if the page does not contain it",
                },
                note={"type": "string", "description": "Present if pruning has removed the first messages"},
                html={"type": "object", "additionalProperties": TEXT, "description": "The bodies as HTML, by message id"},
            ),
            parameters=(
                ID,
                HTML,
                _LIMIT,
                query_parameter("before_event", _EVENT_ID, "Only messages before this event"),
                query_parameter("after_event", _EVENT_ID, "Only messages after this event"),
            ),
        )
    },
    "/api/threads/{id}/reply": {
        "post": describe_operation(
            "Reply in a thread. `question` is the id of the question that it answers; without it, the only open one. Several conflict."
            " A repeated request with the same Idempotency-Key sends nothing twice",
            "201",
            schema_ref("Posted"),
            body=request_body("body", body=_NONEMPTY_TEXT, question=TEXT),
            parameters=(ID, KEY),
        )
    },
    "/api/threads/{id}/cancel": {
        "post": describe_operation("Cancel a thread", "200", schema_ref("Posted"), body=request_body("", reason=TEXT), parameters=(ID,))
    },
    "/api/threads/{id}/release": {
        "post": describe_operation(
            "Revoke the lease on a thread: it is pending again",
            "200",
            schema_ref("Posted"),
            body=request_body("", reason=TEXT),
            parameters=(ID,),
        )
    },
}
_RUN_PATHS: dict[str, dict[str, Schema]] = {
    "/api/runs": {
        "get": describe_operation(
            "List runs, latest activity first",
            "200",
            object_of("runs more after", runs=array_of(schema_ref("Run")), more=BOOLEAN, after=NULLABLE_TEXT),
            parameters=(_LIMIT, _AFTER),
        )
    },
    "/api/runs/{run}": {
        "get": describe_operation(
            "Show the latest threads of a run and their events", "200", schema_ref("RunHistory"), parameters=(_RUN_ID,)
        )
    },
    "/api/agents": {
        "get": describe_operation(
            "List every known agent and person, and the threads that each holds",
            "200",
            object_of("agents more after", agents=array_of(schema_ref("Agent")), more=BOOLEAN, after=NULLABLE_TEXT),
            parameters=(_LIMIT, _AFTER),
        )
    },
    "/api/activity": {
        "get": describe_operation(
            "Count the events in each of the last hours, from the latest 5000 events",
            "200",
            schema_ref("Activity"),
            parameters=(query_parameter("hours", {"type": "integer", "minimum": 1, "maximum": 168}, "Default: 24"),),
        )
    },
}
_DRAFT = object_of(
    "to payload",
    to={"type": "string", "minLength": 1, "maxLength": 200, "description": "A session or an alias"},
    payload=TEXT,
    msg_id={
        "type": ["string", "null"],
        "minLength": 1,
        "maxLength": 400,
        "description": "One message of this sender; default: {from}:{nanoseconds}",
    },
    created_at={"type": ["integer", "null"], "minimum": 0, "maximum": 2**64 - 1, "description": "Unix seconds; default: now"},
)
_DRAFT["properties"]["from"] = {**NULLABLE_TEXT, "description": "Default: the caller. An agent can send only as itself"}
_DRAFT["description"] = "Other fields are stored and returned with the message"
_STORED = object_of("msg_id queued pending", msg_id=TEXT, queued=BOOLEAN, pending=INTEGER)
_ENQUEUE = describe_operation(
    "Store a message. A repeat changes nothing and returns 200. Another message under the same msg_id is refused with 409",
    "201",
    _STORED,
    body={"required": True, "content": {"application/json": {"schema": _DRAFT}}},
)
_ENQUEUE["responses"]["200"] = {"description": "The msg_id was stored before", "content": {"application/json": {"schema": _STORED}}}
_DEQUEUE = describe_operation(
    "Take the next message, with `wait` also wait for one. It is in flight until it is acked or nacked, or its time runs out",
    "200",
    schema_ref("Delivery"),
    parameters=(_SESSION, query_parameter("wait", {"type": "number", "minimum": 0, "maximum": 50}, "Seconds; default 0")),
)
_DEQUEUE["responses"]["204"] = {"description": "There was no message"}
_STATE = {"enum": list(STATES)}
_SECONDS: Schema = {"type": ["number", "null"], "exclusiveMinimum": 0, "maximum": 31622400}


def _protocol_body(**properties: Schema) -> Schema:
    """Return the schema of a body of the mailbox protocol: its fields in snake_case or camelCase. Unknown fields are ignored."""
    sender = {**NULLABLE_TEXT, "description": "The sender of the message, if several senders used its id"}
    return {"required": False, "content": {"application/json": {"schema": object_of("", **properties, **{"from": sender})}}}


_DELIVERY_PATHS: dict[str, dict[str, Schema]] = {
    "/api/mailbox": {"post": _ENQUEUE},
    "/api/mailbox/{session}/dequeue": {"post": _DEQUEUE},
    "/api/mailbox/{session}/{msg_id}/ack": {
        "post": describe_operation(
            "Acknowledge a message as delivered",
            "200",
            object_of("msg_id state changed", msg_id=TEXT, state=_STATE, changed=BOOLEAN),
            body=_protocol_body(delivery_token=_TOKEN),
            parameters=(_SESSION, _MESSAGE_ID),
        )
    },
    "/api/mailbox/{session}/{msg_id}/nack": {
        "post": describe_operation(
            "Report a message as not delivered. It comes again after its backoff, and is dead after the last retry",
            "200",
            object_of("msg_id state changed retry_at", msg_id=TEXT, state=_STATE, changed=BOOLEAN, retry_at=NULLABLE_TEXT),
            body=_protocol_body(reason=NULLABLE_TEXT, delivery_token=_TOKEN),
            parameters=(_SESSION, _MESSAGE_ID),
        )
    },
    "/api/mailbox/{session}/{msg_id}/extend": {
        "post": describe_operation(
            "Keep a message in flight: its time starts again",
            "200",
            object_of("msg_id in_flight_until", msg_id=TEXT, in_flight_until=TEXT),
            body=_protocol_body(seconds=_SECONDS, delivery_token=_TOKEN),
            parameters=(_SESSION, _MESSAGE_ID),
        )
    },
}
_MAIL_PATHS: dict[str, dict[str, Schema]] = {
    **_DELIVERY_PATHS,
    "/api/mailboxes": {
        "get": describe_operation(
            "Count the messages of each mailbox by state",
            "200",
            object_of("mailboxes more after", mailboxes=array_of(schema_ref("Mailbox")), more=BOOLEAN, after=NULLABLE_TEXT),
            parameters=(_LIMIT, _AFTER),
        )
    },
    "/api/mailbox/{session}": {
        "get": describe_operation(
            "List the messages of a mailbox that are not finished, in the order of delivery",
            "200",
            object_of(
                "messages total more after",
                messages=array_of(schema_ref("Waiting")),
                total=INTEGER,
                more=BOOLEAN,
                after=NULLABLE_TEXT,
            ),
            parameters=(_SESSION, _LIMIT, _AFTER),
        ),
        "delete": describe_operation(
            "Remove every message that is not finished. Their ids stay known",
            "200",
            object_of("purged", purged=INTEGER),
            parameters=(_SESSION,),
        ),
    },
    "/api/mailbox/{session}/dead-letter": {
        "get": describe_operation(
            "List the dead letters, oldest first",
            "200",
            object_of(
                "entries total more after",
                entries=array_of(schema_ref("DeadLetter")),
                total=INTEGER,
                more=BOOLEAN,
                after=NULLABLE_TEXT,
            ),
            parameters=(_SESSION, _LIMIT, _AFTER),
        ),
        "delete": describe_operation(
            "Delete the dead letters with the given ids, or all. More than a listing shows are deleted only with `all`",
            "200",
            object_of("purged", purged=INTEGER),
            parameters=(
                _SESSION,
                query_parameter("msg_id", _MSG_ID, "Only this message; may be repeated"),
                query_parameter("from", TEXT, "The sender of these messages, if several senders used an id"),
                query_parameter("all", BOOLEAN, "Also those that a listing does not show"),
            ),
        ),
    },
    "/api/mailbox/{session}/dead-letter/retry": {
        "post": describe_operation(
            "Retry all dead letters, or those with the given ids",
            "200",
            object_of("retried", retried=INTEGER),
            body=_protocol_body(msg_id={"anyOf": [_MSG_ID, array_of(_MSG_ID), {"type": "null"}]}),
            parameters=(_SESSION,),
        )
    },
}
_QUEUE_PATHS: dict[str, dict[str, Schema]] = {
    "/api/queues": {
        "get": describe_operation(
            "List every watched queue with its rate, the lag of its consumers, and their latest runs",
            "200",
            object_of("queues", queues=array_of(schema_ref("Queue"))),
        )
    }
}
PATHS: dict[str, dict[str, Schema]] = {**_THREAD_PATHS, **_RUN_PATHS, **_MAIL_PATHS, **_QUEUE_PATHS}
