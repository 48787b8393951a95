"""Every statement of the house, for PostgreSQL. Binds are `:name`, as everywhere; the engine writes them as its driver does.

Names of columns stand in the order of the records' fields. "Differs from SQLite" marks where the text parts.
"""

from __future__ import annotations

_THREAD = (
    "t.thread_id, t.run_id, t.task_id, t.subject, t.created_by, t.assigned_to, t.status, t.priority,"
    " t.latest_message_id, t.created_at, t.updated_at"
)
_LEASE = "l.thread_id, l.agent_id, l.lease_token, l.claimed_at, l.expires_at, l.released_at, l.lease_seconds"
_MESSAGE = "message_id, thread_id, from_agent, to_agent, kind, summary, body, payload_json, created_at, event_id, door"
_ARTIFACT = "a.artifact_id, a.message_id, a.path, a.kind, a.metadata_json, a.created_at"
_EVENT = "event_id, run_id, task_id, thread_id, source, event_type, message_id, summary, payload_json, created_at"
_AGENT = "name, kind, card_json, created_at, last_seen_at"

# threads

thread_insert = """
    INSERT INTO threads (thread_id, run_id, task_id, subject, created_by, assigned_to, status, priority,
                         latest_message_id, created_at, updated_at)
    VALUES (:thread_id, :run_id, :task_id, :subject, :created_by, :assigned_to, :status, :priority,
            :latest_message_id, :created_at, :updated_at)"""

thread_find = f"SELECT {_THREAD}, {_LEASE} FROM threads t LEFT JOIN leases l ON l.thread_id = t.thread_id WHERE t.thread_id = :thread_id"

thread_move = """
    UPDATE threads SET status = :status, assigned_to = :assigned_to, latest_message_id = :latest_message_id, updated_at = :now
    WHERE thread_id = :thread_id AND status = :seen"""

thread_prioritise = "UPDATE threads SET priority = :priority WHERE thread_id = :thread_id"

threads_waiting = f"""
    SELECT {_THREAD} FROM threads t WHERE t.status = 'pending' AND t.assigned_to = :agent AND t.priority = :priority
    ORDER BY t.created_at, t.thread_id LIMIT :limit"""

_OFFERED = """
    SELECT * FROM (
      SELECT t.thread_id, t.priority, t.created_at FROM threads t
      WHERE t.status = 'pending' AND t.assigned_to = :agent AND t.priority = '{0}'
      ORDER BY t.created_at, t.thread_id LIMIT :limit) AS pending_{0}
    UNION ALL
    SELECT * FROM (
      SELECT t.thread_id, t.priority, t.created_at FROM leases l JOIN threads t ON t.thread_id = l.thread_id
      WHERE l.released_at IS NULL AND l.waiting = 0 AND l.priority = '{0}' AND l.expires_at <= :now
      ORDER BY l.expires_at LIMIT :limit) AS lapsed_{0}"""
threads_takeable = " UNION ALL ".join(_OFFERED.format(priority) for priority in ("high", "normal", "low"))

threads_assigned = f"""
    SELECT {_THREAD} FROM threads t WHERE t.status = :status AND t.assigned_to = :assigned_to
    ORDER BY t.updated_at DESC LIMIT :limit"""

threads_created = f"""
    SELECT {_THREAD} FROM threads t WHERE t.created_by = :created_by AND t.status = :status
    ORDER BY t.updated_at DESC LIMIT :limit"""

# Two names at once are rare: one of them leads through its index, the other is compared row by row.
threads_created_assigned = f"""
    SELECT {_THREAD} FROM threads t
    WHERE t.created_by = :created_by AND t.status = :status AND t.assigned_to = :assigned_to
    ORDER BY t.updated_at DESC LIMIT :limit"""

threads_any = f"SELECT {_THREAD} FROM threads t WHERE t.status = :status ORDER BY t.updated_at DESC LIMIT :limit"

threads_unread = f"""
    SELECT {_THREAD} FROM reads r JOIN threads t ON t.thread_id = r.thread_id
    WHERE r.agent_id = :agent AND r.latest_event_id > r.read_event_id
    ORDER BY r.latest_event_id"""

# messages and artifacts

message_insert = f"""
    INSERT INTO messages ({_MESSAGE})
    VALUES (:message_id, :thread_id, :from_agent, :to_agent, :kind, :summary, :body, :payload_json, :created_at,
            :event_id, :door)"""

message_find = f"SELECT {_MESSAGE} FROM messages WHERE message_id = :message_id"

messages_of_thread = f"SELECT {_MESSAGE} FROM messages WHERE thread_id = :thread_id ORDER BY event_id"

# Differs from SQLite: json_array_elements_text for json_each.
message_after = f"""
    SELECT {_MESSAGE} FROM messages
    WHERE thread_id = :thread_id AND event_id > :after AND kind IN (SELECT json_array_elements_text(CAST(:kinds AS json)))
    ORDER BY event_id LIMIT 1"""

question_latest = """
    SELECT event_id FROM messages WHERE thread_id = :thread_id AND kind = 'question' ORDER BY event_id DESC LIMIT 1"""

artifact_insert = """
    INSERT INTO artifacts (artifact_id, message_id, path, kind, metadata_json, created_at)
    VALUES (:artifact_id, :message_id, :path, :kind, :metadata_json, :created_at)"""

# Differs from SQLite: artifacts.position keeps their order, where SQLite has its rowid.
artifacts_of_thread = f"""
    SELECT {_ARTIFACT} FROM messages m JOIN artifacts a ON a.message_id = m.message_id
    WHERE m.thread_id = :thread_id ORDER BY m.event_id, a.position"""

