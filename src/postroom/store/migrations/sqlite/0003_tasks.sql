-- The tables of document 003: jobs, tasks, and the skills of agents.

CREATE TABLE jobs (
  job_id TEXT PRIMARY KEY,
  agent TEXT NOT NULL,
  status TEXT NOT NULL,
  sheet INTEGER NOT NULL,
  version INTEGER NOT NULL,
  state_json TEXT NOT NULL,
  created_at TEXT NOT NULL,
  updated_at TEXT NOT NULL,
  event_id INTEGER NOT NULL
);
CREATE INDEX idx_jobs_running ON jobs(agent, event_id) WHERE status = 'running';
CREATE INDEX idx_jobs_newest ON jobs(event_id);
CREATE INDEX idx_jobs_agent ON jobs(agent, event_id);

-- kind: a task, or the result of a task on its way back to the source. is_open: 1 until it has ended. event_id: order of arrival.
-- due_at: the earlier of its deadline and the expiry of its lease.
CREATE TABLE tasks (
  task_id TEXT PRIMARY KEY,
  kind TEXT NOT NULL,
  source_job_id TEXT NOT NULL,
  source_agent TEXT NOT NULL,
  target_job_id TEXT,
  target_agent TEXT NOT NULL,
  description TEXT NOT NULL,
  context_json TEXT NOT NULL,
  status TEXT NOT NULL,
  is_open INTEGER NOT NULL,
  priority TEXT NOT NULL,
  urgency INTEGER NOT NULL,
  attempt INTEGER NOT NULL,
  deadline TEXT,
  artifacts_json TEXT,
  reason TEXT,
  reason_code TEXT,
  outcome TEXT,
  answers TEXT,
  parent TEXT,
  depth INTEGER NOT NULL,
  thread_id TEXT,
  created_at TEXT NOT NULL,
  accepted_at TEXT,
  ended_at TEXT,
  lease_token TEXT,
  lease_expires_at TEXT,
  due_at TEXT,
  event_id INTEGER NOT NULL
);
CREATE INDEX idx_tasks_job ON tasks(target_job_id, urgency, event_id) WHERE is_open = 1;
CREATE INDEX idx_tasks_waiting ON tasks(target_agent, urgency, event_id) WHERE is_open = 1 AND status = 'pending';
CREATE INDEX idx_tasks_unrouted ON tasks(target_agent, event_id) WHERE is_open = 1 AND target_job_id IS NULL;
CREATE INDEX idx_tasks_due ON tasks(due_at) WHERE is_open = 1 AND due_at IS NOT NULL;
CREATE INDEX idx_tasks_threads ON tasks(thread_id) WHERE is_open = 1 AND thread_id IS NOT NULL;
CREATE INDEX idx_tasks_newest ON tasks(event_id);
CREATE INDEX idx_tasks_agent ON tasks(target_agent, event_id);
CREATE INDEX idx_tasks_status ON tasks(status, event_id);
CREATE INDEX idx_tasks_agent_status ON tasks(target_agent, status, event_id);

CREATE TABLE agent_skills (
  skill TEXT NOT NULL,
  agent TEXT NOT NULL,
  PRIMARY KEY (skill, agent)
) WITHOUT ROWID;
CREATE INDEX idx_agent_skills_agent ON agent_skills(agent);
