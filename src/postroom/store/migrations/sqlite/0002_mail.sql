-- Document 004's messages, on their way. Instants are microseconds since 1970; created_at is the sender's, in Unix seconds.

-- A mailbox: how many of its messages are in each state (kept by every verb, so that nothing is ever counted), its policy,
-- and an instant before which nothing in it falls due.
CREATE TABLE mailboxes (
  session TEXT PRIMARY KEY,
  pending INTEGER NOT NULL DEFAULT 0,
  in_flight INTEGER NOT NULL DEFAULT 0,
  nacked INTEGER NOT NULL DEFAULT 0,
  acked INTEGER NOT NULL DEFAULT 0,
  dead_letter INTEGER NOT NULL DEFAULT 0,
  expired INTEGER NOT NULL DEFAULT 0,
  base_backoff_secs REAL NOT NULL DEFAULT 5,
  max_retries INTEGER NOT NULL DEFAULT 3,
  inflight_timeout_secs REAL NOT NULL DEFAULT 30,
  ttl_secs REAL,
  next_due INTEGER
) WITHOUT ROWID;

-- AUTOINCREMENT: the order of arrival, so a number is never given out again.
-- head: the first of its pair (sender, session) that has not ended; it alone is offered. rank: its place among senders.
-- since: when its state began. move_at: when a delivery times out, or a retry falls due. due_at: that, or expires_at if it comes first.
CREATE TABLE deliveries (
  delivery_id INTEGER PRIMARY KEY AUTOINCREMENT,
  msg_id TEXT NOT NULL UNIQUE,
  session TEXT NOT NULL,
  sender TEXT NOT NULL,
  created_at INTEGER NOT NULL,
  attempt INTEGER NOT NULL,
  state TEXT NOT NULL,
  head INTEGER NOT NULL,
  rank INTEGER NOT NULL,
  delivery_token TEXT,
  stored_at INTEGER NOT NULL,
  since INTEGER NOT NULL,
  move_at INTEGER,
  expires_at INTEGER,
  due_at INTEGER,
  ended_at INTEGER,
  reason TEXT NOT NULL DEFAULT '',
  door TEXT NOT NULL,
  extra_json TEXT NOT NULL DEFAULT '{}',
  payload TEXT NOT NULL
);

-- The ids of messages that were purged or forgotten: an id stays known for ever.
CREATE TABLE mail_ids (
  msg_id TEXT PRIMARY KEY,
  session TEXT NOT NULL,
  state TEXT NOT NULL,
  ended_at INTEGER NOT NULL
) WITHOUT ROWID;

CREATE TABLE mail_aliases (
  name TEXT PRIMARY KEY,
  session TEXT NOT NULL
) WITHOUT ROWID;

-- Each of these serves one question in constant time, however many rows there are.
CREATE INDEX idx_mailboxes_due ON mailboxes(next_due) WHERE next_due IS NOT NULL;
CREATE INDEX idx_deliveries_offer ON deliveries(session, rank, delivery_id) WHERE head = 1 AND state = 'pending';
CREATE INDEX idx_deliveries_pair ON deliveries(session, sender, delivery_id) WHERE ended_at IS NULL;
CREATE INDEX idx_deliveries_waiting ON deliveries(session, rank, delivery_id) WHERE ended_at IS NULL;
CREATE INDEX idx_deliveries_due ON deliveries(session, due_at) WHERE due_at IS NOT NULL;
CREATE INDEX idx_deliveries_dead ON deliveries(session, delivery_id) WHERE state = 'dead_letter';
CREATE INDEX idx_events_subject ON events(message_id, event_id) WHERE thread_id = '';
