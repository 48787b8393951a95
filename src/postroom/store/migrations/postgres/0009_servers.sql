-- For several servers in front of one database.

-- settled_event_id: no event up to this id can still appear. Readers with a cursor continue from here; settling.py moves it.
ALTER TABLE meta ADD COLUMN settled_event_id BIGINT NOT NULL DEFAULT 0;
UPDATE meta SET settled_event_id = (SELECT coalesce(max(event_id), 0) FROM events);

-- listening_until: up to this instant, in microseconds since 1970, some process listens. Otherwise no writer sends notifications.
ALTER TABLE meta ADD COLUMN listening_until BIGINT NOT NULL DEFAULT 0;

-- The results of calls with an idempotency key, for a while: a call that is sent again, also to another server, returns the same.
-- key_hash: of the caller, the verb, the key and the arguments. created_at: microseconds since 1970.
CREATE TABLE idempotency_keys (
  key_hash TEXT PRIMARY KEY,
  result TEXT NOT NULL,
  created_at BIGINT NOT NULL
);
CREATE INDEX idx_idempotency_keys_age ON idempotency_keys(created_at);

-- The instant at which the lease of the server that writes entries.jsonl ends, in microseconds since 1970.
INSERT INTO cursors (name, event_id) VALUES ('people.mirror', 0);
