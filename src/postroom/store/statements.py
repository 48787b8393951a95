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
MAILBOX = (
    "session, pending, in_flight, nacked, acked, dead_letter, expired,"
    " base_backoff_secs, max_retries, inflight_timeout_secs, ttl_secs, next_due"
)
PARCEL = (
    "delivery_id, msg_id, session, sender, created_at, attempt, state, head, rank, delivery_token, stored_at, since, move_at,"
    " expires_at, due_at, ended_at, reason, door"
)

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

threads_of_run = f"""
    SELECT {THREAD}, {LEASE} FROM threads t LEFT JOIN leases l ON l.thread_id = t.thread_id
    WHERE t.run_id = :run_id ORDER BY t.updated_at DESC LIMIT :limit"""
threads_of_run_chosen = f"""
    SELECT {THREAD} FROM threads t WHERE t.run_id = :run_id AND t.status = :status
      AND (:agent = '' OR t.created_by = :agent OR t.assigned_to = :agent) ORDER BY t.updated_at DESC LIMIT :limit"""

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
events_newest = f"SELECT {EVENT} FROM events WHERE event_id < :before ORDER BY event_id DESC LIMIT :limit"
events_of_thread = f"""
    SELECT {EVENT} FROM events WHERE thread_id = :thread_id AND event_id < :before ORDER BY event_id DESC LIMIT :limit"""

# agents and what they have read

agent_put = """
    INSERT INTO agents (name, kind, created_at) VALUES (:name, :kind, :now)
    ON CONFLICT (name) DO UPDATE SET kind = excluded.kind"""

agent_find = f"SELECT {AGENT} FROM agents WHERE name = :name"

agents_all = f"SELECT {AGENT} FROM agents ORDER BY name LIMIT :limit"

read_owed = """
    INSERT INTO reads (agent_id, thread_id, read_event_id, latest_event_id) VALUES (:agent, :thread_id, 0, :event_id)
    ON CONFLICT (agent_id, thread_id) DO UPDATE SET latest_event_id = excluded.latest_event_id"""

read_upto = """
    INSERT INTO reads (agent_id, thread_id, read_event_id, latest_event_id, read_at, read_door)
    VALUES (:agent, :thread_id, :event_id, 0, :now, :door)
    ON CONFLICT (agent_id, thread_id) DO UPDATE
    SET read_event_id = excluded.read_event_id, read_at = excluded.read_at, read_door = excluded.read_door
    WHERE reads.read_event_id < excluded.read_event_id"""

reads_unread_count = "SELECT count(*) FROM reads WHERE agent_id = :agent AND latest_event_id > read_event_id"

# mailboxes

mailbox_open = "INSERT INTO mailboxes (session) VALUES (:session) ON CONFLICT (session) DO NOTHING"

mailbox_find = f"SELECT {MAILBOX} FROM mailboxes WHERE session = :session"

mailbox_put = """
    UPDATE mailboxes
    SET pending = :pending, in_flight = :in_flight, nacked = :nacked, acked = :acked, dead_letter = :dead_letter, expired = :expired,
        base_backoff_secs = :base_backoff_secs, max_retries = :max_retries, inflight_timeout_secs = :inflight_timeout_secs,
        ttl_secs = :ttl_secs, next_due = :next_due
    WHERE session = :session"""

mailboxes_all = f"SELECT {MAILBOX} FROM mailboxes ORDER BY session LIMIT :limit"

mailboxes_due = "SELECT session FROM mailboxes WHERE next_due <= :now ORDER BY next_due LIMIT :limit"

# deliveries

