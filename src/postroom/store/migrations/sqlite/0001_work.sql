-- The tables of document 000, with its names and columns. Added by Postroom: messages.event_id and .door, leases.lease_seconds,
-- leases.priority (of the thread), leases.waiting (1 while the thread waits for an answer), and the tables agents and reads.

CREATE TABLE threads (
  thread_id TEXT PRIMARY KEY,
  run_id TEXT NOT NULL,
  task_id TEXT NOT NULL,
  subject TEXT NOT NULL,
  created_by TEXT NOT NULL,
  assigned_to TEXT NOT NULL,
  status TEXT NOT NULL,
  priority TEXT NOT NULL DEFAULT 'normal',
  latest_message_id TEXT,
  created_at TEXT NOT NULL,
  updated_at TEXT NOT NULL
);

CREATE TABLE messages (
  message_id TEXT PRIMARY KEY,
  thread_id TEXT NOT NULL,
  from_agent TEXT NOT NULL,
  to_agent TEXT NOT NULL,
  kind TEXT NOT NULL,
  summary TEXT NOT NULL,
  body TEXT NOT NULL DEFAULT '',
  payload_json TEXT NOT NULL DEFAULT '{}',
  created_at TEXT NOT NULL,
  event_id INTEGER NOT NULL,
  door TEXT NOT NULL,
  FOREIGN KEY(thread_id) REFERENCES threads(thread_id)
);

CREATE TABLE leases (
  thread_id TEXT PRIMARY KEY,
  agent_id TEXT NOT NULL,
  lease_token TEXT NOT NULL,
  claimed_at TEXT NOT NULL,
  expires_at TEXT NOT NULL,
  released_at TEXT,
  lease_seconds REAL NOT NULL,
  priority TEXT NOT NULL,
  waiting INTEGER NOT NULL DEFAULT 0
);

CREATE TABLE artifacts (
  artifact_id TEXT PRIMARY KEY,
  message_id TEXT NOT NULL,
  path TEXT NOT NULL,
  kind TEXT NOT NULL,
  metadata_json TEXT NOT NULL DEFAULT '{}',
  created_at TEXT NOT NULL,
  FOREIGN KEY(message_id) REFERENCES messages(message_id)
);

-- AUTOINCREMENT: an id is a cursor, so it is never assigned again.
CREATE TABLE events (
  event_id INTEGER PRIMARY KEY AUTOINCREMENT,
  run_id TEXT NOT NULL,
  task_id TEXT NOT NULL,
  thread_id TEXT NOT NULL,
  source TEXT NOT NULL,
  event_type TEXT NOT NULL,
  message_id TEXT,
  summary TEXT NOT NULL DEFAULT '',
  payload_json TEXT NOT NULL DEFAULT '{}',
  created_at TEXT NOT NULL
);

CREATE TABLE agents (
  name TEXT PRIMARY KEY,
  kind TEXT NOT NULL DEFAULT 'agent',
  card_json TEXT NOT NULL DEFAULT '{}',
  created_at TEXT NOT NULL,
  last_seen_at TEXT
) WITHOUT ROWID;

-- The last event that an agent has read in a thread, and the newest message that is addressed to it there.
CREATE TABLE reads (
  agent_id TEXT NOT NULL,
  thread_id TEXT NOT NULL,
  read_event_id INTEGER NOT NULL,
  latest_event_id INTEGER NOT NULL,
  PRIMARY KEY (agent_id, thread_id)
) WITHOUT ROWID;

CREATE INDEX idx_threads_status_assigned ON threads(status, assigned_to, updated_at);
CREATE INDEX idx_messages_thread_created ON messages(thread_id, created_at);
CREATE INDEX idx_events_thread_event ON events(thread_id, event_id);

-- Each index serves one statement in time that does not depend on the number of rows.
CREATE INDEX idx_threads_waiting ON threads(assigned_to, priority, created_at, thread_id) WHERE status = 'pending';
CREATE INDEX idx_threads_status_updated ON threads(status, updated_at);
CREATE INDEX idx_threads_creator ON threads(created_by, status, updated_at);
CREATE INDEX idx_messages_thread_event ON messages(thread_id, event_id);
CREATE INDEX idx_artifacts_message ON artifacts(message_id);
CREATE INDEX idx_leases_lapse ON leases(waiting, priority, expires_at) WHERE released_at IS NULL;
CREATE INDEX idx_leases_holder ON leases(agent_id, expires_at) WHERE released_at IS NULL;
CREATE INDEX idx_reads_unread ON reads(agent_id, latest_event_id) WHERE latest_event_id > read_event_id;

INSERT INTO agents (name, kind, created_at) VALUES ('user', 'human', strftime('%Y-%m-%dT%H:%M:%f000Z', 'now'));
