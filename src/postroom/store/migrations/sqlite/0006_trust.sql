-- Questions with ids, passes with a scope, and message ids that belong to their sender.

-- questions and answers

-- passes and agents
ALTER TABLE passes ADD COLUMN last_used_at TEXT;
CREATE INDEX idx_passes_person ON passes(person, token_hash);
DELETE FROM passes WHERE kind = 'bearer'; -- these never expired, and their file was in reach of agents. The server issues a new one
DELETE FROM passes WHERE kind <> 'agent' AND person NOT IN (SELECT name FROM agents WHERE kind = 'human');

-- scope: `own`, or `all` on the token of a leader, which sees every thread, task and mailbox.
ALTER TABLE passes ADD COLUMN scope TEXT NOT NULL DEFAULT 'own';

-- guest: 1 if the agent takes part in the thread and is neither its creator nor assigned to it: it was addressed, spoke, or worked on it before.
ALTER TABLE reads ADD COLUMN guest INTEGER NOT NULL DEFAULT 0;
INSERT INTO reads (agent_id, thread_id, read_event_id, latest_event_id)
  SELECT DISTINCT m.from_agent, m.thread_id, 0, 0 FROM messages m WHERE true ON CONFLICT (agent_id, thread_id) DO NOTHING;
UPDATE reads SET guest = 1
  WHERE EXISTS (SELECT 1 FROM threads t WHERE t.thread_id = reads.thread_id AND reads.agent_id NOT IN (t.created_by, t.assigned_to))
    AND EXISTS (SELECT 1 FROM messages m WHERE m.thread_id = reads.thread_id AND reads.agent_id IN (m.from_agent, m.to_agent));
CREATE INDEX idx_reads_guest ON reads(agent_id, thread_id) WHERE guest = 1;
CREATE INDEX idx_tasks_source ON tasks(source_agent, event_id);

-- mail

-- limits

-- work

-- Lists of a run or a task by status, and of two names at once.
DROP INDEX idx_threads_run;
CREATE INDEX idx_threads_run ON threads(run_id, status, updated_at);
CREATE INDEX idx_threads_task ON threads(task_id, status, updated_at) WHERE task_id <> '';
CREATE INDEX idx_threads_pair ON threads(created_by, assigned_to, status, updated_at);

-- The instant (microseconds since 1970) up to which lapsed leases are noted in the event log.
INSERT INTO cursors (name, event_id) VALUES ('work.lapses', 0);
