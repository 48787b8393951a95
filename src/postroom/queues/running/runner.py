"""The runner: a process that runs the notifier's queued tasks, supervises the handlers of queues, and exits when it is idle."""

from __future__ import annotations

import os
import signal
import sys
from time import monotonic

from postroom._fastpath.json_text import loads
from postroom.core import clock
from postroom.core.errors import NoStore, Refusal, StoreTrouble
from postroom.core.records.notifier import FAILED, LOST, OK, TIMEOUT, NotifierTask
from postroom.processes.command_environment import add_own_programs, command_environment
from postroom.queues.dispatching import dispatch_with
from postroom.queues.notifier import RESIDENT, TASK_TOPICS, read_mode, revive_runner
from postroom.queues.supervisor import Supervisor, install_wake_pipe, reap_children
from postroom.store.sqlite.queues import notifier_statements as sql
from postroom.store.sqlite.queues.queue_databases import NotifierDatabase

TYPE_CHECKING = False
if TYPE_CHECKING:
    from postroom.core.records.queues import DispatchStart
    from postroom.queues.locks import ConsumerLock
    from postroom.queues.running.running_command import RunningCommand
    from postroom.queues.running.timer_list import TimerList
    from postroom.queues.subscriptions import SubscriptionState
    from postroom.store.sqlite.engine import SqliteTransaction

MAX_RUNNING_COMMANDS = 16
MAX_STORED_RUNS = 1000
IDLE_SECONDS = 30.0
MAX_BACKOFF_SECONDS = 60
_MAX_TASKS_PER_BATCH = 100
_MAX_LOST_RUNS = 3
_HOME_CHECK_SECONDS = 60.0
_QUEUE_WATCH_SECONDS = 2.0
_CLOCK_CHECK_SECONDS = 10.0  # while there are timers: nothing wakes the runner when the clock is set back
_OUTPUT_CHECK_SECONDS = 1.0  # while commands run


def run_until_idle(home: str, lock: ConsumerLock, *, stays: bool = False) -> None:
    """Run as the process that holds the notifier's lock. With `stays`, only SIGTERM ends it."""
    os.chdir(home)
    with NotifierDatabase(home, door="cli", is_relaxed=True) as notifier:
        Runner(notifier, lock, stays=stays).run()
        lock.release()  # for the keeper too, which shares it
        if os.path.exists(notifier.location):
            revive_runner(notifier)  # a task may have been queued by a process that found this runner up


