-- What was handed to an agent and not confirmed yet. kind: mail, answer or thread. item_id: the message, the entry or the thread.
-- event_id: in a thread, up to where it was read. client: the program that got it, whose next call confirms it.
CREATE TABLE handovers (
  agent TEXT NOT NULL,
  kind TEXT NOT NULL,
  item_id TEXT NOT NULL,
  sender TEXT NOT NULL,
  handover_id TEXT NOT NULL,
  client TEXT NOT NULL,
  event_id INTEGER NOT NULL,
  handed_at TEXT NOT NULL,
  until INTEGER NOT NULL,
  position INTEGER NOT NULL,
  PRIMARY KEY (agent, kind, item_id, sender)
) WITHOUT ROWID;
