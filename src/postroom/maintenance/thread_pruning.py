"""Pruning of threads that ended long ago, many in one transaction. A thread with too much for that goes in steps."""

from __future__ import annotations

from postroom._fastpath import json_text as jsontext
from postroom.core.states import TERMINAL_STATUSES
from postroom.maintenance import removal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from postroom.core.records.retention import EndedThread, EventSize, ThreadSize
    from postroom.maintenance.paced_batches import PacedBatches
    from postroom.store.interface import Store, Transaction

PAGE_ROWS = 500
MEASURED_THREADS = 50  # of which the texts are read in one view, to know their lengths
MAX_THREAD_ROWS = 100  # of a thread that goes at once


class ThreadPruner:
    """The threads that ended before `before`, whose events are at most `upto`."""

    def __init__(self, store: Store, batches: PacedBatches, *, before: str, upto: int, keep_runs: frozenset[str]) -> None:
        self._store = store
        self._batches = batches
        self._before = before
        self._upto = upto
        self._keep_runs = keep_runs

    def count(self) -> int:
        """Return how many there are."""
        return sum(map(len, self._pages()))

    def run(self) -> int:
        """Remove them, and return how many."""
        total = 0
        for page in self._pages():
            for start in range(0, len(page), MEASURED_THREADS):
                sizes = self._measure(page[start : start + MEASURED_THREADS])
                for thread in sizes:
                    if thread.size > MAX_THREAD_ROWS:
                        self._shorten(thread.thread_id)
                total += self._batches.run_parts(sizes, self._remove, size_of=lambda thread: min(thread.size, MAX_THREAD_ROWS))
        return total

    def _pages(self) -> Iterator[list[EndedThread]]:
        for status in sorted(TERMINAL_STATUSES):
            after_at, after_id = "", ""
            while True:
                place = {"after_at": after_at, "after_id": after_id, "before": self._before}
                with self._store.read() as tx:
                    page = tx.fetch_all(tx.sql.prune_threads, status=status, limit=PAGE_ROWS, **place)
                yield [row for row in page if row.run_id not in self._keep_runs]
                if len(page) < PAGE_ROWS:
                    break
                after_at, after_id = page[-1].updated_at, page[-1].thread_id

    def _measure(self, rows: Sequence[EndedThread]) -> list[ThreadSize]:
        with self._store.read() as tx:
            return tx.fetch_all(tx.sql.prune_thread_sizes, ids=jsontext.dumps([row.thread_id for row in rows]))

    def _shorten(self, thread_id: str) -> None:
        """Remove all but the newest event and its message, the oldest first."""
        after = 0
        while page := self._read_event_sizes(thread_id, after):
            self._batches.run_parts(page, lambda tx, part: self._remove_beginning(tx, thread_id, part[-1].event_id), size_of=_size_of_event)
            after = page[-1].event_id

    def _read_event_sizes(self, thread_id: str, after: int) -> list[EventSize]:
        with self._store.read() as tx:
            return tx.fetch_all(tx.sql.prune_event_sizes, thread_id=thread_id, after=after, limit=PAGE_ROWS)

    def _remove_beginning(self, tx: Transaction, thread_id: str, until: int) -> int:
        held = self._lock(tx, [thread_id])
        tx.execute(tx.sql.prune_thread_events, ids=jsontext.dumps(held), upto=min(until, self._upto))
        removal.remove_messages(tx, held, until=until)
        return 0

    def _remove(self, tx: Transaction, threads: Sequence[ThreadSize]) -> int:
        """Remove threads with their events."""
        held = self._lock(tx, [thread.thread_id for thread in threads])
        tx.execute(tx.sql.prune_thread_events, ids=jsontext.dumps(held), upto=self._upto)
        removal.remove_threads(tx, held)
        return len(held)

    def _lock(self, tx: Transaction, thread_ids: Sequence[str]) -> list[str]:
        """Return the threads that have not changed since they were found, and that no other transaction has locked."""
        return tx.fetch_all(tx.sql.prune_threads_held, ids=jsontext.dumps(list(thread_ids)), before=self._before)


def _size_of_event(event: EventSize) -> int:
    return event.size