class Runner:
    """Runs due tasks, reaps their processes, and supervises the handlers that its dispatches start."""

    def __init__(self, notifier: NotifierDatabase, lock: ConsumerLock, *, stays: bool = False) -> None:
        self._notifier = notifier
        self._lock = lock
        self._stays = stays
        self._commands: dict[int, RunningCommand] = {}
        self._supervisor = Supervisor()
        self._unchecked_queues: list[str] = []
        self._dispatched_queues: set[str] = set()
        self._queue_marks: dict[str, tuple[int, ...]] = {}  # how each known queue was seen last
        self._changed_queues: set[str] = set()  # at the last look
        self._watch_at = 0.0
        self._clock_offset = 0.0
        self._stopping = False
        self._last_busy_at = monotonic()
        self._home_inode = os.stat(notifier.location).st_ino
        self._wake = install_wake_pipe()

    def run(self) -> None:
        """Run tasks until the runner is idle, is stopped by SIGTERM, or its database is gone."""
        signal.signal(signal.SIGTERM, self._stop)
        self._lock.write_state(pid=os.getpid())
        self._requeue_lost_tasks()
        self._run_due_tasks()  # before more is imported: the first task starts sooner
        self._begin()
        with self._notifier.watch(*TASK_TOPICS) as watcher:
            while True:
                more = self._run_due_tasks()
                self._watch_known_queues()
                self._check_next_queue()
                if self._should_exit():
                    return
                watcher.wait(0.0 if more or self._unchecked_queues else self._seconds_until_due(), self._wake.read_fd)
                self._wake.drain()

    def _begin(self) -> None:
        """Prepare what a runner does once: look at every known queue, whose events may wait since a crash, and at every timer."""
        with self._notifier.read() as tx:
            self._unchecked_queues = [queue.path for queue in tx.fetch_all(sql.QUEUES) if queue.path not in self._dispatched_queues]
            has_timers = bool(tx.fetch_one(sql.TIMER_COUNT))
        self._clock_offset = self._read_clock_offset()
        if has_timers:
            self._timers.fire_after_reboot()
            self._timers.correct_times()

    @property
    def _timers(self) -> TimerList:
        from postroom.queues.running.timer_list import TimerList

        return TimerList(self._notifier)

    def _stop(self, *_: object) -> None:
        self._stopping = True

    def _run_due_tasks(self) -> bool:
        """Start every due task, up to a batch. Returns whether more may be due."""
        if self._stopping:
            self._supervisor.stop_after_runs()
        self._reap_children()
        self._supervisor.advance()
        for command in self._commands.values():
            command.advance()
        if self._stopping:
            return False
        self._fire_timers()
        due = self._take_due_tasks()
        for task in due:
            if task.queue is not None:
                self._dispatch_queue(task, task.queue)
            else:
                self._start_command(task)
        if due or self._commands or self._supervisor.is_busy:
            self._last_busy_at = monotonic()
        return len(due) == _MAX_TASKS_PER_BATCH

    def _watch_known_queues(self) -> None:
        """If this runner stays up, look at known queues that changed: other users cannot wake it when they push."""
        if monotonic() < self._watch_at:
            return
        self._watch_at = monotonic() + _QUEUE_WATCH_SECONDS
        with self._notifier.read() as tx:
            if not self._stays and read_mode(tx) != RESIDENT:
                return
            paths = [queue.path for queue in tx.fetch_all(sql.QUEUES)]
        changed_before, self._changed_queues = self._changed_queues, set()
        for path in paths:
            seen, self._queue_marks[path] = self._queue_marks.get(path), _read_change_mark(path)
            if seen != self._queue_marks[path]:  # also if this is the first look
                self._changed_queues.add(path)
            # Look once more after a change: a commit becomes visible later than the write to the file that the mark shows.
            if path in self._changed_queues | changed_before and path not in self._unchecked_queues:
                self._unchecked_queues.append(path)

    def _check_next_queue(self) -> None:
        """Dispatch one queue that was known when the runner started, and forget it if it was deleted."""
        if not self._unchecked_queues or self._stopping:
            return
        path = self._unchecked_queues.pop()
        try:
            self._dispatch(path)
        except NoStore:
            with self._notifier.write() as tx:
                tx.execute(sql.QUEUE_FORGET, path=path)
        except (Refusal, OSError) as trouble:
            print(f"{path}: {trouble}", file=sys.stderr, flush=True)

    def _should_exit(self) -> bool:
        """Return whether the runner has nothing left to run, or its database was deleted or replaced."""
        if not self._is_home_unchanged():
            return True
        if self._commands or self._supervisor.is_busy:
            return False
        if self._stopping:
            return True
        if self._stays or self._unchecked_queues:
            return False
        with self._notifier.read() as tx:
            waiting = tx.fetch_one(sql.TASK_NEXT_DUE) or tx.fetch_one(sql.TIMER_NEXT) or read_mode(tx) == RESIDENT
        return not waiting and monotonic() - self._last_busy_at >= idle_seconds()

    def _is_home_unchanged(self) -> bool:
        try:
            return os.stat(self._notifier.location).st_ino == self._home_inode
        except OSError:
            return False

    def _seconds_until_due(self) -> float:
        """Return the seconds until a task, a timer, a timeout or the idle exit is due, but at most `_HOME_CHECK_SECONDS`."""
        with self._notifier.read() as tx:
            task = tx.fetch_one(sql.TASK_NEXT_DUE) if len(self._commands) < MAX_RUNNING_COMMANDS else tx.fetch_one(sql.DISPATCH_NEXT_DUE)
            timer = tx.fetch_one(sql.TIMER_NEXT)
            idle = not (task or timer or self._commands or self._supervisor.is_busy or self._stays) and read_mode(tx) != RESIDENT
        times = [clock.parse_stamp(due) for due in (task, timer) if due]
        waits = [(time - self._notifier.clock()) / clock.MICROSECONDS_PER_SECOND for time in times]
        waits += [command.signal_at - monotonic() for command in self._commands.values() if command.signal_at is not None]
        waits += [_OUTPUT_CHECK_SECONDS] if self._commands else []
        waits += [_CLOCK_CHECK_SECONDS] if timer else []
        handlers = self._supervisor.seconds_until_due()
        if handlers is not None:
            waits.append(handlers)
        if idle:
            waits.append(idle_seconds() - (monotonic() - self._last_busy_at))
        elif not waits or self._queue_marks:
            waits.append(_QUEUE_WATCH_SECONDS)
        return max(min((*waits, _HOME_CHECK_SECONDS)), 0.001)

    def _requeue_lost_tasks(self) -> None:
        """Queue again the tasks of a runner that was killed. They may run twice. After `_MAX_LOST_RUNS` they are dropped."""
        with self._notifier.write() as tx:
            for task in tx.fetch_all(sql.TASKS_RUNNING):
                self._store_run(tx, task, clock.now(), 0.0, LOST, None, "")
                if task.lost < _MAX_LOST_RUNS:
                    self._requeue_task(tx, task, 0, lost=task.lost + 1)
                else:
                    tx.execute(sql.TASK_DELETE, number=task.number)

    def _take_due_tasks(self) -> list[NotifierTask]:
        """Mark due tasks as running and return them. `MAX_RUNNING_COMMANDS` does not limit dispatches."""
        with self._notifier.read() as tx:
            latest = tx.now() + int((MAX_BACKOFF_SECONDS + clock.MAX_CLOCK_STEP_SECONDS) * clock.MICROSECONDS_PER_SECOND)
            times = {"now": clock.format_stamp(tx.now()), "misdated": clock.format_stamp(latest)}
            free_slots = min(MAX_RUNNING_COMMANDS - len(self._commands), _MAX_TASKS_PER_BATCH)
            due = tx.fetch_all(sql.DISPATCHES_DUE, limit=_MAX_TASKS_PER_BATCH, **times)
            due += tx.fetch_all(sql.COMMANDS_DUE, limit=free_slots, **times) if free_slots > 0 else []
        if not due:
            return []
        taken = []
        with self._notifier.write() as tx:
            for task in due:
                if tx.fetch_all(sql.TASK_START, number=task.number):  # empty if it was removed meanwhile
                    taken.append(task.replace(attempts=task.attempts + 1))
        return taken

    def _dispatch_queue(self, task: NotifierTask, path: str) -> None:
        """Dispatch a queue, and store how that went."""
        started_at = monotonic()
        outcome, exit_code = OK, 0
        try:
            starts = self._dispatch(path)
            output = "".join(f"{start.consumer_id}: {start.outcome} {start.detail}".rstrip() + "\n" for start in starts)
        except (Refusal, OSError) as refusal:
            outcome, exit_code, output = FAILED, 1, f"{refusal}\n"
            if isinstance(refusal, StoreTrouble | OSError) and not isinstance(refusal, NoStore) and task.attempts < 5:
                task = task.replace(retries=task.attempts)  # the store may be available again soon: retry
        with self._notifier.write() as tx:
            self._finish_task(tx, task, started_at, outcome, exit_code, output)

    def _dispatch(self, path: str) -> tuple[DispatchStart, ...]:
        queue = self._supervisor.open_queue(path)
        self._dispatched_queues.add(path)
        self._supervisor.check_soon(path)  # a subscription may have changed

        def start(state: SubscriptionState, lock: ConsumerLock) -> str:
            return self._supervisor.start(queue, state, lock, at_once=False)

        return dispatch_with(queue, start)

    def _start_command(self, task: NotifierTask) -> None:
        from postroom.queues.running.running_command import RunningCommand

        try:
            environment = {**add_own_programs(command_environment()), **loads(task.environment_json)}
            command = RunningCommand(task, self._notifier.home, environment)
        except OSError as error:
            with self._notifier.write() as tx:
                self._finish_task(tx, task, monotonic(), FAILED, None, f"it could not be started: {error}")
            return
        self._commands[command.pid] = command

    def _reap_children(self) -> None:
        """Collect the processes that ended, and finish commands."""
        for pid, exit_code in reap_children(self._supervisor):
            if pid in self._commands:
                self._finish_command(self._commands.pop(pid), exit_code)

    def _finish_command(self, command: RunningCommand, exit_code: int) -> None:
        outcome = OK if exit_code == 0 else FAILED
        if command.timed_out:
            outcome = TIMEOUT
        output = command.close_and_read_output()
        with self._notifier.write() as tx:
            self._finish_task(tx, command.task, command.started_at, outcome, exit_code, output)
        self._last_busy_at = monotonic()

    def _finish_task(
        self, tx: SqliteTransaction, task: NotifierTask, started_at: float, outcome: str, exit_code: int | None, output: str
    ) -> None:
        """Store the outcome of a run. Then delete the task, or queue it again if it failed and has retries left."""
        seconds = monotonic() - started_at
        self._store_run(tx, task, tx.now(), seconds, outcome, exit_code, output)
        if outcome != OK and task.attempts <= task.retries:
            self._requeue_task(tx, task, min(2 ** (task.attempts - 1), MAX_BACKOFF_SECONDS), lost=0)
        else:
            tx.execute(sql.TASK_DELETE, number=task.number)

    def _store_run(
        self, tx: SqliteTransaction, task: NotifierTask, ended: int, seconds: float, outcome: str, exit_code: int | None, output: str
    ) -> None:
        tx.execute(
            sql.RUN_INSERT,
            task=task.task_id,
            author=task.author,
            command=task.command,
            attempt=task.attempts,
            started=clock.format_stamp(ended - int(seconds * clock.MICROSECONDS_PER_SECOND)),
            ended=clock.format_stamp(ended),
            seconds=round(seconds, 6),
            outcome=outcome,
            status=exit_code if exit_code is not None and exit_code >= 0 else None,
            signal=-exit_code if exit_code is not None and exit_code < 0 else None,
            output=output,
        )
        tx.execute(sql.RUNS_FORGET, kept=MAX_STORED_RUNS)

    def _requeue_task(self, tx: SqliteTransaction, task: NotifierTask, delay_seconds: int, *, lost: int) -> None:
        if tx.fetch_one(sql.TASK_QUEUED, task=task.task_id, command=task.command) is not None:
            tx.execute(sql.TASK_DELETE, number=task.number)  # the same command was queued again while it ran
        else:
            due = clock.format_stamp(tx.now() + delay_seconds * clock.MICROSECONDS_PER_SECOND)
            tx.execute(sql.TASK_REQUEUE, number=task.number, due=due, lost=lost)

    def _fire_timers(self) -> None:
        """Queue the commands of due timers. If the clock was set back, compute their next times again."""
        with self._notifier.read() as tx:
            is_due = (tx.fetch_one(sql.TIMER_NEXT) or sql.NEVER) <= clock.format_stamp(tx.now())
        offset = self._read_clock_offset()
        if self._clock_offset - offset > 1.0:
            self._timers.correct_times()
        self._clock_offset = offset
        if is_due:
            self._timers.fire_due()

    def _read_clock_offset(self) -> float:
        """Return the seconds between the clock of the machine and one that is never set."""
        return self._notifier.clock() / clock.MICROSECONDS_PER_SECOND - monotonic()


def _read_change_mark(path: str) -> tuple[int, ...]:
    """Return numbers that change with a queue. The size is among them: the time of a file has steps of some milliseconds."""
    mark: list[int] = []
    for name in ("events.db", "events.db-wal"):
        try:
            status = os.stat(os.path.join(path, name))
            mark += (status.st_mtime_ns, status.st_size)
        except OSError:
            mark.append(0)
    return tuple(mark)


def idle_seconds() -> float:
    try:
        return max(float(os.environ.get("NOTIFIER_IDLE_SECONDS") or IDLE_SECONDS), 0.0)
    except ValueError:
        return IDLE_SECONDS
