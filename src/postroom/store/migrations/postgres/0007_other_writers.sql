-- An index of the event log for those who watch from an old cursor.
-- Differs from SQLite: the schema of document 000 is one of SQLite, so no other program writes rows of it here, and no triggers are needed.

-- A block is 512 consecutive event ids. A topic is what `watch` filters by: an agent, a run, a status, or a status with one of the others.
-- The row says that the block has an event of the topic. A block is summarised when the next one begins, so that no other write pays for it.
-- The cursor `work.events` is the last event of the summarised blocks.
CREATE TABLE event_topics (
  topic TEXT NOT NULL,
  block BIGINT NOT NULL,
  PRIMARY KEY (topic, block)
);

INSERT INTO cursors (name, event_id) SELECT 'work.events', greatest(coalesce(max(event_id), 0) / 512 * 512 - 1, 0) FROM events;
INSERT INTO event_topics (topic, block)
WITH facts AS (
  SELECT e.event_id / 512 AS block, e.run_id, e.source, e.event_type, CAST(e.payload_json AS json) ->> 'status' AS status,
    CAST(e.payload_json AS json) ->> 'assigned_to' AS assigned_to, CAST(e.payload_json AS json) ->> 'created_by' AS created_by,
    CAST(e.payload_json AS json) ->> 'to' AS to_agent
  FROM events e WHERE e.thread_id <> '' AND e.event_id <= (SELECT c.event_id FROM cursors c WHERE c.name = 'work.events')),
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
