-- Differs from PostgreSQL: writers run one after another, so that every visible event is settled.

-- The results of calls with an idempotency key, for a while: a call that is sent again after a restart returns the same.
-- key_hash: of the caller, the verb, the key and the arguments. created_at: microseconds since 1970.
CREATE TABLE idempotency_keys (
  key_hash TEXT NOT NULL PRIMARY KEY,
  result TEXT NOT NULL,
  created_at INTEGER NOT NULL
) WITHOUT ROWID;
CREATE INDEX idx_idempotency_keys_age ON idempotency_keys(created_at);

-- The instant at which the lease of the server that writes entries.jsonl ends, in microseconds since 1970.
INSERT INTO cursors (name, event_id) VALUES ('people.mirror', 0);
