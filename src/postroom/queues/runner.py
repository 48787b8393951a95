"""The runner: a process that runs the notifier's queued tasks in parallel and exits when it is idle. One thread, because it forks."""

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
from postroom.queues.dispatching import dispatch
from postroom.queues.locks import ConsumerLock
from postroom.queues.notifier import RESIDENT, TASK_TOPICS, queue_dispatch, read_mode, revive_runner
from postroom.queues.queue import Queue
from postroom.store.sqlite import notifier_statements as sql
from postroom.store.sqlite.queue_databases import NotifierDatabase

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn

    from postroom.core.records.queues import DispatchStart
    from postroom.queues.running_command import RunningCommand
    from postroom.store.sqlite.engine import SqliteTransaction

MAX_RUNNING_COMMANDS = 16
MAX_STORED_RUNS = 1000
IDLE_SECONDS = 30.0
_MAX_TASKS_PER_BATCH = 100
_MAX_LOST_RUNS = 3
_HOME_CHECK_SECONDS = 60.0
_MAX_BACKOFF_SECONDS = 60


def main() -> NoReturn:
    """Run as the process that `runner_process.wake_runner` started. The arguments are the notifier's folder and the lock's descriptor."""
    home, lock = sys.argv[1], ConsumerLock(int(sys.argv[2]))
    os.closerange(3, lock.fd)  # close what the parent left open: a file may carry a lock
    os.closerange(lock.fd + 1, 1 << 16)
    os.set_inheritable(lock.fd, False)
    os.chdir(home)
    with NotifierDatabase(home, door="cli") as notifier:
        Runner(notifier, lock).run()
        lock.close()
        if os.path.exists(notifier.location):
            revive_runner(notifier)  # a task may have been queued by a process that found this runner up
    os._exit(0)


