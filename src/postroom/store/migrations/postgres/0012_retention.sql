-- Removal of old rows, and settings of the store.

-- The ids of threads, tasks and jobs that were removed, and of messages that were posted with a key: none is accepted a second time.
-- kind: thread, message, task or job. removed_at: microseconds since 1970.
CREATE TABLE removed_ids (
  kind TEXT NOT NULL,
  id TEXT NOT NULL,
  removed_at bigint NOT NULL,
  PRIMARY KEY (kind, id)
);

CREATE TABLE settings (
  name TEXT NOT NULL PRIMARY KEY,
  value TEXT NOT NULL
);

-- The newest event that was removed, or that could have been. A cursor before it has missed events.
INSERT INTO cursors (name, event_id) VALUES ('events.removed', 0);
