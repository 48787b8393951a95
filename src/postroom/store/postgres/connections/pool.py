"""The connections of an open store. Each transaction borrows one, so that threads which share a store do not wait for each other."""

from __future__ import annotations

import os
import select
from threading import Condition
from typing import TYPE_CHECKING

from postroom.core.errors import StoreBusy
from postroom.store import forks
from postroom.store.postgres.connections.pipelined_connection import PipelinedConnection
from postroom.store.postgres.driver import open_connection

if TYPE_CHECKING:
    from postroom.store.postgres.connection_url import ConnectionUrl

MAX_CONNECTIONS = 8  # a server with all its waiters then uses at most 10, with the one that listens
BORROW_TIMEOUT_SECONDS = 10.0


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
        forks.track(self)

    def borrow(self) -> PipelinedConnection:
        """Return a connection that no other thread uses. Refuses with `StoreBusy` if none becomes free in time."""
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
        with self._changed:
            if connection.closed:
                self._discard(connection)
            else:
                self._idle.append(connection)
            self._changed.notify()

    def _discard(self, connection: PipelinedConnection) -> None:
        connection.close()
        self._open.discard(connection)

    def close_idle(self) -> None:
        """Close the connections that no transaction uses: the store is closed, or one of them was found to be lost."""
        with self._changed:
            while self._idle:
                self._discard(self._idle.pop())
            self._changed.notify_all()

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


def _is_lost(connection: PipelinedConnection) -> bool:
    """Return whether an idle connection was closed, here or by the server, whose last message waits to be read."""
    if connection.closed:
        return True
    poll = select.poll()
    poll.register(connection.fileno(), select.POLLIN)
    return bool(poll.poll(0))
