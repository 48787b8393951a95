-- One row for each matter, the states of triage, and decisions about proposals.

-- title: given by the agent, or the thread's subject, or the first heading of its document. root_id: the entry to which this row was added.
-- active_ts: when its agent last wrote, in milliseconds since 1970; pages are ordered by it. parts: how many rows were added to it.
-- triage: inbox, snoozed or done. changed_seq: the id of the event of the last change of its line in entries.jsonl.
ALTER TABLE entries ADD COLUMN title TEXT NOT NULL DEFAULT '';
ALTER TABLE entries ADD COLUMN root_id TEXT;
ALTER TABLE entries ADD COLUMN active_ts BIGINT NOT NULL DEFAULT 0;
ALTER TABLE entries ADD COLUMN parts BIGINT NOT NULL DEFAULT 0;
ALTER TABLE entries ADD COLUMN triage TEXT NOT NULL DEFAULT 'inbox';
ALTER TABLE entries ADD COLUMN snoozed_until BIGINT;
ALTER TABLE entries ADD COLUMN pinned_at TEXT;
ALTER TABLE entries ADD COLUMN changed_seq BIGINT NOT NULL DEFAULT 0;
UPDATE entries SET active_ts = ts;
DROP INDEX idx_entries_newest;
DROP INDEX idx_entries_workspace;
DROP INDEX idx_entries_agent;
DROP INDEX idx_entries_unread;
DROP INDEX idx_entries_open;
CREATE INDEX idx_entries_newest ON entries(section, active_ts, seq);
CREATE INDEX idx_entries_triage ON entries(section, triage, active_ts, seq);
CREATE INDEX idx_entries_workspace ON entries(workspace_id, active_ts, seq) WHERE section = 'inbox';
CREATE INDEX idx_entries_agent ON entries(agent, active_ts, seq);
CREATE INDEX idx_entries_unread ON entries(section, active_ts, seq) WHERE read_at IS NULL AND triage = 'inbox';
CREATE INDEX idx_entries_open ON entries(active_ts, seq) WHERE is_open = 1 AND root_id IS NULL;
CREATE INDEX idx_entries_parts ON entries(root_id, seq) WHERE root_id IS NOT NULL;
CREATE INDEX idx_entries_pinned ON entries(section, active_ts, seq) WHERE pinned_at IS NOT NULL;
CREATE INDEX idx_entries_snoozed ON entries(snoozed_until) WHERE snoozed_until IS NOT NULL;
CREATE INDEX idx_entries_changed ON entries(changed_seq) WHERE changed_seq > 0;

-- matter_id: the entry in whose row the question is shown. terms_json: the dangerous choices, and the proposal. decision_json: the decision.
ALTER TABLE asks ADD COLUMN matter_id TEXT NOT NULL DEFAULT '';
ALTER TABLE asks ADD COLUMN terms_json TEXT NOT NULL DEFAULT '{}';
ALTER TABLE asks ADD COLUMN decision_json TEXT;
UPDATE asks SET matter_id = entry_id;
CREATE INDEX idx_asks_matter ON asks(matter_id, asked_event);
CREATE INDEX idx_asks_urgent ON asks(coalesce(deadline, '9'), asked_event) WHERE state = 'open';
CREATE INDEX idx_asks_of_thread ON asks(thread_id, asked_event) WHERE thread_id IS NOT NULL;

-- muted_at: since when pushes of the workspace are done as they arrive, or NULL.
ALTER TABLE workspaces ADD COLUMN muted_at TEXT;
