"""The runner: runs what is queued, side by side, until nothing is left to do. It has one thread, because it forks."""

from __future__ import annotations

import os
import signal
import sys
from time import monotonic

from postroom.core import clock
from postroom.core.chores import FAILED, LOST, OK, TIMEOUT, NotifierTask, Timer
from postroom.core.errors import NoStore, Refusal, StoreTrouble
from postroom.queues.dispatching import dispatch
from postroom.queues.locks import Lock
from postroom.queues.notifier import RESIDENT, TASKS, mode, queue_dispatch, revive
from postroom.queues.queue import Queue
from postroom.queues.supervisor import path_with_us
from postroom.store.sqlite import notifier_statements as sql
from postroom.store.sqlite.files import NotifierFile

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn

    from postroom.core.events import Start
    from postroom.queues.jobs import Job
    from postroom.store.sqlite.engine import Transaction

MOST_JOBS = 16
KEPT_RUNS = 1000
IDLE_SECONDS = 30.0
_A_TURN = 100  # tasks
_MOST_LOST = 3
_LOOK_HOME = 60.0
_LONGEST_BACKOFF = 60


def main() -> NoReturn:
    """What a fresh interpreter does that `standby.wake` started."""
    home, lock = sys.argv[1], Lock(int(sys.argv[2]))
    os.closerange(3, lock.file)  # whoever started us may have had files open for us to inherit, or locks on them
    os.closerange(lock.file + 1, 1 << 16)
    os.set_inheritable(lock.file, False)
    os.chdir(home)
    with NotifierFile(home, door="cli") as notifier:
        Runner(notifier, lock).run()
        lock.close()
        if os.path.exists(notifier.place):
            revive(notifier)  # who queued something while we were leaving found us up
    os._exit(0)