class Runner:
    """Runs due tasks, reaps their processes, and adopts the supervisors that its dispatches start."""

    def __init__(self, notifier: NotifierDatabase, lock: ConsumerLock) -> None:
        self._notifier = notifier
        self._lock = lock
        self._commands: dict[int, RunningCommand] = {}
        self._supervisors: dict[int, str] = {}
        self._stopping = False
        self._last_busy_at = monotonic()
        self._home_inode = os.stat(notifier.location).st_ino
        self._wake_read_fd, self._wake_write_fd = os.pipe()
        os.set_blocking(self._wake_read_fd, False)
        os.set_blocking(self._wake_write_fd, False)

    def run(self) -> None:
        """Run tasks until the runner is idle, is stopped by SIGTERM, or its database is gone."""
        self._install_signal_handlers()
        self._lock.write_state(pid=os.getpid())
        self._requeue_lost_tasks()
        self._run_due_tasks()  # before more is imported: the first task starts sooner
        with self._notifier.watch(*TASK_TOPICS) as watcher:
            while True:
                more = self._run_due_tasks()
                if self._should_exit():
                    return
                watcher.wait(0.0 if more else self._seconds_until_due(), self._wake_read_fd)
                self._drain_wake_pipe()

    def _install_signal_handlers(self) -> None:
        def stop(*_: object) -> None:
            self._stopping = True

        signal.set_wakeup_fd(self._wake_write_fd, warn_on_full_buffer=False)
        signal.signal(signal.SIGTERM, stop)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.signal(signal.SIGHUP, signal.SIG_IGN)

    def _drain_wake_pipe(self) -> None:
        try:
            os.read(self._wake_read_fd, 4096)
        except BlockingIOError:
            pass

    def _run_due_tasks(self) -> bool:
        """Start every due task, up to a batch. Returns whether more may be due."""
        self._reap_children()
        self._signal_overdue_commands()
        if self._stopping:
            return False
        self._fire_timers()
        due = self._take_due_tasks()
        for task in due:
            if task.queue is not None:
                self._dispatch_queue(task, task.queue)
            else:
                self._start_command(task)
        if due or self._commands:
            self._last_busy_at = monotonic()
        return len(due) == _MAX_TASKS_PER_BATCH

    def _should_exit(self) -> bool:
        """Return whether the runner has nothing left to run, or its database was deleted or replaced."""
        if not self._is_home_unchanged():
            return True
        if self._commands:
            return False
        if self._stopping:
            return True
        if self._supervisors:  # stay: if one is killed, its queue must be dispatched again
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
            times = [clock.parse_stamp(due) for due in (task, tx.fetch_one(sql.TIMER_NEXT)) if due]
            idle = not times and not self._commands and not self._supervisors and read_mode(tx) != RESIDENT
        waits = [(time - self._notifier.clock()) / clock.MICROSECONDS_PER_SECOND for time in times]
        waits += [command.signal_at - monotonic() for command in self._commands.values() if command.signal_at is not None]
        if idle:
            waits.append(idle_seconds() - (monotonic() - self._last_busy_at))
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
            now = clock.format_stamp(tx.now())
            free_slots = MAX_RUNNING_COMMANDS - len(self._commands)
            due = tx.fetch_all(sql.DISPATCHES_DUE, now=now, limit=_MAX_TASKS_PER_BATCH)
            due += tx.fetch_all(sql.COMMANDS_DUE, now=now, limit=min(free_slots, _MAX_TASKS_PER_BATCH)) if free_slots > 0 else []
        if not due:
            return []
        taken = []
        with self._notifier.write() as tx:
            for task in due:
                if tx.fetch_all(sql.TASK_START, number=task.number):  # empty if it was removed meanwhile
                    taken.append(task.replace(attempts=task.attempts + 1))
        return taken

    def _dispatch_queue(self, task: NotifierTask, path: str) -> None:
        """Dispatch a queue in this process, and adopt the supervisors that it forks."""
        started_at = monotonic()
        outcome, exit_code = OK, 0
        starts: tuple[DispatchStart, ...] = ()
        try:
            with Queue(path, door="cli") as queue:
                starts = dispatch(queue, adopt=lambda pid: self._supervisors.update({pid: path}))
            output = "".join(f"{start.consumer_id}: {start.outcome} {start.detail}".rstrip() + "\n" for start in starts)
        except (Refusal, OSError) as refusal:
            outcome, exit_code, output = FAILED, 1, f"{refusal}\n"
            if isinstance(refusal, StoreTrouble | OSError) and not isinstance(refusal, NoStore) and task.attempts < 5:
                task = task.replace(retries=task.attempts)  # the store may be available again soon: retry
        with self._notifier.write() as tx:
            self._finish_task(tx, task, started_at, outcome, exit_code, output)

    def _start_command(self, task: NotifierTask) -> None:
        from postroom.queues.running_command import RunningCommand

        try:
            environment = {**add_own_programs(command_environment()), **loads(task.environment_json)}
            command = RunningCommand(task, self._notifier.home, environment)
        except OSError as error:
            with self._notifier.write() as tx:
                self._finish_task(tx, task, monotonic(), FAILED, None, f"it could not be started: {error}")
            return
        self._commands[command.pid] = command

    def _signal_overdue_commands(self) -> None:
        for command in self._commands.values():
            command.signal_if_overdue()

    def _reap_children(self) -> None:
        """Collect the processes that ended: finish commands, and dispatch the queues of failed supervisors again."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            exit_code = os.waitstatus_to_exitcode(status)
            if pid in self._commands:
                self._finish_command(self._commands.pop(pid), exit_code)
            elif pid in self._supervisors:
                path = self._supervisors.pop(pid)
                if exit_code and os.path.exists(path):  # it was killed, or it failed: unread events may be left
                    queue_dispatch(self._notifier, path, author="notifier")

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
            self._requeue_task(tx, task, min(2 ** (task.attempts - 1), _MAX_BACKOFF_SECONDS), lost=0)
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
        """Queue the commands of due timers. Times that were missed are queued once."""
        with self._notifier.read() as tx:
            due = tx.fetch_all(sql.TIMERS_DUE, now=clock.format_stamp(tx.now()))
        if not due:
            return
        from postroom.queues.timers import next_fire_time

        with self._notifier.write() as tx:
            now = clock.format_stamp(tx.now())
            for timer in due:
                upcoming = clock.format_stamp(next_fire_time(timer.cron, timer.timezone, tx.now()))
                tx.execute(sql.TIMER_ADVANCE, timer=timer.timer_id, seen=timer.next_at, next=upcoming)
                task = f"timer-{timer.timer_id}"
                if tx.fetch_one(sql.TASK_QUEUED, task=task, command=timer.command) is None:
                    binds = {"author": timer.author, "command": timer.command, "retries": timer.retries, "timeout": timer.timeout_seconds}
                    tx.execute(sql.TASK_INSERT, task=task, queue=None, now=now, environment=timer.environment_json, **binds)


def idle_seconds() -> float:
    try:
        return max(float(os.environ.get("NOTIFIER_IDLE_SECONDS") or IDLE_SECONDS), 0.0)
    except ValueError:
        return IDLE_SECONDS
