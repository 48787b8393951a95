"""The records: immutable values whose fields are the columns, in their order.

`dataclasses` would say the same, and importing it costs more than a whole command.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any, Self, dataclass_transform
else:

    def dataclass_transform(**_):
        return lambda cls: cls


RELAY = "relay"  # the door of a person who speaks in an agent's name
UNVERIFIED = ("cli", "library", "file", "unix", RELAY)  # doors at which nobody vouched for who speaks


@dataclass_transform(frozen_default=True)
class Record:
    """A frozen value; its annotations are its fields."""

    __fields__: tuple[str, ...] = ()

    def __init_subclass__(cls) -> None:
        cls.__fields__ = cls.__fields__ + tuple(cls.__annotations__)

    if not TYPE_CHECKING:  # type checkers read the fields instead

        def __init__(self, *values: object, **named: object) -> None:
            given = self.__dict__
            given.update(zip(self.__fields__, values))
            given.update(named)
            if len(given) != len(self.__fields__):
                self._default()
            if len(given) != len(self.__fields__) or len(values) > len(given):
                raise TypeError(f"{type(self).__name__} takes {', '.join(self.__fields__)}")

        def _default(self) -> None:
            defaults = vars(type(self))
            for field in self.__fields__:
                if field in defaults:
                    self.__dict__.setdefault(field, defaults[field])

        def __setattr__(self, name: str, value: object) -> None:
            raise AttributeError(f"{type(self).__name__} is immutable")

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and other.__dict__ == self.__dict__

    def __hash__(self) -> int:
        return hash(tuple(self.__dict__.values()))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in self.items())})"

    def items(self) -> Iterator[tuple[str, Any]]:
        return iter((name, self.__dict__[name]) for name in self.__fields__)

    def replace(self, **changes: Any) -> Self:
        return type(self)(**{**self.__dict__, **changes})

    def plain(self) -> dict[str, Any]:
        """Dictionaries and lists, for JSON."""
        return {name: _plain(value) for name, value in self.items()}


def _plain(value: Any) -> Any:
    if isinstance(value, Record):
        return value.plain()
    return [_plain(item) for item in value] if isinstance(value, tuple) else value


class Thread(Record):
    """A leased unit of work and the head of its conversation."""

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
    """One agent's exclusive claim on a thread. Live until `expires_at`, and its holder's until someone else takes it."""

    thread_id: str
    agent_id: str
    lease_token: str
    claimed_at: str
    expires_at: str
    released_at: str | None
    lease_seconds: float

    @property
    def held(self) -> bool:
        return self.released_at is None

    def live(self, now: str) -> bool:
        return self.released_at is None and self.expires_at > now

    def public(self) -> dict[str, Any]:
        """As others may see it: the token is its holder's."""
        return {name: value for name, value in self.items() if name != "lease_token"}


class Artifact(Record):
    """A reference to a file, attached to a message. The file itself stays where it is."""

    artifact_id: str
    message_id: str
    path: str
    kind: str
    metadata_json: str
    created_at: str


class Attachment(Record):
    """An artifact as its sender names it."""

    path: str
    kind: str = "file"
    metadata_json: str = "{}"


class Message(Record):
    """One message of a thread. `event_id` orders a conversation; `door` is how it came in, recorded by us."""

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
    artifacts: tuple[Artifact, ...] = ()

    @property
    def verified(self) -> bool:
        """Whether a server vouched for the sender; whoever can write the file can write any name."""
        return self.door not in UNVERIFIED

    def plain(self) -> dict[str, Any]:
        return {**super().plain(), "verified": self.verified}


class Event(Record):
    """One line of the log that wakes waiters. `source` is the agent that acted."""

    event_id: int
    run_id: str
    task_id: str
    thread_id: str
    source: str
    event_type: str
    message_id: str | None
    summary: str
    payload_json: str
    created_at: str


class Agent(Record):
    """Somebody who sends or receives: a program, or a person."""

    name: str
    kind: str
    card_json: str
    created_at: str
    last_seen_at: str | None


class Candidate(Record):
    """A thread that an agent could claim; `lapsed` when its last holder's lease ran out."""

    thread: Thread
    lapsed: bool
    held_by: str | None

    def plain(self) -> dict[str, Any]:
        return {**self.thread.plain(), "lapsed": self.lapsed, "held_by": self.held_by}


class Claim(Record):
    """A thread and the lease that makes it the caller's."""

    thread: Thread
    lease: Lease

    def plain(self) -> dict[str, Any]:
        return {**super().plain(), "lease_token": self.lease.lease_token}


class Posted(Record):
    """A message as it was stored, and its thread as it then stood. `next_event_id` is a cursor past it."""

    thread: Thread
    message: Message
    next_event_id: int


class Conversation(Record):
    """A thread, who holds it, and all that was said."""

    thread: Thread
    lease: Lease | None
    messages: tuple[Message, ...]
    next_event_id: int

    def plain(self) -> dict[str, Any]:
        lease = self.lease.public() if self.lease is not None and self.lease.held else None
        return {**super().plain(), "lease": lease}


class Listing(Record):
    """Some threads, and whether there are more."""

    threads: tuple[Thread, ...]
    more: bool


class Reply(Record):
    """How a wait for a reply ended. `next_event_id` goes back, unchanged, into the next wait."""

    woke: bool
    next_event_id: int
    message: Message | None = None


class Activity(Record):
    """How a watch ended. `next_event_id` goes back, unchanged, into the next one."""

    woke: bool
    next_event_id: int
    events: tuple[Event, ...] = ()


class Presence(Record):
    """An agent, what it holds, and in how many threads something waits for it unread."""

    agent: Agent
    holds: tuple[Claim, ...]
    unread: int

    def plain(self) -> dict[str, Any]:
        holds = [{"thread": claim.thread.plain(), "lease": claim.lease.public()} for claim in self.holds]
        return {"agent": self.agent.plain(), "holds": holds, "unread": self.unread}

    def alive(self, now: str, since: str) -> bool:
        """Whether it was seen `since` then, or holds a lease that runs `now`."""
        return (self.agent.last_seen_at or "") >= since or any(claim.lease.live(now) for claim in self.holds)