class Runner:
    def __init__(self, notifier: NotifierFile, lock: Lock) -> None:
        self._notifier = notifier
        self._lock = lock
        self._jobs: dict[int, Job] = {}
        self._supervisors: dict[int, str] = {}
        self._stopping = False
        self._busy_at = monotonic()
        self._home = os.stat(notifier.place).st_ino
        self._woken, self._wake = os.pipe()
        os.set_blocking(self._woken, False)
        os.set_blocking(self._wake, False)

    def run(self) -> None:
        self._heed_signals()
        self._lock.write(pid=os.getpid())
        self._recover()
        self._turn()  # before anything else is imported: whoever started us waits for this
        with self._notifier.watch(*TASKS) as bell:
            while True:
                more = self._turn()
                if self._over():
                    return
                bell.wait(0.0 if more else self._pause(), self._woken)
                self._drain()

    def _heed_signals(self) -> None:
        def stop(*_: object) -> None:
            self._stopping = True

        signal.set_wakeup_fd(self._wake, warn_on_full_buffer=False)
        signal.signal(signal.SIGTERM, stop)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.signal(signal.SIGHUP, signal.SIG_IGN)

    def _drain(self) -> None:
        try:
            os.read(self._woken, 4096)
        except BlockingIOError:
            pass

    def _turn(self) -> bool:
        """Do what is due; whether there may be more."""
        self._reap()
        self._end_late_jobs()
        if self._stopping:
            return False
        self._fire_timers()
        due = self._take()
        for task in due:
            if task.queue is not None:
                self._dispatch(task, task.queue)
            else:
                self._start(task)
        if due or self._jobs:
            self._busy_at = monotonic()
        return len(due) == _A_TURN

    def _over(self) -> bool:
        if not self._same_home():
            return True
        if self._jobs:
            return False
        if self._stopping:
            return True
        if self._supervisors:  # should one be killed, somebody has to look after its consumer
            return False
        with self._notifier.read() as tx:
            waiting = tx.one(sql.TASK_NEXT_DUE) or tx.one(sql.TIMER_NEXT) or mode(tx) == RESIDENT
        return not waiting and monotonic() - self._busy_at >= idle_seconds()

    def _same_home(self) -> bool:
        try:
            return os.stat(self._notifier.place).st_ino == self._home
        except OSError:
            return False

    def _pause(self) -> float:
        """Seconds until something is due by itself, or until it is time to see whether home is still there."""
        with self._notifier.read() as tx:
            task = tx.one(sql.TASK_NEXT_DUE) if len(self._jobs) < MOST_JOBS else tx.one(sql.DISPATCH_NEXT_DUE)
            times = [clock.instant(row[0]) for row in (task, tx.one(sql.TIMER_NEXT)) if row]
            idle = not times and not self._jobs and not self._supervisors and mode(tx) != RESIDENT
        waits = [(time - self._notifier.clock()) / clock.SECOND for time in times]
        waits += [job.due - monotonic() for job in self._jobs.values() if job.due is not None]
        if idle:
            waits.append(idle_seconds() - (monotonic() - self._busy_at))
        return max(min((*waits, _LOOK_HOME)), 0.001)

    def _recover(self) -> None:
        """What a runner had in hand that was killed is run again: it may or may not have been done."""
        with self._notifier.write() as tx:
            for row in tx.all(sql.TASKS_RUNNING):
                task = NotifierTask(*row)
                self._record(tx, task, clock.now(), 0.0, LOST, None, "")
                if task.lost < _MOST_LOST:
                    self._again(tx, task, 0, lost=task.lost + 1)
                else:
                    tx.run(sql.TASK_DELETE, number=task.number)

    def _take(self) -> list[NotifierTask]:
        """Tasks that are due, now ours to run. Dispatches never wait for a place."""
        with self._notifier.read() as tx:
            now, places = clock.stamp(tx.now()), MOST_JOBS - len(self._jobs)
            rows = tx.all(sql.DISPATCHES_DUE, now=now, limit=_A_TURN)
            rows += tx.all(sql.COMMANDS_DUE, now=now, limit=min(places, _A_TURN)) if places > 0 else []
        if not rows:
            return []
        taken = []
        with self._notifier.write() as tx:
            for row in rows:
                if tx.all(sql.TASK_START, number=row[0]):  # unless it was removed meanwhile
                    task = NotifierTask(*row)
                    taken.append(task.replace(attempts=task.attempts + 1))
        return taken

    def _dispatch(self, task: NotifierTask, path: str) -> None:
        began, outcome, status = monotonic(), OK, 0
        starts: tuple[Start, ...] = ()
        try:
            with Queue(path, door="cli") as queue:
                starts = dispatch(queue, adopt=lambda process: self._supervisors.update({process: path}))
            said = "".join(f"{start.consumer_id}: {start.outcome} {start.detail}".rstrip() + "\n" for start in starts)
        except (Refusal, OSError) as refusal:
            outcome, status, said = FAILED, 1, f"{refusal}\n"
            if isinstance(refusal, StoreTrouble | OSError) and not isinstance(refusal, NoStore) and task.attempts < 5:
                task = task.replace(retries=task.attempts)  # a busy disk is no reason to forget it
        with self._notifier.write() as tx:
            self._settle(tx, task, began, outcome, status, said)

    def _start(self, task: NotifierTask) -> None:
        from postroom.queues.jobs import Job

        try:
            job = Job(task, self._notifier.home, {**os.environ, "PATH": path_with_us()})
        except OSError as error:
            with self._notifier.write() as tx:
                self._settle(tx, task, monotonic(), FAILED, None, f"it could not be started: {error}")
            return
        self._jobs[job.process] = job

    def _end_late_jobs(self) -> None:
        for job in self._jobs.values():
            job.end_if_late()

    def _reap(self) -> None:
        while True:
            try:
                process, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if process == 0:
                return
            code = os.waitstatus_to_exitcode(status)
            if process in self._jobs:
                self._ended(self._jobs.pop(process), code)
            elif process in self._supervisors:
                path = self._supervisors.pop(process)
                if code and os.path.exists(path):  # killed, or at its wits' end: what it left is looked after again
                    queue_dispatch(self._notifier, path, author="notifier")

    def _ended(self, job: Job, code: int) -> None:
        outcome = TIMEOUT if job.late else OK if code == 0 else FAILED
        said = job.close()
        with self._notifier.write() as tx:
            self._settle(tx, job.task, job.began, outcome, code, said)
        self._busy_at = monotonic()

    def _settle(self, tx: Transaction, task: NotifierTask, began: float, outcome: str, code: int | None, said: str) -> None:
        """Keep how a run ended; the task is done, or queued again."""
        seconds = monotonic() - began
        self._record(tx, task, tx.now(), seconds, outcome, code, said)
        if outcome != OK and task.attempts <= task.retries:
            self._again(tx, task, min(2 ** (task.attempts - 1), _LONGEST_BACKOFF), lost=0)
        else:
            tx.run(sql.TASK_DELETE, number=task.number)

    def _record(self, tx: Transaction, task: NotifierTask, ended: int, seconds: float, outcome: str, code: int | None, said: str) -> None:
        tx.run(
            sql.RUN_INSERT,
            task=task.task_id,
            author=task.author,
            command=task.command,
            attempt=task.attempts,
            started=clock.stamp(ended - int(seconds * clock.SECOND)),
            ended=clock.stamp(ended),
            seconds=round(seconds, 6),
            outcome=outcome,
            status=code if code is not None and code >= 0 else None,
            signal=-code if code is not None and code < 0 else None,
            output=said,
        )
        tx.run(sql.RUNS_FORGET, kept=KEPT_RUNS)

    def _again(self, tx: Transaction, task: NotifierTask, seconds: int, *, lost: int) -> None:
        if tx.one(sql.TASK_QUEUED, task=task.task_id, command=task.command) is not None:
            tx.run(sql.TASK_DELETE, number=task.number)  # it was queued again while it ran: that one will do
        else:
            due = clock.stamp(tx.now() + seconds * clock.SECOND)
            tx.run(sql.TASK_REQUEUE, number=task.number, due=due, lost=lost)

    def _fire_timers(self) -> None:
        with self._notifier.read() as tx:
            due = [Timer(*row) for row in tx.all(sql.TIMERS_DUE, now=clock.stamp(tx.now()))]
        if not due:
            return
        from postroom.queues.timers import next_time

        with self._notifier.write() as tx:
            now = clock.stamp(tx.now())
            for timer in due:
                upcoming = clock.stamp(next_time(timer.cron, timer.timezone, tx.now()))
                tx.run(sql.TIMER_ADVANCE, timer=timer.timer_id, seen=timer.next_at, next=upcoming)
                task = f"timer-{timer.timer_id}"
                if tx.one(sql.TASK_QUEUED, task=task, command=timer.command) is None:
                    binds = {"author": timer.author, "command": timer.command, "retries": timer.retries, "timeout": timer.timeout_seconds}
                    tx.run(sql.TASK_INSERT, task=task, queue=None, now=now, **binds)


def idle_seconds() -> float:
    try:
        return max(float(os.environ.get("NOTIFIER_IDLE_SECONDS") or IDLE_SECONDS), 0.0)
    except ValueError:
        return IDLE_SECONDS
