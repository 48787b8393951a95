"""The SQL of the notifier's own database."""

from __future__ import annotations

_TASK = "number, task_id, author, command, queue, state, attempts, lost, retries, timeout_seconds, created_at, due_at"
_RUN = "run, task_id, author, command, attempt, started_at, ended_at, seconds, outcome, exit_status, signal, output"
_TIMER = "timer_id, author, cron, timezone, command, retries, timeout_seconds, created_at, next_at"

TASK_QUEUED = "SELECT 1 FROM tasks WHERE state = 'queued' AND task_id = :task AND command = :command"
TASK_INSERT = (
    "INSERT INTO tasks (task_id, author, command, queue, state, attempts, lost, retries, timeout_seconds, created_at, due_at)"
    " VALUES (:task, :author, :command, :queue, 'queued', 0, 0, :retries, :timeout, :now, :now)"
)
TASK_GET = f"SELECT {_TASK} FROM tasks WHERE number = :number"
TASKS = f"SELECT {_TASK} FROM tasks ORDER BY number"
# One of each at a time: what was queued again while it runs waits for that run to end.
_FREE = (
    " AND NOT EXISTS (SELECT 1 FROM tasks AS twin WHERE twin.state = 'running' AND twin.task_id = tasks.task_id"
    " AND twin.command = tasks.command)"
)
_DUE = f"SELECT {_TASK} FROM tasks WHERE state = 'queued' AND queue IS NULL AND due_at <= :now{_FREE} ORDER BY due_at, number LIMIT :limit"
COMMANDS_DUE = _DUE
DISPATCHES_DUE = _DUE.replace("IS NULL", "IS NOT NULL")
DISPATCH_NEXT_DUE = f"SELECT due_at FROM tasks WHERE state = 'queued' AND queue IS NOT NULL{_FREE} ORDER BY due_at LIMIT 1"
TASK_NEXT_DUE = f"SELECT due_at FROM tasks WHERE state = 'queued'{_FREE} ORDER BY due_at LIMIT 1"
TASKS_RUNNING = f"SELECT {_TASK} FROM tasks WHERE state = 'running' ORDER BY number"
TASK_START = "UPDATE tasks SET state = 'running', attempts = attempts + 1 WHERE number = :number AND state = 'queued' RETURNING number"
TASK_REQUEUE = "UPDATE tasks SET state = 'queued', due_at = :due, lost = :lost WHERE number = :number AND state = 'running'"
TASK_DELETE = "DELETE FROM tasks WHERE number = :number"
TASKS_REMOVE = "DELETE FROM tasks WHERE task_id = :task AND state = 'queued' RETURNING number"
TASK_COUNTS = "SELECT coalesce(sum(state = 'queued'), 0), coalesce(sum(state = 'running'), 0) FROM tasks"

RUN_INSERT = (
    "INSERT INTO runs (task_id, author, command, attempt, started_at, ended_at, seconds, outcome, exit_status, signal, output)"
    " VALUES (:task, :author, :command, :attempt, :started, :ended, :seconds, :outcome, :status, :signal, :output)"
)
RUNS_FORGET = "DELETE FROM runs WHERE run <= (SELECT max(run) FROM runs) - :kept"
RUNS = f"SELECT {_RUN} FROM runs ORDER BY run DESC LIMIT :limit"
RUNS_OF = f"SELECT {_RUN} FROM runs WHERE task_id = :task ORDER BY run DESC LIMIT :limit"

TIMER_GET = f"SELECT {_TIMER} FROM timers WHERE timer_id = :timer"
TIMER_INSERT = (
    "INSERT INTO timers (timer_id, author, cron, timezone, command, retries, timeout_seconds, created_at, next_at)"
    " VALUES (:timer, :author, :cron, :timezone, :command, :retries, :timeout, :now, :next)"
)
TIMERS = f"SELECT {_TIMER} FROM timers ORDER BY timer_id"
TIMERS_DUE = f"SELECT {_TIMER} FROM timers WHERE next_at <= :now ORDER BY next_at, timer_id"
TIMER_NEXT = "SELECT next_at FROM timers ORDER BY next_at LIMIT 1"
TIMER_ADVANCE = "UPDATE timers SET next_at = :next WHERE timer_id = :timer AND next_at = :seen"
TIMER_DELETE = "DELETE FROM timers WHERE timer_id = :timer"
TIMER_COUNT = "SELECT count(*) FROM timers"

SETTING_GET = "SELECT value FROM settings WHERE name = :name"
SETTING_SET = "INSERT INTO settings (name, value) VALUES (:name, :value) ON CONFLICT (name) DO UPDATE SET value = excluded.value"
