"""Waiting by LISTEN. The waiter reads the store after each wait, so that a lost notification costs time and never a message."""

from __future__ import annotations

import select
from time import monotonic
from typing import TYPE_CHECKING, Self

from postroom.core.errors import StoreBusy, StoreUnreachable
from postroom.store.postgres.driver import Connection, Error, open_connection

if TYPE_CHECKING:
    from postroom.store.postgres.engine import PostgresStore

POLL_SECONDS = 5.0
RECONNECT_SECONDS = 0.5


class PostgresWatch:
    """The watch of one waiter. It has a connection of its own, and reconnects when that is lost."""

    def __init__(self, store: PostgresStore, channels: list[str]) -> None:
        self._store = store
        self._channels = channels
        self._connection: Connection | None = None
        self._connect_and_listen()

    def wait(self, seconds: float | None, wake: int | None = None) -> None:
        left = POLL_SECONDS if seconds is None else min(seconds, POLL_SECONDS)
        try:
            if self._connection is None:
                self._connect_and_listen()
                return  # notifications were missed before this LISTEN, so the caller reads the store now
            if self._wait_until_readable(self._connection.fileno(), wake, left):
                for _ in self._connection.notifies(timeout=0):
                    pass  # one wake-up covers all pending notifications
        except (Error, StoreUnreachable, StoreBusy, OSError):
            self._close_connection()
            self._wait_until_readable(None, wake, min(left, RECONNECT_SECONDS))

    def _connect_and_listen(self) -> None:
        connection = open_connection(self._store.address)
        for channel in self._channels:
            connection.execute(f"LISTEN {channel}")  # safe without quotes: the checked schema name and a number
        self._connection = connection

    def _close_connection(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    @staticmethod
    def _wait_until_readable(file: int | None, wake: int | None, seconds: float) -> bool:
        poll = select.poll()
        for descriptor in (file, wake):
            if descriptor is not None:
                poll.register(descriptor, select.POLLIN)
        deadline = monotonic() + max(seconds, 0)
        return bool(poll.poll(max(deadline - monotonic(), 0) * 1000))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self._close_connection()
