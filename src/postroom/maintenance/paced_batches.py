"""Small write transactions that leave room for other writers. Pruning makes all its changes through them."""

from __future__ import annotations

from time import monotonic, sleep

from postroom.core.errors import Interrupted
from postroom.store.maintenance.space import SharedFile
from postroom.store.retries import retry_on_contention

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import TypeVar

    from postroom.store.interface import Store, Transaction

    T = TypeVar("T")

# Other writers wait while a transaction holds the store: for 5 ms at most. How long it took is known afterwards, so the aims are lower.
HOLD_SECONDS, QUIET_HOLD_SECONDS = 0.002, 0.003  # while others write, and while nobody does
QUIET_AFTER_SECONDS = 0.25  # without a commit of anybody else
REST_FACTOR = 2.0  # how much longer other writers have the store after a transaction than it had it
MAX_REST_SECONDS = 0.05
FIRST_ROW_SECONDS = 0.0005  # no item of another kind is expected to take less, until it was tried
AVERAGING = 0.2  # the weight of one transaction in the average. A moment without a core must not make the next ones small
MAX_RISE = 4.0
MAX_BATCH_ROWS = 400
BATCHES_PER_COPY = 2  # between two copies of the log


class PacedBatches:
    """Runs write transactions one after another that hold the store shortly, with a pause after each while others write."""

    def __init__(self, store: Store, *, is_stopping: Callable[[], bool] = lambda: False) -> None:
        self._store = store
        self._is_stopping = is_stopping
        self._shared = SharedFile(store)
        self._others_wrote_at = monotonic()
        self._row_seconds = FIRST_ROW_SECONDS  # that one item takes of a transaction: a moving average
        self._aim_seconds = HOLD_SECONDS
        self._uncopied = 0

    def run_all(self, items: Sequence[T], change: Callable[[Transaction, T], int]) -> int:
        """Call `change` for each item, as many in one transaction as fit, and return the sum of the results."""
        total, start = 0, 0
        self._row_seconds = max(self._row_seconds, FIRST_ROW_SECONDS)
        while start < len(items):
            part = items[start : start + min(max(int(self._aim_seconds / self._row_seconds), 1), MAX_BATCH_ROWS)]
            start += len(part)
            total += self.run_once(lambda tx, part=part: sum([change(tx, item) for item in part]), rows=len(part))  # type: ignore[misc]
        return total

    def run_once(self, change: Callable[[Transaction], int], *, rows: int = 0) -> int:
        """Call `change` in one transaction, and return its result. Raises `Interrupted` if the caller is stopping.

        `rows` is the number of its items, if the caller may choose it.
        """
        if self._is_stopping():
            raise Interrupted("pruning was stopped", hint="What was removed stays removed. The next run goes on.")
        result, held_seconds = _run_and_measure(self._store, change, self._shared)
        left_at = self._shared.left_at()
        if rows:
            self._row_seconds += AVERAGING * (min(held_seconds / rows, MAX_RISE * self._row_seconds) - self._row_seconds)
        self._uncopied += 1
        if self._uncopied >= BATCHES_PER_COPY:
            self._uncopied = 0
            self._shared.copy_log()
        self._make_room(left_at, held_seconds)
        return result

    def _make_room(self, left_at: float, held_seconds: float) -> None:
        """Leave the store to other writers for a while, if there are any."""
        if self._shared.have_others_written():
            self._others_wrote_at = monotonic()
        is_quiet = monotonic() - self._others_wrote_at > QUIET_AFTER_SECONDS
        self._aim_seconds = QUIET_HOLD_SECONDS if is_quiet else HOLD_SECONDS
        if not is_quiet:
            rest_seconds = min(held_seconds * REST_FACTOR, MAX_REST_SECONDS)
            sleep(max(left_at + rest_seconds - monotonic(), 0))


@retry_on_contention
def _run_and_measure(store: Store, change: Callable[[Transaction], int], shared: SharedFile) -> tuple[int, float]:
    """Run one transaction. Return its result, and for how many seconds it held the store, its COMMIT included."""
    with store.write() as tx:
        began = monotonic()
        result = change(tx)
    return result, shared.left_at() - began
