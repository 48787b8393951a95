"""The records of the queues: events as they are stored, who wants them, and how far each has come."""

from __future__ import annotations

from postroom.core import addresses, checks
from postroom.core.errors import InvalidInput
from postroom.core.records import Record
from postroom.core.words import shown

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

MESSAGE, RECORD = "message", "record"
TYPES = (MESSAGE, RECORD)
LONGEST_CONTENT = 64 << 20
QUEUED, ALREADY_QUEUED, FAILED, NONE = "queued", "already queued", "failed", "none"  # what became of a dispatch


class QueueEvent(Record):
    """One event, with the columns of its table, in their order."""

    id: int
    created_at: str
    source: str
    type: str
    subtype: str | None
    content: str


class Subscription(Record):
    """Whom to start, for which events. Without a filter: for all."""

    consumer_id: str
    handler_cmd: str
    filter: str | None


class Progress(Record):
    """The newest event that a consumer has said it is done with."""

    consumer_id: str
    last_acked_id: int
    updated_at: str


class Consumer(Record):
    """A subscription, how far it has come, and how it is doing."""

    subscription: Subscription
    last_acked_id: int
    updated_at: str | None
    running: bool
    trouble: str | None

    def plain(self) -> dict[str, Any]:
        rest = {name: value for name, value in self.items() if name != "subscription"}
        return {**self.subscription.plain(), **rest}


class QueueSummary(Record):
    """A queue in numbers."""

    thread: str
    total_events: int
    last_event_id: int
    subscriptions: tuple[Consumer, ...]
    progress: tuple[Progress, ...]


class Start(Record):
    """What a dispatch did about one consumer that has unread events: started, skipped or failed."""

    consumer_id: str
    outcome: str
    detail: str = ""


def check_draft(source: object, type: object, subtype: object, content: object) -> tuple[str, str, str | None, str]:
    """An event as its writer gives it, or a refusal that says what is wrong with it."""
    addresses.check(source)  # type: ignore[arg-type]
    if type not in TYPES:
        raise InvalidInput(f"type cannot be {shown(type)}" if type else "type is missing", field="type", hint="Choose message or record.")
    if subtype is not None:
        if type == MESSAGE:
            raise InvalidInput("a message has no subtype", field="subtype", hint="Leave it out, or push a record.")
        checks.name("subtype", subtype, hint="Leave it out, or name it: toolcall, decision, …")  # type: ignore[arg-type]
    text = checks.text("content", content)  # type: ignore[arg-type]
    if len(text) > LONGEST_CONTENT // 4 and len(text.encode()) > LONGEST_CONTENT:
        raise InvalidInput("content is longer than 64 MiB", field="content", hint="Push the path of a file instead.")
    return source, type, subtype, content  # type: ignore[return-value]


def consumer_name(value: str | None) -> str:
    return checks.name("consumer", value, hint="Name it with --consumer.")
