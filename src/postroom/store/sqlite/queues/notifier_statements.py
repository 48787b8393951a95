"""The statements of the notifier's own database, which exists on SQLite only. `queues` uses them."""

from __future__ import annotations

from postroom.core.records.notifier import KnownQueue, NotifierRun, NotifierTask, NotifierTimer, TaskCounts
from postroom.store.tables import Query, Table, single_value

TASK_TABLE = Table("tasks", NotifierTask.__fields__)
RUN_TABLE = Table("runs", NotifierRun.__fields__)
TIMER_TABLE = Table("timers", NotifierTimer.__fields__)
SETTING_TABLE = Table("settings", ("name", "value"))
QUEUE_TABLE = Table("queues", KnownQueue.__fields__)
NEVER = "9999-12-31T23:59:59.999999Z"  # the next time of a timer that does not wait for a time

_TASK, _RUN, _TIMER = TASK_TABLE.column_list, RUN_TABLE.column_list, TIMER_TABLE.column_list

TASK_QUEUED = Query("SELECT 1 FROM tasks WHERE state = 'queued' AND task_id = :task AND command = :command", single_value)
TASK_INSERT = (
    "INSERT INTO tasks (task_id, author, command, queue, state, attempts, lost, retries, timeout_seconds, created_at, due_at,"
    " environment_json) VALUES (:task, :author, :command, :queue, 'queued', 0, 0, :retries, :timeout, :now, :now, :environment)"
)
TASK_GET = Query(f"SELECT {_TASK} FROM tasks WHERE number = :number", NotifierTask)
TASKS = Query(f"SELECT {_TASK} FROM tasks ORDER BY number", NotifierTask)
# The delay of a task is short. A task that is due much later than any delay was queued before the clock was set back: it is due now.
# A task runs once at a time. A task that was queued again while it runs waits for that run to end.
_FREE = (
    " AND NOT EXISTS (SELECT 1 FROM tasks AS twin WHERE twin.state = 'running' AND twin.task_id = tasks.task_id"
    " AND twin.command = tasks.command)"
)
_DUE = (
    f"SELECT {_TASK} FROM tasks WHERE state = 'queued' AND queue IS NULL AND (due_at <= :now OR due_at > :misdated){_FREE}"
    " ORDER BY due_at, number LIMIT :limit"
)
COMMANDS_DUE = Query(_DUE, NotifierTask)
DISPATCHES_DUE = Query(_DUE.replace("IS NULL", "IS NOT NULL"), NotifierTask)
DISPATCH_NEXT_DUE = Query(
    f"SELECT due_at FROM tasks WHERE state = 'queued' AND queue IS NOT NULL{_FREE} ORDER BY due_at LIMIT 1", single_value
)
TASK_NEXT_DUE = Query(f"SELECT due_at FROM tasks WHERE state = 'queued'{_FREE} ORDER BY due_at LIMIT 1", single_value)
TASKS_RUNNING = Query(f"SELECT {_TASK} FROM tasks WHERE state = 'running' ORDER BY number", NotifierTask)
TASK_START = Query(
    "UPDATE tasks SET state = 'running', attempts = attempts + 1 WHERE number = :number AND state = 'queued' RETURNING number", single_value
)
TASK_REQUEUE = "UPDATE tasks SET state = 'queued', due_at = :due, lost = :lost WHERE number = :number AND state = 'running'"
TASK_DELETE = "DELETE FROM tasks WHERE number = :number"
TASKS_REMOVE = Query("DELETE FROM tasks WHERE task_id = :task AND state = 'queued' RETURNING number", single_value)
TASK_COUNTS = Query("SELECT coalesce(sum(state = 'queued'), 0), coalesce(sum(state = 'running'), 0) FROM tasks", TaskCounts)

RUN_INSERT = (
    "INSERT INTO runs (task_id, author, command, attempt, started_at, ended_at, seconds, outcome, exit_status, signal, output)"
    " VALUES (:task, :author, :command, :attempt, :started, :ended, :seconds, :outcome, :status, :signal, :output)"
)
RUNS_FORGET = "DELETE FROM runs WHERE run <= (SELECT max(run) FROM runs) - :kept"
RUNS = Query(f"SELECT {_RUN} FROM runs ORDER BY run DESC LIMIT :limit", NotifierRun)
RUNS_OF = Query(f"SELECT {_RUN} FROM runs WHERE task_id = :task ORDER BY run DESC LIMIT :limit", NotifierRun)

TIMER_GET = Query(f"SELECT {_TIMER} FROM timers WHERE timer_id = :timer", NotifierTimer)
_TIMER_BINDS = ":timer, :author, :cron, :timezone, :command, :retries, :timeout, :now, :next, :environment, NULL"
TIMER_INSERT = f"INSERT INTO timers ({_TIMER}) VALUES ({_TIMER_BINDS})"
TIMERS = Query(f"SELECT {_TIMER} FROM timers ORDER BY timer_id", NotifierTimer)
TIMERS_DUE = Query(f"SELECT {_TIMER} FROM timers WHERE next_at <= :now ORDER BY next_at, timer_id", NotifierTimer)
TIMER_NEXT = Query(f"SELECT next_at FROM timers WHERE next_at < '{NEVER}' ORDER BY next_at LIMIT 1", single_value)
TIMER_ADVANCE = "UPDATE timers SET next_at = :next, trouble = :trouble WHERE timer_id = :timer AND next_at = :seen"
TIMER_DELETE = "DELETE FROM timers WHERE timer_id = :timer"
TIMER_COUNT = Query("SELECT count(*) FROM timers", single_value)

SETTING_GET = Query("SELECT value FROM settings WHERE name = :name", single_value)
SETTING_SET = "INSERT INTO settings (name, value) VALUES (:name, :value) ON CONFLICT (name) DO UPDATE SET value = excluded.value"

QUEUE_ADD = f"INSERT INTO queues ({QUEUE_TABLE.column_list}) VALUES (:path, :now) ON CONFLICT (path) DO NOTHING"
QUEUE_IS_KNOWN = Query("SELECT 1 FROM queues WHERE path = :path", single_value)
QUEUES = Query(f"SELECT {QUEUE_TABLE.column_list} FROM queues ORDER BY path", KnownQueue)
QUEUE_FORGET = "DELETE FROM queues WHERE path = :path"
