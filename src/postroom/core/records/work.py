"""The records of the room `work`: threads, messages, leases and agents."""

from __future__ import annotations

from postroom.core import clock
from postroom.core.records import Event, ListPage, NotedRecord, Record, parse_payload
from postroom.core.states import UNVERIFIED_DOORS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class Thread(Record):
    """A unit of work that one agent at a time may hold. `latest_message_id` is its newest message."""

    thread_id: str
    run_id: str
    task_id: str
    subject: str
    created_by: str
    assigned_to: str
    status: str
    priority: str
    latest_message_id: str | None
    created_at: str
    updated_at: str


class Lease(Record):
    """The exclusive claim of one agent on a thread. Live until `expires_at`, then valid until another agent takes the thread."""

    thread_id: str
    agent_id: str
    lease_token: str
    claimed_at: str
    expires_at: str
    released_at: str | None
    lease_seconds: float

    @property
    def is_held(self) -> bool:
        """Whether the lease was not released. It may have expired."""
        return self.released_at is None

    def is_live(self, now: str) -> bool:
        """Return whether the lease was not released and has not expired. `now` is a stamp of `clock.format_stamp`."""
        return self.released_at is None and self.expires_at > now and not self.is_misdated(now)

    def is_misdated(self, now: str) -> bool:
        """Return whether the lease ends too late for its length, because the clock was set back. It counts as expired."""
        return clock.is_misdated(clock.parse_stamp(self.expires_at), self.lease_seconds, clock.parse_stamp(now))

    def to_json_without_token(self) -> dict[str, Any]:
        """Return the lease as JSON for other agents, without the token, which only the holder may know."""
        return {name: value for name, value in self.items() if name != "lease_token"}


class Artifact(Record):
    """A reference to a file, attached to a message. The file itself is not copied."""

    artifact_id: str
    message_id: str
    path: str
    kind: str
    metadata_json: str
    created_at: str


class Attachment(Record):
    """An artifact as its sender gives it, before it is stored."""

    path: str
    kind: str = "file"
    metadata_json: str = "{}"


class Message(Record):
    """One message of a thread. `event_id` orders the messages. `door` is how the message entered, as Postroom recorded it.

    `in_reply_to` is the id of the question that the message settled. `is_open` is 1 for a question that nothing has settled or ended.
    `traceparent` is the trace in which the message was sent (W3C Trace Context), if there was one.
    """

    message_id: str
    thread_id: str
    from_agent: str
    to_agent: str
    kind: str
    summary: str
    body: str
    payload_json: str
    created_at: str
    event_id: int
    door: str
    in_reply_to: str | None = None
    is_open: int = 0
    traceparent: str | None = None
    artifacts: tuple[Artifact, ...] = ()

    @property
    def payload(self) -> dict[str, Any]:
        """The JSON object for programs that came with the message, as a dict."""
        return parse_payload(self.payload_json)

    @property
    def verified(self) -> bool:
        """Whether a server checked the sender. A process that can write the store file can use any name."""
        return self.door not in UNVERIFIED_DOORS

    def to_json(self) -> dict[str, Any]:
        fields = {**super().to_json(), "payload": self.payload, "is_open": bool(self.is_open), "verified": self.verified}
        if self.traceparent is None:
            del fields["traceparent"]
        return fields


class Agent(Record):
    """A sender or receiver: a program or a person."""

    name: str
    kind: str
    card_json: str
    created_at: str
    last_seen_at: str | None

    @property
    def is_person(self) -> bool:
        return self.kind == "human"


class Candidate(Record):
    """A thread that an agent could claim. `held_by` is its holder, if it has one. `lapsed` is true if the holder's lease has expired."""

    thread: Thread
    lapsed: bool
    held_by: str | None

    def to_json(self) -> dict[str, Any]:
        return {**self.thread.to_json(), "lapsed": self.lapsed, "held_by": self.held_by}


class CandidatePage(Record):
    """One page of candidates. If there are `more`, pass `after` to get the next page."""

    candidates: tuple[Candidate, ...]
    more: bool = False
    after: str | None = None

    def to_json(self) -> dict[str, Any]:
        return {"threads": [candidate.to_json() for candidate in self.candidates], "more": self.more, "after": self.after}


class HeldThread(Record):
    """A thread and its newest lease, which may be released or expired. `lease` is None if the thread was never claimed."""

    thread: Thread
    lease: Lease | None


class OfferedThread(Record):
    """A thread that may be taken, with the columns that determine the order of taking."""

    thread_id: str
    priority: str
    created_at: str


class ReadMark(Record):
    """How far an agent has read a thread, and the newest message in it that is addressed to the agent. Both are event ids.

    `guest` is 1 if the agent takes part in the thread, and neither created it nor is assigned to it.
    """

    agent_id: str
    thread_id: str
    read_event_id: int
    latest_event_id: int
    read_at: str | None
    read_door: str | None
    guest: int = 0


