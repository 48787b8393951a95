"""The statements of the work room, for PostgreSQL: the shared ones and those that differ from SQLite."""

from __future__ import annotations

from postroom.core.records.work import Agent, Artifact, Lease, Message
from postroom.store.statements.work import *  # noqa: F403
from postroom.store.statements.work import (
    ARTIFACTS,
    EVENT_INSERT_BINDS,
    EVENT_INSERT_COLUMNS,
    LEASE_COLUMNS,
    MESSAGES,
    REPLY_CONDITION,
    agent_find,
)
from postroom.store.tables import Query

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

# Differs from SQLite: the driver has no `lastrowid`. The transaction holds `engine.EVENT_LOCK` before the id is given out.
event_append = f"INSERT INTO events ({EVENT_INSERT_COLUMNS}) VALUES ({EVENT_INSERT_BINDS}) RETURNING event_id"

# Differs from SQLite: after a copy inserted events with their ids, the counter of ids must be set.
events_settle = (
    "SELECT setval(pg_get_serial_sequence('events', 'event_id'), greatest(max(event_id), 1), max(event_id) IS NOT NULL) FROM events"
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
