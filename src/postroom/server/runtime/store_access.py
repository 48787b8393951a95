"""Access to the store for all handlers: reads, writes and waits that do not block each other or the event loop."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from queue import SimpleQueue
from time import monotonic
from typing import Any, TypeVar, cast

from postroom.core import limits
from postroom.core.errors import Refusal, TooMany
from postroom.people.questions import due_questions
from postroom.server.runtime.alert_thread import AlertThread
from postroom.server.runtime.broadcaster import BroadcastEvent, EventBroadcaster, EventFilter
from postroom.server.runtime.entries_follower import EntriesFollower
from postroom.server.runtime.fair_share import FairSlots
from postroom.server.runtime.idempotency import drop_old_results
from postroom.server.runtime.retention import RetentionRunner
from postroom.server.runtime.writer import GroupCommitWriter
from postroom.store import open_store
from postroom.store.interface import Store, Transaction
from postroom.work import lapses

T = TypeVar("T")
SYNC_RETRY_SECONDS = 1.0  # after a sync of questions failed
DROP_RESULTS_SECONDS = 60.0  # between deletions of old results of calls with an idempotency key
LAPSE_CHECK_SECONDS = 1.0  # between looks for leases that ran out, and for missed events
MAX_CACHED_PAGES = 256
MAX_THREADED_VERBS = 3  # at once: they share one connection, and their transactions take turns
SERVER_WRITE_THREADS = 3  # of group commit on a database server, each with a connection of its own
READ_THREADS = 3  # each with a connection of its own
FILE_THREADS = 2
MAX_WAIT_SECONDS = 50.0  # less than the minute that clients allow for a call
_log = logging.getLogger("postroom.server")


class StoreAccess:
    """The connections of a server to its store. Create it inside the running event loop, and close it before the loop ends."""

    def __init__(self, location: str, *, data: str | None = None, max_listeners: int = 2000, max_waits: int = 500) -> None:
        self._is_local = "://" not in location
        self._stores: list[Store] = []
        self._reader = self._open_connection(location)
        self._waits = 0
        self._max_waits = max_waits
        self._pages: dict[bytes, tuple[float, object]] = {}
        self._pages_version: object | None = None
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
        self.follower = EntriesFollower(self._open_connection(location), data, is_elected=not self._is_local)
        self._writer = GroupCommitWriter(
            self._open_connection(location), self.follower.update_after_commit, threads=1 if self._is_local else SERVER_WRITE_THREADS
        )
        self.broadcaster = EventBroadcaster(self._open_connection(location), max_streams=max_listeners)
        self._retention = RetentionRunner(location)
        self._alerts = AlertThread(self._open_connection(location))
        self._check_lapses_at = 0.0  # monotonic seconds
        self._drop_results_at = monotonic() + DROP_RESULTS_SECONDS
        self._sync_task = asyncio.create_task(self._sync_questions())

    @property
    def queued_writes(self) -> int:
        return self._writer.queued

    def _open_connection(self, location: str) -> Store:
        """Return another connection to a file. A store on a database server is opened once: it has a pool of connections."""
        if self._is_local or not self._stores:
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
        with self._reader.read() as tx:
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
        if await self.read(due_questions.is_behind):
            await self.write(due_questions.sync)

    async def cached_page(self, key: bytes, make: Callable[[], Awaitable[T]], verify: Callable[[Transaction], None]) -> T:
        """Return a cached answer, or make it. An answer is valid until the next commit, or until a deadline falls due.

        `verify` refuses a caller whose token was revoked. It runs in the transaction that compares the cache with the store.
        """
        if not self._is_local:
            await self.read(verify)
            return await make()
        version = self._change_mark(verify)
        if self.follower.is_mirror_changed():
            return await make()
        if version != self._pages_version:
            self._pages.clear()
            self._pages_version = version
        kept = self._pages.get(key)
        if kept is not None and monotonic() < kept[0]:
            return cast(T, kept[1])
        made = await make()
        due = await self.read(due_questions.seconds_until_deadline)
        if len(self._pages) < MAX_CACHED_PAGES and self._change_mark(verify) == version:
            self._pages[key] = (float("inf") if due is None else monotonic() + due, made)
        return made

    def _change_mark(self, verify: Callable[[Transaction], None]) -> object:
        """Return a value that changes with every commit to a local store.

        It includes the latest event, because SQLite's own number was seen to stay the same after commits of other connections.
        """
        with self._reader.read() as tx:
            verify(tx)
            return self._reader.change_mark(), tx.fetch_one(tx.sql.event_latest)  # type: ignore[attr-defined]

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

    async def run_off_loop(self, work: Callable[[], T]) -> T:
        """Run work that may be slow and uses no store, in threads that nothing else uses: reading files of a workspace, parsing."""
        async with self._file_slots.hold_slot():
            return await asyncio.get_running_loop().run_in_executor(self._file_threads, work)

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
                    if await self.read(due_questions.is_behind):
                        await self.write(due_questions.sync)
                    await self._note_lapses()
                    await self._drop_old_results()
                    pause = await self.read(due_questions.seconds_until_deadline)
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

    async def _drop_old_results(self) -> None:
        """Delete old results of calls with an idempotency key."""
        if monotonic() >= self._drop_results_at:
            self._drop_results_at = monotonic() + DROP_RESULTS_SECONDS
            while await self.write(drop_old_results):
                pass

    def stop(self) -> None:
        """End all waits and streams. Requests can still read and write."""
        self.broadcaster.stop()
        self._retention.stop()
        self._alerts.stop()

    async def close(self) -> None:
        self.stop()
        closers = (self._alerts.close, self._retention.close, lambda: self._sync_task, self._writer.close, self.broadcaster.close)
        for close in (*closers, self.follower.close):
            try:
                await close()
            except Exception:  # the others must be closed too
                _log.exception("the server did not end cleanly")
        for threads in (self._read_threads, self._verb_threads, self._file_threads):
            await asyncio.to_thread(threads.shutdown)
        for store in self._stores:
            store.close()


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
    """Match events of threads and tasks that concern an agent."""
    return lambda broadcast: agent in (broadcast.facts.get("assigned_to"), broadcast.facts.get("created_by"), broadcast.facts.get("to"))


def thread_filter(thread_id: str) -> EventFilter:
    return lambda broadcast: broadcast.event.thread_id == thread_id
