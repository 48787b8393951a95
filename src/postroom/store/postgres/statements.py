"""Every statement of the house, for PostgreSQL: the common ones, and these."""

from __future__ import annotations

from postroom.store.statements import *  # noqa: F403
from postroom.store.statements import ARTIFACT, LISTED, MESSAGE, agent_find, cursor_find, mailbox_find

# Differs from SQLite: json_array_elements_text for json_each.
message_after = f"""
    SELECT {MESSAGE} FROM messages
    WHERE thread_id = :thread_id AND event_id > :after AND kind IN (SELECT json_array_elements_text(CAST(:kinds AS json)))
    ORDER BY event_id LIMIT 1"""

# Differs from SQLite: artifacts.position keeps their order, where SQLite has its rowid.
artifacts_of_thread = f"""
    SELECT {ARTIFACT} FROM messages m JOIN artifacts a ON a.message_id = m.message_id
    WHERE m.thread_id = :thread_id ORDER BY m.event_id, a.position"""

# Differs from SQLite: as above.
artifacts_of_message = f"SELECT {ARTIFACT} FROM artifacts a WHERE a.message_id = :message_id ORDER BY a.position"

# Differs from SQLite: ids become visible out of order when transactions overlap, and a cursor past the later would never see
# the earlier. So events are written one transaction at a time: the lock is taken before the id, and let go after the commit.
event_append = """
    WITH alone AS (SELECT pg_advisory_xact_lock(hashtextextended(current_schema() || ' events', 0)))
    INSERT INTO events (run_id, task_id, thread_id, source, event_type, message_id, summary, payload_json, created_at)
    SELECT :run_id, :task_id, :thread_id, :source, :event_type, :message_id, :summary, :payload_json, :created_at FROM alone
    RETURNING event_id"""

# Differs from SQLite: after events were copied in with their ids, the counter must be told.
events_settle = (
    "SELECT setval(pg_get_serial_sequence('events', 'event_id'), greatest(max(event_id), 1), max(event_id) IS NOT NULL) FROM events"
)

# Differs from SQLite: an agent seen within the last second is left alone, so that processes of one name do not queue for its row.
agent_seen = """
    INSERT INTO agents (name, created_at, last_seen_at)
    SELECT :name, :now, :now WHERE NOT EXISTS (
      SELECT 1 FROM agents WHERE name = :name AND last_seen_at > to_char(
        CAST(CAST(:now AS text) AS timestamptz) AT TIME ZONE 'UTC' - interval '1 second', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"')
        AND last_seen_at <= :now)
    ON CONFLICT (name) DO UPDATE SET last_seen_at = excluded.last_seen_at"""

# Differs from SQLite: the mailbox is ours until COMMIT, so that its verbs come one after another.
mailbox_lock = f"{mailbox_find} FOR UPDATE"

# Differs from SQLite: as events_settle.
deliveries_settle = (
    "SELECT setval(pg_get_serial_sequence('deliveries', 'delivery_id'), greatest(max(delivery_id), 1), max(delivery_id) IS NOT NULL)"
    " FROM deliveries"
)

# Differs from SQLite: the cursor is ours until COMMIT, so that one transaction folds at a time.
cursor_lock = f"{cursor_find} FOR UPDATE"

# Differs from SQLite: the index of words is an ordinary one, and follows by itself.
words_insert = "SELECT CAST(:seq AS bigint), CAST(:words AS text)"

# Differs from SQLite: as above.
words_delete = "SELECT CAST(:seq AS bigint), CAST(:words AS text)"

# Differs from SQLite: as above.
words_settle = "SELECT 1"

# Differs from SQLite: its own language of queries, into which ours ("one"* "two"*) is put.
entries_search = f"""
    {LISTED} WHERE to_tsvector('simple', e.words)
      @@ to_tsquery('simple', replace(replace(replace(:query, '"* "', ':* & '), '"*', ':*'), '"', ''))
    ORDER BY e.seq DESC LIMIT :limit"""

# Differs from SQLite: the agent is ours until COMMIT.
agent_lock = f"{agent_find} FOR UPDATE"

# Differs from SQLite: the entry is ours until COMMIT.
entry_lock = "SELECT 1 FROM entries WHERE id = :id FOR UPDATE"
