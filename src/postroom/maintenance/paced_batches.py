"""Small write transactions that leave room for other writers. Pruning makes all its changes through them."""

from __future__ import annotations

from time import monotonic, sleep

from postroom.core.errors import Interrupted
from postroom.store.retries import retry_on_contention

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import TypeVar

    from postroom.store.interface import Store, Transaction

    T = TypeVar("T")

# Other writers wait while a transaction holds the store. The bound is 5 ms. COMMIT waits for the disk, so the aim is lower.
TARGET_HOLD_SECONDS = 0.0015
FIRST_BATCH_ROWS, MIN_BATCH_ROWS, MAX_BATCH_ROWS = 4, 1, 400
REST_FACTOR = 2.0  # how much longer the pause after a transaction is than the transaction was
MAX_REST_SECONDS = 0.05


class PacedBatches:
    """Runs write transactions one after another, each about `TARGET_HOLD_SECONDS` long, with a pause after each."""

    def __init__(
        self, store: Store, *, after_batch: Callable[[], None] | None = None, is_stopping: Callable[[], bool] = lambda: False
    ) -> None:
        self._store = store
        self._is_stopping = is_stopping
        self._after_batch = after_batch
        self._rows = float(FIRST_BATCH_ROWS)
        self.longest_seconds = 0.0

    def run_all(self, items: Sequence[T], change: Callable[[Transaction, T], int]) -> int:
        """Call `change` for each item, as many in one transaction as fit, and return the sum of the results."""
        total, start = 0, 0
        while start < len(items):
            part = items[start : start + int(self._rows)]
            start += len(part)
            total += self.run_once(lambda tx, part=part: sum([change(tx, item) for item in part]))  # type: ignore[misc]
        return total

    def run_once(self, change: Callable[[Transaction], int]) -> int:
        """Call `change` in one transaction, and return its result. Raises `Interrupted` if the caller is stopping."""
        if self._is_stopping():
            raise Interrupted("pruning was stopped", hint="What was removed stays removed. The next run goes on.")
        result, held_seconds = _run_and_measure(self._store, change)
        self.longest_seconds = max(self.longest_seconds, held_seconds)
        growth = min(max(TARGET_HOLD_SECONDS / max(held_seconds, 1e-6), 0.5), 1.5)
        self._rows = min(max(self._rows * growth, MIN_BATCH_ROWS), MAX_BATCH_ROWS)
        if self._after_batch is not None:
            self._after_batch()
        sleep(min(held_seconds * REST_FACTOR, MAX_REST_SECONDS))
        return result


@retry_on_contention
def _run_and_measure(store: Store, change: Callable[[Transaction], int]) -> tuple[int, float]:
    """Run one transaction. Return its result, and for how many seconds it held the store."""
    with store.write() as tx:
        began = monotonic()
        result = change(tx)
    return result, monotonic() - began
