"""The part of the description that is about the rooms beside the inbox: threads, runs, agents, mailboxes, queues."""

from __future__ import annotations

from postroom.core.letters import STATES, TERMINAL
from postroom.core.states import STATUSES
from postroom.server.describing import HTML, ID, KEY, MAYBE, TEXT, TRUTH, WHOLE, Schema, body, many, operation, query, ref, shape

_LEASE = shape("thread_id agent_id claimed_at expires_at released_at lease_seconds", lease_seconds={"type": "number"}, released_at=MAYBE)
_LEASE["properties"] |= dict.fromkeys(("thread_id", "agent_id", "claimed_at", "expires_at"), TEXT)
_LEASE["type"] = ["object", "null"]
_THREAD = shape(
    "thread_id subject created_by assigned_to status priority created_at updated_at",
    **dict.fromkeys(
        ["thread_id", "run_id", "task_id", "subject", "created_by", "assigned_to", "priority", "created_at", "updated_at"], TEXT
    ),
    status={"enum": list(STATUSES)},
    latest_message_id=MAYBE,
)
_MESSAGE = shape(
    "message_id thread_id from_agent to_agent kind summary body created_at event_id door verified",
    **dict.fromkeys(
        ["message_id", "thread_id", "from_agent", "to_agent", "kind", "summary", "body", "payload_json", "created_at", "door"], TEXT
    ),
    event_id=WHOLE,
    verified=TRUTH,
    artifacts=many({"type": "object"}),
)
_AGENT = shape(
    "name kind holds alive unread",
    name=TEXT,
    kind={"enum": ["agent", "human"]},
    card_json=TEXT,
    created_at=TEXT,
    last_seen_at=MAYBE,
    holds=many(
        shape(
            "thread_id subject status expires_at lapsed",
            **dict.fromkeys(("thread_id", "subject", "expires_at"), TEXT),
            status={"enum": list(STATUSES)},
            lapsed=TRUTH,
        )
    ),
    alive={"type": "boolean", "description": "Seen within the last five minutes, or holding a lease that runs"},
    unread={"type": "integer", "description": "Threads in which something waits for it"},
)
_RUN = shape(
    "run_id threads by_status agents first_at last_at",
    **dict.fromkeys(("run_id", "first_at", "last_at"), TEXT),
    threads=WHOLE,
    by_status={"type": "object", "additionalProperties": WHOLE},
    agents=many(TEXT),
)
_MOMENT = shape(
    "event_id thread_id type source at summary status to",
    **dict.fromkeys(("thread_id", "type", "source", "at", "summary"), TEXT),
    event_id=WHOLE,
    status=MAYBE,
    to=MAYBE,
)
_HISTORY = shape(
    "run_id threads events truncated",
    run_id=TEXT,
    threads=many({"allOf": [ref("Thread"), shape("lease", lease=_LEASE)]}),
    events=many(_MOMENT),
    truncated={"type": "boolean", "description": "There are more threads, or more happened in them"},
)
_COUNTS: Schema = {"type": "object", "additionalProperties": many(WHOLE)}
_ACTIVITY = shape(
    "from step_seconds buckets complete agents sessions total",
    step_seconds=WHOLE,
    buckets=WHOLE,
    complete={"type": "boolean", "description": "Whether the latest events reach back that far"},
    agents=_COUNTS,
    sessions=_COUNTS,
    total=many(WHOLE),
)
_ACTIVITY["properties"]["from"] = TEXT
_WAITING = shape(
    "msg_id from created_at attempt state due_at",
    msg_id=TEXT,
    created_at=WHOLE,
    attempt=WHOLE,
    state={"enum": [state for state in STATES if state not in TERMINAL]},
    due_at=MAYBE,
)
_WAITING["properties"]["from"] = TEXT
_LETTER = shape(
    "msg_id from to payload created_at attempt", **dict.fromkeys(("msg_id", "to", "payload"), TEXT), created_at=WHOLE, attempt=WHOLE
)
_LETTER["properties"]["from"] = TEXT
_LETTER["description"] = "As its sender wrote it: other fields may stand beside these"
_DELIVERY = shape("message delivery_token in_flight_until", message=ref("Letter"), delivery_token=TEXT, in_flight_until=TEXT)
_DEAD: Schema = {
    "allOf": [
        ref("Letter"),
        shape(
            "reason failed_at attempts",
            reason=TEXT,
            failed_at={"type": "integer", "description": "Seconds since 1970"},
            attempts=WHOLE,
        ),
    ]
}
_LAG = shape("id lag last_acked_id running trouble", id=TEXT, lag=WHOLE, last_acked_id=WHOLE, running=TRUTH, trouble=MAYBE)
_MAYBE_WHOLE: Schema = {"type": ["integer", "null"]}
_DISPATCH = shape(
    "task_id attempt started_at ended_at seconds outcome exit_code signal output",
    **dict.fromkeys(("task_id", "started_at", "ended_at", "outcome", "output"), TEXT),
    attempt=WHOLE,
    seconds={"type": "number"},
    exit_code=_MAYBE_WHOLE,
    signal=_MAYBE_WHOLE,
)
_QUEUE = shape(
    "path label events last_event_id rate consumers runs error",
    path=TEXT,
    label=TEXT,
    events=WHOLE,
    last_event_id=WHOLE,
    rate={**many(WHOLE), "description": "Events in each of the last 24 hours, oldest first"},
    consumers=many(_LAG),
    runs=many(_DISPATCH),
    error={**MAYBE, "description": "Why it cannot be read"},
)

