-- Questions with ids, passes with a scope, and message ids that belong to their sender.

-- questions and answers

-- in_reply_to: the id of the question that a message settled. is_open: 1 for a question that nothing has settled or ended.
ALTER TABLE messages ADD COLUMN in_reply_to TEXT;
ALTER TABLE messages ADD COLUMN is_open BIGINT NOT NULL DEFAULT 0;
CREATE UNIQUE INDEX idx_messages_reply ON messages(in_reply_to) WHERE in_reply_to IS NOT NULL;
CREATE INDEX idx_messages_open ON messages(thread_id, event_id) WHERE is_open = 1;
CREATE INDEX idx_messages_question ON messages(thread_id, event_id) WHERE kind = 'question';

-- answer_id: the id of the message in the thread, or of the reply, that settled the question.
ALTER TABLE asks ADD COLUMN answer_id TEXT;

-- Until now an answer settled every question that others had asked before it in its thread, and a revoked lease ended them. Where one
-- question was settled by an answer, the answer gets its id. Where several were, they are closed, and none is named.
CREATE TABLE closed_questions (question TEXT NOT NULL PRIMARY KEY, closer TEXT);
INSERT INTO closed_questions SELECT q.message_id, (
  SELECT m.message_id FROM messages m WHERE m.thread_id = q.thread_id AND m.event_id > q.event_id AND (
    (m.kind = 'answer' AND m.from_agent <> q.from_agent) OR (m.kind = 'control' AND EXISTS (
      SELECT 1 FROM events e WHERE e.event_id = m.event_id AND e.event_type = 'thread.released')))
  ORDER BY m.event_id LIMIT 1)
FROM messages q WHERE q.kind = 'question';
CREATE INDEX idx_closed_questions ON closed_questions(closer);
UPDATE messages SET is_open = 1
WHERE message_id IN (SELECT question FROM closed_questions WHERE closer IS NULL) AND NOT EXISTS (
  SELECT 1 FROM threads t WHERE t.thread_id = messages.thread_id AND t.status IN ('done', 'failed', 'cancelled'));
UPDATE messages SET in_reply_to = (
  SELECT min(c.question) FROM closed_questions c WHERE c.closer = messages.message_id GROUP BY c.closer HAVING count(*) = 1)
WHERE kind = 'answer';
DROP TABLE closed_questions;
UPDATE asks SET answer_id = (
  SELECT a.message_id FROM entries e JOIN messages a ON a.in_reply_to = e.message_id WHERE e.id = asks.entry_id)
WHERE state = 'answered' AND thread_id IS NOT NULL;
UPDATE asks SET answer_id = (SELECT min(r.reply_id) FROM replies r WHERE r.entry_id = asks.entry_id AND r.via = 'answer')
WHERE state = 'answered' AND thread_id IS NULL;

-- door: how the task entered. Of the tasks from before this version it is not known, so they count as unverified.
ALTER TABLE tasks ADD COLUMN door TEXT NOT NULL DEFAULT 'library';

-- passes and agents
CREATE INDEX idx_agents_people ON agents(name) WHERE kind = 'human';
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

-- mail

-- An id belongs to its sender. msg_id comes first, because a mailbox finds its messages by their id.
ALTER TABLE deliveries DROP CONSTRAINT deliveries_msg_id_key;
ALTER TABLE deliveries ADD UNIQUE (msg_id, sender);

-- payload_digest tells a repeat from another message. It is NULL for messages that an earlier version removed.
CREATE TABLE mail_ids_by_sender (
  msg_id TEXT NOT NULL,
  sender TEXT NOT NULL,
  session TEXT NOT NULL,
  state TEXT NOT NULL,
  ended_at BIGINT NOT NULL,
  payload_digest TEXT
);
INSERT INTO mail_ids_by_sender (msg_id, sender, session, state, ended_at)
  SELECT msg_id, coalesce((SELECT source FROM events WHERE thread_id = '' AND message_id = mail_ids.msg_id AND event_type = 'mail.stored'
                           ORDER BY event_id LIMIT 1), ''), session, state, ended_at FROM mail_ids;
DROP TABLE mail_ids;
ALTER TABLE mail_ids_by_sender RENAME TO mail_ids;
ALTER TABLE mail_ids ADD PRIMARY KEY (msg_id, sender);

-- NUL is stored as U+0010 and 0. So U+0010 itself is doubled.
UPDATE deliveries SET payload = replace(payload, chr(16), chr(16) || chr(16)) WHERE strpos(payload, chr(16)) > 0;

-- The history of a forgotten message keeps ids, states and times.
UPDATE events SET payload_json = (payload_json::jsonb - 'reason' - 'receiver' - 'by' - 'door')::text
  WHERE thread_id = '' AND event_type LIKE 'mail.%' AND message_id IN (SELECT msg_id FROM mail_ids WHERE state <> 'purged');

-- limits

-- work

-- Lists of a run or a task by status, and of two names at once.
DROP INDEX idx_threads_run;
CREATE INDEX idx_threads_run ON threads(run_id, status, updated_at);
CREATE INDEX idx_threads_task ON threads(task_id, status, updated_at) WHERE task_id <> '';
CREATE INDEX idx_threads_pair ON threads(created_by, assigned_to, status, updated_at);

-- The instant (microseconds since 1970) up to which lapsed leases are noted in the event log.
INSERT INTO cursors (name, event_id) VALUES ('work.lapses', 0);

-- tasks

-- A job has a lease, which its process renews. A pending task belongs to its agent: target_job_id is set when a job accepts it.
-- A pending result may belong to the job that gave the task. Jobs of an older version have a lease that has run out.
ALTER TABLE jobs ADD COLUMN lease_token TEXT NOT NULL DEFAULT '';
ALTER TABLE jobs ADD COLUMN lease_seconds DOUBLE PRECISION NOT NULL DEFAULT 900;
ALTER TABLE jobs ADD COLUMN lease_expires_at TEXT NOT NULL DEFAULT '';
CREATE INDEX idx_jobs_lapse ON jobs(lease_expires_at) WHERE status IN ('running', 'ending');

UPDATE tasks SET target_job_id = NULL WHERE is_open = 1 AND status = 'pending' AND kind = 'task';
DROP INDEX idx_tasks_job;
DROP INDEX idx_tasks_waiting;
DROP INDEX idx_tasks_unrouted;
CREATE INDEX idx_tasks_job ON tasks(target_job_id, status, urgency, event_id) WHERE is_open = 1;
CREATE INDEX idx_tasks_waiting ON tasks(target_agent, kind, urgency, event_id) WHERE is_open = 1 AND status = 'pending';
CREATE INDEX idx_tasks_unrouted ON tasks(target_agent, urgency, event_id) WHERE is_open = 1 AND status = 'pending' AND target_job_id IS NULL;
CREATE INDEX idx_tasks_source ON tasks(source_agent, event_id);
CREATE INDEX idx_tasks_source_status ON tasks(source_agent, status, event_id);
