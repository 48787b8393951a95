"""The hub: one thread hears the store's bell, and whoever waits in this process is told, listeners and waiting calls alike."""

from __future__ import annotations

import asyncio
import os
from collections import Counter, deque
from collections.abc import Callable
from threading import Thread
from typing import Any, Self

import orjson

from postroom.core import jsontext
from postroom.core.errors import Refusal, TooMany
from postroom.core.records import Event
from postroom.server.callers import Caller
from postroom.server.committing import ended
from postroom.store.port import Store

AT_ONCE = 500
MOST_OF_ONE = 100  # streams of one agent
BEHIND = 1000  # events that a listener may leave unread: then it is let go, and resumes where it was
TRY_AGAIN = 1.0


class Heard:
    """An event, with what filters look at, written once for all who get it."""

    __slots__ = ("event", "facts", "frame")

    def __init__(self, event: Event) -> None:
        self.event = event
        self.facts = _object(event.payload_json)
        data = {**event.plain(), "payload": self.facts}
        del data["payload_json"]
        self.frame = b"id: %d\nevent: %b\ndata: %b\n\n" % (event.event_id, event.event_type.encode(), orjson.dumps(data))


def _object(text: str) -> dict[str, Any]:
    """What an event says; of one that another program wrote, and that makes no sense, nothing."""
    try:
        found = jsontext.loads(text)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


Wanted = Callable[[Heard], bool]


class Ear:
    """One who waits. Level-triggered: look, wait, look again."""

    def __init__(self, hub: Hub, wanted: Wanted, *, streams_to: str | None) -> None:
        self._hub = hub
        self.streams_to = streams_to
        self._wanted = wanted
        self._rung = asyncio.Event()
        self.heard: deque[Heard] = deque()
        self.overrun = False

    def tell(self, heard: Heard) -> None:
        if self.overrun or not self._wanted(heard):
            return
        if len(self.heard) >= BEHIND:
            self.overrun = True
            self.heard.clear()
        else:
            self.heard.append(heard)
        self._rung.set()

    def ring(self) -> None:
        self._rung.set()

    async def wait(self, seconds: float) -> bool:
        """Whether it rang before the time was over."""
        try:
            async with asyncio.timeout(max(seconds, 0)):
                await self._rung.wait()
        except TimeoutError:
            return False
        self._rung.clear()
        return True

    def __enter__(self) -> Self:
        self._hub.add(self)
        return self

    def __exit__(self, *exc: object) -> None:
        self._hub.drop(self)


class Hub:
    """Reads the log as it grows. `latest` is how far."""

    def __init__(self, store: Store, *, most: int) -> None:
        self._store = store
        self._most = most
        self._loop = asyncio.get_running_loop()
        self._ears: set[Ear] = set()
        self._streams: Counter[str] = Counter()
        self._stop_reading, self._stop_writing = os.pipe()
        self.stopping = False
        with store.read() as tx:
            row = tx.one(tx.sql.event_latest)
        self.latest: int = row[0] if row else 0
        self._thread = Thread(target=self._listen, args=(self.latest,), name="hub", daemon=True)
        self._thread.start()

    def listen(self, wanted: Wanted, *, streams_to: str | None = None) -> Ear:
        return Ear(self, wanted, streams_to=streams_to)

    def check(self, caller: Caller) -> None:
        """Whether one more stream may be opened. No agent takes all of them."""
        of_one = self._streams[caller.name] if caller.agent else 0
        if self._streams.total() >= self._most or of_one >= MOST_OF_ONE:
            raise TooMany("too many are listening already", hint="Come back in a few seconds.", retry_after=5)

    def add(self, ear: Ear) -> None:
        if ear not in self._ears:
            self._ears.add(ear)
            if ear.streams_to is not None:
                self._streams[ear.streams_to] += 1

    def drop(self, ear: Ear) -> None:
        if ear in self._ears:
            self._ears.remove(ear)
            if ear.streams_to is not None:
                self._streams[ear.streams_to] -= 1
                self._streams += Counter()  # forgets who has none

    def stop(self) -> None:
        """Everybody who waits is told, and goes."""
        self.stopping = True
        for ear in self._ears:
            ear.ring()

    async def close(self) -> None:
        self.stop()
        os.write(self._stop_writing, b".")
        await ended(self._thread)
        os.close(self._stop_reading)
        os.close(self._stop_writing)

    def _publish(self, news: list[Heard]) -> None:
        for heard in news:
            self.latest = heard.event.event_id
            for ear in self._ears:
                ear.tell(heard)

    def _listen(self, cursor: int) -> None:
        with self._store.watch() as bell:
            while not self.stopping:
                pause: float | None = None
                try:
                    with self._store.read() as tx:
                        rows = tx.all(tx.sql.events_after, after=cursor, limit=AT_ONCE)
                except Refusal:  # the store is away, or busy: what happened meanwhile is read afterwards
                    rows, pause = [], TRY_AGAIN
                if rows:
                    cursor = rows[-1][0]
                    self._loop.call_soon_threadsafe(self._publish, [Heard(Event(*row)) for row in rows])
                if len(rows) < AT_ONCE:
                    bell.wait(pause, self._stop_reading)