# Behind what the same sender sent before and has not ended, whatever its clock says; without any, at the head.
delivery_insert = """
    INSERT INTO deliveries (msg_id, session, sender, created_at, attempt, state, head, rank, stored_at, since, expires_at, due_at, door,
                            extra_json, payload)
    SELECT CAST(:msg_id AS text), CAST(:session AS text), CAST(:sender AS text), CAST(:created_at AS bigint), 0, 'pending',
           CASE WHEN before.rank IS NULL THEN 1 ELSE 0 END,
           CASE WHEN before.rank > :rank THEN before.rank ELSE CAST(:rank AS bigint) END,
           CAST(:now AS bigint), CAST(:now AS bigint), CAST(:expires_at AS bigint), CAST(:expires_at AS bigint), CAST(:door AS text),
           CAST(:extra_json AS text), CAST(:payload AS text)
    FROM (SELECT (SELECT rank FROM deliveries WHERE session = :session AND sender = :sender AND ended_at IS NULL
                  ORDER BY delivery_id DESC LIMIT 1) AS rank) AS before"""

delivery_known = """
    SELECT 1 FROM deliveries WHERE msg_id = :msg_id UNION ALL SELECT 1 FROM mail_ids WHERE msg_id = :msg_id LIMIT 1"""

delivery_find = f"SELECT {PARCEL} FROM deliveries WHERE msg_id = :msg_id"

delivery_contents = "SELECT extra_json, payload FROM deliveries WHERE delivery_id = :delivery_id"

delivery_offer = f"""
    SELECT {PARCEL}, extra_json, payload FROM deliveries
    WHERE session = :session AND head = 1 AND state = 'pending' ORDER BY rank, delivery_id LIMIT 1"""

delivery_offered = "SELECT 1 FROM deliveries WHERE session = :session AND head = 1 AND state = 'pending' LIMIT 1"

delivery_move = """
    UPDATE deliveries
    SET state = :state, attempt = :attempt, head = :head, delivery_token = :delivery_token, since = :since, move_at = :move_at,
        due_at = :due_at, ended_at = :ended_at, reason = :reason
    WHERE delivery_id = :delivery_id AND state = :seen"""

delivery_delete = "DELETE FROM deliveries WHERE delivery_id = :delivery_id"

delivery_latest = "SELECT coalesce(max(delivery_id), 0) FROM deliveries"

delivery_next_due = "SELECT min(due_at) FROM deliveries WHERE session = :session AND due_at IS NOT NULL"

pair_advance = """
    UPDATE deliveries SET head = 1 WHERE delivery_id = (
      SELECT delivery_id FROM deliveries WHERE session = :session AND sender = :sender AND ended_at IS NULL
      ORDER BY delivery_id LIMIT 1)"""

deliveries_due = f"SELECT {PARCEL} FROM deliveries WHERE session = :session AND due_at <= :now ORDER BY due_at, delivery_id LIMIT :limit"

deliveries_waiting = """
    SELECT msg_id, sender, created_at, attempt, state, due_at FROM deliveries
    WHERE session = :session AND ended_at IS NULL ORDER BY rank, delivery_id LIMIT :limit"""

# From the tail: what is left of a pair keeps its head.
deliveries_purgeable = f"""
    SELECT {PARCEL} FROM deliveries WHERE session = :session AND ended_at IS NULL AND delivery_id <= :upto
    ORDER BY rank DESC, delivery_id DESC LIMIT :limit"""

deliveries_dead = f"""
    SELECT {PARCEL}, extra_json, payload FROM deliveries
    WHERE session = :session AND state = 'dead_letter' AND delivery_id <= :upto ORDER BY delivery_id LIMIT :limit"""

deliveries_dead_sizes = """
    SELECT length(payload) FROM deliveries WHERE session = :session AND state = 'dead_letter' ORDER BY delivery_id LIMIT :limit"""

deliveries_acked = f"""
    SELECT {PARCEL}, extra_json, payload FROM deliveries
    WHERE session = :session AND state = 'acked' ORDER BY delivery_id DESC LIMIT :limit"""

deliveries_forgettable = f"""
    SELECT {PARCEL} FROM deliveries WHERE delivery_id > :after AND ended_at < :before AND state IN ('acked', 'expired')
    ORDER BY delivery_id LIMIT :limit"""

