-- The database of a queue, as the queue document defines it.

CREATE TABLE events (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  created_at TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now')),
  source TEXT NOT NULL,
  type TEXT NOT NULL,
  subtype TEXT,
  content TEXT NOT NULL
);
CREATE INDEX idx_events_source ON events(source);
CREATE INDEX idx_events_type ON events(type);

CREATE TABLE subscriptions (
  consumer_id TEXT NOT NULL,
  handler_cmd TEXT NOT NULL,
  filter TEXT,
  PRIMARY KEY (consumer_id)
);

CREATE TABLE consumer_progress (
  consumer_id TEXT NOT NULL PRIMARY KEY,
  last_acked_id INTEGER NOT NULL DEFAULT 0,
  updated_at TEXT NOT NULL
);
