"""The statements whose text is the same on every engine. Each engine's own module adds those that part, and says why.

Binds are `:name` only. Names of columns stand in the order of the records' fields.
"""

from __future__ import annotations

THREAD = (
    "t.thread_id, t.run_id, t.task_id, t.subject, t.created_by, t.assigned_to, t.status, t.priority,"
    " t.latest_message_id, t.created_at, t.updated_at"
)
LEASE = "l.thread_id, l.agent_id, l.lease_token, l.claimed_at, l.expires_at, l.released_at, l.lease_seconds"
MESSAGE = "message_id, thread_id, from_agent, to_agent, kind, summary, body, payload_json, created_at, event_id, door"
ARTIFACT = "a.artifact_id, a.message_id, a.path, a.kind, a.metadata_json, a.created_at"
EVENT = "event_id, run_id, task_id, thread_id, source, event_type, message_id, summary, payload_json, created_at"
AGENT = "name, kind, card_json, created_at, last_seen_at"

# threads

thread_insert = """
    INSERT INTO threads (thread_id, run_id, task_id, subject, created_by, assigned_to, status, priority,
                         latest_message_id, created_at, updated_at)
    VALUES (:thread_id, :run_id, :task_id, :subject, :created_by, :assigned_to, :status, :priority,
            :latest_message_id, :created_at, :updated_at)"""

thread_find = f"SELECT {THREAD}, {LEASE} FROM threads t LEFT JOIN leases l ON l.thread_id = t.thread_id WHERE t.thread_id = :thread_id"

thread_move = """
    UPDATE threads SET status = :status, assigned_to = :assigned_to, latest_message_id = :latest_message_id, updated_at = :now
    WHERE thread_id = :thread_id AND status = :seen"""

thread_prioritise = "UPDATE threads SET priority = :priority WHERE thread_id = :thread_id"

threads_waiting = f"""
    SELECT {THREAD} FROM threads t WHERE t.status = 'pending' AND t.assigned_to = :agent AND t.priority = :priority
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
      ORDER BY l.expires_at LIMIT :lapsed) AS lapsed_{0}"""
threads_takeable = " UNION ALL ".join(_OFFERED.format(priority) for priority in ("high", "normal", "low"))

threads_assigned = f"""
    SELECT {THREAD} FROM threads t WHERE t.status = :status AND t.assigned_to = :assigned_to
    ORDER BY t.updated_at DESC LIMIT :limit"""

threads_created = f"""
    SELECT {THREAD} FROM threads t WHERE t.created_by = :created_by AND t.status = :status
    ORDER BY t.updated_at DESC LIMIT :limit"""

# Two names at once are rare: one of them leads through its index, the other is compared row by row.
threads_created_assigned = f"""
    SELECT {THREAD} FROM threads t
    WHERE t.created_by = :created_by AND t.status = :status AND t.assigned_to = :assigned_to
    ORDER BY t.updated_at DESC LIMIT :limit"""

threads_any = f"SELECT {THREAD} FROM threads t WHERE t.status = :status ORDER BY t.updated_at DESC LIMIT :limit"

threads_unread = f"""
    SELECT {THREAD} FROM reads r JOIN threads t ON t.thread_id = r.thread_id
    WHERE r.agent_id = :agent AND r.latest_event_id > r.read_event_id
    ORDER BY r.latest_event_id"""

# messages and artifacts

message_insert = f"""
    INSERT INTO messages ({MESSAGE})
    VALUES (:message_id, :thread_id, :from_agent, :to_agent, :kind, :summary, :body, :payload_json, :created_at,
            :event_id, :door)"""

message_find = f"SELECT {MESSAGE} FROM messages WHERE message_id = :message_id"

messages_of_thread = f"SELECT {MESSAGE} FROM messages WHERE thread_id = :thread_id ORDER BY event_id"


question_latest = """
    SELECT event_id FROM messages WHERE thread_id = :thread_id AND kind = 'question' ORDER BY event_id DESC LIMIT 1"""

artifact_insert = """
    INSERT INTO artifacts (artifact_id, message_id, path, kind, metadata_json, created_at)
    VALUES (:artifact_id, :message_id, :path, :kind, :metadata_json, :created_at)"""


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
    SELECT {THREAD}, l.agent_id FROM leases l JOIN threads t ON t.thread_id = l.thread_id
    WHERE l.released_at IS NULL AND l.waiting = :waiting AND l.priority = :priority AND l.expires_at <= :now
    ORDER BY l.expires_at LIMIT :limit"""

leases_lapsed_of_status = f"""
    SELECT {THREAD}, l.agent_id FROM leases l JOIN threads t ON t.thread_id = l.thread_id
    WHERE l.released_at IS NULL AND l.waiting = :waiting AND l.priority = :priority AND l.expires_at <= :now
      AND t.status = :status
    ORDER BY l.expires_at LIMIT :limit"""

lease_next_expiry = """
    SELECT min(expires_at) FROM leases
    WHERE released_at IS NULL AND waiting = 0 AND priority = :priority AND expires_at > :now"""

leases_of_agent = f"""
    SELECT {THREAD}, {LEASE} FROM leases l JOIN threads t ON t.thread_id = l.thread_id
    WHERE l.agent_id = :agent AND l.released_at IS NULL ORDER BY l.expires_at LIMIT :limit"""

# events


event_latest = "SELECT coalesce(max(event_id), 0) FROM events"

events_after = f"SELECT {EVENT} FROM events WHERE event_id > :after ORDER BY event_id LIMIT :limit"


# agents and what they have read


agent_put = """
    INSERT INTO agents (name, kind, created_at) VALUES (:name, :kind, :now)
    ON CONFLICT (name) DO UPDATE SET kind = excluded.kind"""

agent_find = f"SELECT {AGENT} FROM agents WHERE name = :name"

agents_all = f"SELECT {AGENT} FROM agents ORDER BY name LIMIT :limit"

read_owed = """
    INSERT INTO reads (agent_id, thread_id, read_event_id, latest_event_id) VALUES (:agent, :thread_id, 0, :event_id)
    ON CONFLICT (agent_id, thread_id) DO UPDATE SET latest_event_id = excluded.latest_event_id"""


reads_unread_count = "SELECT count(*) FROM reads WHERE agent_id = :agent AND latest_event_id > read_event_id"
