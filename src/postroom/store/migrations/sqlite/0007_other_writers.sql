-- Rows of other programs that write the tables of document 000, and an index of the event log for those who watch from an old cursor.

-- event index

-- A block is 512 consecutive event ids. A topic is what `watch` filters by: an agent, a run, a status, or a status with one of the others.
-- The row says that the block has an event of the topic. A block is summarised when the next one begins, so that no other write pays for it.
-- The cursor `work.events` is the last event of the summarised blocks.
CREATE TABLE event_topics (
  topic TEXT NOT NULL,
  block INTEGER NOT NULL,
  PRIMARY KEY (topic, block)
) WITHOUT ROWID;

INSERT INTO cursors (name, event_id) SELECT 'work.events', max(coalesce(max(event_id), 0) / 512 * 512 - 1, 0) FROM events;
INSERT INTO event_topics (topic, block)
WITH facts AS (
  SELECT e.event_id / 512 AS block, e.run_id, e.source, e.event_type, json_extract(e.payload_json, '$.status') AS status,
    json_extract(e.payload_json, '$.assigned_to') AS assigned_to, json_extract(e.payload_json, '$.created_by') AS created_by,
    json_extract(e.payload_json, '$.to') AS to_agent
  FROM events e
  WHERE e.thread_id <> '' AND json_valid(e.payload_json) AND e.event_id <= (SELECT c.event_id FROM cursors c WHERE c.name = 'work.events')),
steps AS (
  SELECT block, run_id, source, status, assigned_to, created_by, to_agent FROM facts
  UNION SELECT block, run_id, source, 'lapsed', assigned_to, created_by, to_agent FROM facts WHERE event_type = 'thread.lapsed'),
concerned AS (
  SELECT block, status, assigned_to AS agent FROM steps WHERE assigned_to <> source
  UNION SELECT block, status, created_by FROM steps WHERE created_by <> source
  UNION SELECT block, status, to_agent FROM steps WHERE to_agent <> source)
SELECT 'any', block FROM facts
UNION SELECT 'run:' || run_id, block FROM facts
UNION SELECT 'agent:' || agent, block FROM concerned
UNION SELECT 'status:' || status, block FROM steps WHERE status IS NOT NULL
UNION SELECT 'status:' || status || ' run:' || run_id, block FROM steps WHERE status IS NOT NULL
UNION SELECT 'status:' || status || ' agent:' || agent, block FROM concerned WHERE status IS NOT NULL;

-- messages and leases with defaults, so that an INSERT that has only the columns of document 000 works

CREATE TABLE messages_with_defaults (
  message_id TEXT PRIMARY KEY,
  thread_id TEXT NOT NULL,
  from_agent TEXT NOT NULL,
  to_agent TEXT NOT NULL,
  kind TEXT NOT NULL,
  summary TEXT NOT NULL,
  body TEXT NOT NULL DEFAULT '',
  payload_json TEXT NOT NULL DEFAULT '{}',
  created_at TEXT NOT NULL,
  event_id INTEGER NOT NULL DEFAULT 0,
  door TEXT NOT NULL DEFAULT 'file',
  in_reply_to TEXT,
  is_open INTEGER NOT NULL DEFAULT 0,
  FOREIGN KEY(thread_id) REFERENCES threads(thread_id)
);
INSERT INTO messages_with_defaults SELECT message_id, thread_id, from_agent, to_agent, kind, summary, body, payload_json, created_at,
  event_id, door, in_reply_to, is_open FROM messages;
DROP TABLE messages;
ALTER TABLE messages_with_defaults RENAME TO messages;
CREATE INDEX idx_messages_thread_created ON messages(thread_id, created_at);
CREATE INDEX idx_messages_thread_event ON messages(thread_id, event_id);
CREATE INDEX idx_messages_people ON messages(event_id) WHERE kind IN ('question', 'answer', 'result', 'control');
CREATE UNIQUE INDEX idx_messages_reply ON messages(in_reply_to) WHERE in_reply_to IS NOT NULL;
CREATE INDEX idx_messages_open ON messages(thread_id, event_id) WHERE is_open = 1;
CREATE INDEX idx_messages_question ON messages(thread_id, event_id) WHERE kind = 'question';

