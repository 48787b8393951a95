-- The session of a program in which a resident agent works on a thread. thread_id: empty for its mail. prompted_event_id: the latest
-- event that a prompt told of.
CREATE TABLE conversations (
  agent TEXT NOT NULL,
  thread_id TEXT NOT NULL,
  program TEXT NOT NULL,
  session TEXT NOT NULL,
  turns BIGINT NOT NULL,
  prompted_event_id BIGINT NOT NULL,
  updated_at TEXT NOT NULL,
  PRIMARY KEY (agent, thread_id)
);

-- A way to wake an agent in a session of a program. state: ready or off, with the reason. retry_at: microseconds, after a failure.
-- hour, rings: how often it was rung in an hour.
CREATE TABLE wake_routes (
  agent TEXT NOT NULL,
  route TEXT NOT NULL,
  session TEXT NOT NULL,
  program TEXT NOT NULL,
  host TEXT NOT NULL,
  pid BIGINT NOT NULL,
  state TEXT NOT NULL,
  reason TEXT NOT NULL,
  failures BIGINT NOT NULL,
  retry_at BIGINT NOT NULL,
  hour BIGINT NOT NULL,
  rings BIGINT NOT NULL,
  registered_at TEXT NOT NULL,
  PRIMARY KEY (agent, route, session)
);
