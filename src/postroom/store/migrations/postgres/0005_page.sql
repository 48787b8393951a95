-- What the page shows beside entries: how to get to a workspace's session, what a document was when it was pushed, runs, and queues.

-- focus: a command line that brings the workspace's terminal to the front, or NULL.
ALTER TABLE workspaces ADD COLUMN focus TEXT;

-- Never shown as the document, which is read live: only compared with it.
CREATE TABLE pushed_texts (
  entry_id TEXT NOT NULL,
  path TEXT NOT NULL,
  text TEXT NOT NULL,
  PRIMARY KEY (entry_id, path)
);

CREATE TABLE watched_queues (
  path TEXT NOT NULL PRIMARY KEY,
  label TEXT NOT NULL,
  created_at TEXT NOT NULL
);

CREATE INDEX idx_threads_run ON threads(run_id, updated_at);
