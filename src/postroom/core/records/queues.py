"""The records of the room `queues`: events, subscriptions and the progress of consumers. The room checks its input here too."""

from __future__ import annotations

from postroom.core import addresses, checks, limits
from postroom.core.errors import InvalidInput
from postroom.core.records import Record
from postroom.core.text import short_repr

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

MESSAGE, RECORD = "message", "record"
EVENT_TYPES = (MESSAGE, RECORD)
# The outcomes of a dispatch. Only the owner of a queue can run its handlers, so a push of another user leaves it to the owner.
QUEUED, ALREADY_QUEUED, LEFT_TO_OWNER, FAILED, NONE = "queued", "already queued", "left to owner", "failed", "none"


class QueueEvent(Record):
    """One event of a queue. Its fields are the columns, in order."""

    id: int
    created_at: str
    source: str
    type: str
    subtype: str | None
    content: str


class EventLength(Record):
    """The id of an event, and the characters of its content."""

    id: int
    chars: int


class EventTime(Record):
    """The time at which an event was stored."""

    id: int
    created_at: str


class Subscription(Record):
    """A consumer, the command that handles its events, and a filter. Without a filter it receives all events."""

    consumer_id: str
    handler_cmd: str
    filter: str | None


class ConsumerProgress(Record):
    """The newest event that a consumer has acknowledged."""

    consumer_id: str
    last_acked_id: int
    updated_at: str


class HandlerLimits(Record):
    """How long a handler may run, and how often an event is tried. None means the default."""

    timeout_seconds: float | None = None
    max_tries: int | None = None


class DeadEvent(Record):
    """An event that was set aside for one consumer, because its handler did not acknowledge it in so many tries.

    `reason` is how the last run ended. `retrying` is whether it waits to be handled once more.
    """

    consumer_id: str
    event_id: int
    tries: int
    reason: str
    set_aside_at: str
    retrying: bool

    def to_json(self) -> dict[str, Any]:
        return {**self.__dict__, "retrying": bool(self.retrying)}


class Consumer(Record):
    """A subscription, the newest event that it has acknowledged, and its state. `trouble` describes a problem with it, if there is one.

    `waiting_since` is when its oldest unread event was stored, and `waiting_because` why no process handles it. `running_since` is set
    while its handler runs. `last_run` describes how the last run ended, and `output` is the file with the output of the runs.
    """

    subscription: Subscription
    last_acked_id: int
    updated_at: str | None
    running: bool
    trouble: str | None
    waiting_since: str | None = None
    waiting_because: str | None = None
    running_since: str | None = None
    pid: int | None = None
    last_run: str | None = None
    output: str | None = None
    dead_events: int = 0
    timeout_seconds: float | None = None
    max_tries: int | None = None

    def to_json(self) -> dict[str, Any]:
        rest = {name: value for name, value in self.items() if name != "subscription"}
        return {**self.subscription.to_json(), **rest}


class QueueSummary(Record):
    """The numbers of a queue. `thread` is its folder, under the name that its document uses."""

    thread: str
    total_events: int
    last_event_id: int
    subscriptions: tuple[Consumer, ...]
    progress: tuple[ConsumerProgress, ...]


class DispatchStart(Record):
    """The outcome of a dispatch for one consumer that has unread events: started, skipped or failed."""

    consumer_id: str
    outcome: str
    detail: str = ""


def check_draft(source: object, type: object, subtype: object, content: object) -> tuple[str, str, str | None, str]:
    """Return the fields of a new event unchanged. Refuses with `InvalidInput`, which names the wrong field."""
    addresses.check_address(source)  # type: ignore[arg-type]
    if type not in EVENT_TYPES:
        raise InvalidInput(
            f"type cannot be {short_repr(type)}" if type else "type is missing", field="type", hint="Choose message or record."
        )
    if subtype is not None:
        if type == MESSAGE:
            raise InvalidInput("a message has no subtype", field="subtype", hint="Leave it out, or push a record.")
        checks.name("subtype", subtype, hint="Leave it out, or name it: toolcall, decision, …")  # type: ignore[arg-type]
    checks.text("content", content, max_bytes=limits.MAX_EVENT_BYTES, hint="Push the path of a file instead.")  # type: ignore[arg-type]
    return source, type, subtype, content  # type: ignore[return-value]


def check_consumer_name(value: str | None) -> str:
    """Return the name of a consumer. Refuses with `InvalidInput` if it is missing or malformed."""
    return checks.name("consumer", value, hint="Name it with --consumer.")
