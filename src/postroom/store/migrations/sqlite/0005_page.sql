-- Data that the page shows beside entries: the focus command of a workspace, the pushed text of a document, runs, and queues.

-- focus: a command line that brings the workspace's terminal to the front, or NULL.
ALTER TABLE workspaces ADD COLUMN focus TEXT;

-- The page reads the document from disk and compares it with this text. This text itself is never shown as the document.
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