deliveries_expire = """
    UPDATE deliveries
    SET expires_at = stored_at + CAST(:ttl AS bigint),
        due_at = CASE WHEN move_at < stored_at + CAST(:ttl AS bigint) THEN move_at
                      ELSE coalesce(stored_at + CAST(:ttl AS bigint), move_at) END
    WHERE session = :session AND ended_at IS NULL"""

mail_id_keep = "INSERT INTO mail_ids (msg_id, session, state, ended_at) VALUES (:msg_id, :session, :state, :ended_at)"

mail_id_find = "SELECT session, state, ended_at FROM mail_ids WHERE msg_id = :msg_id"

events_of_subject = f"SELECT {EVENT} FROM events WHERE thread_id = '' AND message_id = :message_id ORDER BY event_id"

alias_put = "INSERT INTO mail_aliases (name, session) VALUES (:name, :session) ON CONFLICT (name) DO UPDATE SET session = excluded.session"

alias_find = "SELECT session FROM mail_aliases WHERE name = :name"

alias_of = "SELECT name FROM mail_aliases WHERE session = :session LIMIT 1"

alias_delete = "DELETE FROM mail_aliases WHERE name = :name"

aliases_all = "SELECT name, session FROM mail_aliases ORDER BY name LIMIT :limit"

# tasks

TASK = (
    "task_id, kind, source_job_id, source_agent, target_job_id, target_agent, description, context_json, status, is_open, priority,"
    " urgency, attempt, deadline, artifacts_json, reason, reason_code, outcome, answers, parent, depth, thread_id, created_at, accepted_at,"
    " ended_at, lease_token, lease_expires_at, due_at, event_id"
)
JOB = "job_id, agent, status, sheet, version, state_json, created_at, updated_at, event_id"

task_insert = f"INSERT INTO tasks ({TASK}) VALUES ({', '.join(':' + name for name in TASK.split(', '))})"
task_find = f"SELECT {TASK} FROM tasks WHERE task_id = :task_id"
# Guarded by all that a writer may have assumed: the state, whose it is, and where.
task_move = """
    UPDATE tasks SET status = :status, is_open = :is_open, target_job_id = :target_job_id, attempt = :attempt,
      artifacts_json = :artifacts_json, reason = :reason, reason_code = :reason_code, thread_id = :thread_id,
      accepted_at = :accepted_at, ended_at = :ended_at, lease_token = :lease_token, lease_expires_at = :lease_expires_at, due_at = :due_at
    WHERE task_id = :task_id AND status = :seen_status AND attempt = :seen_attempt
      AND coalesce(lease_token, '') = :seen_token AND coalesce(target_job_id, '') = :seen_job AND coalesce(thread_id, '') = :seen_thread"""
tasks_of_job = f"SELECT {TASK} FROM tasks WHERE is_open = 1 AND target_job_id = :job_id ORDER BY urgency, event_id LIMIT :limit"
tasks_waiting = f"""
    SELECT {TASK} FROM tasks WHERE is_open = 1 AND status = 'pending' AND target_agent = :agent ORDER BY urgency, event_id LIMIT :limit"""
tasks_unrouted = f"""
    SELECT {TASK} FROM tasks WHERE is_open = 1 AND target_job_id IS NULL AND target_agent = :agent ORDER BY event_id LIMIT :limit"""
tasks_due = f"SELECT {TASK} FROM tasks WHERE is_open = 1 AND due_at IS NOT NULL AND due_at <= :now ORDER BY due_at LIMIT :limit"
tasks_any = f"SELECT {TASK} FROM tasks ORDER BY event_id DESC LIMIT :limit"
tasks_of_agent = f"SELECT {TASK} FROM tasks WHERE target_agent = :agent ORDER BY event_id DESC LIMIT :limit"
tasks_of_status = f"SELECT {TASK} FROM tasks WHERE status = :status ORDER BY event_id DESC LIMIT :limit"
tasks_of_agent_status = f"SELECT {TASK} FROM tasks WHERE target_agent = :agent AND status = :status ORDER BY event_id DESC LIMIT :limit"
_LINKED = ", ".join(f"t.{name}" for name in TASK.split(", "))
tasks_answered = f"""
    SELECT {_LINKED} FROM tasks t JOIN threads h ON h.thread_id = t.thread_id
    WHERE t.is_open = 1 AND t.thread_id IS NOT NULL AND h.status IN ('done', 'failed', 'cancelled') LIMIT :limit"""

