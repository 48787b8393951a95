"""The records of an agent's sessions in other programs: the conversations of a resident agent, and the routes of an agent."""

from __future__ import annotations

from postroom.core.records import Record


class AgentConversation(Record):
    """The session of a program in which a resident agent works on a thread, or reads its mail if `thread_id` is empty.

    `turns` is how often the program was prompted. `prompted_event_id` is the latest event that a prompt told of.
    """

    agent: str
    thread_id: str
    program: str
    session: str
    turns: int
    prompted_event_id: int
    updated_at: str


class ConversationPage(Record):
    """One page of conversations. If there are `more`, pass `after` to get the next page. It is "" after the mail."""

    conversations: tuple[AgentConversation, ...]
    more: bool = False
    after: str | None = None


class WakeRoute(Record):
    """A route by which an agent is woken in a session of a program: `hook`, `queue`, `input` or `resident`.

    `host` and `pid` are the process that rings or is rung. `state` is `ready` or `off`, with the `reason` of the last failure. `retry_at`
    is in microseconds. `rings` is how often it was rung in the hour `hour`.
    """

    agent: str
    route: str
    session: str
    program: str
    host: str
    pid: int
    state: str
    reason: str
    failures: int
    retry_at: int
    hour: int
    rings: int
    registered_at: str


class WakeRoutePage(Record):
    """One page of the routes of an agent. If there are `more`, pass `after` to get the next page."""

    routes: tuple[WakeRoute, ...]
    more: bool = False
    after: str | None = None


class RingPermit(Record):
    """The messages for which a session may be rung now. `seconds` is when to ask again for the others, 0 if none of them still waits."""

    item_ids: tuple[str, ...]
    seconds: float = 0.0
