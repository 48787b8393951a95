-- The messages of document 004 and their deliveries. Instants are microseconds since 1970. created_at is the sender's, in Unix seconds.

-- A mailbox: the number of its messages in each state (every verb updates it, so that no verb has to count), its policy,
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

-- AUTOINCREMENT: the id is the order of arrival, so it is never assigned again.
-- head: 1 for the first message of its pair (sender, session) that has not ended. Only a head is offered. rank: order among senders.
-- since: when its state began. move_at: when a delivery times out or a retry falls due. due_at: the earlier of move_at and expires_at.
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

-- The ids of messages that were purged or deleted. An id is kept for ever, so that it is never accepted twice.
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

-- Each index serves one statement in time that does not depend on the number of rows.
CREATE INDEX idx_mailboxes_due ON mailboxes(next_due) WHERE next_due IS NOT NULL;
CREATE INDEX idx_deliveries_offer ON deliveries(session, rank, delivery_id) WHERE head = 1 AND state = 'pending';
CREATE INDEX idx_deliveries_pair ON deliveries(session, sender, delivery_id) WHERE ended_at IS NULL;
CREATE INDEX idx_deliveries_waiting ON deliveries(session, rank, delivery_id) WHERE ended_at IS NULL;
CREATE INDEX idx_deliveries_due ON deliveries(session, due_at) WHERE due_at IS NOT NULL;
CREATE INDEX idx_deliveries_dead ON deliveries(session, delivery_id) WHERE state = 'dead_letter';
CREATE INDEX idx_events_subject ON events(message_id, event_id) WHERE thread_id = '';