# Differs from SQLite: as above.
artifacts_of_message = f"SELECT {_ARTIFACT} FROM artifacts a WHERE a.message_id = :message_id ORDER BY a.position"

# leases

# The guard says again what the claimer saw: a lease that is live, and not the caller's to take over, stays.
lease_grant = """
    INSERT INTO leases (thread_id, agent_id, lease_token, claimed_at, expires_at, released_at, lease_seconds, priority, waiting)
    VALUES (:thread_id, :agent_id, :lease_token, :now, :expires_at, NULL, :lease_seconds, :priority, 0)
    ON CONFLICT (thread_id) DO UPDATE
    SET agent_id = excluded.agent_id, lease_token = excluded.lease_token, claimed_at = excluded.claimed_at,
        expires_at = excluded.expires_at, released_at = NULL, lease_seconds = excluded.lease_seconds,
        priority = excluded.priority, waiting = 0
    WHERE leases.released_at IS NOT NULL OR leases.expires_at <= :now OR leases.lease_token = :replaces"""

lease_renew = """
    UPDATE leases SET expires_at = :expires_at, lease_seconds = :lease_seconds
    WHERE thread_id = :thread_id AND lease_token = :lease_token AND released_at IS NULL"""

lease_release = """
    UPDATE leases SET released_at = :now
    WHERE thread_id = :thread_id AND lease_token = :lease_token AND released_at IS NULL"""

lease_wait = "UPDATE leases SET waiting = :waiting WHERE thread_id = :thread_id AND released_at IS NULL"

lease_prioritise = "UPDATE leases SET priority = :priority WHERE thread_id = :thread_id AND released_at IS NULL"

leases_lapsed = f"""
    SELECT {_THREAD}, l.agent_id FROM leases l JOIN threads t ON t.thread_id = l.thread_id
    WHERE l.released_at IS NULL AND l.waiting = :waiting AND l.priority = :priority AND l.expires_at <= :now
    ORDER BY l.expires_at LIMIT :limit"""

leases_lapsed_of_status = f"""
    SELECT {_THREAD}, l.agent_id FROM leases l JOIN threads t ON t.thread_id = l.thread_id
    WHERE l.released_at IS NULL AND l.waiting = :waiting AND l.priority = :priority AND l.expires_at <= :now
      AND t.status = :status
    ORDER BY l.expires_at LIMIT :limit"""

lease_next_expiry = """
    SELECT min(expires_at) FROM leases
    WHERE released_at IS NULL AND waiting = 0 AND priority = :priority AND expires_at > :now"""

leases_of_agent = f"""
    SELECT {_THREAD}, {_LEASE} FROM leases l JOIN threads t ON t.thread_id = l.thread_id
    WHERE l.agent_id = :agent AND l.released_at IS NULL ORDER BY l.expires_at LIMIT :limit"""

# events

# Differs from SQLite: ids become visible out of order when transactions overlap, and a cursor past the later would never see
# the earlier. So events are written one transaction at a time: the lock is taken before the id, and let go after the commit.
event_append = """
    WITH alone AS (SELECT pg_advisory_xact_lock(hashtextextended(current_schema() || ' events', 0)))
    INSERT INTO events (run_id, task_id, thread_id, source, event_type, message_id, summary, payload_json, created_at)
    SELECT :run_id, :task_id, :thread_id, :source, :event_type, :message_id, :summary, :payload_json, :created_at FROM alone
    RETURNING event_id"""

event_latest = "SELECT coalesce(max(event_id), 0) FROM events"

events_after = f"SELECT {_EVENT} FROM events WHERE event_id > :after ORDER BY event_id LIMIT :limit"

# Differs from SQLite: after events were copied in with their ids, the counter must be told.
events_settle = (
    "SELECT setval(pg_get_serial_sequence('events', 'event_id'), greatest(max(event_id), 1), max(event_id) IS NOT NULL) FROM events"
)

# agents and what they have read

# Differs from SQLite: an agent seen within the last second is left alone, so that processes of one name do not queue for its row.
agent_seen = """
    INSERT INTO agents (name, created_at, last_seen_at)
    SELECT :name, :now, :now WHERE NOT EXISTS (
      SELECT 1 FROM agents WHERE name = :name AND last_seen_at > to_char(
        CAST(CAST(:now AS text) AS timestamptz) AT TIME ZONE 'UTC' - interval '1 second', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"')
        AND last_seen_at <= :now)
    ON CONFLICT (name) DO UPDATE SET last_seen_at = excluded.last_seen_at"""

agent_put = """
    INSERT INTO agents (name, kind, created_at) VALUES (:name, :kind, :now)
    ON CONFLICT (name) DO UPDATE SET kind = excluded.kind"""

agent_find = f"SELECT {_AGENT} FROM agents WHERE name = :name"

agents_all = f"SELECT {_AGENT} FROM agents ORDER BY name LIMIT :limit"

read_owed = """
    INSERT INTO reads (agent_id, thread_id, read_event_id, latest_event_id) VALUES (:agent, :thread_id, 0, :event_id)
    ON CONFLICT (agent_id, thread_id) DO UPDATE SET latest_event_id = excluded.latest_event_id"""

# Differs from SQLite: greatest for max.
read_upto = """
    INSERT INTO reads (agent_id, thread_id, read_event_id, latest_event_id) VALUES (:agent, :thread_id, :event_id, 0)
    ON CONFLICT (agent_id, thread_id) DO UPDATE SET read_event_id = greatest(reads.read_event_id, excluded.read_event_id)"""

reads_unread_count = "SELECT count(*) FROM reads WHERE agent_id = :agent AND latest_event_id > read_event_id"
