"""The records of the mail room. A message is given back as its document writes it: `from`, and whatever else its sender added."""

from __future__ import annotations

from postroom.core import jsontext
from postroom.core.records import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

PENDING, IN_FLIGHT, ACKED, NACKED = "pending", "in_flight", "acked", "nacked"
DEAD_LETTER, EXPIRED = "dead_letter", "expired"
STATES = (PENDING, IN_FLIGHT, NACKED, ACKED, DEAD_LETTER, EXPIRED)
TERMINAL = frozenset((ACKED, DEAD_LETTER, EXPIRED))
PURGED, FORGOTTEN = "purged", "forgotten"  # of an id, when nothing else is left of its message

# From each state, where a message may go.
MOVES: dict[str, frozenset[str]] = {
    PENDING: frozenset((IN_FLIGHT, EXPIRED)),
    IN_FLIGHT: frozenset((ACKED, NACKED, EXPIRED)),
    NACKED: frozenset((PENDING, DEAD_LETTER, EXPIRED)),
    ACKED: frozenset(),
    DEAD_LETTER: frozenset(),
    EXPIRED: frozenset(),
}


class MailMessage(Record):
    """A message as it is handed to its receiver. `to` is the session that an alias stood for."""

    msg_id: str
    sender: str
    to: str
    payload: str
    created_at: int
    attempt: int
    extra_json: str

    def plain(self) -> dict[str, Any]:
        own = {
            "msg_id": self.msg_id,
            "from": self.sender,
            "to": self.to,
            "payload": self.payload,
            "created_at": self.created_at,
            "attempt": self.attempt,
        }
        return own if self.extra_json == "{}" else {**own, **jsontext.loads(self.extra_json)}


class EnqueueAck(Record):
    """Stored, or already known; and how many wait in that mailbox now."""

    msg_id: str
    queued: bool
    pending: int


class Delivery(Record):
    """A message in flight. The token tells this delivery from the ones before and after it."""

    message: MailMessage
    delivery_token: str
    in_flight_until: str


class Acked(Record):
    """What an ack came to; `changed` is false for one that was said before."""

    msg_id: str
    state: str
    changed: bool


class Nacked(Record):
    """What a nack came to, and when it is tried again, if it is."""

    msg_id: str
    state: str
    changed: bool
    retry_at: str | None


class Extended(Record):
    """Until when a delivery may go on now."""

    msg_id: str
    in_flight_until: str


class MessageSummary(Record):
    """A message that has not ended. `due_at`: when time will move it, if nobody else does."""

    msg_id: str
    sender: str
    created_at: int
    attempt: int
    state: str
    due_at: str | None

    def plain(self) -> dict[str, Any]:
        return {("from" if name == "sender" else name): value for name, value in self.items()}


class Peeked(Record):
    """The first messages of a mailbox that have not ended, and how many there are in all."""

    messages: tuple[MessageSummary, ...]
    total: int


class DeadLetterEntry(Record):
    """A message that nobody could take, kept until somebody decides."""

    message: MailMessage
    reason: str
    failed_at: int
    attempts: int

    def plain(self) -> dict[str, Any]:
        return {**self.message.plain(), "reason": self.reason, "failed_at": self.failed_at, "attempts": self.attempts}


class Step(Record):
    """One thing that happened to a message: when, what, and what is to be known about it."""

    at: str
    step: str
    facts: dict[str, Any]

    def plain(self) -> dict[str, Any]:
        return {"at": self.at, "step": self.step, **self.facts}


class Receipt(Record):
    """Everything that happened to a message. Of one that was purged or forgotten only the steps are left."""

    message: MailMessage | None
    state: str
    steps: tuple[Step, ...]


class SessionCounts(Record):
    """How many messages of a mailbox are in each state."""

    session: str
    pending: int
    in_flight: int
    nacked: int
    acked: int
    dead_letter: int
    expired: int


class Policy(Record):
    """How a mailbox retries. No `ttl_secs`: its messages do not expire."""

    session: str
    base_backoff_secs: float = 5.0
    max_retries: int = 3
    inflight_timeout_secs: float = 30.0
    ttl_secs: float | None = None


class Alias(Record):
    """Another name for a mailbox, for senders."""

    name: str
    session: str


class Swept(Record):
    """What was due, and was carried out; and what was forgotten."""

    retried: int
    timed_out: int
    dead_lettered: int
    expired: int
    forgotten: int


class Parcel(Record):
    """A message as the store moves it along, without its contents. Fields are columns, in their order."""

    delivery_id: int
    msg_id: str
    session: str
    sender: str
    created_at: int
    attempt: int
    state: str
    head: int
    rank: int
    delivery_token: str | None
    stored_at: int
    since: int
    move_at: int | None
    expires_at: int | None
    due_at: int | None
    ended_at: int | None
    reason: str
    door: str
