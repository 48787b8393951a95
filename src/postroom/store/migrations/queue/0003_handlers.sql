-- Limits of handlers, and events that were set aside. The queue document defines the first tables only, so a queue gets these when they are
-- first needed.

CREATE TABLE subscription_limits (
  consumer_id TEXT NOT NULL PRIMARY KEY,
  timeout_seconds REAL,
  max_tries INTEGER
);

CREATE TABLE dead_events (
  consumer_id TEXT NOT NULL,
  event_id INTEGER NOT NULL,
  tries INTEGER NOT NULL,
  reason TEXT NOT NULL,
  set_aside_at TEXT NOT NULL,
  retrying INTEGER NOT NULL,
  PRIMARY KEY (consumer_id, event_id)
);