job_insert = f"INSERT INTO jobs ({JOB}) VALUES ({', '.join(':' + name for name in JOB.split(', '))})"
job_find = f"SELECT {JOB} FROM jobs WHERE job_id = :job_id"
job_running = f"SELECT {JOB} FROM jobs WHERE status = 'running' AND agent = :agent ORDER BY event_id DESC LIMIT 1"
job_move = """
    UPDATE jobs SET status = :status, sheet = :sheet, version = version + 1, state_json = :state_json, updated_at = :now
    WHERE job_id = :job_id AND version = :seen"""
jobs_any = f"SELECT {JOB} FROM jobs ORDER BY event_id DESC LIMIT :limit"
jobs_of_agent = f"SELECT {JOB} FROM jobs WHERE agent = :agent ORDER BY event_id DESC LIMIT :limit"

agent_card = "UPDATE agents SET card_json = :card_json WHERE name = :name"
skill_insert = "INSERT INTO agent_skills (skill, agent) VALUES (:skill, :agent)"
skills_clear = "DELETE FROM agent_skills WHERE agent = :agent"
agents_of_skill = f"""
    SELECT {", ".join("a." + name for name in AGENT.split(", "))} FROM agent_skills s JOIN agents a ON a.name = s.agent
    WHERE s.skill = :skill ORDER BY s.agent LIMIT :limit"""

# people

WORKSPACE = "workspace_id, label, path, agent, created_at, focus"
ENTRY = (
    "seq, id, section, kind, ts, workspace_id, workspace_label, agent, docs_json, comments, door, stored_at, message_id, is_open, replies,"
    " offered_at, offered_to, offered_door, read_at, read_by, read_door, extra_json, words"
)
ASK = (
    "entry_id, agent, thread_id, asked_event, addressee, choices_json, state, due_at, deadline, on_silence, default_answer, escalate_to,"
    " escalated_at, answer, answered_by, answered_door, answered_at, collected_at, collected_door"
)
REPLY = "reply_id, entry_id, agent, person, body, door, created_at, via, message_id"

workspace_insert = f"""
    INSERT INTO workspaces ({WORKSPACE}, token_hash) VALUES (:workspace_id, :label, :path, :agent, :created_at, :focus, :token_hash)"""
workspace_find = f"SELECT {WORKSPACE} FROM workspaces WHERE workspace_id = :workspace_id"
workspace_of_agent = f"SELECT {WORKSPACE} FROM workspaces WHERE agent = :agent"
workspace_of_path = f"SELECT {WORKSPACE} FROM workspaces WHERE path = :path"
workspace_of_token = f"SELECT {WORKSPACE} FROM workspaces WHERE token_hash = :token_hash"
workspace_retoken = "UPDATE workspaces SET token_hash = :token_hash WHERE workspace_id = :workspace_id"
workspace_set = "UPDATE workspaces SET label = :label, focus = :focus WHERE workspace_id = :workspace_id"
workspace_delete = "DELETE FROM workspaces WHERE workspace_id = :workspace_id"
workspaces_all = f"SELECT {WORKSPACE} FROM workspaces LIMIT :limit"