CREATE TABLE leases_with_defaults (
  thread_id TEXT PRIMARY KEY,
  agent_id TEXT NOT NULL,
  lease_token TEXT NOT NULL,
  claimed_at TEXT NOT NULL,
  expires_at TEXT NOT NULL,
  released_at TEXT,
  lease_seconds REAL NOT NULL DEFAULT 0,
  priority TEXT NOT NULL DEFAULT '',
  waiting INTEGER NOT NULL DEFAULT 0
);
INSERT INTO leases_with_defaults SELECT thread_id, agent_id, lease_token, claimed_at, expires_at, released_at, lease_seconds, priority,
  waiting FROM leases;
DROP TABLE leases;
ALTER TABLE leases_with_defaults RENAME TO leases;
CREATE INDEX idx_leases_lapse ON leases(waiting, priority, expires_at) WHERE released_at IS NULL;
CREATE INDEX idx_leases_holder ON leases(agent_id, expires_at) WHERE released_at IS NULL;

-- Rows of other programs. The conditions are false for every row that Postroom writes: it sets latest_message_id, event_id and
-- lease_seconds, and its instants have the one format that sorts as text. The triggers are short, because every command reads them.

CREATE TRIGGER foreign_thread AFTER INSERT ON threads WHEN NEW.latest_message_id IS NULL OR NEW.updated_at NOT GLOB '*T??:??:??.??????Z'
BEGIN
  INSERT INTO events (run_id, task_id, thread_id, source, event_type, summary, created_at)
    SELECT NEW.run_id, NEW.task_id, NEW.thread_id, NEW.created_by, 'thread.inserted', NEW.subject, strftime('%Y-%m-%dT%H:%M:%f000Z')
    WHERE NEW.latest_message_id IS NULL AND NOT EXISTS (SELECT 1 FROM events WHERE thread_id = NEW.thread_id);
  UPDATE threads SET
    created_at = coalesce(strftime('%Y-%m-%dT%H:%M:%f000Z', CASE WHEN created_at LIKE '____-%' THEN created_at END), strftime('%Y-%m-%dT%H:%M:%f000Z')),
    updated_at = coalesce(strftime('%Y-%m-%dT%H:%M:%f000Z', CASE WHEN updated_at LIKE '____-%' THEN updated_at END), strftime('%Y-%m-%dT%H:%M:%f000Z'))
  WHERE thread_id = NEW.thread_id;
END;

CREATE TRIGGER foreign_thread_update AFTER UPDATE OF updated_at ON threads WHEN NEW.updated_at NOT GLOB '*T??:??:??.??????Z'
BEGIN
  UPDATE threads SET updated_at = strftime('%Y-%m-%dT%H:%M:%f000Z') WHERE thread_id = NEW.thread_id;
END;

