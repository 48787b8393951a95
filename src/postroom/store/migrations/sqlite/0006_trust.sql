-- Questions with ids, passes with a scope, and message ids that belong to their sender.

-- questions and answers

-- passes and agents
ALTER TABLE passes ADD COLUMN last_used_at TEXT;
CREATE INDEX idx_passes_person ON passes(person, token_hash);
DELETE FROM passes WHERE kind = 'bearer'; -- these never expired, and their file was in reach of agents. The server issues a new one
DELETE FROM passes WHERE kind <> 'agent' AND person NOT IN (SELECT name FROM agents WHERE kind = 'human');

-- mail

-- limits

-- work

-- The instant (microseconds since 1970) up to which lapsed leases are noted in the event log.
INSERT INTO cursors (name, event_id) VALUES ('work.lapses', 0);
