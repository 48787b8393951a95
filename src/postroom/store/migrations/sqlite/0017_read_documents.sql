-- What each person was shown of a document: the version that is or was shown in their last visit (shown_), and the last one of the visit
-- before it (read_). A text is NULL if it is the one that was pushed, or if it is too large to be kept.
CREATE TABLE read_documents (
  entry_id TEXT NOT NULL,
  path TEXT NOT NULL,
  person TEXT NOT NULL,
  visit TEXT NOT NULL,
  shown_sha256 TEXT NOT NULL,
  shown_text TEXT,
  shown_at TEXT NOT NULL,
  read_sha256 TEXT,
  read_text TEXT,
  read_at TEXT,
  PRIMARY KEY (entry_id, path, person)
);

-- Without `triage` in front, SQLite took the index of all entries in the inbox instead, and went through every one that was read.
DROP INDEX idx_entries_unread;
CREATE INDEX idx_entries_unread ON entries(section, triage, active_ts, seq) WHERE read_at IS NULL AND triage = 'inbox';
