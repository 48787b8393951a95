-- The tables of document 002: entries that a person should see, with asks and replies.

CREATE TABLE workspaces (
  workspace_id TEXT NOT NULL PRIMARY KEY,
  label TEXT NOT NULL,
  path TEXT NOT NULL UNIQUE,
  agent TEXT NOT NULL UNIQUE,
  created_at TEXT NOT NULL,
  token_hash TEXT NOT NULL UNIQUE
);

-- seq: the id of the event that announced it, which is the order of arrival. ts: milliseconds since 1970. is_open: 1 while its ask is open.
-- words: the text that a search matches. extra_json: unknown fields of a line in entries.jsonl.
CREATE TABLE entries (
  seq BIGINT PRIMARY KEY,
  id TEXT NOT NULL UNIQUE,
  section TEXT NOT NULL,
  kind TEXT NOT NULL,
  ts BIGINT NOT NULL,
  workspace_id TEXT NOT NULL,
  workspace_label TEXT NOT NULL,
  agent TEXT NOT NULL,
  docs_json TEXT NOT NULL,
  comments TEXT NOT NULL,
  door TEXT NOT NULL,
  stored_at TEXT NOT NULL,
  message_id TEXT UNIQUE,
  is_open BIGINT NOT NULL,
  replies BIGINT NOT NULL,
  offered_at TEXT,
  offered_to TEXT,
  offered_door TEXT,
  read_at TEXT,
  read_by TEXT,
  read_door TEXT,
  extra_json TEXT NOT NULL,
  words TEXT NOT NULL
);
CREATE INDEX idx_entries_newest ON entries(section, ts, seq);
CREATE INDEX idx_entries_workspace ON entries(workspace_id, ts, seq) WHERE section = 'inbox';
CREATE INDEX idx_entries_agent ON entries(agent, ts, seq);
CREATE INDEX idx_entries_unread ON entries(section, ts, seq) WHERE read_at IS NULL;
CREATE INDEX idx_entries_open ON entries(ts, seq) WHERE is_open = 1;

CREATE INDEX idx_entries_words ON entries USING gin (to_tsvector('simple', words));

-- Deleted entries. An id is never used again. seq: the id of the event of the deletion. ts and entry_seq: its old place, for readers with a
-- cursor there.
CREATE TABLE entries_gone (
  id TEXT NOT NULL PRIMARY KEY,
  seq BIGINT NOT NULL,
  ts BIGINT NOT NULL,
  entry_seq BIGINT NOT NULL
);
CREATE INDEX idx_entries_gone ON entries_gone(seq);

-- The question of an entry. With a thread_id, it was asked in that thread. due_at: when on_silence applies, or NULL.
CREATE TABLE asks (
  entry_id TEXT NOT NULL PRIMARY KEY,
  agent TEXT NOT NULL,
  thread_id TEXT,
  asked_event BIGINT NOT NULL,
  addressee TEXT NOT NULL,
  choices_json TEXT NOT NULL,
  state TEXT NOT NULL,
  due_at BIGINT,
  deadline TEXT,
  on_silence TEXT NOT NULL,
  default_answer TEXT,
  escalate_to TEXT,
  escalated_at TEXT,
  answer TEXT,
  answered_by TEXT,
  answered_door TEXT,
  answered_at TEXT,
  collected_at TEXT,
  collected_door TEXT
);
CREATE INDEX idx_asks_due ON asks(due_at) WHERE state = 'open' AND due_at IS NOT NULL;
CREATE INDEX idx_asks_thread ON asks(thread_id, asked_event) WHERE state = 'open' AND thread_id IS NOT NULL;
CREATE INDEX idx_asks_uncollected ON asks(agent, answered_at) WHERE state <> 'open' AND collected_at IS NULL AND thread_id IS NULL;

CREATE TABLE replies (
  reply_id TEXT NOT NULL PRIMARY KEY,
  entry_id TEXT NOT NULL,
  agent TEXT NOT NULL,
  person TEXT NOT NULL,
  body TEXT NOT NULL,
  door TEXT NOT NULL,
  created_at TEXT NOT NULL,
  via TEXT NOT NULL,
  message_id TEXT
);
CREATE INDEX idx_replies_entry ON replies(entry_id, created_at, reply_id);
CREATE INDEX idx_replies_agent ON replies(agent, created_at, reply_id);

-- Credentials of people: a link that works once, the session of a browser, the bearer token of a script. Only hashes are kept.
CREATE TABLE passes (
  token_hash TEXT NOT NULL PRIMARY KEY,
  kind TEXT NOT NULL,
  person TEXT NOT NULL,
  created_at TEXT NOT NULL,
  expires_at TEXT
);

CREATE INDEX idx_passes_expiry ON passes(expires_at) WHERE expires_at IS NOT NULL;

-- The last event of another room that a room has processed.
CREATE TABLE cursors (
  name TEXT NOT NULL PRIMARY KEY,
  event_id BIGINT NOT NULL
);
INSERT INTO cursors (name, event_id) VALUES ('people.surface', 0);

CREATE INDEX idx_deliveries_acked ON deliveries(session, delivery_id) WHERE state = 'acked';
CREATE INDEX idx_messages_people ON messages(event_id) WHERE kind IN ('question', 'answer', 'result', 'control');
ALTER TABLE reads ADD COLUMN read_at TEXT;
ALTER TABLE reads ADD COLUMN read_door TEXT;
