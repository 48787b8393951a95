"""Pruning: remove what ended long ago, in small transactions beside other writers.

Nothing that waits for anyone is removed: open threads, tasks and questions, unread and pinned entries, mail that was not acked, and dead
letters stay. Ids that make a repeat safe stay too.
"""

from __future__ import annotations

from postroom._fastpath import json_text as jsontext
from postroom.core import clock
from postroom.core.records.retention import PruneResult
from postroom.mail import sweeping
from postroom.maintenance import queue_pruning, removal
from postroom.maintenance.leftovers import Leftovers, find_last_removable, mark_removed
from postroom.maintenance.paced_batches import PacedBatches
from postroom.maintenance.thread_pruning import ThreadPruner
from postroom.people import entries_mirror, repository
from postroom.people.questions import due_questions
from postroom.store.maintenance import space
from postroom.store.statements.people import PRUNER
from postroom.tasks.settling import settle_tasks

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Sequence

    from postroom.core.records.mail import DeliveryRow
    from postroom.core.records.retention import AgedRow, PartKey
    from postroom.store.interface import Store, Transaction
    from postroom.store.tables import Query

PAGE_ROWS = 500
MAIL_PAGE_ROWS = 100  # each may have 10 MiB, which are read
MAX_HISTORY_EVENTS = 100  # that go with their row. A longer history goes before, in steps


def prune(
    store: Store,
    *,
    older_than_seconds: float,
    keep_runs: Collection[str] = (),
    dry_run: bool = False,
    is_stopping: Callable[[], bool] = lambda: False,
) -> PruneResult:
    """Remove what ended more than `older_than_seconds` ago, and return how much. With `dry_run`, only count it.

    The threads of `keep_runs` stay. A cursor of events behind what was removed is refused from now on. Raises `Interrupted` once
    `is_stopping` returns true.
    """
    if not dry_run:
        due_questions.sync(store)  # apply answers and ended tasks to their entries, before the rows are removed
        settle_tasks(store)
    batches = PacedBatches(store, is_stopping=is_stopping)
    return _Pruner(store, batches, older_than_seconds, frozenset(keep_runs), dry_run=dry_run).run()


