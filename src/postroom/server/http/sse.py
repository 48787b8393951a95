"""Server-Sent Events: the event log as a stream that clients can resume, and a stream of wake-ups for waiting agents."""

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
from postroom.core.text import short_repr
from postroom.server.api.mailbox_access import check_receiver, mailbox_filter, resolve_receiver
from postroom.server.http.auth import Caller
from postroom.server.http.endpoint import refuse_unknown_parameters
from postroom.server.http.state import AppState
from postroom.server.runtime.broadcaster import PAGE_EVENTS, BroadcastEvent, EventFilter, EventSubscription
from postroom.server.runtime.store_access import StoreAccess, work_filter
from postroom.store import event_log
from postroom.store.interface import Store, Transaction

PING_SECONDS = 15.0
TOKEN_CHECK_SECONDS = 1.0  # after which a token is checked again, before the next event is sent
MAX_TOPICS = 100
WAKE_COMMENT = b": ring\n\n"
TOPICS: dict[str, Callable[[str], EventFilter]] = {"agent": work_filter, "mail": mailbox_filter}
IsAllowed = Callable[[], Awaitable[bool]]
EncodeEvent = Callable[[BroadcastEvent], bytes]


async def stream_events(request: Request, state: AppState, caller: Caller) -> Response:
    """Stream the events that match the query, from the last event id of the client on."""
    after = await _read_last_event_id(request, state.store_access)
    return await _open_stream(request, state, caller, _query_filter(request), after, attrgetter("frame"))


async def stream_wakes(request: Request, state: AppState, caller: Caller) -> Response:
    """Stream an empty comment whenever there may be something to take for an agent, or in a mailbox. It carries no data."""
    topics = request.query_params.getlist("topic")
    refuse_unknown_parameters(request, "topic")
    if not 0 < len(topics) <= MAX_TOPICS:
        raise InvalidInput(f"name 1 to {MAX_TOPICS} topics, not {len(topics)}", field="topic", hint="As in topic=agent:NAME.")
    filters = [await _topic_filter(state, caller, topic) for topic in topics]

    def matches_any(event: BroadcastEvent) -> bool:
        return any(matches(event) for matches in filters)

    return await _open_stream(request, state, caller, matches_any, None, lambda event: WAKE_COMMENT)


async def _topic_filter(state: AppState, caller: Caller, topic: str) -> EventFilter:
    """Return the filter of a topic such as `agent:NAME`. Refuses a mailbox that the caller may not receive from."""
    kind, _, name = topic.partition(":")
    if kind not in TOPICS:
        raise InvalidInput(f"there is no topic {short_repr(topic)}", field="topic", hint="Known: agent:NAME, mail:SESSION.")
    if kind == "mail":
        name = await resolve_receiver(state.store_access, caller, name)
    return TOPICS[kind](check_receiver(caller, name))


async def _open_stream(
    request: Request, state: AppState, caller: Caller, matches: EventFilter, after: int | None, encode: EncodeEvent
) -> Response:
    if await request.body():  # from here on, only a disconnect can be received
        raise InvalidInput("a stream takes no body", field="body", hint="Put the filters into the query.")
    latest = await state.store_access.read(lambda tx: tx.fetch_one(tx.sql.event_latest))  # the broadcaster may be behind

    async def is_allowed() -> bool:
        """Return whether the token of the request is still valid."""
        try:
            await state.authenticate(request, skip_rate_limit=True)
        except Refusal:
            return False
        return True

    state.store_access.broadcaster.check_stream_limit(caller)  # counted below, and nothing is awaited in between
    return _Stream(state.store_access, caller, matches, _Frames(state.store_access, after, latest or 0, is_allowed, encode))


