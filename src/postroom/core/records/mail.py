"""The records of the room `mail`. The JSON of a message has the field names of its document, and the extra fields of its sender."""

from __future__ import annotations

from postroom._fastpath import json_text as jsontext
from postroom.core import clock
from postroom.core.records import NotedRecord, Record
from postroom.core.tracing import is_traceparent

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

PENDING, IN_FLIGHT, ACKED, NACKED = "pending", "in_flight", "acked", "nacked"
DEAD_LETTER, EXPIRED = "dead_letter", "expired"
STATES = (PENDING, IN_FLIGHT, NACKED, ACKED, DEAD_LETTER, EXPIRED)
TERMINAL_STATES = frozenset((ACKED, DEAD_LETTER, EXPIRED))
PURGED, FORGOTTEN = "purged", "forgotten"  # states of an id whose message was removed

# The states that may follow each state.
ALLOWED_TRANSITIONS: dict[str, frozenset[str]] = {
    PENDING: frozenset((IN_FLIGHT, EXPIRED)),
    IN_FLIGHT: frozenset((ACKED, NACKED, EXPIRED)),
    NACKED: frozenset((PENDING, DEAD_LETTER, EXPIRED)),
    ACKED: frozenset(),
    DEAD_LETTER: frozenset(),
    EXPIRED: frozenset(),
}

TRACE_FIELD = "traceparent"
MAX_BACKOFF_DOUBLINGS = 32  # more are no longer than the longest backoff


class MailMessage(Record):
    """A message as its receiver gets it. `to` is a session, never an alias. `created_at` is in Unix seconds."""

    msg_id: str
    sender: str
    to: str
    payload: str
    created_at: int
    attempt: int
    extra_json: str

    @property
    def traceparent(self) -> str | None:
        """The trace in which the message was sent (W3C Trace Context), if there was one. It is an extra field of the message."""
        trace = jsontext.loads(self.extra_json).get(TRACE_FIELD) if TRACE_FIELD in self.extra_json else None
        return trace if isinstance(trace, str) and is_traceparent(trace) else None

    def to_json(self) -> dict[str, Any]:
        fields = {
            "msg_id": self.msg_id,
            "from": self.sender,
            "to": self.to,
            "payload": self.payload,
            "created_at": self.created_at,
            "attempt": self.attempt,
        }
        return fields if self.extra_json == "{}" else {**fields, **jsontext.loads(self.extra_json)}


class EnqueueAck(NotedRecord):
    """The result of an enqueue. `queued` is false if the id was already known. `pending` counts the waiting messages of the mailbox.

    `note` tells the sender that nobody with the name of the receiver was ever seen, and which name resembles it.
    """

    msg_id: str
    queued: bool
    pending: int
    note: str = ""


class Delivery(Record):
    """A message in flight. The token distinguishes this delivery from earlier and later deliveries of the message."""

    message: MailMessage
    delivery_token: str
    in_flight_until: str


class AckResult(Record):
    """The result of an ack. `changed` is false if the message was already acknowledged."""

    msg_id: str
    state: str
    changed: bool


class NackResult(Record):
    """The result of a nack. `retry_at` is the time of the next delivery, or None if there is none."""

    msg_id: str
    state: str
    changed: bool
    retry_at: str | None


class ExtendResult(Record):
    """The result of an extend: the new end of the delivery."""

    msg_id: str
    in_flight_until: str


class MailSummary(Record):
    """A message that has not ended. `due_at` is the time of its next automatic transition, if there is one."""

    msg_id: str
    sender: str
    created_at: int
    attempt: int
    state: str
    due_at: str | None

    def to_json(self) -> dict[str, Any]:
        return {("from" if name == "sender" else name): value for name, value in self.items()}


class WaitingMessage(Record):
    """A message that has not ended, and its place in the listing of its mailbox."""

    summary: MailSummary
    rank: int
    delivery_id: int

    @property
    def cursor(self) -> str:
        """The cursor of the listing behind this message."""
        return f"{self.rank}.{self.delivery_id}"


class PeekResult(Record):
    """A page of the messages of a mailbox that have not ended. `total` counts all of them.

    As in every page: if there is `more`, pass `after` to get the next page.
    """

    messages: tuple[MailSummary, ...]
    total: int
    more: bool = False
    after: str | None = None


