"""Pruning of what no row refers to any more: events of nothing, summaries of removed events, read marks of threads that are gone."""

from __future__ import annotations

from postroom.core import clock
from postroom.core.records.retention import AgedEvent
from postroom.store import event_log

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import TypeVar

    from postroom.core.records.retention import ReadKey
    from postroom.maintenance.paced_batches import PacedBatches
    from postroom.store.interface import Store, Transaction

    T = TypeVar("T")

PAGE_ROWS = 500
EVENTS_SETTING = "retention.events"  # the last event that was looked at. An interrupted run comes back to it
TIME_SETTING = "retention.time"  # of the last event that may have been removed
EVENTS_PER_PAGE = 4096  # of which the times are read in one view
EVENTS_PER_STEP = 64  # looked at by one statement
BLOCKS_PER_STEP = 100  # of a topic


class Leftovers:
    """Removes what belongs to nothing, once the rows are gone."""

    def __init__(self, store: Store, batches: PacedBatches) -> None:
        self._store = store
        self._batches = batches

    def prune(self, *, upto: int) -> None:
        """Remove the events and the summaries up to this event, and read marks."""
        self._prune_events(upto)
        for page in self._pages_of_topics(upto // event_log.BLOCK_EVENTS):
            self._batches.run_all(page, _remove_topic)
        for marks in self._pages_of_read_marks():
            self._batches.run_all([mark for mark in marks if not mark.has_thread], _remove_read_mark)

    def _prune_events(self, upto: int) -> None:
        """Remove the events since the last run that belong to nothing. Those of threads, mail, tasks and entries go with their rows."""
        with self._store.read() as tx:
            after = int(tx.fetch_one(tx.sql.setting_find, name=EVENTS_SETTING) or 0)

        def remove(tx: Transaction, first: int) -> int:
            tx.execute(tx.sql.prune_events, after=first, until=min(first + EVENTS_PER_STEP, upto))
            return 0

        if upto > after:
            self._batches.run_all(range(after, upto, EVENTS_PER_STEP), remove)
            self._batches.run_once(lambda tx: tx.execute(tx.sql.setting_put, name=EVENTS_SETTING, value=str(upto)))

    def _pages_of_topics(self, until: int) -> Iterator[list[tuple[str, int]]]:
        """Yield the topics that have blocks before `until`, each several times if there are many: with the end of some of them."""
        topic = ""
        while True:
            with self._store.read() as tx:
                page = tx.fetch_all(tx.sql.prune_topics_after, topic=topic, limit=PAGE_ROWS)
            yield [
                (found.topic, min(first + BLOCKS_PER_STEP, until)) for found in page for first in range(found.block, until, BLOCKS_PER_STEP)
            ]
            if len(page) < PAGE_ROWS:
                return
            topic = page[-1].topic

    def _pages_of_read_marks(self) -> Iterator[Sequence[ReadKey]]:
        agent_id, thread_id = "", ""
        while True:
            with self._store.read() as tx:
                page = tx.fetch_all(tx.sql.prune_reads_after, agent_id=agent_id, thread_id=thread_id, limit=PAGE_ROWS)
            yield page
            if len(page) < PAGE_ROWS:
                return
            agent_id, thread_id = page[-1].agent_id, page[-1].thread_id


def find_last_removable(store: Store, before: str) -> AgedEvent:
    """Return the last event that may be removed, because it and those before it are older than an instant.

    Events are in the order of time, except for those of a clock that was wrong. So the search ends at the first young event, and a time
    in the future says nothing. Nor does one that is before the time of an earlier event: the event may be young.
    """
    with store.read() as tx:
        removed, newest, now = event_log.last_removed_event(tx), tx.fetch_one(tx.sql.prune_event_newest) or 0, clock.format_stamp(tx.now())
        removed_time = tx.fetch_one(tx.sql.setting_find, name=TIME_SETTING) or ""
    last = AgedEvent(removed, removed_time if removed_time < before else "")
    for after in range(removed, newest, EVENTS_PER_PAGE):
        until = min(after + EVENTS_PER_PAGE, newest)
        with store.read() as tx:
            young = tx.fetch_one(tx.sql.prune_event_young, after=after, until=until, before=before, now=now)
            old = tx.fetch_one(tx.sql.prune_event_old, after=after, until=until if young is None else young - 1, before=before)
        if old is not None and old.created_at >= last.created_at:
            last = old
        if young is not None:
            break
    return last


def mark_removed(tx: Transaction, last: AgedEvent) -> None:
    """Record that the events up to this one are being removed."""
    if last.event_id > event_log.last_removed_event(tx):
        event_log.mark_removed(tx, last.event_id)
        tx.execute(tx.sql.setting_put, name=TIME_SETTING, value=last.created_at)


def _remove_topic(tx: Transaction, item: tuple[str, int]) -> int:
    topic, until = item
    tx.execute(tx.sql.prune_topic, topic=topic, until=until)
    return 0


def _remove_read_mark(tx: Transaction, mark: ReadKey) -> int:
    tx.execute(tx.sql.prune_read, agent_id=mark.agent_id, thread_id=mark.thread_id)
    return 0
