"""Access to the store for all handlers: reads, writes and waits that do not block each other or the event loop."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from queue import SimpleQueue
from threading import Event as Flag
from threading import Lock, Thread
from time import monotonic
from typing import Any, TypeVar

from postroom.core import limits
from postroom.core.errors import Refusal, TooMany
from postroom.people import question_sync
from postroom.people.entries_mirror import EntriesMirror, concerns_entries
from postroom.server.runtime.broadcaster import BroadcastEvent, EventBroadcaster, EventFilter
from postroom.server.runtime.fair_share import FairSlots
from postroom.server.runtime.writer import GroupCommitWriter, wait_for_thread
from postroom.store import open_store
from postroom.store.interface import Store, Transaction
from postroom.work import lapses

T = TypeVar("T")
SYNC_RETRY_SECONDS = 1.0  # after a sync of questions failed
LAPSE_CHECK_SECONDS = 1.0  # between looks for leases that ran out, and for missed events
MAX_CACHED_PAGES = 256
MAX_THREADED_VERBS = 3  # at once: they share one connection, and their transactions take turns
READ_THREADS = 3  # each with a connection of its own
FILE_THREADS = 2
MIRROR_RETRY_SECONDS = 5.0  # after the mirror of the entries could not be written
MIRROR_CHECK_SECONDS = 2.0  # between checks for changes that other programs made to the mirror
MAX_WAIT_SECONDS = 50.0  # less than the minute that clients allow for a call
_log = logging.getLogger("postroom.server")


class StoreAccess:
    """The connections of a server to its store. Create it inside the running event loop, and close it before the loop ends."""

    def __init__(self, location: str, *, data: str | None = None, max_listeners: int = 2000, max_waits: int = 500) -> None:
        self._is_local = "://" not in location
        self._stores: list[Store] = []
        self._reader = self._open_connection(location)
        self._reader_lock = Lock()
        self._waits = 0
        self._max_waits = max_waits
        self._pages: dict[tuple[object, ...], tuple[float, bytes]] = {}
        self._pages_version: int | None = None
        self._shared_store = self._open_connection(location)
        self._thread_slots = FairSlots(MAX_THREADED_VERBS, per_caller=limits.MAX_THREADS_PER_CALLER, max_queued=limits.MAX_QUEUED_CALLS)
        self._verb_threads = ThreadPoolExecutor(MAX_THREADED_VERBS, thread_name_prefix="verb")
        self._read_slots = FairSlots(READ_THREADS, per_caller=limits.MAX_READS_PER_CALLER, max_queued=limits.MAX_QUEUED_CALLS)
        self._read_threads = ThreadPoolExecutor(READ_THREADS, thread_name_prefix="read")
        self._file_slots = FairSlots(FILE_THREADS, per_caller=limits.MAX_THREADS_PER_CALLER, max_queued=limits.MAX_QUEUED_CALLS)
        self._file_threads = ThreadPoolExecutor(FILE_THREADS, thread_name_prefix="file")
        self._idle_readers: SimpleQueue[Store] = SimpleQueue()
        for _ in range(READ_THREADS):
            self._idle_readers.put(self._open_connection(location))
        self.follower = EntriesFollower(self._open_connection(location), data)
        self._writer = GroupCommitWriter(self._open_connection(location), self.follower.update_after_commit)
        self.broadcaster = EventBroadcaster(self._open_connection(location), max_streams=max_listeners)
        self._check_lapses_at = 0.0  # monotonic seconds
        self._sync_task = asyncio.create_task(self._sync_questions())

    def _open_connection(self, location: str) -> Store:
        self._stores.append(open_store(location, door="http"))
        return self._stores[-1]

    async def read(self, look: Callable[[Transaction], T]) -> T:
        """Read one view of the store, on the event loop if the store is local. For small answers only, of at most about 100 KB.

        A small read of a local file takes microseconds, less than the way to a thread. `read_in_thread` is for all others.
        """
        if self._is_local:
            return self._read_view(look)
        return await asyncio.to_thread(self._read_view, look)

    def _read_view(self, look: Callable[[Transaction], T]) -> T:
        with self._reader_lock, self._reader.read() as tx:
            return look(tx)

    async def read_current(self, look: Callable[[Transaction], T]) -> T:
        """Do the same as `read`, after importing changes that other processes made to the store and to the mirror."""
        await self._import_changes()
        return await self.read(look)

    async def read_current_in_thread(self, look: Callable[[Transaction], T]) -> T:
        """Do the same as `read_current`, in a thread, for an answer that may be large."""
        await self._import_changes()

        def read_view(store: Store) -> T:
            with store.read() as tx:
                return look(tx)

        return await self.read_in_thread(read_view)

    async def _import_changes(self) -> None:
        """Import changes of other processes: to the mirror of the entries, and to threads that hold questions."""
        if self.follower.is_mirror_changed():
            await asyncio.to_thread(self.follower.catch_up)
        if await self.read(question_sync.is_behind):
            await self.write(question_sync.sync)

    async def cached_page(self, key: tuple[object, ...], make: Callable[[], Awaitable[bytes]]) -> bytes:
        """Return a cached answer, or make it. An answer is valid until the next commit, or until a deadline falls due."""
        version = self._data_version()
        if version is None or self.follower.is_mirror_changed():
            return await make()
        if version != self._pages_version:
            self._pages.clear()
            self._pages_version = version
        kept = self._pages.get(key)
        if kept is not None and monotonic() < kept[0]:
            return kept[1]
        made = await make()
        due = await self.read(question_sync.seconds_until_deadline)
        if len(self._pages) < MAX_CACHED_PAGES and self._data_version() == version:
            self._pages[key] = (float("inf") if due is None else monotonic() + due, made)
        return made

    def _data_version(self) -> int | None:
        """Return a number that changes with every commit of another connection, or None if the engine has no such number.

        The connection it comes from only reads, so that all commits are made by others.
        """
        return self._reader.data_version() if self._is_local else None  # type: ignore[attr-defined]

    async def read_verb(self, verb: Callable[[Store], T]) -> T:
        """Run a verb that only reads, and opens its own transactions. For small answers only, as `read`."""
        if self._is_local:
            return verb(self._reader)
        return await asyncio.to_thread(verb, self._reader)

    async def read_in_thread(self, verb: Callable[[Store], T]) -> T:
        """Run a verb that only reads, and may read much, in a thread that has a connection of its own.

        Neither the event loop nor a verb that writes waits for it. Encode a large answer inside `verb` too.
        """
        async with self._read_slots.hold_slot():
            return await asyncio.get_running_loop().run_in_executor(self._read_threads, self._run_with_idle_reader, verb)

    def _run_with_idle_reader(self, verb: Callable[[Store], T]) -> T:
        store = self._idle_readers.get()  # there is one for each thread
        try:
            return verb(store)
        finally:
            self._idle_readers.put(store)

    async def run_in_thread(self, verb: Callable[[Store], T], door: str = "http") -> T:
        """Run a verb that writes in many steps in a thread, on a connection that it shares with others of its kind."""
        async with self._thread_slots.hold_slot():
            return await asyncio.get_running_loop().run_in_executor(self._verb_threads, verb, self._shared_store.with_door(door))

    async def read_files(self, read: Callable[[], T]) -> T:
        """Run a function that reads files of a workspace, which may be large or slow, in threads that nothing else uses."""
        async with self._file_slots.hold_slot():
            return await asyncio.get_running_loop().run_in_executor(self._file_threads, read)

    def blocking_store(self, door: str) -> Store:
        """Return the store for a verb that blocks in a thread of its own."""
        return self._shared_store.with_door(door)

    async def write(self, verb: Callable[[Store], T], door: str = "http") -> T:
        """Run a verb of one transaction in the next group commit. Return its result once it is on disk."""
        return await self._writer.run_verb(verb, door)

    async def wait(
        self,
        look: Callable[[], Awaitable[T | None]],
        event_filter: EventFilter,
        seconds: float,
        due: Callable[[Store], float | None] | None = None,
    ) -> T | None:
        """Call `look` until it returns a value, the time is over, or the server stops. Refuses with `TooMany` over `max_waits`.

        `look` is called again after each event that matches. `due` returns the seconds until a deadline may make it return a value.
        """
        if self._waits >= self._max_waits:
            raise TooMany("too many calls are waiting already", hint="Ask without waiting, or come back in a few seconds.", retry_after=5)
        deadline = monotonic() + min(seconds, MAX_WAIT_SECONDS)
        self._waits += 1
        try:
            with self.broadcaster.subscribe(event_filter) as subscription:
                while (result := await look()) is None and not self.broadcaster.stopping:
                    subscription.received.clear()
                    subscription.overrun = False
                    pause = deadline - monotonic()
                    due_seconds = None if due is None else await self.read_verb(due)
                    if due_seconds is not None:
                        pause = min(pause, due_seconds)
                    if not await subscription.wait(pause) and monotonic() >= deadline:
                        return await look()
                return result
        finally:
            self._waits -= 1

    async def _sync_questions(self) -> None:
        """Sync questions after each event that concerns them and when a deadline falls due, and note lapses, until the server stops."""
        with self.broadcaster.subscribe(_concerns_questions) as subscription:
            while not self.broadcaster.stopping:
                subscription.received.clear()
                try:
                    if await self.read(question_sync.is_behind):
                        await self.write(question_sync.sync)
                    await self._note_lapses()
                    pause = await self.read(question_sync.seconds_until_deadline)
                except Exception as error:  # an unreachable or busy store is tried again; no error ends the loop
                    pause = SYNC_RETRY_SECONDS
                    if not isinstance(error, Refusal):
                        _log.exception("the sync of questions failed")
                await subscription.wait(LAPSE_CHECK_SECONDS if pause is None else min(pause, LAPSE_CHECK_SECONDS))

    async def _note_lapses(self) -> None:
        """Write an event for each lease that ran out, so that those who watch its thread learn it."""
        if monotonic() < self._check_lapses_at:
            return
        self._check_lapses_at = monotonic() + LAPSE_CHECK_SECONDS
        if await self.read(lapses.is_lapse_due):
            await self.write(lapses.note_lapses)

    def stop(self) -> None:
        """End all waits and streams. Requests can still read and write."""
        self.broadcaster.stop()

    async def close(self) -> None:
        self.stop()
        for close in (lambda: self._sync_task, self._writer.close, self.broadcaster.close, self.follower.close):
            try:
                await close()
            except Exception:  # the others must be closed too
                _log.exception("the server did not end cleanly")
        for threads in (self._read_threads, self._verb_threads, self._file_threads):
            await asyncio.to_thread(threads.shutdown)
        for store in self._stores:
            store.close()


class EntriesFollower:
    """Keeps the mirror of the entries up to date. Slow work runs in a thread of its own, so that no request waits for it."""

    def __init__(self, store: Store, data: str | None) -> None:
        folder = data or store.data_folder
        self._mirror = None if folder is None else EntriesMirror(store, folder)
        self._wake, self._stop = Flag(), False
        self._catching_up, self._retry_at = Lock(), 0.0
        self._append_entries()  # a killed process may have left entries out
        self._thread = Thread(target=self._run_thread, name="entries-mirror", daemon=True)
        self._thread.start()

    def update_after_commit(self, topics: Iterable[str]) -> None:
        """Update the mirror after a commit if its topics concern entries. Commits of mail do not touch the file."""
        if concerns_entries(topics):
            self._append_entries()

    def _append_entries(self) -> None:
        """Append new entries if that is quick. Otherwise wake the thread."""
        if self._mirror is None or self._catching_up.locked() or not self._mirror.sync(briefly=True):
            self._wake.set()

    def _run_thread(self) -> None:
        while not self._stop:
            is_woken = self._wake.wait(MIRROR_CHECK_SECONDS)
            self._wake.clear()
            if is_woken or self.is_mirror_changed() or self._is_behind():
                self.catch_up()
        self.catch_up()

    def is_mirror_changed(self) -> bool:
        """Return whether another program changed the mirror since the last sync. Costs one `stat`."""
        return self._mirror is not None and self._is_idle() and self._mirror.is_changed_since_sync()

    def _is_behind(self) -> bool:
        """Return whether the mirror lacks entries: other processes made them, or the last sync failed."""
        return self._mirror is not None and self._is_idle() and self._mirror.is_behind()

    def _is_idle(self) -> bool:
        return not self._catching_up.locked() and monotonic() >= self._retry_at

    def catch_up(self) -> None:
        """Sync the mirror and the entries in both directions. Blocks."""
        if self._mirror is not None:
            with self._catching_up:
                if not self._mirror.sync():
                    self._retry_at = monotonic() + MIRROR_RETRY_SECONDS

    async def close(self) -> None:
        self._stop = True
        self._wake.set()
        await wait_for_thread(self._thread)


def _concerns_questions(broadcast: BroadcastEvent) -> bool:
    event_type = broadcast.event.event_type
    return event_type.startswith("thread.") or event_type == "entry.created"


def entry_filter(entry_id: str) -> EventFilter:
    return lambda broadcast: broadcast.event.message_id == entry_id


def agent_filter(agent: str) -> EventFilter:
    """Match events after which an agent may have something to receive: mail, or an answer."""

    def matches(broadcast: BroadcastEvent) -> bool:
        facts: dict[str, Any] = broadcast.facts
        return facts.get("session") == agent or facts.get("agent") == agent or broadcast.event.message_id is None

    return matches


def work_filter(agent: str) -> EventFilter:
    return lambda broadcast: agent in (broadcast.facts.get("assigned_to"), broadcast.facts.get("created_by"), broadcast.facts.get("to"))


def thread_filter(thread_id: str) -> EventFilter:
    return lambda broadcast: broadcast.event.thread_id == thread_id