class _Stream(StreamingResponse):
    """A streaming response that is subscribed from its construction until it ends for any reason."""

    def __init__(self, store_access: StoreAccess, caller: Caller, matches: EventFilter, frames: _Frames) -> None:
        # Subscribed before past events are read, so that no event falls between.
        self._subscription = store_access.broadcaster.subscribe(matches, streams_to=caller.name).__enter__()
        super().__init__(
            frames.generate_frames(self._subscription, matches), media_type="text/event-stream", headers={"X-Accel-Buffering": "no"}
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        with self._subscription:
            await super().__call__(scope, receive, send)


class _Frames:
    """The frames of a stream: past events after `after`, then new ones, for as long as the token is valid."""

    def __init__(self, store_access: StoreAccess, after: int | None, latest: int, is_allowed: IsAllowed, encode: EncodeEvent) -> None:
        self._store_access = store_access
        self._after = after
        self._last = latest if after is None else after
        self._is_allowed = is_allowed
        self._encode = encode

    async def generate_frames(self, subscription: EventSubscription, matches: EventFilter) -> AsyncIterator[bytes]:
        broadcaster = self._store_access.broadcaster
        checked_at = monotonic()
        yield b": connected\n\n"
        try:
            async for past in _read_past_events(self._store_access, self._after):
                self._last = past.event.event_id
                if matches(past):
                    yield self._encode(past)
        except Refusal:  # the answer has begun: the client has left, or it comes again with the id of its last event
            return
        while not broadcaster.stopping and not subscription.overrun:
            if monotonic() - checked_at > TOKEN_CHECK_SECONDS:
                if not await self._is_allowed():
                    return
                checked_at = monotonic()
            while subscription.received:
                received = subscription.received.popleft()
                if received.event.event_id > self._last:
                    yield self._encode(received)
            if not broadcaster.stopping and not subscription.overrun and not await subscription.wait(PING_SECONDS):
                yield b": ping\n\n"
        if broadcaster.stopping:
            yield b"event: goodbye\ndata: {}\n\n"


async def _read_past_events(store_access: StoreAccess, after: int | None) -> AsyncIterator[BroadcastEvent]:
    """Yield the events after `after` up to the newest one, a page at a time. None: no events."""
    while after is not None:
        page = await store_access.read_in_thread(partial(_events_after, after=after))
        for event in page:
            yield BroadcastEvent(event)
        after = page[-1].event_id if len(page) == PAGE_EVENTS else None


def _events_after(store: Store, *, after: int) -> list[Event]:
    with store.read() as tx:
        event_log.check_not_removed(tx, after)  # again: pruning may have overtaken this stream
        return tx.fetch_all(tx.sql.events_after, after=after, limit=PAGE_EVENTS)


async def _read_last_event_id(request: Request, store_access: StoreAccess) -> int | None:
    """Return the id of the last event that the client has, or None. Refuses an id that the store has not reached or has removed."""
    given = request.headers.get("last-event-id") or request.query_params.get("after")
    if given is None:
        return None
    if not given.isascii() or not given.isdigit() or len(given) > 18:
        raise InvalidInput(
            f"an event id is a whole number, not {short_repr(given)}", field="after", hint="Send back the id of the last event."
        )
    return await store_access.read(partial(_check_last_event_id, event_id=int(given)))


def _check_last_event_id(tx: Transaction, *, event_id: int) -> int:
    if event_id > (tx.fetch_one(tx.sql.event_latest) or 0):
        raise InvalidInput(f"event {event_id} has not happened yet", field="after", hint="It belongs to another store: leave it out.")
    event_log.check_not_removed(tx, event_id)
    return event_id


def _query_filter(request: Request) -> EventFilter:
    query = request.query_params
    types = tuple(part for part in query.get("types", "").split(",") if part)
    thread, workspace, agent = query.get("thread"), query.get("workspaceId"), query.get("agent")

    def matches(broadcast: BroadcastEvent) -> bool:
        event, facts = broadcast.event, broadcast.facts
        return (
            (not types or event.event_type.startswith(types))
            and (thread is None or event.thread_id == thread)
            and (workspace is None or facts.get("workspace_id") == workspace)
            and (
                agent is None
                or agent in (event.source, facts.get("agent"), facts.get("assigned_to"), facts.get("to"), facts.get("session"))
            )
        )

    return matches
