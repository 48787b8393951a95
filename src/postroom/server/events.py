"""The log as Server-Sent Events: everything that happens, to whoever listens, from where they left off."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from functools import partial
from operator import attrgetter
from time import monotonic

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from postroom.core.errors import InvalidInput, Refusal
from postroom.core.records import Event
from postroom.core.words import shown
from postroom.server.callers import Caller
from postroom.server.desk import Desk, of_work
from postroom.server.hub import AT_ONCE, Ear, Heard, Wanted
from postroom.server.post import may_take, of_mailbox
from postroom.server.requests import Office, known
from postroom.store.port import Row, Transaction

PING = 15.0
LOOK_AGAIN = 1.0  # seconds after which a pass is looked at once more, before anything is told
MOST_TOPICS = 100
RING = b": ring\n\n"
TOPICS: dict[str, Callable[[str], Wanted]] = {"agent": of_work, "mail": of_mailbox}
Allowed = Callable[[], Awaitable[bool]]
Tell = Callable[[Heard], bytes]


async def events(request: Request, office: Office, caller: Caller) -> Response:
    return await _streamed(request, office, caller, _wanted(request), await _after(request, office.desk), attrgetter("frame"))


async def bell(request: Request, office: Office, caller: Caller) -> Response:
    """Rings, and tells nothing, when there may be something for an agent to take, or in a mailbox."""
    topics = request.query_params.getlist("topic")
    known(request, "topic")
    if not 0 < len(topics) <= MOST_TOPICS:
        raise InvalidInput(f"name 1 to {MOST_TOPICS} topics, not {len(topics)}", field="topic", hint="As in topic=agent:NAME.")
    wants = [_of_topic(caller, topic) for topic in topics]
    return await _streamed(request, office, caller, lambda heard: any(wanted(heard) for wanted in wants), None, lambda heard: RING)


def _of_topic(caller: Caller, topic: str) -> Wanted:
    kind, _, name = topic.partition(":")
    if kind not in TOPICS:
        raise InvalidInput(f"there is no topic {shown(topic)}", field="topic", hint="Known: agent:NAME, mail:SESSION.")
    return TOPICS[kind](may_take(caller, name))


async def _streamed(request: Request, office: Office, caller: Caller, wanted: Wanted, after: int | None, tell: Tell) -> Response:
    if await request.body():  # and all that can come after is the end
        raise InvalidInput("a stream takes no body", field="body", hint="Say what is wanted in the query.")
    now = await office.desk.read(lambda tx: tx.one(tx.sql.event_latest))  # the hub may not have told of all yet

    async def allowed() -> bool:
        """Whether the pass that it came with is still good."""
        try:
            await office.asks(request, again=True)
        except Refusal:
            return False
        return True

    office.desk.hub.check(caller)  # and counted at once: nothing is awaited in between
    return _Stream(office.desk, caller, wanted, _Frames(office.desk, after, now[0] if now else 0, allowed, tell))


class _Stream(StreamingResponse):
    """Listens from the moment at which it was let in, and until it ended, however that was."""

    def __init__(self, desk: Desk, caller: Caller, wanted: Wanted, frames: _Frames) -> None:
        self._ear = desk.hub.listen(wanted, streams_to=caller.name).__enter__()  # before the past is read, so that nothing falls between
        super().__init__(frames.of(self._ear, wanted), media_type="text/event-stream", headers={"X-Accel-Buffering": "no"})

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        with self._ear:
            await super().__call__(scope, receive, send)


class _Frames:
    """What a stream says: what happened since, and what happens, for as long as its pass is good."""

    def __init__(self, desk: Desk, after: int | None, now: int, allowed: Allowed, tell: Tell) -> None:
        self._desk = desk
        self._after = after
        self._last = now if after is None else after
        self._allowed = allowed
        self._tell = tell

    async def of(self, ear: Ear, wanted: Wanted) -> AsyncIterator[bytes]:
        hub, looked = self._desk.hub, monotonic()
        yield b": connected\n\n"
        async for heard in _past(self._desk, self._after):
            self._last = heard.event.event_id
            if wanted(heard):
                yield self._tell(heard)
        while not hub.stopping and not ear.overrun:
            if monotonic() - looked > LOOK_AGAIN:
                if not await self._allowed():
                    return
                looked = monotonic()
            while ear.heard:
                heard = ear.heard.popleft()
                if heard.event.event_id > self._last:
                    yield self._tell(heard)
            if not hub.stopping and not ear.overrun and not await ear.wait(PING):
                yield b": ping\n\n"
        if hub.stopping:
            yield b"event: goodbye\ndata: {}\n\n"


async def _past(desk: Desk, after: int | None) -> AsyncIterator[Heard]:
    """What happened since, up to where the hub has told everybody."""
    while after is not None:
        rows = await desk.read(partial(_events_after, after=after))
        for row in rows:
            yield Heard(Event(*row))
        after = rows[-1][0] if len(rows) == AT_ONCE else None


def _events_after(tx: Transaction, *, after: int) -> list[Row]:
    return tx.all(tx.sql.events_after, after=after, limit=AT_ONCE)


async def _after(request: Request, desk: Desk) -> int | None:
    given = request.headers.get("last-event-id") or request.query_params.get("after")
    if given is None:
        return None
    if not given.isascii() or not given.isdigit() or len(given) > 18:
        raise InvalidInput(f"an event id is a whole number, not {shown(given)}", field="after", hint="Send back the id of the last event.")
    row = await desk.read(lambda tx: tx.one(tx.sql.event_latest))
    if row is not None and int(given) > row[0]:
        raise InvalidInput(f"event {given} has not happened yet", field="after", hint="It is of another store: leave it out.")
    return int(given)


def _wanted(request: Request) -> Wanted:
    query = request.query_params
    types = tuple(part for part in query.get("types", "").split(",") if part)
    thread, workspace, agent = query.get("thread"), query.get("workspaceId"), query.get("agent")

    def wanted(heard: Heard) -> bool:
        event, facts = heard.event, heard.facts
        return (
            (not types or event.event_type.startswith(types))
            and (thread is None or event.thread_id == thread)
            and (workspace is None or facts.get("workspace_id") == workspace)
            and (
                agent is None
                or agent in (event.source, facts.get("agent"), facts.get("assigned_to"), facts.get("to"), facts.get("session"))
            )
        )

    return wanted
