"""The statements of the work room, for PostgreSQL: the shared ones and those that differ from SQLite."""

from __future__ import annotations

from postroom.core.records import Event
from postroom.core.records.work import Agent, Artifact, Lease, Message, Thread
from postroom.store.statements.taking import select_pending
from postroom.store.statements.work import *  # noqa: F403
from postroom.store.statements.work import (
    ARTIFACTS,
    EVENT_INSERT_BINDS,
    EVENT_INSERT_COLUMNS,
    EVENT_TOPICS_INSERT,
    EVENTS,
    LEASE_COLUMNS,
    MESSAGES,
    PEOPLE_KINDS,
    REPLY_CONDITION,
    THREADS_ANY,
    THREADS_ASSIGNED,
    THREADS_CREATED,
    THREADS_CREATED_ASSIGNED,
    THREADS_OF_RUN_CHOSEN,
    THREADS_OF_TASK_CHOSEN,
    THREADS_VISITED,
    agent_find,
    select_threads,
)
from postroom.store.tables import Query, single_value

# The last settled event: no event up to it can still appear. It is the stored one, or the last of the ids without a gap that follow it.
# docs/decisions.md says why ids are drawn from a sequence, and `settling.EventSettler` settles the gaps.
SETTLED_EVENT = """(
      SELECT coalesce(
        (SELECT s.settled_event_id + r.number - 1 FROM (
           SELECT f.event_id, row_number() OVER (ORDER BY f.event_id) AS number FROM events f WHERE f.event_id > s.settled_event_id) AS r
         WHERE r.event_id <> s.settled_event_id + r.number ORDER BY r.event_id LIMIT 1),
        greatest(s.settled_event_id, (SELECT max(f.event_id) FROM events f)))
      FROM meta s)"""
SETTLING_STATE = f"SELECT m.settled_event_id, {SETTLED_EVENT}, (SELECT coalesce(max(e.event_id), 0) FROM events e) FROM meta m"

# Differs from SQLite: statistics choose the index.
threads_visited = Query(THREADS_VISITED.format(hint=""), Thread)

# Differs from SQLite: the thread is locked, and those that other workers have locked are skipped, so that many workers take at once.
thread_pending = select_pending(lock=" FOR UPDATE SKIP LOCKED")

# Differs from SQLite: the collation of the database may sort ids in another order than their bytes.
_THREAD_ID = 't.thread_id COLLATE "C"'
# Differs from SQLite: as for `_THREAD_ID`.
threads_assigned = select_threads(THREADS_ASSIGNED, _THREAD_ID)
# Differs from SQLite: as above.
threads_created = select_threads(THREADS_CREATED, _THREAD_ID)
# Differs from SQLite: as above.
threads_created_assigned = select_threads(THREADS_CREATED_ASSIGNED, _THREAD_ID)
# Differs from SQLite: as above.
threads_any = select_threads(THREADS_ANY, _THREAD_ID)
# Differs from SQLite: as above.
threads_of_run_chosen = select_threads(THREADS_OF_RUN_CHOSEN, _THREAD_ID)
# Differs from SQLite: as above.
threads_of_task_chosen = select_threads(THREADS_OF_TASK_CHOSEN, _THREAD_ID)

# Differs from SQLite: json_array_elements_text for json_each.
message_after = Query(
    f"""
    SELECT {MESSAGES.column_list} FROM messages
    WHERE thread_id = :thread_id AND event_id > :after AND kind IN (SELECT json_array_elements_text(CAST(:kinds AS json)))
{REPLY_CONDITION}
    ORDER BY event_id LIMIT 1""",
    Message,
)

# Differs from SQLite: as above.
leases_of_threads = Query(
    f"""
    SELECT {LEASE_COLUMNS} FROM leases l
    WHERE l.thread_id IN (SELECT json_array_elements_text(CAST(:thread_ids AS json))) AND l.released_at IS NULL""",
    Lease,
)

