-- The database of the notifier: tasks to run, past runs, and timers.

CREATE TABLE tasks (
  number INTEGER PRIMARY KEY AUTOINCREMENT,
  task_id TEXT NOT NULL,
  author TEXT NOT NULL,
  command TEXT NOT NULL,
  queue TEXT,
  state TEXT NOT NULL CHECK (state IN ('queued', 'running')),
  attempts INTEGER NOT NULL,
  lost INTEGER NOT NULL,
  retries INTEGER NOT NULL,
  timeout_seconds REAL,
  created_at TEXT NOT NULL,
  due_at TEXT NOT NULL
);
CREATE UNIQUE INDEX idx_tasks_queued ON tasks(task_id, command) WHERE state = 'queued';
CREATE INDEX idx_tasks_due ON tasks(due_at, number) WHERE state = 'queued';
CREATE INDEX idx_dispatches_due ON tasks(due_at, number) WHERE state = 'queued' AND queue IS NOT NULL;
CREATE INDEX idx_commands_due ON tasks(due_at, number) WHERE state = 'queued' AND queue IS NULL;
CREATE INDEX idx_tasks_running ON tasks(task_id, command, number) WHERE state = 'running';

CREATE TABLE runs (
  run INTEGER PRIMARY KEY AUTOINCREMENT,
  task_id TEXT NOT NULL,
  author TEXT NOT NULL,
  command TEXT NOT NULL,
  attempt INTEGER NOT NULL,
  started_at TEXT NOT NULL,
  ended_at TEXT NOT NULL,
  seconds REAL NOT NULL,
  outcome TEXT NOT NULL CHECK (outcome IN ('ok', 'failed', 'timeout', 'lost')),
  exit_status INTEGER,
  signal INTEGER,
  output TEXT NOT NULL
);
CREATE INDEX idx_runs_task ON runs(task_id, run);

CREATE TABLE timers (
  timer_id TEXT NOT NULL PRIMARY KEY,
  author TEXT NOT NULL,
  cron TEXT NOT NULL,
  timezone TEXT NOT NULL,
  command TEXT NOT NULL,
  retries INTEGER NOT NULL,
  timeout_seconds REAL,
  created_at TEXT NOT NULL,
  next_at TEXT NOT NULL
);
CREATE INDEX idx_timers_next ON timers(next_at);

CREATE TABLE settings (
  name TEXT NOT NULL PRIMARY KEY,
  value TEXT NOT NULL
);
