"""Event broadcast: one thread follows the event log of the store and wakes all subscribers in this process, streams and waits alike."""

from __future__ import annotations

import asyncio
import os
from collections import Counter, deque
from collections.abc import Callable
from threading import Thread
from typing import Self

from postroom.core.errors import Refusal, TooMany
from postroom.core.limits import MAX_EVENT_SUMMARY_CHARS, MAX_STREAMS_PER_AGENT, MAX_UNREAD_EVENTS
from postroom.core.records import Event
from postroom.server.http.auth import Caller
from postroom.server.http.responses import encode_json
from postroom.server.runtime.writer import wait_for_thread
from postroom.store import event_log
from postroom.store.interface import Store

PAGE_EVENTS = 500
RETRY_SECONDS = 1.0


class BroadcastEvent:
    """An event with its parsed payload (`facts`) and its Server-Sent Events frame, made once for all subscribers."""

    __slots__ = ("event", "facts", "frame")

    def __init__(self, event: Event) -> None:
        self.event = event
        self.facts = event.payload
        data = {**event.to_json(), "payload": self.facts, "summary": event.summary[:MAX_EVENT_SUMMARY_CHARS]}
        del data["payload_json"]
        self.frame = b"id: %d\nevent: %b\ndata: %b\n\n" % (event.event_id, event.event_type.encode(), encode_json(data))


EventFilter = Callable[[BroadcastEvent], bool]


class EventSubscription:
    """A subscriber. Its user checks the state, waits, and checks again: a wake-up is only a hint.

    `overrun`: more than `MAX_UNREAD_EVENTS` were unread, and all of them were dropped.
    """

    def __init__(self, broadcaster: EventBroadcaster, event_filter: EventFilter, *, streams_to: str | None) -> None:
        self._broadcaster = broadcaster
        self.streams_to = streams_to
        self._filter = event_filter
        self._woken = asyncio.Event()
        self.received: deque[BroadcastEvent] = deque()
        self.overrun = False

    def offer_event(self, event: BroadcastEvent) -> None:
        """Keep an event that the filter wants, and wake the subscriber."""
        if self.overrun or not self._filter(event):
            return
        if len(self.received) >= MAX_UNREAD_EVENTS:
            self.overrun = True
            self.received.clear()
        else:
            self.received.append(event)
        self._woken.set()

    def wake(self) -> None:
        self._woken.set()

    async def wait(self, seconds: float) -> bool:
        """Return whether the subscription was woken before the time was over."""
        try:
            async with asyncio.timeout(max(seconds, 0)):
                await self._woken.wait()
        except TimeoutError:
            return False
        self._woken.clear()
        return True

    def __enter__(self) -> Self:
        self._broadcaster.add_subscription(self)
        return self

    def __exit__(self, *exc: object) -> None:
        self._broadcaster.remove_subscription(self)


class EventBroadcaster:
    """Reads new events of the log in a thread, and offers them to all subscriptions. `latest` is the id of the last one."""

    def __init__(self, store: Store, *, max_streams: int) -> None:
        self._store = store
        self._max_streams = max_streams
        self._loop = asyncio.get_running_loop()
        self._subscriptions: set[EventSubscription] = set()
        self._streams: Counter[str] = Counter()
        self._stop_read_fd, self._stop_write_fd = os.pipe()
        self.stopping = False
        with store.read() as tx:
            self.latest = tx.fetch_one(tx.sql.event_latest) or 0
        self._thread = Thread(target=self._follow_log, args=(self.latest,), name="broadcaster", daemon=True)
        self._thread.start()

    def subscribe(self, event_filter: EventFilter, *, streams_to: str | None = None) -> EventSubscription:
        """Return a subscription, active inside its `with` block. `streams_to` names the caller, whose streams are limited."""
        return EventSubscription(self, event_filter, streams_to=streams_to)

    @property
    def streams(self) -> int:
        """The number of streams that are open."""
        return self._streams.total()

    def check_stream_limit(self, caller: Caller) -> None:
        """Refuse with `TooMany` if the server, or one agent, has too many streams."""
        own_streams = self._streams[caller.name] if caller.agent else 0
        if self.streams >= self._max_streams or own_streams >= MAX_STREAMS_PER_AGENT:
            raise TooMany("too many streams are open already", hint="Come back in a few seconds.", retry_after=5)

    def add_subscription(self, subscription: EventSubscription) -> None:
        if subscription not in self._subscriptions:
            self._subscriptions.add(subscription)
            if subscription.streams_to is not None:
                self._streams[subscription.streams_to] += 1

    def remove_subscription(self, subscription: EventSubscription) -> None:
        if subscription in self._subscriptions:
            self._subscriptions.remove(subscription)
            if subscription.streams_to is not None:
                self._streams[subscription.streams_to] -= 1
                self._streams += Counter()  # drops the names with a count of 0

    def stop(self) -> None:
        """Wake all subscribers. They check `stopping` and end."""
        self.stopping = True
        for subscription in self._subscriptions:
            subscription.wake()

    async def close(self) -> None:
        self.stop()
        os.write(self._stop_write_fd, b".")
        await wait_for_thread(self._thread)
        os.close(self._stop_read_fd)
        os.close(self._stop_write_fd)

    def _publish_events(self, events: list[BroadcastEvent]) -> None:
        for event in events:
            self.latest = event.event.event_id
            for subscription in self._subscriptions:
                subscription.offer_event(event)

    def _end_streams(self, latest: int) -> None:
        """End every stream: another database replaced the store, or events were removed that it had not sent.

        Its clients come again with the id of their last event, and are told.
        """
        self.latest = latest
        for subscription in self._subscriptions:
            subscription.overrun = True
            subscription.received.clear()
            subscription.wake()

    def _follow_log(self, cursor: int) -> None:
        """Read the events after `cursor` whenever the store reports a commit. Runs in the thread."""
        replacements = self._store.replacements
        with self._store.watch() as watch:
            while not self.stopping:
                pause: float | None = None
                try:
                    with self._store.read() as tx:
                        if self._store.replacements != replacements or cursor < event_log.last_removed_event(tx):
                            replacements, cursor = self._store.replacements, tx.fetch_one(tx.sql.event_latest) or 0
                            self._loop.call_soon_threadsafe(self._end_streams, cursor)
                        events = tx.fetch_all(tx.sql.events_after, after=cursor, limit=PAGE_EVENTS)
                except Refusal:  # the store is unreachable or busy: the events are read later
                    events, pause = [], RETRY_SECONDS
                if events:
                    cursor = events[-1].event_id
                    self._loop.call_soon_threadsafe(self._publish_events, [BroadcastEvent(event) for event in events])
                if len(events) < PAGE_EVENTS:
                    watch.wait(pause, self._stop_read_fd)
