"""The settled events: those below which no event can still appear. Readers with a cursor stop at the last one.

Transactions that overlap commit their event ids out of order. So an event is settled if every id up to it is visible, or can no longer
become visible. Ids without a gap are settled by looking at them. A gap stays if a transaction was rolled back. It is settled when all
transactions that could fill it have ended: each holds a lock on `events` from before its id was drawn.
"""

from __future__ import annotations

from time import monotonic
from typing import TYPE_CHECKING

from postroom.store.postgres.driver import Error
from postroom.store.postgres.work_statements import SETTLING_STATE

if TYPE_CHECKING:
    from postroom.store.postgres.driver import Connection

CHECK_SECONDS = 1.0
STORE_INTERVAL_EVENTS = 64  # a read walks over at most about so many ids, from the stored one on
WRITERS = """
    SELECT virtualtransaction FROM pg_locks
    WHERE locktype = 'relation' AND relation = 'events'::regclass AND mode = 'RowExclusiveLock' AND granted
      AND database = (SELECT oid FROM pg_database WHERE datname = current_database())"""


class EventSettler:
    """Stores how far the events are settled, so that readers need not walk over all ids, and settles the gaps."""

    def __init__(self) -> None:
        self.has_left_gap = False  # a transaction of this process was rolled back after it had drawn an id
        self._checked_at = -CHECK_SECONDS
        self._gap: tuple[int, frozenset[str]] = (0, frozenset())  # one value, because threads share it: an id, and the writers at work

    def settle_if_due(self, connection: Connection) -> None:
        """Settle the events if this process has not done so within a second. Failing is harmless: the next transaction tries again.

        A process that was killed leaves a gap, and perhaps no waiter is there that settles it. Readers would not see later events.
        """
        if monotonic() - self._checked_at < CHECK_SECONDS:
            return
        self._checked_at = monotonic()
        try:
            self.settle(connection)
        except Error:
            pass

    def settle(self, connection: Connection, *, store_after: int = STORE_INTERVAL_EVENTS) -> tuple[bool, int]:
        """Settle what can be settled. Return whether that is every visible event, and the id of the newest event.

        The id is stored once `store_after` events follow the one that is stored.
        """
        [(stored, settled, newest)] = connection.execute(SETTLING_STATE).fetchall()
        if settled - stored >= store_after:
            _store_settled(connection, settled)
        if settled < newest:  # the writers are read after the events, so that none of those who can still fill the gap is left out
            settled = self._settle_gap(connection, settled, newest)
        self.has_left_gap = self.has_left_gap and settled < newest
        return settled >= newest, newest

    def _settle_gap(self, connection: Connection, settled: int, newest: int) -> int:
        """Return the id up to which events are settled, once the writers that were at work when the gap was seen have ended."""
        gap_end, gap_writers = self._gap  # read before the writers: another thread may note a later gap, with writers that begin meanwhile
        writers = frozenset(name for (name,) in connection.execute(WRITERS).fetchall())
        if not writers:
            _store_settled(connection, newest)
            return newest
        if gap_end > settled and gap_writers.isdisjoint(writers):
            _store_settled(connection, gap_end)
            return gap_end
        if gap_end <= settled:
            self._gap = (newest, writers)
        return settled


def _store_settled(connection: Connection, event_id: int) -> None:
    """Store an id. The commit is not flushed: if it is lost, readers walk over more ids."""
    with connection.transaction():
        connection.execute("SET LOCAL synchronous_commit TO off")
        connection.execute("UPDATE meta SET settled_event_id = %s WHERE settled_event_id < %s", (event_id, event_id))
