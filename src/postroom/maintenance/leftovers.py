"""Pruning of what no row refers to any more: events of nothing, summaries of removed events, read marks of threads that are gone."""

from __future__ import annotations

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


def find_last_event_before(tx: Transaction, before: str) -> int:
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


def _remove_topic(tx: Transaction, item: tuple[str, int]) -> int:
    topic, until = item
    tx.execute(tx.sql.prune_topic, topic=topic, until=until)
    return 0


def _remove_read_mark(tx: Transaction, mark: ReadKey) -> int:
    tx.execute(tx.sql.prune_read, agent_id=mark.agent_id, thread_id=mark.thread_id)
    return 0