SCHEMAS: dict[str, Schema] = {
    "Thread": _THREAD,
    "Message": _MESSAGE,
    "Posted": shape("thread message", thread=ref("Thread"), message=ref("Message")),
    "Agent": _AGENT,
    "Run": _RUN,
    "RunHistory": _HISTORY,
    "Activity": _ACTIVITY,
    "Mailbox": shape("session " + " ".join(STATES), session=TEXT, **dict.fromkeys(STATES, WHOLE)),
    "Waiting": _WAITING,
    "Letter": _LETTER,
    "Delivery": _DELIVERY,
    "DeadLetter": _DEAD,
    "Queue": _QUEUE,
}

_SAID = {"type": "string", "minLength": 1, "maxLength": 262144}
_SESSION = {**ID, "name": "session"}
_RUN_ID = {"name": "run", "in": "path", "required": True, "schema": {"type": "string", "minLength": 1}, "description": "~ for no name"}
_MSG_ID = {"type": "string", "minLength": 1, "maxLength": 400}
_MESSAGE_ID = {"name": "msg_id", "in": "path", "required": True, "schema": _MSG_ID}
_TOKEN: Schema = {**MAYBE, "description": "Refused unless this is still the current delivery"}
_LIMIT = query("limit", {"type": "integer", "minimum": 1, "maximum": 10000}, "At most this many")

