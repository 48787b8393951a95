"""Small write transactions that leave room for other writers. Pruning makes all its changes through them."""

from __future__ import annotations

from collections import deque
from statistics import median
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

# No writer should wait more than 5 ms. A transaction's length is only known afterwards, so we aim lower.
HOLD_SECONDS, QUIET_HOLD_SECONDS = 0.0016, 0.003  # while others write, and while nobody does
QUIET_AFTER_SECONDS = 0.25  # without a commit of anybody else
REST_FACTOR = 2.3  # how much longer other writers have the store between two transactions than one has it
MAX_REST_SECONDS = 0.05
FIRST_ROW_SECONDS = 0.0005  # that one item of an unknown kind is expected to take
MEDIAN_OF = 7  # transactions. One that waited for a core does not make the next ones small
MAX_BATCH_ROWS = 400
WORK_SHARE = 0.6  # of the time that a transaction may take: the rest is for its COMMIT
BATCHES_PER_COPY = 2  # between two copies of the log


class PacedBatches:
    """Runs write transactions one after another that hold the store shortly, with a pause after each while others write."""

    def __init__(self, store: Store, *, is_stopping: Callable[[], bool] = lambda: False) -> None:
        self._store = store
        self._is_stopping = is_stopping
        self._shared = SharedFile(store)
        self._others_wrote_at = monotonic()
        self._row_seconds: dict[str, deque[float]] = {}  # that one item took of the last transactions, by the function that changes it
        self._aim_seconds = HOLD_SECONDS
        self._uncopied = 0

    def run_all(self, items: Sequence[T], change: Callable[[Transaction, T], int], *, size_of: Callable[[T], int] = lambda _: 1) -> int:
        """Call `change` for each item, as many in one transaction as fit, and return the sum of the results.

        `size_of` returns how much there is to do for an item, in rows.
        """

        def change_until_late(tx: Transaction, part: Sequence[T]) -> tuple[int, int]:
            late, total, count = monotonic() + self._aim_seconds * WORK_SHARE, 0, 0
            while count < len(part) and (not count or monotonic() < late):  # these may take longer than the ones before
                total += change(tx, part[count])
                count += 1
            return total, count

        return self._run_parts(items, change_until_late, change.__qualname__, size_of)

    def run_parts(
        self, items: Sequence[T], change: Callable[[Transaction, Sequence[T]], int], *, size_of: Callable[[T], int] = lambda _: 1
    ) -> int:
        """Do as `run_all`, with a `change` that takes all items of one transaction at once."""
        return self._run_parts(items, lambda tx, part: (change(tx, part), len(part)), change.__qualname__, size_of)

    def _run_parts(
        self, items: Sequence[T], change: Callable[[Transaction, Sequence[T]], tuple[int, int]], kind: str, size_of: Callable[[T], int]
    ) -> int:
        """Change as many items at once as took the time that a transaction may take. `change` returns a result and how many it changed."""
        total, start, sizes = 0, 0, [size_of(item) for item in items]
        measured = self._row_seconds.setdefault(kind, deque(maxlen=MEDIAN_OF))
        while start < len(items):
            row_seconds = median(measured) if measured else FIRST_ROW_SECONDS
            end = _find_end(sizes, start, min(self._aim_seconds / row_seconds, MAX_BATCH_ROWS))
            (result, count), held_seconds = self._run(lambda tx, part=items[start:end]: change(tx, part))  # type: ignore[misc]
            measured.append(held_seconds / sum(sizes[start : start + count]))
            start += count
            total += result
        return total

    def run_once(self, change: Callable[[Transaction], object]) -> None:
        """Call `change` in one transaction. Raises `Interrupted` if the caller is stopping."""
        self._run(change)

    def sync(self) -> None:
        """Wait until all transactions are on the disk. A power cut before may undo the last ones."""
        self._shared.sync()

    def _run(self, change: Callable[[Transaction], T]) -> tuple[T, float]:
        """Run one transaction, and leave room for others. Return its result, and for how many seconds it held the store."""
        if self._is_stopping():
            raise Interrupted("pruning was stopped", hint="What was removed stays removed. The next run goes on.")
        result, waited_seconds, held_seconds = _run_and_measure(self._store, change, self._shared)
        left_at = self._shared.left_at()
        self._uncopied += 1
        if self._uncopied >= BATCHES_PER_COPY:
            self._uncopied = 0
            self._shared.copy_log()
        self._make_room(left_at, waited_seconds, held_seconds)
        return result, held_seconds

    def _make_room(self, left_at: float, waited_seconds: float, held_seconds: float) -> None:
        """Leave the store to other writers for a while, if there are any. They also have it while this one waits for its turn."""
        if self._shared.have_others_written():
            self._others_wrote_at = monotonic()
        is_quiet = monotonic() - self._others_wrote_at > QUIET_AFTER_SECONDS
        self._aim_seconds = QUIET_HOLD_SECONDS if is_quiet else HOLD_SECONDS
        if not is_quiet:
            rest_seconds = min(held_seconds * REST_FACTOR - waited_seconds, MAX_REST_SECONDS)
            sleep(max(left_at + rest_seconds - monotonic(), 0))


def _find_end(sizes: Sequence[int], start: int, most: float) -> int:
    """Return the end of the items from `start` on that have `most` rows together: one item at least."""
    end, size = start + 1, sizes[start]
    while end < len(sizes) and size + sizes[end] <= most:
        size += sizes[end]
        end += 1
    return end


@retry_on_contention
def _run_and_measure(store: Store, change: Callable[[Transaction], T], shared: SharedFile) -> tuple[T, float, float]:
    """Run one transaction. Return its result, and for how many seconds it waited for the store and held it, its COMMIT included."""
    asked = monotonic()
    with store.write() as tx:
        began = monotonic()
        shared.defer_sync(tx)
        result = change(tx)
    return result, began - asked, shared.left_at() - began
