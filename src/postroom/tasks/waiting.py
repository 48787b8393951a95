"""Tells a waiter when time alone will move its task: nobody rings a bell for that."""

from __future__ import annotations

from typing import TYPE_CHECKING

from postroom.core import clock
from postroom.tasks import ledger

if TYPE_CHECKING:
    from postroom.store.port import Store


class Tide:
    def __init__(self, store: Store, task_id: str) -> None:
        self._store = store
        self._task_id = task_id

    def due(self) -> float | None:
        with self._store.read() as tx:
            row = ledger.find(tx, self._task_id)
            return None if row.due_at is None else max((clock.instant(row.due_at) - tx.now()) / clock.SECOND, 0.001)

    def perform(self) -> None:
        """Looking does it."""