class DeadLetterEntry(Record):
    """A message that used up its retries. It is kept until it is retried or purged."""

    message: MailMessage
    reason: str
    failed_at: int
    attempts: int

    def to_json(self) -> dict[str, Any]:
        return {**self.message.to_json(), "reason": self.reason, "failed_at": self.failed_at, "attempts": self.attempts}


class DeadLetterSize(Record):
    """The number of bytes in the payload of a dead letter."""

    delivery_id: int
    bytes: int


class DeadLetterPage(Record):
    """A page of the dead letters of a mailbox, the oldest first. `total` counts all of them."""

    entries: tuple[DeadLetterEntry, ...]
    total: int
    more: bool = False
    after: str | None = None


class MailReceiptStep(Record):
    """One step in the history of a message. `facts` holds the details of the step."""

    at: str
    step: str
    facts: dict[str, Any]

    def to_json(self) -> dict[str, Any]:
        return {"at": self.at, "step": self.step, **self.facts}


class MailReceipt(Record):
    """A message and a page of its steps. `message` is None if the message was purged or forgotten. Its steps remain."""

    message: MailMessage | None
    state: str
    steps: tuple[MailReceiptStep, ...]
    more: bool = False
    after: str | None = None


class MailboxCounts(Record):
    """The number of messages of a mailbox in each state."""

    session: str
    pending: int
    in_flight: int
    nacked: int
    acked: int
    dead_letter: int
    expired: int


class MailboxPage(Record):
    """A page of mailboxes, sorted by name."""

    sessions: tuple[MailboxCounts, ...]
    more: bool = False
    after: str | None = None


class MailboxPolicy(Record):
    """The retry policy of a mailbox. Without `ttl_secs`, its messages do not expire."""

    session: str
    base_backoff_secs: float = 5.0
    max_retries: int = 3
    inflight_timeout_secs: float = 30.0
    ttl_secs: float | None = None


class MailboxRow(Record):
    """One row of `mailboxes`: the counts and the policy of a mailbox. `next_due` is the earliest instant of an automatic transition."""

    session: str
    pending: int
    in_flight: int
    nacked: int
    acked: int
    dead_letter: int
    expired: int
    base_backoff_secs: float
    max_retries: int
    inflight_timeout_secs: float
    ttl_secs: float | None
    next_due: int | None

    @property
    def unfinished_count(self) -> int:
        """The number of messages that have not ended."""
        return self.pending + self.in_flight + self.nacked

    def is_due(self, now: int) -> bool:
        """Return whether an automatic transition may be due at the instant `now`: its time has come, or the clock was set back."""
        return self.next_due is not None and (self.next_due <= now or clock.is_misdated(self.next_due, self.longest_pause_seconds, now))

    @property
    def longest_pause_seconds(self) -> float:
        """The longest time that this policy gives to a delivery, a retry or a message."""
        backoff = self.base_backoff_secs * 2.0 ** min(self.max_retries, MAX_BACKOFF_DOUBLINGS)
        return max(self.inflight_timeout_secs, backoff, self.ttl_secs or 0.0)


class MailId(Record):
    """The id of a message that was purged or forgotten, and the state in which the message ended.

    `payload_digest` tells a repeat from another message. It is None if version 0.1 removed the message.
    """

    msg_id: str
    sender: str
    session: str
    state: str
    ended_at: int
    payload_digest: str | None = None


class KnownMessage(Record):
    """The message that a sender stored under an id: its mailbox, and its payload or the digest of that."""

    session: str
    payload: str | None
    payload_digest: str | None


class MailboxAlias(Record):
    """Another name for a mailbox, which senders and receivers may use."""

    name: str
    session: str


class AliasPage(Record):
    """A page of aliases, sorted by name."""

    aliases: tuple[MailboxAlias, ...]
    more: bool = False
    after: str | None = None


class SweepResult(Record):
    """The number of automatic transitions that a sweep applied, by kind. `forgotten` counts the ended messages that it removed."""

    retried: int
    timed_out: int
    dead_lettered: int
    expired: int
    forgotten: int


class DeliveryRow(Record):
    """One row of `deliveries` without the contents of the message. Its fields are the columns, in order."""

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


class DeliveryContents(Record):
    """The contents of a message: the columns of `deliveries` that only its receiver needs."""

    extra_json: str
    payload: str


class StoredMessage(Record):
    """A whole row of `deliveries`, in two parts."""

    delivery: DeliveryRow
    contents: DeliveryContents