-- The message gets an event and its id, which orders it and wakes waiters. A question is open, and its asker waits. An answer settles the
-- latest open question of its receiver, if the sender may: a person any question, an agent those that were put to it.
CREATE TRIGGER foreign_message AFTER INSERT ON messages WHEN NEW.event_id = 0
BEGIN
  INSERT INTO events (run_id, task_id, thread_id, source, event_type, message_id, summary, payload_json, created_at)
    SELECT coalesce(max(run_id), ''), coalesce(max(task_id), ''), NEW.thread_id, NEW.from_agent, 'thread.inserted', NEW.message_id,
      NEW.summary, json_object('kind', NEW.kind, 'to', NEW.to_agent), strftime('%Y-%m-%dT%H:%M:%f000Z')
    FROM threads WHERE thread_id = NEW.thread_id;
  UPDATE messages SET event_id = last_insert_rowid(), is_open = (kind = 'question'),
    created_at = coalesce(strftime('%Y-%m-%dT%H:%M:%f000Z', CASE WHEN created_at LIKE '____-%' THEN created_at END), strftime('%Y-%m-%dT%H:%M:%f000Z')),
    in_reply_to = (
      SELECT q.message_id FROM messages q
      WHERE NEW.kind = 'answer' AND q.thread_id = NEW.thread_id AND q.is_open = 1 AND q.from_agent = NEW.to_agent
        AND NEW.from_agent IN (SELECT q.to_agent UNION SELECT name FROM agents WHERE name = NEW.from_agent AND kind = 'human')
      ORDER BY q.event_id DESC LIMIT 1)
  WHERE message_id = NEW.message_id;
  UPDATE messages SET is_open = 0 WHERE message_id = (SELECT in_reply_to FROM messages WHERE message_id = NEW.message_id);
  UPDATE leases SET waiting = (NEW.kind = 'question')
    WHERE thread_id = NEW.thread_id AND released_at IS NULL AND ((NEW.kind = 'question' AND agent_id = NEW.from_agent)
      OR (NEW.kind IN ('answer', 'control') AND agent_id = NEW.to_agent));
  UPDATE threads SET latest_message_id = NEW.message_id WHERE thread_id = NEW.thread_id;
  INSERT INTO agents (name, created_at, last_seen_at)
    VALUES (NEW.from_agent, strftime('%Y-%m-%dT%H:%M:%f000Z'), strftime('%Y-%m-%dT%H:%M:%f000Z'))
    ON CONFLICT (name) DO UPDATE SET last_seen_at = excluded.last_seen_at;
  INSERT INTO reads (agent_id, thread_id, read_event_id, latest_event_id, guest)
    SELECT NEW.from_agent, NEW.thread_id, 0, 0, NEW.from_agent NOT IN (created_by, assigned_to) FROM threads WHERE thread_id = NEW.thread_id
    UNION ALL SELECT NEW.to_agent, NEW.thread_id, 0, last_insert_rowid(), NEW.to_agent NOT IN (created_by, assigned_to)
    FROM threads WHERE thread_id = NEW.thread_id
    ON CONFLICT (agent_id, thread_id) DO UPDATE
    SET latest_event_id = max(latest_event_id, excluded.latest_event_id), guest = excluded.guest;
END;

-- The length of a lease tells it from one that a wrong clock made, so it has to be known.
CREATE TRIGGER foreign_lease AFTER INSERT ON leases WHEN NEW.lease_seconds = 0
BEGIN
  UPDATE leases SET
    lease_seconds = max(coalesce(round((julianday(expires_at) - julianday(claimed_at)) * 86400, 1), 0), 1),
    priority = coalesce((SELECT t.priority FROM threads t WHERE t.thread_id = NEW.thread_id), 'normal'),
    expires_at = coalesce(strftime('%Y-%m-%dT%H:%M:%f000Z', CASE WHEN expires_at LIKE '____-%' THEN expires_at END), strftime('%Y-%m-%dT%H:%M:%f000Z'))
  WHERE thread_id = NEW.thread_id;
END;

CREATE TRIGGER foreign_lease_update AFTER UPDATE OF expires_at ON leases WHEN NEW.expires_at NOT GLOB '*T??:??:??.??????Z'
  OR (NEW.lease_token <> OLD.lease_token AND NEW.lease_seconds = OLD.lease_seconds
    AND (julianday(NEW.expires_at) - julianday(NEW.claimed_at)) * 86400 > NEW.lease_seconds + 1)
BEGIN
  UPDATE leases SET
    lease_seconds = max(lease_seconds, coalesce(round((julianday(expires_at) - julianday('now')) * 86400, 1), 0)),
    expires_at = coalesce(strftime('%Y-%m-%dT%H:%M:%f000Z', CASE WHEN expires_at LIKE '____-%' THEN expires_at END), strftime('%Y-%m-%dT%H:%M:%f000Z'))
  WHERE thread_id = NEW.thread_id;
END;
