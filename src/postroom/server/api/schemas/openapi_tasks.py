"""The part of the OpenAPI description about tasks. `openapi` includes it."""

from __future__ import annotations

from postroom.core import limits
from postroom.core.records import Event
from postroom.core.records.tasks import ListedTask
from postroom.core.states import TASK_PRIORITIES
from postroom.server.api.schemas.builders import (
    BOOLEAN,
    ID,
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
from postroom.tasks.listing import STATUSES

_NAME: Schema = {"type": "string", "minLength": 1, "maxLength": 200}
_TASK = public_schema(
    ListedTask,
    hidden=("context_json", "artifacts_json"),
    optional=("traceparent",),
    kind={"enum": ["task", "result"]},
    status={"enum": list(STATUSES)},
    context={"type": "object"},
    artifacts={"type": ["object", "null"]},
    verified={"type": "boolean", "description": "Whether a server checked the agent that gave it"},
)
SCHEMAS: dict[str, Schema] = {"Task": _TASK, "TaskEvent": record_schema(Event)}
_ONE_TASK = object_of("task", task=schema_ref("Task"))
_LIMIT = query_parameter("limit", {"type": "integer", "minimum": 1, "maximum": limits.MAX_ITEMS}, "At most this many")

PATHS: dict[str, dict[str, Schema]] = {
    "/api/tasks": {
        "get": describe_operation(
            "List tasks and results, newest first. An agent sees those that it gave or got",
            "200",
            object_of(
                "tasks more next_before_event",
                tasks=array_of(schema_ref("Task")),
                more=BOOLEAN,
                next_before_event={"type": ["integer", "null"], "description": "Pass it as before_event to get the next page"},
            ),
            parameters=(
                query_parameter("agent", _NAME, "Only those for this agent"),
                query_parameter("from", _NAME, "Only those that this agent gave"),
                query_parameter("status", {"enum": list(STATUSES)}, "Only those with this status"),
                _LIMIT,
                query_parameter("before_event", {"type": "integer", "minimum": 0}, "`next_before_event` of the page before"),
            ),
        ),
        "post": describe_operation(
            "Give a task to an agent, by its name (`to`) or by a skill (`skill`: the agent with the fewest waiting tasks gets it)",
            "201",
            _ONE_TASK,
            body=request_body(
                "description",
                to=_NAME,
                skill=_NAME,
                description={"type": "string", "minLength": 1, "maxLength": limits.MAX_DESCRIPTION_CHARS},
                context={"type": "object"},
                priority={"enum": list(TASK_PRIORITIES)},
                deadline_seconds={"type": "number", "exclusiveMinimum": 0, "maximum": 31622400},
                parent=_NAME,
            ),
        ),
    },
    "/api/tasks/{id}": {
        "get": describe_operation(
            "Show one task or result, and its events",
            "200",
            object_of("task events", task=schema_ref("Task"), events=array_of(schema_ref("TaskEvent"))),
            parameters=(ID,),
        )
    },
    "/api/tasks/{id}/cancel": {
        "post": describe_operation(
            "Cancel a task that the caller gave. A person may cancel any task of an agent",
            "200",
            _ONE_TASK,
            body=request_body("", reason=TEXT),
            parameters=(ID,),
        )
    },
}
