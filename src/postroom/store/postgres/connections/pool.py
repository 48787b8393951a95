"""The connections of an open store. Each transaction borrows one, so that threads which share a store do not wait for each other."""

from __future__ import annotations

import os
import select
from threading import Condition
from time import monotonic
from typing import TYPE_CHECKING, Protocol

from postroom.core.errors import StoreBusy
from postroom.store import forks
from postroom.store.postgres.connections.pipelined_connection import PipelinedConnection
from postroom.store.postgres.driver import open_connection

if TYPE_CHECKING:
    from postroom.store.postgres.connection_url import ConnectionUrl

MAX_CONNECTIONS = 8  # a server with all its waiters then uses at most 10, with the one that listens
BORROW_TIMEOUT_SECONDS = 10.0


class Lender(Protocol):
    """The listener of this process, whose connection its only waiter may use, so that a waiting process has one session."""

    def lend(self) -> PipelinedConnection | None:
        """Return the connection for a transaction, or None if others need it."""

    def take_back(self, connection: PipelinedConnection) -> bool:
        """Return whether the connection was the one that was lent."""


class ConnectionPool:
    """Idle connections, the last one used first. A forked child forgets those of its parent and connects anew.

    A connection is opened in the thread that needs it, so that its caller gets the exact refusal at once.
    """

    def __init__(self, address: ConnectionUrl) -> None:
        self.address = address
        self.process = object()  # another one in a forked child
        self._changed = Condition()
        self._idle: list[PipelinedConnection] = []
        self._open: set[PipelinedConnection] = set()
        self._inherited: list[PipelinedConnection] = []
        self._opening = 0
        self._is_closed = False
        self.lender: Lender | None = None
        forks.track(self)

    def borrow(self) -> PipelinedConnection:
        """Return a connection that no other thread uses. Refuses with `StoreBusy` if none becomes free in time."""
        self._is_closed = False
        if not self._idle and self.lender is not None and (lent := self.lender.lend()) is not None:
            return lent
        with self._changed:
            if not self._changed.wait_for(self._has_room, BORROW_TIMEOUT_SECONDS):
                message = f"all {MAX_CONNECTIONS} connections of this process to {self.address.shown} are in use"
                raise StoreBusy(message, hint="Try again, or use fewer threads.")
            while self._idle:
                connection = self._idle.pop()
                if not _is_lost(connection):
                    return connection
                self._discard(connection)
            self._opening += 1
        return self._open_another()

    def _has_room(self) -> bool:
        return bool(self._idle) or len(self._open) + self._opening < MAX_CONNECTIONS

    def _open_another(self) -> PipelinedConnection:
        try:
            connection = PipelinedConnection(open_connection(self.address))
        except BaseException:
            with self._changed:
                self._opening -= 1
                self._changed.notify()
            raise
        with self._changed:
            self._opening -= 1
            self._open.add(connection)
        return connection

    def give_back(self, connection: PipelinedConnection) -> None:
        """Keep a borrowed connection for the next transaction, unless it was closed."""
        if self.lender is not None and self.lender.take_back(connection):
            return
        with self._changed:
            if connection.closed:
                self._discard(connection)
            else:
                connection.idle_since = monotonic()
                self._idle.append(connection)
            self._changed.notify()

    def give_away(self) -> PipelinedConnection | None:
        """Return an idle connection for another use, if there is one. It no longer belongs to the pool."""
        with self._changed:
            while self._idle:
                connection = self._idle.pop()
                self._open.discard(connection)
                if not _is_lost(connection):
                    return connection
                connection.close()
        return None

    def accept(self, connection: PipelinedConnection) -> None:
        """Keep a connection that had another use, unless there are enough, or the store was closed."""
        with self._changed:
            if self._is_closed or not self._has_room():
                connection.close()
                return
            self._open.add(connection)
        self.give_back(connection)

    def _discard(self, connection: PipelinedConnection) -> None:
        connection.close()
        self._open.discard(connection)

    def close_idle(self, *, unused_seconds: float = 0.0) -> None:
        """Close the connections that no transaction uses, or has used for some time."""
        with self._changed:
            now = monotonic()
            for connection in [one for one in self._idle if now - one.idle_since >= unused_seconds]:
                self._idle.remove(connection)
                self._discard(connection)
            self._changed.notify_all()

    def close(self) -> None:
        """Close the idle connections, because the store is closed. A later transaction opens another."""
        self._is_closed = True
        self.close_idle()

    @property
    def next_connection(self) -> PipelinedConnection:
        """The connection that the next transaction of a single thread uses. Tests replace it by one that fails."""
        self.give_back(self.borrow())
        return self._idle[-1]

    @next_connection.setter
    def next_connection(self, connection: PipelinedConnection) -> None:
        with self._changed:
            if self._idle:
                self._open.discard(self._idle.pop())
            self._idle.append(connection)
            self._open.add(connection)

    def before_fork(self) -> None:
        """Do nothing: the parent keeps its connections."""

    def after_fork_in_parent(self) -> None:
        """Do nothing: the parent keeps its connections."""

    def after_fork_in_child(self) -> None:
        """Forget all connections. To close one would end a session of the parent, so only the copies of descriptors are closed."""
        self.process = object()
        self._changed = Condition()  # a thread of the parent may hold the other one
        for connection in self._open:
            if not connection.closed:
                os.close(connection.fileno())
        self._inherited.extend(self._open)
        self._idle, self._open, self._opening = [], set(), 0
        self.lender = None


def _is_lost(connection: PipelinedConnection) -> bool:
    """Return whether an idle connection was closed, here or by the server, whose last message waits to be read."""
    if connection.closed:
        return True
    poll = select.poll()
    poll.register(connection.fileno(), select.POLLIN)
    return bool(poll.poll(0))
