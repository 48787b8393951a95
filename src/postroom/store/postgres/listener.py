"""Waiting by LISTEN. One connection and one thread of a process serve all its waiters of a store.

A waiter reads the store after each wait, so that a lost notification costs time and never a message. The thread looks once a second for
events that were committed and not announced, and wakes all waiters if there is one. A thread that listens to single channels cannot know
what was announced elsewhere: it wakes its waiters after any new event.

The only waiter of a process reads by the same connection, so that a waiting process has one session: the listener takes an idle connection
of the pool, lends it to the waiter's transactions, and gives it back to the pool when nobody waits any more.
"""

from __future__ import annotations

import os
import select
from threading import Event, Lock, Thread, get_ident
from time import monotonic
from typing import TYPE_CHECKING, Self

from postroom.core.errors import Refusal, StoreUnreachable
from postroom.store import forks
from postroom.store.postgres.connections.pipelined_connection import PipelinedConnection
from postroom.store.postgres.driver import Connection, Error, open_connection
from postroom.store.postgres.settling import EventSettler

if TYPE_CHECKING:
    from psycopg import Notify

    from postroom.store.postgres.connection_url import ConnectionUrl
    from postroom.store.postgres.connections.pool import ConnectionPool

POLL_SECONDS = 30.0  # the longest wait, in case that even the thread fails
CHECK_SECONDS = 1.0  # between looks for events that were not announced
RECONNECT_SECONDS = 0.5
UNSETTLED_SECONDS = (0.005, 0.25)  # the first and the longest pause between looks for events behind a gap
LINGER_SECONDS = 2.0  # how long the connection is kept after its last waiter
READY_SECONDS = 15.0
LEND_SECONDS = 0.5  # the listener's own statements take some milliseconds; after that, the waiter opens a connection
UNUSED_SECONDS = 5.0  # after which a connection of the pool is closed if the only waiter can do without
MAX_CHANNELS = 16  # with more, a process listens to the channel of all events, whose payload names the others
ALL = -1
LISTENING_MICROSECONDS = 30_000_000
IS_ANNOUNCEMENT_DUE = "SELECT listening_until < extract(epoch FROM clock_timestamp()) * 1000000 + %s FROM meta"
ANNOUNCE_LISTENING = """
    UPDATE meta SET listening_until = CAST(extract(epoch FROM clock_timestamp()) * 1000000 + %s AS bigint)
    WHERE listening_until < extract(epoch FROM clock_timestamp()) * 1000000 + %s"""
IDS_BETWEEN = "SELECT event_id FROM events WHERE event_id > %s AND event_id <= %s"


class PostgresWatch:
    """The watch of one waiter, for channels by number. Without numbers, it is for all events."""

    def __init__(self, address: ConnectionUrl, numbers: set[int], pool: ConnectionPool) -> None:
        self.numbers = numbers or {ALL}
        self.pool = pool
        self.thread = get_ident()
        self._woken = Event()
        self._pipe: tuple[int, int] | None = None
        self._lock = Lock()
        self._listener = find_listener(address)
        self._listener.add(self)
        pool.lender = self._listener

    def wait(self, seconds: float | None, wake: int | None = None) -> None:
        seconds = POLL_SECONDS if seconds is None else min(seconds, POLL_SECONDS)
        if wake is None:
            self._woken.wait(seconds)
        elif not self._woken.is_set():
            poll = select.poll()
            poll.register(wake, select.POLLIN)
            poll.register(self._open_pipe(), select.POLLIN)
            poll.poll(max(seconds, 0) * 1000)
        self._woken.clear()
        self._drain_pipe()

    def wake(self) -> None:
        """End the wait, or the next one. Called by the thread of the listener."""
        with self._lock:
            self._woken.set()
            if self._pipe is not None:
                os.write(self._pipe[1], b".")

    def _open_pipe(self) -> int:
        """Return a descriptor that is readable after `wake`. Most waiters need none."""
        with self._lock:
            if self._pipe is None:
                self._pipe = _open_pipe()
                if self._woken.is_set():
                    os.write(self._pipe[1], b".")
            return self._pipe[0]

    def _drain_pipe(self) -> None:
        if self._pipe is not None:
            try:
                os.read(self._pipe[0], 4096)
            except BlockingIOError:
                pass

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self._listener.remove(self)
        with self._lock:
            pipe, self._pipe = self._pipe, None
        for end in pipe or ():
            os.close(end)