# Differs from SQLite: artifacts.position keeps the order of insertion, for which SQLite uses rowid.
artifacts_between = Query(
    f"""
    SELECT {ARTIFACTS.column_list_as("a")} FROM messages m JOIN artifacts a ON a.message_id = m.message_id
    WHERE m.thread_id = :thread_id AND m.event_id BETWEEN :first AND :last ORDER BY m.event_id, a.position""",
    Artifact,
)

# Differs from SQLite: as above.
artifacts_of_message = Query(
    f"SELECT {ARTIFACTS.column_list_as('a')} FROM artifacts a WHERE a.message_id = :message_id ORDER BY a.position", Artifact
)

# Differs from SQLite: as above.
artifacts_inserted = f"SELECT {ARTIFACTS.column_list}, position FROM artifacts WHERE position > :after ORDER BY position LIMIT :limit"

# Differs from SQLite: the driver has no `lastrowid`.
event_append = f"INSERT INTO events ({EVENT_INSERT_COLUMNS}) VALUES ({EVENT_INSERT_BINDS}) RETURNING event_id"

_FACTS = "CAST(payload_json AS json)"

# Differs from SQLite: JSON operators. No other program writes events here, so each has its facts.
event_topics_insert = EVENT_TOPICS_INSERT.format(
    facts=f"""
      SELECT event_id / 512 AS block, run_id, source, event_type, {_FACTS} ->> 'to' AS to_agent, {_FACTS} ->> 'status' AS status,
        {_FACTS} ->> 'assigned_to' AS assigned_to, {_FACTS} ->> 'created_by' AS created_by
      FROM events WHERE event_id > :after AND event_id <= :until AND (thread_id <> '' OR substr(event_type, 1, 12) = 'task.A2ATask')"""
)

# Differs from SQLite: after a copy inserted events with their ids, the counter of ids must be set.
events_settle = """
    WITH newest AS (SELECT max(event_id) AS event_id FROM events),
      settled AS (UPDATE meta SET settled_event_id = coalesce((SELECT event_id FROM newest), 0))
    SELECT setval(pg_get_serial_sequence('events', 'event_id'), greatest(event_id, 1), event_id IS NOT NULL) FROM newest"""

# Differs from SQLite: a cursor starts at a settled event.
event_latest = Query(f"SELECT {SETTLED_EVENT}", single_value)

# Differs from SQLite: a reader with a cursor stops at the last settled event, because later ones may still get predecessors.
events_after = Query(
    f"""
    SELECT {EVENTS.column_list} FROM events WHERE event_id > :after AND event_id <= {SETTLED_EVENT}
    ORDER BY event_id LIMIT :limit""",
    Event,
)

# Differs from SQLite: as above.
messages_to_people = Query(
    f"""
    SELECT {MESSAGES.column_list} FROM messages
    WHERE kind IN {PEOPLE_KINDS} AND event_id > :after AND event_id <= {SETTLED_EVENT} ORDER BY event_id LIMIT :limit""",
    Message,
)

# Differs from SQLite: as above.
message_to_people_after = Query(
    f"""
    SELECT event_id FROM messages
    WHERE kind IN {PEOPLE_KINDS} AND event_id > :after AND event_id <= {SETTLED_EVENT} ORDER BY event_id LIMIT 1""",
    single_value,
)

# Differs from SQLite: the row of an agent seen within the last second is not written, so that processes of one name do not wait for it.
agent_seen = """
    INSERT INTO agents (name, created_at, last_seen_at)
    SELECT :name, :now, :now WHERE NOT EXISTS (
      SELECT 1 FROM agents WHERE name = :name AND last_seen_at > to_char(
        CAST(CAST(:now AS text) AS timestamptz) AT TIME ZONE 'UTC' - interval '1 second', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"')
        AND last_seen_at <= :now)
    ON CONFLICT (name) DO UPDATE SET last_seen_at = excluded.last_seen_at"""

# Differs from SQLite: the agent is locked until COMMIT.
agent_lock = Query(f"{agent_find} FOR UPDATE", Agent)

# Differs from SQLite: the job cannot end until COMMIT. Several transactions can hold it at the same time.
agent_job_hold = Query("SELECT 1 FROM jobs WHERE job_id = :job_id FOR SHARE", single_value)