entry_insert = f"INSERT INTO entries ({ENTRY}) VALUES ({', '.join(':' + name for name in ENTRY.split(', '))})"
_LISTED = f"{', '.join('e.' + name for name in ENTRY.split(', '))}, {', '.join('a.' + name for name in ASK.split(', '))}"
ENTRIES = f"SELECT {_LISTED} FROM entries e LEFT JOIN asks a ON a.entry_id = e.id"
entry_find = f"{ENTRIES} WHERE e.id = :id"
# For pages: without the words, which nobody is shown, and what few of them ask, which is looked up.
LISTED = f"SELECT {', '.join('e.' + name for name in ENTRY.split(', ')[:-1])}, '' AS words FROM entries e"
ask_find = f"SELECT {ASK} FROM asks WHERE entry_id = :entry_id"
entry_place = "SELECT ts, seq FROM entries WHERE id = :id"
entry_of_message = "SELECT id FROM entries WHERE message_id = :message_id"
_OLDER = "(e.ts, e.seq) < (:ts, :seq)"
_NEWEST = "ORDER BY e.ts DESC, e.seq DESC LIMIT :limit"
# CAST: SQLite prepares a statement anew at each call, if a bind is compared with what a partial index asks for.
entries_page = f"{LISTED} WHERE e.section = CAST(:section AS text) AND {_OLDER} {_NEWEST}"
entries_page_unread = f"{LISTED} WHERE e.section = CAST(:section AS text) AND e.read_at IS NULL AND {_OLDER} {_NEWEST}"
# Two filters at once are rare: one of them leads through its index, the other is compared row by row.
entries_page_open = f"{LISTED} WHERE e.is_open = 1 AND {_OLDER} AND (:unread = 0 OR e.read_at IS NULL) {_NEWEST}"
entries_page_workspace = f"""
    {LISTED} WHERE e.section = 'inbox' AND e.workspace_id = :workspace_id AND {_OLDER}
      AND (:unread = 0 OR e.read_at IS NULL) AND (:open = 0 OR e.is_open = 1) {_NEWEST}"""
entries_page_agent = f"{LISTED} WHERE e.agent = :agent AND {_OLDER} {_NEWEST}"
entries_after = f"{ENTRIES} WHERE e.seq > :after ORDER BY e.seq LIMIT :limit"
entry_read = "UPDATE entries SET read_at = :read_at, read_by = :read_by, read_door = :read_door WHERE id = :id"
entry_offered = """
    UPDATE entries SET offered_at = :offered_at, offered_to = :offered_to, offered_door = :offered_door
    WHERE id = :id AND offered_at IS NULL"""
entry_replied = "UPDATE entries SET replies = replies + 1, words = :words WHERE id = :id"
entry_close = "UPDATE entries SET is_open = 0 WHERE id = :id"
entries_unread = "SELECT 1 FROM entries WHERE section = CAST(:section AS text) AND read_at IS NULL LIMIT :limit"
entries_open = "SELECT 1 FROM entries WHERE is_open = 1 AND ts <= :ts LIMIT :limit"
text_insert = "INSERT INTO pushed_texts (entry_id, path, text) VALUES (:entry_id, :path, :text)"
text_find = "SELECT text FROM pushed_texts WHERE entry_id = :entry_id AND path = :path"
texts_delete = "DELETE FROM pushed_texts WHERE entry_id = :entry_id"
entry_delete = "DELETE FROM entries WHERE id = :id"
gone_insert = "INSERT INTO entries_gone (id, seq, ts, entry_seq) VALUES (:id, :seq, :ts, :entry_seq)"
gone_find = "SELECT ts, entry_seq FROM entries_gone WHERE id = :id"
gone_after = "SELECT seq, id FROM entries_gone WHERE seq > :after ORDER BY seq LIMIT :limit"

ask_insert = f"INSERT INTO asks ({ASK}) VALUES ({', '.join(':' + name for name in ASK.split(', '))})"
ask_answer = """
    UPDATE asks SET state = :state, answer = :answer, answered_by = :answered_by, answered_door = :answered_door,
      answered_at = :answered_at, due_at = NULL
    WHERE entry_id = :entry_id AND state = 'open'"""