class Claim(Record):
    """A thread, the lease that the caller holds on it, and what was said in it, oldest first.

    `messages` begins with the message that opened the thread. If there are `more`, those between it and the newest ones are missing:
    `work.show` reads them. A renewed lease carries no messages.
    """

    thread: Thread
    lease: Lease
    messages: tuple[Message, ...] = ()
    more: bool = False

    def to_json(self) -> dict[str, Any]:
        said = {"messages": [message.to_json() for message in self.messages], "more": self.more} if self.messages else {}
        return {"thread": self.thread.to_json(), "lease": self.lease.to_json(), **said, "lease_token": self.lease.lease_token}


class PostedMessage(NotedRecord):
    """A stored message and the state of its thread after it. `next_event_id` is the cursor after the message.

    `note` tells the sender what it may not have meant, for example that nobody with the name of the receiver was ever seen.
    """

    thread: Thread
    message: Message
    next_event_id: int
    note: str = ""


class Conversation(NotedRecord):
    """A thread, its lease, and one page of its messages, oldest first.

    `more` is true if the thread has further messages in the direction of reading. `next_before_event` or `next_after_event` is then
    the cursor of the next page. `first_message` opened the thread. It is set on the newest page if it is not among `messages`.
    `note` says if its first messages were removed.
    """

    thread: Thread
    lease: Lease | None
    messages: tuple[Message, ...]
    next_event_id: int
    more: bool = False
    next_before_event: int | None = None
    next_after_event: int | None = None
    first_message: Message | None = None
    note: str = ""

    def to_json(self) -> dict[str, Any]:
        lease = self.lease.to_json_without_token() if self.lease is not None and self.lease.is_held else None
        return {**super().to_json(), "lease": lease}


class ThreadHold(Record):
    """The holder of a listed thread, without its token. `lapsed` is true if the lease has expired: another agent may take the thread."""

    thread_id: str
    held_by: str
    lease_expires_at: str
    lapsed: bool
    claimed_at: str | None = None


class ThreadPage(Record):
    """One page of threads, and the holders of those that are held. If there are `more`, pass `after` to get the next page."""

    threads: tuple[Thread, ...]
    more: bool
    holds: tuple[ThreadHold, ...] = ()
    after: str | None = None

    def to_json(self) -> dict[str, Any]:
        """Return each thread with `held_by` and `lease_expires_at`, which are null if nobody holds it, and `lapsed`."""
        holds = {hold.thread_id: hold.to_json() for hold in self.holds}
        nobody = {"held_by": None, "lease_expires_at": None, "lapsed": False, "claimed_at": None}
        threads = [{**thread.to_json(), **holds.get(thread.thread_id, nobody)} for thread in self.threads]
        return {"threads": threads, "more": self.more, "after": self.after}


class ReplyWaitResult(Record):
    """The result of a wait for a reply. Pass `next_event_id` to the next wait, so that no event is missed."""

    woke: bool
    next_event_id: int
    message: Message | None = None

    @property
    def timed_out(self) -> bool:
        return not self.woke


class WatchResult(Record):
    """The result of a watch. Pass `next_event_id` to the next watch, so that no event is missed."""

    woke: bool
    next_event_id: int
    events: tuple[Event, ...] = ()

    @property
    def timed_out(self) -> bool:
        return not self.woke


class AgentPresence(Record):
    """An agent, the threads that it holds, and the number of threads with unread messages for it."""

    agent: Agent
    holds: tuple[Claim, ...]
    unread: int

    def to_json(self) -> dict[str, Any]:
        holds = [{"thread": claim.thread.to_json(), "lease": claim.lease.to_json_without_token()} for claim in self.holds]
        return {"agent": self.agent.to_json(), "holds": holds, "unread": self.unread}

    def is_alive(self, now: str, since: str) -> bool:
        """Return whether the agent was seen at or after `since`, or holds a lease that is live at `now`. Both are stamps."""
        return (self.agent.last_seen_at or "") >= since or any(claim.lease.is_live(now) for claim in self.holds)


class AgentPage(Record, ListPage):
    """One page of agents, sorted by name."""

    agents: tuple[Agent, ...]
    more: bool = False
    after: str | None = None


class PresencePage(Record, ListPage):
    """One page of the presence of agents, sorted by name."""

    presences: tuple[AgentPresence, ...]
    more: bool = False
    after: str | None = None


class PageBounds(Record):
    """The first and last event id of a page of messages, and the first event id of its thread. All are None if the page is empty."""

    first_event_id: int | None
    last_event_id: int | None
    thread_first_event_id: int | None


class RunNumbers(Record):
    """The threads of a run in one status: their number, when the first was created, and when the last one changed."""

    status: str
    threads: int
    first_at: str
    last_at: str
