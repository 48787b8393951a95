"""The statements of the work room, for SQLite: the shared ones and those that differ from PostgreSQL."""

from __future__ import annotations

from postroom.core.records.work import Artifact, Lease, Message, Thread
from postroom.store.statements.work import *  # noqa: F403
from postroom.store.statements.work import (
    ARTIFACTS,
    EVENT_TOPICS_INSERT,
    LEASE_COLUMNS,
    MESSAGES,
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

# Differs from PostgreSQL: the index has to be named, because the primary key begins with the same columns.
threads_visited = Query(THREADS_VISITED.format(hint=" INDEXED BY idx_reads_guest"), Thread)

# Differs from PostgreSQL: texts always sort by bytes.
_THREAD_ID = "t.thread_id"
threads_assigned = select_threads(THREADS_ASSIGNED, _THREAD_ID)
threads_created = select_threads(THREADS_CREATED, _THREAD_ID)
threads_created_assigned = select_threads(THREADS_CREATED_ASSIGNED, _THREAD_ID)
threads_any = select_threads(THREADS_ANY, _THREAD_ID)
threads_of_run_chosen = select_threads(THREADS_OF_RUN_CHOSEN, _THREAD_ID)
threads_of_task_chosen = select_threads(THREADS_OF_TASK_CHOSEN, _THREAD_ID)

# json_each keeps the list of kinds in one bind.
message_after = Query(
    f"""
    SELECT {MESSAGES.column_list} FROM messages
    WHERE thread_id = :thread_id AND event_id > :after AND kind IN (SELECT value FROM json_each(:kinds))
{REPLY_CONDITION}
    ORDER BY event_id LIMIT 1""",
    Message,
)

# json_each keeps the list of ids in one bind.
leases_of_threads = Query(
    f"""
    SELECT {LEASE_COLUMNS} FROM leases l WHERE l.thread_id IN (SELECT value FROM json_each(:thread_ids)) AND l.released_at IS NULL""",
    Lease,
)

artifacts_between = Query(
    f"""
    SELECT {ARTIFACTS.column_list_as("a")} FROM messages m JOIN artifacts a ON a.message_id = m.message_id
    WHERE m.thread_id = :thread_id AND m.event_id BETWEEN :first AND :last ORDER BY m.event_id, a.rowid""",
    Artifact,
)

artifacts_of_message = Query(
    f"SELECT {ARTIFACTS.column_list_as('a')} FROM artifacts a WHERE a.message_id = :message_id ORDER BY a.rowid", Artifact
)

artifacts_inserted = f"SELECT {ARTIFACTS.column_list}, rowid FROM artifacts WHERE rowid > :after ORDER BY rowid LIMIT :limit"

_FACT = "coalesce(CASE WHEN json_valid(e.payload_json) THEN json_extract(e.payload_json, '$.{0}') END, t.{0}) AS {0}"

# Differs from PostgreSQL: json_extract, and rows that other programs inserted. The facts that such an event lacks are those of its thread.
event_topics_insert = EVENT_TOPICS_INSERT.format(
    facts=f"""
      SELECT e.event_id / 512 AS block, e.run_id, e.source, e.event_type,
        CASE WHEN json_valid(e.payload_json) THEN json_extract(e.payload_json, '$.to') END AS to_agent,
        {_FACT.format("status")}, {_FACT.format("assigned_to")}, {_FACT.format("created_by")}
      FROM events e LEFT JOIN threads t ON t.thread_id = e.thread_id
      WHERE e.event_id > :after AND e.event_id <= :until AND (e.thread_id <> '' OR substr(e.event_type, 1, 12) = 'task.A2ATask')"""
)

# Differs from PostgreSQL: the counter of ids follows by itself when events are copied in.
events_settle = "SELECT 1"

agent_seen = """
    INSERT INTO agents (name, created_at, last_seen_at) VALUES (:name, :now, :now)
    ON CONFLICT (name) DO UPDATE SET last_seen_at = excluded.last_seen_at"""

# Differs from PostgreSQL: a write transaction is alone, so it needs no lock.
agent_lock = agent_find

# Differs from PostgreSQL: as `agent_lock`.
agent_job_hold = Query("SELECT 1 FROM jobs WHERE job_id = :job_id", single_value)