ask_escalate = """
    UPDATE asks SET addressee = :addressee, escalated_at = :escalated_at, due_at = NULL
    WHERE entry_id = :entry_id AND state = 'open' AND due_at = :due_at"""
ask_collect = """
    UPDATE asks SET collected_at = :collected_at, collected_door = :collected_door WHERE entry_id = :entry_id AND collected_at IS NULL"""
ask_delete = "DELETE FROM asks WHERE entry_id = :entry_id"
_DUE = f"{ENTRIES.replace('LEFT JOIN', 'JOIN')} WHERE a.state = 'open'"
asks_due = f"{_DUE} AND a.due_at IS NOT NULL AND a.due_at <= :now ORDER BY a.due_at LIMIT :limit"
ask_next_due = "SELECT min(due_at) FROM asks WHERE state = 'open' AND due_at IS NOT NULL"
asks_of_thread = f"{_DUE} AND a.thread_id IS NOT NULL AND a.thread_id = :thread_id AND a.asked_event < :event_id ORDER BY a.asked_event"
asks_uncollected = f"""
    SELECT {_LISTED} FROM asks a JOIN entries e ON e.id = a.entry_id
    WHERE a.state <> 'open' AND a.collected_at IS NULL AND a.thread_id IS NULL AND a.agent = :agent
    ORDER BY a.answered_at LIMIT :limit"""

reply_insert = f"INSERT INTO replies ({REPLY}) VALUES ({', '.join(':' + name for name in REPLY.split(', '))})"
reply_find = f"SELECT {REPLY} FROM replies WHERE reply_id = :reply_id"
replies_of_entry = f"SELECT {REPLY} FROM replies WHERE entry_id = :entry_id ORDER BY created_at, reply_id"
replies_of_agent = f"SELECT {REPLY} FROM replies WHERE agent = :agent ORDER BY created_at DESC, reply_id DESC LIMIT :limit"
replies_delete = "DELETE FROM replies WHERE entry_id = :entry_id"

pass_insert = """
    INSERT INTO passes (token_hash, kind, person, created_at, expires_at) VALUES (:token_hash, :kind, :person, :created_at, :expires_at)"""
pass_find = "SELECT kind, person, created_at, expires_at FROM passes WHERE token_hash = :token_hash"
pass_expire = "DELETE FROM passes WHERE expires_at IS NOT NULL AND expires_at <= :now"
pass_delete = "DELETE FROM passes WHERE token_hash = :token_hash AND kind = :kind"
passes_of = "SELECT token_hash FROM passes WHERE kind = :kind AND person = :name"

cursor_find = "SELECT event_id FROM cursors WHERE name = :name"
cursor_move = "UPDATE cursors SET event_id = :event_id WHERE name = :name AND event_id = :seen"
messages_to_people = f"""
    SELECT {MESSAGE} FROM messages
    WHERE kind IN ('question', 'answer', 'result', 'control') AND event_id > :after ORDER BY event_id LIMIT :limit"""
questions_to = f"""
    SELECT {", ".join("m." + name for name in MESSAGE.split(", "))}
    FROM reads r JOIN threads t ON t.thread_id = r.thread_id JOIN messages m ON m.thread_id = r.thread_id
    WHERE r.agent_id = :agent AND m.kind = 'question' AND m.to_agent = :agent AND t.status NOT IN ('done', 'failed', 'cancelled')"""
read_of_thread = "SELECT read_event_id, read_at, read_door FROM reads WHERE agent_id = :agent AND thread_id = :thread_id"

queue_insert = "INSERT INTO watched_queues (path, label, created_at) VALUES (:path, :label, :created_at)"
queue_find = "SELECT path, label, created_at FROM watched_queues WHERE path = :path"
queue_delete = "DELETE FROM watched_queues WHERE path = :path"
queues_all = "SELECT path, label, created_at FROM watched_queues ORDER BY path LIMIT :limit"