def _open_pipe() -> tuple[int, int]:
    pipe = os.pipe()
    for end in pipe:
        os.set_blocking(end, False)
    return pipe


class Listener:
    """The connection that listens for all waiters of a process, and its thread, which ends some time after the last waiter."""

    def __init__(self, address: ConnectionUrl) -> None:
        self._address = address
        self._lock = Lock()
        self._watches: set[PostgresWatch] = set()
        self._thread: Thread | None = None
        self._interrupt_pipe: tuple[int, int] | None = None  # while the thread runs
        self._connection: PipelinedConnection | None = None
        self._in_use = Lock()  # held by the thread that uses the connection: ours, or the waiter's
        self._lent: PipelinedConnection | None = None
        self._pool: ConnectionPool | None = None  # of the newest waiter
        self._listening: set[int] = set()
        self._settler = EventSettler()
        self._ready = Event()  # what the newest waiter needs is listened to, or failed
        self._error: Refusal | None = None
        self._notified: set[int] = set()
        self._newest, self._newest_before = 0, 0  # the id of the newest event at the last check, and at the check before
        self._unsettled: set[int] = set()  # channels whose waiters look again once all events are settled
        self._pause = UNSETTLED_SECONDS[0]

    def add(self, watch: PostgresWatch) -> None:
        """Register a waiter, and return once its channels are listened to. Raises the refusal if the thread cannot connect."""
        with self._lock:
            self._watches.add(watch)
            self._pool = watch.pool
            if self._thread is not None and self._connection is not None and self._covers(watch.numbers):
                return
            self._ready.clear()
            ready = self._ready
            if self._thread is None:
                self._start_thread()
            self._interrupt()
        if not ready.wait(READY_SECONDS) or self._error is not None:
            self.remove(watch)
            raise self._error or StoreUnreachable(f"{self._address.shown} does not answer", hint="Try again.")

    def remove(self, watch: PostgresWatch) -> None:
        with self._lock:
            self._watches.discard(watch)

    def lend(self) -> PipelinedConnection | None:
        """Return the connection for a transaction of the only waiter's thread, or of any thread if nobody waits. Otherwise None."""
        with self._lock:
            if self._lent is not None or not self._is_free_for({get_ident()}):
                return None
        if self._connection is None or not self._in_use.acquire(timeout=LEND_SECONDS):
            return None
        connection = self._connection
        if connection is None or connection.closed:
            self._in_use.release()
            return None
        self._lent = connection
        return connection

    def take_back(self, connection: PipelinedConnection) -> bool:
        if connection is not self._lent:
            return False
        self._lent = None
        self._in_use.release()
        if connection.closed:
            with self._lock:
                self._interrupt()
        return True

    def _is_free_for(self, threads: set[int]) -> bool:
        return len(self._watches) <= 1 and {watch.thread for watch in self._watches} <= threads

    def _covers(self, numbers: set[int]) -> bool:
        return ALL in self._listening or numbers <= self._listening

    def _start_thread(self) -> None:
        self._error = None
        self._interrupt_pipe = _open_pipe()
        self._thread = Thread(target=self._run, args=(self._interrupt_pipe[0],), name="postgres-listener", daemon=True)
        self._thread.start()

    def _interrupt(self) -> None:
        """Have the thread look at the waiters. The caller holds the lock."""
        if self._interrupt_pipe is not None:
            try:
                os.write(self._interrupt_pipe[1], b".")
            except BlockingIOError:
                pass  # the thread has not read the earlier ones yet

    # The rest runs in the thread.

    def _run(self, interrupted: int) -> None:
        last_used = check_at = monotonic()
        while True:
            try:
                with self._in_use:
                    self._listen()
                    received = self._receive()
                if not received:
                    self._poll(check_at, interrupted)
                with self._in_use:
                    for notify in received or self._receive():
                        self._handle(notify)
                    if monotonic() >= check_at:
                        check_at = monotonic() + CHECK_SECONDS
                        self._check_lost_notifications()
                        self._close_unused()
                    self._wake_unsettled()
            except (Error, Refusal, OSError) as error:
                self._reset(error, interrupted)
            with self._lock:
                if self._watches:
                    last_used = monotonic()
                elif (monotonic() - last_used > LINGER_SECONDS or self._error is not None) and self._in_use.acquire(blocking=False):
                    self._end_thread()
                    self._in_use.release()
                    return

    def _end_thread(self) -> None:
        """Give the connection to the pool. The caller holds both locks."""
        connection, self._connection = self._connection, None
        pool, self._pool = self._pool, None
        if connection is not None and pool is not None and _end_listening(connection):
            pool.accept(connection)
        elif connection is not None:
            connection.close()
        for end in self._interrupt_pipe or ():
            os.close(end)
        self._thread = self._interrupt_pipe = None

    def _listen(self) -> None:
        """Connect if necessary, and listen to what the waiters need."""
        is_new = self._connection is None
        if self._connection is None:
            self._listening = set()
            self._connection = (self._pool and self._pool.give_away()) or PipelinedConnection(open_connection(self._address))
        driver = self._connection.driver
        with self._lock:
            needed = set[int]().union(*(watch.numbers for watch in self._watches)) - self._listening
            if ALL in self._listening:
                needed = set()
            elif ALL in needed or len(needed | self._listening) > MAX_CHANNELS:
                needed = {ALL}
        for number in needed:
            name = "all" if number == ALL else str(number)
            driver.execute(f"LISTEN {self._address.schema}_{name}".encode())  # safe: the checked schema name and a number
        if is_new:
            _declare_listening(driver)
        if ALL in needed:
            self._newest_before = self._newest = self._settler.settle(driver)[1]
        with self._lock:
            self._listening |= needed
            self._error = None
            if all(self._covers(watch.numbers) for watch in self._watches):
                self._ready.set()
        if is_new:
            self._wake_all()  # notifications before this LISTEN were missed

    def _receive(self) -> list[Notify]:
        """Return the notifications that have come. Those that came during a statement are not in the socket any more."""
        assert self._connection is not None
        return list(self._connection.driver.notifies(timeout=0))

    def _poll(self, check_at: float, interrupted: int) -> None:
        """Wait for a notification, for the time of the next look, or for `_interrupt`."""
        assert self._connection is not None
        poll = select.poll()
        poll.register(interrupted, select.POLLIN)
        poll.register(self._connection.fileno(), select.POLLIN)
        left = self._pause if self._unsettled else check_at - monotonic()
        if interrupted in {descriptor for descriptor, _ in poll.poll(max(left, 0) * 1000)}:
            os.read(interrupted, 4096)

    def _handle(self, notify: Notify) -> None:
        name = notify.channel.rpartition("_")[2]
        if name != "all":
            self._wake_channels({int(name)})
            return
        numbers, _, event_ids = notify.payload.partition(" ")
        if not numbers:  # too many to be named
            self._wake_all()
            return
        self._notified.update(map(int, event_ids.split(",")))
        self._wake_channels({ALL, *map(int, numbers.split(","))})

    def _wake_channels(self, numbers: set[int]) -> None:
        self._unsettled |= numbers
        with self._lock:
            woken = [watch for watch in self._watches if not numbers.isdisjoint(watch.numbers)]
        for watch in woken:
            watch.wake()

    def _wake_all(self) -> None:
        with self._lock:
            numbers = {ALL}.union(*(watch.numbers for watch in self._watches))
        self._wake_channels(numbers)

    def _wake_unsettled(self) -> None:
        """Wake waiters again after a gap before their events is closed, and settle gaps that nothing will close."""
        if not self._unsettled:
            return
        assert self._connection is not None
        is_settled, _ = self._settler.settle(self._connection.driver)
        if not is_settled:
            self._pause = min(self._pause * 2, UNSETTLED_SECONDS[1])
            return
        if self._pause > UNSETTLED_SECONDS[0]:
            self._wake_channels(set(self._unsettled))
        self._unsettled, self._pause = set(), UNSETTLED_SECONDS[0]

    def _check_lost_notifications(self) -> None:
        """Wake all waiters if an event was committed before the last check, and has not been announced since."""
        assert self._connection is not None
        driver = self._connection.driver
        _declare_listening(driver)
        is_settled, newest = self._settler.settle(driver, store_after=1)
        if not is_settled:
            self._unsettled.add(ALL)
        if ALL in self._listening:
            committed = {event_id for (event_id,) in driver.execute(IDS_BETWEEN, (self._newest_before, self._newest))}
            is_lost = not committed <= self._notified
            self._notified = {event_id for event_id in self._notified if event_id > self._newest}
        else:  # most events are for others, and are not announced here
            is_lost = newest != self._newest
        self._newest_before, self._newest = self._newest, newest
        if is_lost:
            self._wake_all()

    def _close_unused(self) -> None:
        """Close connections of the pool that the only waiter can do without."""
        with self._lock:
            pool = self._pool if self._is_free_for({watch.thread for watch in self._watches}) else None
        if pool is not None:
            pool.close_idle(unused_seconds=UNUSED_SECONDS)

    def _reset(self, error: Exception, interrupted: int) -> None:
        """Close the connection. Waiters read the store, so that they learn what is wrong with it, and the thread tries again."""
        with self._in_use:
            if self._connection is not None:
                self._connection.close()
                self._connection = None
        with self._lock:
            if not self._ready.is_set():
                self._error = error if isinstance(error, Refusal) else StoreUnreachable(f"{self._address.shown}: {error}")
                self._ready.set()
            waiting = bool(self._watches)
        self._wake_all()
        if waiting and select.select([interrupted], [], [], RECONNECT_SECONDS)[0]:
            os.read(interrupted, 4096)


