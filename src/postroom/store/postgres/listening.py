"""Waiting by LISTEN: level-triggered, so that a notification that is lost costs a look and never a message."""

from __future__ import annotations

import select
from time import monotonic
from typing import TYPE_CHECKING, Self

from postroom.core.errors import StoreAway, StoreBusy
from postroom.store.postgres.driver import Connection, Error, connect

if TYPE_CHECKING:
    from postroom.store.postgres.engine import PostgresStore

LOOK_AGAIN = 5.0
TRY_AGAIN = 0.5


class ListenWatch:
    """A waiter's watch: a connection of its own, made again when it is lost."""

    def __init__(self, store: PostgresStore, channels: list[str]) -> None:
        self._store = store
        self._channels = channels
        self._connection: Connection | None = None
        self._listen()

    def wait(self, seconds: float | None, wake: int | None = None) -> None:
        left = LOOK_AGAIN if seconds is None else min(seconds, LOOK_AGAIN)
        try:
            if self._connection is None:
                self._listen()
                return  # what came while nobody listened is found by looking
            if self._readable(self._connection.fileno(), wake, left):
                for _ in self._connection.notifies(timeout=0):
                    pass  # all of them are one
        except (Error, StoreAway, StoreBusy, OSError):
            self._hang_up()
            self._readable(None, wake, min(left, TRY_AGAIN))

    def _listen(self) -> None:
        connection = connect(self._store.address)
        for channel in self._channels:
            connection.execute(f"LISTEN {channel}")  # names of ours: the schema's, checked, and a number
        self._connection = connection

    def _hang_up(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    @staticmethod
    def _readable(file: int | None, wake: int | None, seconds: float) -> bool:
        poll = select.poll()
        for descriptor in (file, wake):
            if descriptor is not None:
                poll.register(descriptor, select.POLLIN)
        deadline = monotonic() + max(seconds, 0)
        return bool(poll.poll(max(deadline - monotonic(), 0) * 1000))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self._hang_up()
