"""The statements of the work room, for SQLite: the shared ones and those that differ from PostgreSQL."""

from __future__ import annotations

from postroom.core.records.work import Artifact, Lease, Message
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

event_append = f"INSERT INTO events ({EVENT_INSERT_COLUMNS}) VALUES ({EVENT_INSERT_BINDS})"

# Differs from PostgreSQL: the counter of ids follows by itself when events are copied in.
events_settle = "SELECT 1"

agent_seen = """
    INSERT INTO agents (name, created_at, last_seen_at) VALUES (:name, :now, :now)
    ON CONFLICT (name) DO UPDATE SET last_seen_at = excluded.last_seen_at"""

# Differs from PostgreSQL: a write transaction is alone, so it needs no lock.
agent_lock = agent_find
