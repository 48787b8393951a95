"""Pruning: remove what ended long ago, in small transactions beside other writers.

Nothing that waits for anyone is removed: open threads, tasks and questions, unread and pinned entries, mail that was not acked, and dead
letters stay. Ids that make a repeat safe stay too.
"""

from __future__ import annotations

from postroom._fastpath import json_text as jsontext
from postroom.core import clock
from postroom.core.records.retention import PruneResult
from postroom.core.states import TERMINAL_STATUSES
from postroom.mail import sweeping
from postroom.maintenance import queue_pruning, removal
from postroom.maintenance.paced_batches import PacedBatches
from postroom.people import entries_mirror
from postroom.people.questions import due_questions
from postroom.store import event_log
from postroom.store.maintenance import space
from postroom.tasks.settling import settle_tasks

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Sequence

    from postroom.core.records.mail import DeliveryRow
    from postroom.core.records.retention import AgedRow, EndedThread, TopicBlock
    from postroom.store.interface import Store, Transaction
    from postroom.store.tables import Query

PAGE_ROWS = 500
MAX_THREAD_EVENTS, THREAD_EVENTS_PER_STEP = 60, 20  # of a thread that goes at once, and of a step if it has more
EVENTS_PER_STEP = 64  # looked at in one transaction
TOPIC_BLOCKS_PER_STEP = 100
SOURCE = "retention"  # named in the events of removed entries


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
        with store.read() as tx:
            self._before_at = tx.now() - int(older_than_seconds * clock.MICROSECONDS_PER_SECOND)
            self._before = clock.format_stamp(self._before_at)
            self._upto = _find_last_event_before(tx, self._before)
            self._removed_before = event_log.last_removed_event(tx)

    def run(self) -> PruneResult:
        if not self._dry_run and self._upto > self._removed_before:
            self._batches.run_once(lambda tx: event_log.mark_removed(tx, self._upto))  # first: no cursor may miss an event unawares
        counts = {
            "threads": self._prune_threads(),
            "mail": self._prune_mail(),
            "tasks": self._prune_in_order(lambda tx: tx.sql.prune_tasks, self._remove_task, before=self._before),
            "jobs": self._prune_in_order(lambda tx: tx.sql.prune_jobs, _remove_old_job, before=self._before),
            "entries": self._prune_in_order(
                lambda tx: tx.sql.prune_entries, self._remove_entry, before=self._before_at // 1000, before_stamp=self._before
            ),
        }
        counts["queue_events"], notes = queue_pruning.prune_watched_queues(self._store, self._before_at, dry_run=self._dry_run)
        returned_bytes = 0
        if not self._dry_run:
            self._clean_up()
            self._batches.sync()
            if counts["entries"]:
                entries_mirror.update_mirror(self._store)
            returned_bytes, note = space.return_free_pages(self._store, self._batches.run_all)
            notes += [note] * bool(note)
        place = {"next_event_id": max(self._upto, self._removed_before), "returned_bytes": returned_bytes}
        return PruneResult(**counts, **place, dry_run=self._dry_run, note=" ".join(notes))

    def _clean_up(self) -> None:
        """Remove what no row refers to any more."""
        self._prune_events()
        self._prune_topics()
        self._prune_read_marks()

    def _prune_threads(self) -> int:
        total = 0
        for status in sorted(TERMINAL_STATUSES):
            for page in self._pages_of_threads(status):
                removable = [row for row in page if row.run_id not in self._keep_runs]
                if not self._dry_run:
                    self._shorten_threads(removable)
                total += len(removable) if self._dry_run else self._batches.run_parts(removable, self._remove_threads)
        return total

    def _pages_of_threads(self, status: str) -> Iterator[list[EndedThread]]:
        after_at, after_id = "", ""
        while True:
            place = {"after_at": after_at, "after_id": after_id, "before": self._before}
            with self._store.read() as tx:
                page = tx.fetch_all(tx.sql.prune_threads, status=status, limit=PAGE_ROWS, **place)
            if page:
                yield page
                after_at, after_id = page[-1].updated_at, page[-1].thread_id
            if len(page) < PAGE_ROWS:
                return

    def _prune_mail(self) -> int:
        total, after = 0, 0
        while True:
            with self._store.read() as tx:
                page: list[DeliveryRow] = tx.fetch_all(tx.sql.deliveries_forgettable, before=self._before_at, after=after, limit=PAGE_ROWS)
            total += len(page) if self._dry_run else self._batches.run_all(page, self._remove_mail)
            if len(page) < PAGE_ROWS:
                return total
            after = page[-1].delivery_id

    def _prune_in_order(
        self, statement: Callable[[Transaction], Query[AgedRow]], remove: Callable[[Transaction, AgedRow], int], **ages: str | int
    ) -> int:
        """Remove the rows that a statement finds, page by page."""
        total, after = 0, 0
        while True:
            with self._store.read() as tx:
                page = tx.fetch_all(statement(tx), after=after, upto=self._upto, limit=PAGE_ROWS, **ages)
            total += len(page) if self._dry_run else self._batches.run_all(page, remove)
            if len(page) < PAGE_ROWS:
                return total
            after = page[-1].position

    def _shorten_threads(self, rows: Sequence[EndedThread]) -> None:
        """Remove all but the last messages and events of threads that have too many for one transaction, the oldest first."""
        with self._store.read() as tx:
            found = jsontext.dumps([row.thread_id for row in rows])
            long = tx.fetch_all(tx.sql.prune_threads_long, thread_ids=found, most=MAX_THREAD_EVENTS)
        for thread_id in long:
            with self._store.read() as tx:
                event_ids = tx.fetch_all(tx.sql.prune_event_ids, thread_id=thread_id)
            ends = event_ids[THREAD_EVENTS_PER_STEP - 1 :: THREAD_EVENTS_PER_STEP]
            self._batches.run_all(ends, lambda tx, until, thread_id=thread_id: self._shorten_thread(tx, thread_id, until))  # type: ignore[misc]

    def _shorten_thread(self, tx: Transaction, thread_id: str, until: int) -> int:
        listed = jsontext.dumps([thread_id])
        held = tx.fetch_all(tx.sql.prune_threads_held, thread_ids=listed, before=self._before)
        tx.execute(tx.sql.prune_thread_events, thread_ids=jsontext.dumps(held), upto=min(until, self._upto))
        removal.remove_messages(tx, held, until=until)
        return len(held)

    def _remove_threads(self, tx: Transaction, rows: Sequence[EndedThread]) -> int:
        """Remove threads with their events, but none that has changed since it was found, or that another transaction has locked."""
        found = jsontext.dumps([row.thread_id for row in rows])
        held = tx.fetch_all(tx.sql.prune_threads_held, thread_ids=found, before=self._before)
        tx.execute(tx.sql.prune_thread_events, thread_ids=jsontext.dumps(held), upto=self._upto)
        removal.remove_threads(tx, held)
        return len(held)

    def _remove_mail(self, tx: Transaction, row: DeliveryRow) -> int:
        return sweeping.remove_message(tx, row, upto=self._upto)

    def _remove_task(self, tx: Transaction, row: AgedRow) -> int:
        tx.execute(tx.sql.prune_subject_events, subject=row.id, upto=self._upto)
        removal.remove_task(tx, row.id)
        return 1

    def _remove_entry(self, tx: Transaction, row: AgedRow) -> int:
        tx.execute(tx.sql.prune_subject_events, subject=row.id, upto=self._upto)
        return removal.remove_entry(tx, row.id, source=SOURCE)

    def _prune_events(self) -> None:
        """Remove the events since the last run that belong to nothing. Those of threads, mail, tasks and entries go with their rows."""
        steps = range(self._removed_before, self._upto, EVENTS_PER_STEP)

        self._batches.run_all(
            steps, lambda tx, after: _remove(tx, tx.sql.prune_events, after=after, until=min(after + EVENTS_PER_STEP, self._upto))
        )

    def _prune_topics(self) -> None:
        """Remove the summaries of blocks whose events no cursor may read any more."""
        until, topic = self._upto // event_log.BLOCK_EVENTS, ""
        while True:
            with self._store.read() as tx:
                found = tx.fetch_one(tx.sql.prune_topic_next, topic=topic)
            if found is None:
                return
            topic = found.topic
            if found.block < until:
                self._prune_topic(found, until)

    def _prune_topic(self, found: TopicBlock, until: int) -> None:
        for first in range(found.block, until, TOPIC_BLOCKS_PER_STEP):
            last = min(first + TOPIC_BLOCKS_PER_STEP, until)
            self._batches.run_all([last], lambda tx, last: _remove(tx, tx.sql.prune_topic, topic=found.topic, until=last))

    def _prune_read_marks(self) -> None:
        """Remove the read marks of threads that are gone."""
        agent_id, thread_id = "", ""
        while True:
            with self._store.read() as tx:
                page = tx.fetch_all(tx.sql.prune_reads_after, agent_id=agent_id, thread_id=thread_id, limit=PAGE_ROWS)
            gone = [mark for mark in page if not mark.has_thread]
            self._batches.run_all(gone, lambda tx, mark: _remove(tx, tx.sql.prune_read, agent_id=mark.agent_id, thread_id=mark.thread_id))
            if len(page) < PAGE_ROWS:
                return
            agent_id, thread_id = page[-1].agent_id, page[-1].thread_id


def _find_last_event_before(tx: Transaction, before: str) -> int:
    """Return the newest removable event that is older than an instant, by bisection: events are in the order of time."""
    low, high = 0, max(tx.fetch_one(tx.sql.prune_event_newest) or 0, 0)
    while low < high:
        middle = (low + high + 1) // 2
        found = tx.fetch_one(tx.sql.prune_event_from, event_id=middle)
        if found is None or found.created_at >= before:
            high = middle - 1
        else:
            low = min(found.event_id, high) if found.event_id > middle else middle
    return low


def _remove_old_job(tx: Transaction, row: AgedRow) -> int:
    return _remove(tx, tx.sql.prune_job, job_id=row.id)


def _remove(tx: Transaction, statement: str, **binds: object) -> int:
    tx.execute(statement, **binds)
    return 1
