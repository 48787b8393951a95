"""The statements that find the threads which an agent may take. They are part of the work room's."""

from __future__ import annotations

from postroom.core.records.work import OfferedThread, Thread
from postroom.store.tables import Query, single_value

THREAD_COLUMNS = f"t.{', t.'.join(Thread.__fields__)}"
URGENCY_ORDER = ("high", "normal", "low")
_TAKEABLE_OF_PRIORITY = """
    SELECT * FROM (
      SELECT t.thread_id, t.priority, t.created_at FROM threads t
      WHERE t.status = 'pending' AND t.assigned_to = :agent AND t.priority = '{0}'
      ORDER BY t.created_at, t.thread_id LIMIT :limit) AS pending_{0}
    UNION ALL
    SELECT * FROM (
      SELECT t.thread_id, t.priority, t.created_at FROM leases l JOIN threads t ON t.thread_id = l.thread_id
      WHERE l.released_at IS NULL AND l.waiting = 0 AND l.priority = '{0}' AND l.expires_at <= :now
      ORDER BY l.expires_at LIMIT :lapsed) AS lapsed_{0}"""
threads_takeable = Query(" UNION ALL ".join(_TAKEABLE_OF_PRIORITY.format(priority) for priority in URGENCY_ORDER), OfferedThread)

# The most urgent pending thread of an agent. Not if a lease of its priority or a higher one has run out: that thread may be more urgent.
_PENDING_OF_PRIORITY = f"""
    SELECT * FROM (
      SELECT {THREAD_COLUMNS} FROM threads t WHERE t.status = 'pending' AND t.assigned_to = :agent AND t.priority = '{{0}}'
      ORDER BY t.created_at, t.thread_id LIMIT 1{{lock}}) AS pending_{{0}}
    WHERE {{no_lapsed}}"""
# It looks at the lease that runs out first. With EXISTS and the time in its condition, PostgreSQL guesses that a third of all leases
# fulfil it, and reads the table until it finds one: all of it if none has run out.
_NO_LAPSED_LEASE = """coalesce((
      SELECT l.expires_at FROM leases l WHERE l.released_at IS NULL AND l.waiting = 0 AND l.priority = '{0}'
      ORDER BY l.expires_at LIMIT 1) > :now, TRUE)"""


def select_pending(lock: str) -> Query[Thread]:
    """Return the statement that finds the most urgent pending thread. It looks at a priority only if those before have none."""
    no_lapsed = [_NO_LAPSED_LEASE.format(priority) for priority in URGENCY_ORDER]
    each = (
        _PENDING_OF_PRIORITY.format(priority, lock=lock, no_lapsed=" AND ".join(no_lapsed[: place + 1]))
        for place, priority in enumerate(URGENCY_ORDER)
    )
    return Query(f"{' UNION ALL '.join(each)} LIMIT 1", Thread)


thread_pending = select_pending(lock="")

# Threads that were given back until their question is answered

lease_waiting = Query("SELECT waiting FROM leases WHERE thread_id = :thread_id AND released_at IS NULL", single_value)

# Whether a message makes a thread pending again that its agent released until its question is answered.
lease_ready = Query(
    """
    SELECT 1 FROM leases WHERE thread_id = :thread_id AND released_at IS NOT NULL AND agent_id = :agent
      AND (:is_control = 1 OR NOT EXISTS (
        SELECT 1 FROM messages q WHERE q.thread_id = :thread_id AND q.is_open = 1 AND q.from_agent = :agent))""",
    single_value,
)

# Where a bounded look at the unread threads of an agent ends.
unread_event_ids = Query(
    """
    SELECT latest_event_id FROM reads
    WHERE agent_id = :agent AND latest_event_id > read_event_id AND latest_event_id > :after
    ORDER BY latest_event_id LIMIT :limit OFFSET :skipped""",
    single_value,
)

# The agent that ends a thread has read it.
read_ended = """
    UPDATE reads SET read_event_id = :event_id, read_at = :now, read_door = :door
    WHERE agent_id = :agent AND thread_id = :thread_id AND read_event_id < :event_id"""