class _Pruner:
    """One run of pruning."""

    def __init__(self, store: Store, batches: PacedBatches, older_than_seconds: float, keep_runs: frozenset[str], *, dry_run: bool) -> None:
        self._store = store
        self._batches = batches
        self._keep_runs = keep_runs
        self._dry_run = dry_run
        self._entries_pruning = entries_mirror.EntriesPruning(store)
        with store.read() as tx:
            self._before_at = tx.now() - int(older_than_seconds * clock.MICROSECONDS_PER_SECOND)
        self._before = clock.format_stamp(self._before_at)
        self._last = find_last_removable(store, self._before)
        self._upto = self._last.event_id

    def run(self) -> PruneResult:
        if not self._dry_run:
            self._batches.run_once(lambda tx: mark_removed(tx, self._last))  # first: no cursor may miss an event unawares
        threads = ThreadPruner(self._store, self._batches, before=self._before, upto=self._upto, keep_runs=self._keep_runs)
        counts = {
            "threads": threads.count() if self._dry_run else threads.run(),
            "mail": self._prune_mail(),
            "tasks": self._prune_rows(lambda tx: tx.sql.prune_tasks, self._remove_task, before=self._before),
            "jobs": self._prune_rows(lambda tx: tx.sql.prune_jobs, _remove_job, before=self._before),
        }
        with self._entries_pruning:
            counts["entries"] = self._prune_entries()
        counts["queue_events"], notes = queue_pruning.prune_watched_queues(self._store, self._before_at, dry_run=self._dry_run)
        returned_bytes = 0
        if not self._dry_run:
            Leftovers(self._store, self._batches).prune(upto=self._upto)
            self._batches.sync()
            entries_mirror.update_mirror(self._store)
            returned_bytes, note = space.return_free_pages(self._store, self._batches.run_all)
            notes += [note] * bool(note)
        place = {"next_event_id": self._upto, "returned_bytes": returned_bytes}
        return PruneResult(**counts, **place, dry_run=self._dry_run, note=" ".join(notes))

    def _prune_mail(self) -> int:
        total = 0
        for page in self._pages_of_mail():
            if not self._dry_run:
                self._shorten_histories([(row.msg_id, row.delivery_id) for row in page])
                with self._store.read() as tx:
                    digests = [sweeping.read_digest(tx, row) for row in page]
            total += len(page) if self._dry_run else self._batches.run_all(list(zip(page, digests)), self._remove_mail)
        return total

    def _pages_of_mail(self) -> Iterator[list[DeliveryRow]]:
        after = 0
        while True:
            with self._store.read() as tx:
                page = tx.fetch_all(tx.sql.deliveries_forgettable, before=self._before_at, after=after, limit=MAIL_PAGE_ROWS)
            if not page:
                return
            yield page
            after = page[-1].delivery_id

    def _remove_mail(self, tx: Transaction, item: tuple[DeliveryRow, str | None]) -> int:
        row, digest = item
        return sweeping.remove_message(tx, row, digest, upto=self._upto)

    def _prune_rows(
        self, statement: Callable[[Transaction], Query[AgedRow]], remove: Callable[[Transaction, AgedRow], int], **ages: str | int
    ) -> int:
        """Remove the rows that a statement finds, page by page."""
        total = 0
        for page in self._pages_of_rows(statement, **ages):
            if not self._dry_run:
                self._shorten_histories([(row.id, 0) for row in page])
            total += len(page) if self._dry_run else self._batches.run_all(page, remove)
        return total

    def _pages_of_rows(self, statement: Callable[[Transaction], Query[AgedRow]], **ages: str | int) -> Iterator[list[AgedRow]]:
        after = 0
        while True:
            with self._store.read() as tx:
                page = tx.fetch_all(statement(tx), after=after, upto=self._upto, limit=PAGE_ROWS, **ages)
            if not page:
                return
            yield page
            after = page[-1].position

    def _remove_task(self, tx: Transaction, row: AgedRow) -> int:
        tx.execute(tx.sql.prune_subject_events, subject=row.id, delivery_id=0, upto=self._upto)
        removal.remove_task(tx, row.id)
        return 1

    def _prune_entries(self) -> int:
        """Remove entries, each after its parts: an entry may have many."""
        total = 0
        ages: dict[str, str | int] = {"before": self._before_at // 1000, "before_stamp": self._before}
        for page in self._pages_of_rows(lambda tx: tx.sql.prune_entries, **ages):
            if not self._dry_run:
                if not total:
                    self._batches.run_once(self._begin_entries)
                pieces = self._list_pieces(page)
                self._shorten_histories([(piece.id, 0) for piece, _ in pieces])
                total += self._batches.run_all(
                    pieces, lambda tx, piece: self._remove_piece(tx, *piece, ages), size_of=lambda piece: piece[0].size
                )
            else:
                total += len(page)
        return total

    def _begin_entries(self, tx: Transaction) -> None:
        tx.fetch_all(tx.sql.words_small_pages)
        self._entries_pruning.begin(tx)

    def _list_pieces(self, page: Sequence[AgedRow]) -> list[tuple[AgedRow | PartKey, AgedRow]]:
        """Return the parts of each entry, newest first, and then the entry. Each with the entry."""
        parts: dict[str, list[PartKey]] = {}
        with self._store.read() as tx:
            for part in tx.fetch_all(tx.sql.prune_entry_parts, ids=jsontext.dumps([row.id for row in page])):
                parts.setdefault(part.root_id, []).append(part)
        return [(piece, row) for row in page for piece in (*parts.get(row.id, ()), row)]

    def _remove_piece(self, tx: Transaction, piece: AgedRow | PartKey, row: AgedRow, ages: dict[str, str | int]) -> int:
        """Remove a part of an entry, or the entry itself. Neither if something has happened to the entry since it was found."""
        found = repository.lock_entry_if_exists(tx, piece.id)
        if found is None or not tx.fetch_all(tx.sql.prune_entries, after=row.position - 1, upto=row.position, limit=1, **ages):
            return 0
        tx.execute(tx.sql.prune_subject_events, subject=piece.id, delivery_id=0, upto=self._upto)
        removal.remove_entry_row(tx, found, source=PRUNER)
        return int(piece is row)

    def _shorten_histories(self, subjects: Sequence[tuple[str, int]]) -> None:
        """Remove the events of those that have too many for one transaction, the oldest first. Each has the id of its delivery, or 0."""
        deliveries = dict(subjects)
        with self._store.read() as tx:
            long = tx.fetch_all(tx.sql.prune_subjects_long, ids=jsontext.dumps(list(deliveries)), most=MAX_HISTORY_EVENTS)
        for subject in long:
            after = 0
            while event_ids := self._read_history(subject, after):
                self._batches.run_parts(event_ids, lambda tx, part, s=subject: self._shorten_history(tx, s, deliveries[s], part[-1]))  # type: ignore[misc]
                after = event_ids[-1]

    def _read_history(self, subject: str, after: int) -> list[int]:
        with self._store.read() as tx:
            return tx.fetch_all(tx.sql.prune_subject_event_ids, subject=subject, after=after, upto=self._upto, limit=PAGE_ROWS)

    def _shorten_history(self, tx: Transaction, subject: str, delivery_id: int, until: int) -> int:
        tx.execute(tx.sql.prune_subject_events, subject=subject, delivery_id=delivery_id, upto=until)
        return 0


def _remove_job(tx: Transaction, row: AgedRow) -> int:
    tx.execute(tx.sql.prune_job, job_id=row.id)
    return 1