def _declare_listening(connection: Connection) -> None:
    """Note in the store that some process listens, so that writers send notifications. Only one of many processes has to write it."""
    [(is_due,)] = connection.execute(IS_ANNOUNCEMENT_DUE, (LISTENING_MICROSECONDS // 2,)).fetchall()
    if not is_due:
        return
    try:
        with connection.transaction():
            connection.execute("SET LOCAL synchronous_commit TO off")
            connection.execute(ANNOUNCE_LISTENING, (LISTENING_MICROSECONDS, LISTENING_MICROSECONDS // 2))
    except Error:
        if connection.closed:
            raise
        # Without the right to write, this process finds events by its own looks, unless another one has announced that it listens.


def _end_listening(connection: PipelinedConnection) -> bool:
    """Return whether the connection can be used for something else."""
    try:
        connection.driver.execute("UNLISTEN *")
        list(connection.driver.notifies(timeout=0))
    except Error:
        return False
    return True


class _Listeners:
    """The listeners of this process. A forked child has none: threads do not survive a fork."""

    def __init__(self) -> None:
        self.lock = Lock()
        self.by_address: dict[tuple[str, str], Listener] = {}
        self.inherited: list[Listener] = []
        forks.track(self)

    def before_fork(self) -> None:
        """Do nothing: the parent keeps its listeners."""

    def after_fork_in_parent(self) -> None:
        """Do nothing: the parent keeps its listeners."""

    def after_fork_in_child(self) -> None:
        self.lock = Lock()
        for listener in self.by_address.values():
            if listener._connection is not None and not listener._connection.closed:
                os.close(listener._connection.fileno())
        self.inherited.extend(self.by_address.values())
        self.by_address = {}


_listeners = _Listeners()


def find_listener(address: ConnectionUrl) -> Listener:
    """Return the listener of this process for a store."""
    key = (address.url, address.schema)
    with _listeners.lock:
        if key not in _listeners.by_address:
            _listeners.by_address[key] = Listener(address)
        return _listeners.by_address[key]
