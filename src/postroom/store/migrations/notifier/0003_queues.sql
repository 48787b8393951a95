-- The queues that the runner looks after when it starts, and why a timer cannot fire.

CREATE TABLE queues (
  path TEXT NOT NULL PRIMARY KEY,
  added_at TEXT NOT NULL
);
INSERT INTO queues (path, added_at) SELECT queue, min(created_at) FROM tasks WHERE queue IS NOT NULL GROUP BY queue;

ALTER TABLE timers ADD COLUMN trouble TEXT;