_THREADS: dict[str, dict[str, Schema]] = {
    "/api/threads": {
        "get": operation(
            "Threads, latest activity first",
            "200",
            shape("threads more", threads=many(ref("Thread")), more=TRUTH),
            parameters=(
                query("status", TEXT, f"Of {', '.join(STATUSES)}; several separated by commas"),
                query("agent", TEXT, "Created by it, or assigned to it"),
                query("run", TEXT, "Of this run; empty: of none"),
                _LIMIT,
            ),
        )
    },
    "/api/threads/{id}": {
        "get": operation(
            "One thread and all that was said",
            "200",
            shape(
                "thread lease messages next_event_id",
                thread=ref("Thread"),
                lease=_LEASE,
                messages=many(ref("Message")),
                next_event_id=WHOLE,
                html={"type": "object", "additionalProperties": TEXT, "description": "Bodies by the id of their message"},
            ),
            parameters=(ID, HTML),
        )
    },
    "/api/threads/{id}/reply": {
        "post": operation(
            "Answer in a thread; said again with the same Idempotency-Key, nothing is said twice",
            "201",
            ref("Posted"),
            body=body("body", body=_SAID),
            parameters=(ID, KEY),
        )
    },
    "/api/threads/{id}/cancel": {
        "post": operation("End a thread that is not wanted any more", "200", ref("Posted"), body=body("", reason=TEXT), parameters=(ID,))
    },
    "/api/threads/{id}/release": {
        "post": operation(
            "Take a thread back from whoever holds it: pending again", "200", ref("Posted"), body=body("", reason=TEXT), parameters=(ID,)
        )
    },
}
_RUNS: dict[str, dict[str, Schema]] = {
    "/api/runs": {"get": operation("Runs, newest activity first", "200", shape("runs", runs=many(ref("Run"))), parameters=(_LIMIT,))},
    "/api/runs/{run}": {
        "get": operation("The latest threads of a run, and what happened in them", "200", ref("RunHistory"), parameters=(_RUN_ID,))
    },
    "/api/agents": {"get": operation("Everybody who was ever seen, and what they hold", "200", shape("agents", agents=many(ref("Agent"))))},
    "/api/activity": {
        "get": operation(
            "How many events there were in each of the last hours, by the latest 5000",
            "200",
            ref("Activity"),
            parameters=(query("hours", {"type": "integer", "minimum": 1, "maximum": 168}, "Default: 24"),),
        )
    },
}
_DRAFT = shape(
    "to payload",
    to={"type": "string", "minLength": 1, "maxLength": 200, "description": "A session, or an alias"},
    payload=TEXT,
    msg_id={"type": ["string", "null"], "minLength": 1, "maxLength": 400, "description": "Unique for ever; default: {from}:{nanoseconds}"},
    created_at={"type": ["integer", "null"], "minimum": 0, "maximum": 253402300799, "description": "Unix seconds; default: now"},
)
_DRAFT["properties"]["from"] = {**MAYBE, "description": "Default: whoever asks. An agent sends as itself"}
_DRAFT["description"] = "Other fields are kept, and given back"
_STORED = shape("msg_id queued pending", msg_id=TEXT, queued=TRUTH, pending=WHOLE)
_ENQUEUE = operation(
    "Store a message; said again with the same msg_id, it changes nothing, and the answer is 200",
    "201",
    _STORED,
    body={"required": True, "content": {"application/json": {"schema": _DRAFT}}},
)
_ENQUEUE["responses"]["200"] = {"description": "It was known already", "content": {"application/json": {"schema": _STORED}}}
_DEQUEUE = operation(
    "Take the next message, waiting for it if asked to: in flight until it is acked, nacked, or its time is over",
    "200",
    ref("Delivery"),
    parameters=(_SESSION, query("wait", {"type": "number", "minimum": 0, "maximum": 50}, "Seconds; default 0")),
)
_DEQUEUE["responses"]["204"] = {"description": "Nothing came"}
_STATE = {"enum": list(STATES)}
_SECONDS: Schema = {"type": ["number", "null"], "exclusiveMinimum": 0, "maximum": 31622400}
_TAKING: dict[str, dict[str, Schema]] = {
    "/api/mailbox": {"post": _ENQUEUE},
    "/api/mailbox/{session}/dequeue": {"post": _DEQUEUE},
    "/api/mailbox/{session}/{msg_id}/ack": {
        "post": operation(
            "Say that a message was delivered",
            "200",
            shape("msg_id state changed", msg_id=TEXT, state=_STATE, changed=TRUTH),
            body=body("", needed=False, delivery_token=_TOKEN),
            parameters=(_SESSION, _MESSAGE_ID),
        )
    },
    "/api/mailbox/{session}/{msg_id}/nack": {
        "post": operation(
            "Say that it was not: it comes again after its backoff, and is dead after the last retry",
            "200",
            shape("msg_id state changed retry_at", msg_id=TEXT, state=_STATE, changed=TRUTH, retry_at=MAYBE),
            body=body("", needed=False, reason=MAYBE, delivery_token=_TOKEN),
            parameters=(_SESSION, _MESSAGE_ID),
        )
    },
    "/api/mailbox/{session}/{msg_id}/extend": {
        "post": operation(
            "Keep a message in flight: its time starts anew",
            "200",
            shape("msg_id in_flight_until", msg_id=TEXT, in_flight_until=TEXT),
            body=body("", needed=False, seconds=_SECONDS, delivery_token=_TOKEN),
            parameters=(_SESSION, _MESSAGE_ID),
        )
    },
}
_MAIL: dict[str, dict[str, Schema]] = {
    **_TAKING,
    "/api/mailboxes": {
        "get": operation(
            "How many messages of each mailbox are in each state",
            "200",
            shape("mailboxes", mailboxes=many(ref("Mailbox"))),
            parameters=(_LIMIT,),
        )
    },
    "/api/mailbox/{session}": {
        "get": operation(
            "The messages of a mailbox that have not ended, in the order of delivery",
            "200",
            shape("messages total", messages=many(ref("Waiting")), total=WHOLE),
            parameters=(_SESSION, _LIMIT),
        ),
        "delete": operation(
            "Remove every message that has not ended; their ids stay known (for people)",
            "200",
            shape("purged", purged=WHOLE),
            parameters=(_SESSION,),
        ),
    },
    "/api/mailbox/{session}/dead-letter": {
        "get": operation(
            "What nobody could take, the oldest first",
            "200",
            shape("entries", entries=many(ref("DeadLetter"))),
            parameters=(_SESSION, _LIMIT),
        ),
        "delete": operation(
            "Throw all of them away, or one",
            "200",
            shape("purged", purged=WHOLE),
            parameters=(_SESSION, query("msg_id", _MSG_ID, "Only this one")),
        ),
    },
    "/api/mailbox/{session}/dead-letter/retry": {
        "post": operation(
            "Try all of them again, or one",
            "200",
            shape("retried", retried=WHOLE),
            body=body("", needed=False, msg_id=_MSG_ID),
            parameters=(_SESSION,),
        )
    },
}
_QUEUES: dict[str, dict[str, Schema]] = {
    "/api/queues": {"get": operation("Every watched queue, and how it is doing", "200", shape("queues", queues=many(ref("Queue"))))}
}
PATHS: dict[str, dict[str, Schema]] = {**_THREADS, **_RUNS, **_MAIL, **_QUEUES}
