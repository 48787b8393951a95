"""The desk: what every face of the server works with. Reading, writing, waiting, each without holding the others up."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from threading import Event as Flag
from threading import Lock, Thread
from time import monotonic
from typing import Any, TypeVar

from postroom.core.errors import Refusal, TooMany
from postroom.people import folding
from postroom.people.twin import Twin
from postroom.server.committing import Committer, ended
from postroom.server.hub import Heard, Hub, Wanted
from postroom.store import open_store
from postroom.store.port import Store, Transaction

T = TypeVar("T")
PAGES = 256  # kept at once
ASIDE = 3  # verbs that run beside the others at once; their transactions take turns
TRY_AGAIN = 5.0  # seconds after a twin could not be written
_log = logging.getLogger("postroom.server")
FOREIGN = 2.0  # seconds between looks at what others wrote into the twin
_NO_FILE = (0, 0, 0)
LONGEST_WAIT = 50.0  # clients give a call a minute


class Desk:
    """Opened inside the running loop; closed before it ends."""

    def __init__(self, place: str, *, data: str | None = None, most_listeners: int = 2000, most_waits: int = 500) -> None:
        self._local = "://" not in place
        self._open: list[Store] = []
        self._reader = self._opened(place)
        self._reading = Lock()
        self._waits, self._most_waits = 0, most_waits
        self._pages: dict[tuple[object, ...], tuple[float, bytes]] = {}
        self._pages_of: int | None = None
        self._aside, self._few = self._opened(place), asyncio.Semaphore(ASIDE)
        self.follower = Follower(self._opened(place), data)
        self._committer = Committer(self._opened(place), self.follower.follow)
        self.hub = Hub(self._opened(place), most=most_listeners)
        self._chores = asyncio.create_task(self._keep_up())

    def _opened(self, place: str) -> Store:
        self._open.append(open_store(place, door="http"))
        return self._open[-1]

    async def read(self, look: Callable[[Transaction], T]) -> T:
        """One view of the store. A local one answers in microseconds, faster than a thread could be asked."""
        if self._local:
            return self._look(look)
        return await asyncio.to_thread(self._look, look)

    def _look(self, look: Callable[[Transaction], T]) -> T:
        with self._reading, self._reader.read() as tx:
            return look(tx)

    async def fresh(self, look: Callable[[Transaction], T]) -> T:
        """The same, of a room that has folded in what others wrote, in the store and in the twin."""
        if self.follower.changed():
            await asyncio.to_thread(self.follower.catch_up)
        if await self.read(folding.is_behind):
            await self.write(folding.fold)
        return await self.read(look)

    async def page(self, key: tuple[object, ...], make: Callable[[], Awaitable[bytes]]) -> bytes:
        """An answer that is made once, and given again until anything was committed or fell due."""
        version = self._version()
        if version is None or self.follower.changed():
            return await make()
        if version != self._pages_of:
            self._pages.clear()
            self._pages_of = version
        kept = self._pages.get(key)
        if kept is not None and monotonic() < kept[0]:
            return kept[1]
        made, due = await make(), await self.read(folding.next_due)
        if len(self._pages) < PAGES and self._version() == version:
            self._pages[key] = (float("inf") if due is None else monotonic() + due, made)
        return made

    def _version(self) -> int | None:
        """A number that changes with every commit of another connection, where there is one; ours only reads."""
        return self._reader.data_version() if self._local else None  # type: ignore[attr-defined]

    async def ask(self, verb: Callable[[Store], T]) -> T:
        """A verb that only reads, and opens its own views."""
        if self._local:
            return verb(self._reader)
        return await asyncio.to_thread(verb, self._reader)

    async def aside(self, verb: Callable[[Store], T], door: str = "http") -> T:
        """A verb that reads much, or that writes in many steps: in a thread and on a connection of its own, so that nobody waits for it."""
        async with self._few:
            return await asyncio.to_thread(verb, self._aside.through(door))

    def apart(self, door: str) -> Store:
        """The store for a thread that waits by itself."""
        return self._aside.through(door)

    async def write(self, verb: Callable[[Store], T], door: str = "http") -> T:
        return await self._committer.run(verb, door)

    async def wait(
        self, look: Callable[[], Awaitable[T | None]], wanted: Wanted, seconds: float, due: Callable[[Store], float | None] | None = None
    ) -> T | None:
        """Look until something is found, the time is over, or the server stops. `due`: in how many seconds time alone may bring it."""
        if self._waits >= self._most_waits:
            raise TooMany("too many calls are waiting already", hint="Ask without waiting, or come back in a few seconds.", retry_after=5)
        until = monotonic() + min(seconds, LONGEST_WAIT)
        self._waits += 1
        try:
            with self.hub.listen(wanted) as ear:
                while (found := await look()) is None and not self.hub.stopping:
                    ear.heard.clear()
                    ear.overrun = False
                    left, soon = until - monotonic(), None if due is None else await self.ask(due)
                    if not await ear.wait(left if soon is None else min(left, soon)) and monotonic() >= until:
                        return await look()
                return found
        finally:
            self._waits -= 1

    async def _keep_up(self) -> None:
        """Fold in what happens as it happens, and carry out deadlines when they fall due."""
        with self.hub.listen(
            lambda heard: heard.event.event_type.startswith("thread.") or heard.event.event_type == "entry.created"
        ) as ear:
            while not self.hub.stopping:
                ear.heard.clear()
                try:
                    if await self.read(folding.is_behind):
                        await self.write(folding.fold)
                    pause = await self.read(folding.next_due)
                except Exception as error:  # a store that is away or busy is asked again; nothing ends the chores
                    pause = 1.0
                    if not isinstance(error, Refusal):
                        _log.exception("a chore failed")
                await ear.wait(60.0 if pause is None else min(pause, 60.0))

    def stop(self) -> None:
        self.hub.stop()

    async def close(self) -> None:
        self.stop()
        for end in (lambda: self._chores, self._committer.close, self.hub.close, self.follower.close):
            try:
                await end()
            except Exception:  # the others are to end too
                _log.exception("the server did not end cleanly")
        for store in self._open:
            store.close()


class Follower:
    """Keeps the twin up to date. What takes long is done in a thread of its own: nobody waits for it."""

    def __init__(self, store: Store, data: str | None) -> None:
        folder = data or store.data
        self._twin = None if folder is None else Twin(store, folder)
        self._wake, self._stop = Flag(), False
        self._one, self._not_before = Lock(), 0.0
        self.follow()  # what somebody who was killed left undone
        self._thread = Thread(target=self._work, name="twin", daemon=True)
        self._thread.start()

    def follow(self) -> None:
        """After a commit: append what is new, if that is quickly done; else as soon as there is time."""
        if self._twin is None or self._one.locked() or not self._twin.sync(briefly=True):
            self._wake.set()

    def _work(self) -> None:
        while not self._stop:
            woken = self._wake.wait(FOREIGN)
            self._wake.clear()
            if woken or self.changed():
                self.catch_up()
        self.catch_up()

    def changed(self) -> bool:
        """Whether somebody else wrote into it since we looked. One look at the file system."""
        if self._twin is None or self._one.locked() or monotonic() < self._not_before:
            return False
        return self._twin.state() != (self._twin.noted or _NO_FILE)

    def catch_up(self) -> None:
        if self._twin is not None:
            with self._one:
                if not self._twin.sync():
                    self._not_before = monotonic() + TRY_AGAIN

    async def close(self) -> None:
        self._stop = True
        self._wake.set()
        await ended(self._thread)


def of_entry(entry_id: str) -> Wanted:
    return lambda heard: heard.event.message_id == entry_id


def of_agent(agent: str) -> Wanted:
    """What may leave something to receive for an agent: mail, or an answer."""

    def wanted(heard: Heard) -> bool:
        facts: dict[str, Any] = heard.facts
        return facts.get("session") == agent or facts.get("agent") == agent or heard.event.message_id is None

    return wanted


def of_work(agent: str) -> Wanted:
    return lambda heard: agent in (heard.facts.get("assigned_to"), heard.facts.get("created_by"), heard.facts.get("to"))


def of_thread(thread_id: str) -> Wanted:
    return lambda heard: heard.event.thread_id == thread_id
