"""Wake a waiter when its task's deadline or lease ends: no transaction notifies it then. Used by `Conductor.wait`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from postroom.core import clock
from postroom.tasks import repository

if TYPE_CHECKING:
    from postroom.store.interface import Store


class DueTaskWake:
    """A periodic task of `wait_until` for one task."""

    def __init__(self, store: Store, task_id: str) -> None:
        self._store = store
        self._task_id = task_id

    def seconds_until_due(self) -> float | None:
        """Return the seconds until the deadline or the end of the lease, at least 0.001, or None if there is neither."""
        with self._store.read() as tx:
            row = repository.find_task(tx, self._task_id)
            return None if row.due_at is None else max((clock.parse_stamp(row.due_at) - tx.now()) / clock.MICROSECONDS_PER_SECOND, 0.001)

    def run(self) -> None:
        """Do nothing: the next read settles the task."""
