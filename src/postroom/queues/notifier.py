"""The notifier: commands that are queued durably and run soon, by a runner that is started when there is something to do.

Nobody has to start a daemon. Whoever queues a task looks whether a runner is up, and starts one if not; it ends when it is idle.
"""

from __future__ import annotations

import os

from postroom.core import checks, clock
from postroom.core.chores import NotifierStatus, NotifierTask, Run, Timer
from postroom.core.errors import Conflict, InvalidInput, NotFound
from postroom.core.events import ALREADY_QUEUED, QUEUED
from postroom.core.words import digest, quoted, shown
from postroom.queues import standby
from postroom.store.sqlite import notifier_statements as sql
from postroom.store.sqlite.files import NotifierFile

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from postroom.queues.queue import Queue
    from postroom.store.sqlite.engine import Transaction

MOST_RETRIES = 100
TASKS, NOBODY = ("tasks",), ""
RESIDENT, STOPPED, ON_DEMAND = "resident", "stopped", ""
_LONGEST_AUTHOR = 500


def home() -> str:
    """Where the notifier keeps its things."""
    named = os.environ.get("NOTIFIER_HOME")
    if named:
        return named
    state = os.environ.get("XDG_STATE_HOME") or os.path.join(os.path.expanduser("~"), ".local", "state")
    return os.path.join(state, "notifier")


def open_notifier(place: str | None = None, *, door: str = "library", now: Callable[[], int] = clock.now) -> NotifierFile:
    """Open the notifier's home, making it if it is not there."""
    return NotifierFile(place or home(), door=door, now=now)


def add_task(
    notifier: NotifierFile, task_id: str, *, author: str, command: str, retries: int = 0, timeout_seconds: float | None = None
) -> NotifierTask:
    """Queue a command, to be run soon. Refuses with `Conflict` while the same command waits under the same id."""
    checks.name("task-id", task_id, hint="Name it with --task-id.")
    binds = _checked(author, command, retries, timeout_seconds)
    with notifier.write() as tx:
        if tx.one(sql.TASK_QUEUED, task=task_id, command=command) is not None:
            raise Conflict(f"{shown(task_id)} is already queued", hint="It will be run; there is nothing to do.")
        number = tx.append(sql.TASK_INSERT, TASKS, task=task_id, queue=None, now=clock.stamp(tx.now()), **binds)
        row = tx.one(sql.TASK_GET, number=number)
        set_mode(tx, resume=True)
    standby.wake(notifier.home)
    return NotifierTask(*row or ())


def list_tasks(notifier: NotifierFile) -> tuple[NotifierTask, ...]:
    """What is queued and what runs, oldest first."""
    with notifier.read() as tx:
        return tuple(NotifierTask(*row) for row in tx.all(sql.TASKS))


def remove_task(notifier: NotifierFile, task_id: str) -> int:
    """Take queued tasks of an id back; how many there were. What runs is not stopped."""
    checks.name("task-id", task_id, hint="Name it with --task-id.")
    with notifier.write() as tx:
        removed = len(tx.all(sql.TASKS_REMOVE, task=task_id))
    if not removed:
        raise NotFound(f"no task {shown(task_id)} is queued", hint="See what is: notifier task list")
    return removed


def list_runs(notifier: NotifierFile, task_id: str | None = None, *, limit: int = 20) -> tuple[Run, ...]:
    """What was run, newest first: how it ended, how long it took, what it said."""
    checks.limit("limit", limit)
    with notifier.read() as tx:
        rows = tx.all(sql.RUNS, limit=limit) if task_id is None else tx.all(sql.RUNS_OF, task=task_id, limit=limit)
    return tuple(Run(*row) for row in rows)


def add_timer(
    notifier: NotifierFile,
    timer_id: str,
    *,
    author: str,
    cron: str,
    command: str,
    timezone: str = "",
    retries: int = 0,
    timeout_seconds: float | None = None,
) -> Timer:
    """Queue a command whenever a cron expression says so: five fields, or six with seconds first. In local time by default."""
    from postroom.queues.timers import next_time

    checks.name("timer-id", timer_id, hint="Name it with --timer-id.")
    binds = _checked(author, command, retries, timeout_seconds)
    with notifier.write() as tx:
        upcoming = next_time(cron, timezone, tx.now())
        if tx.one(sql.TIMER_GET, timer=timer_id) is not None:
            raise Conflict(f"there is a timer {shown(timer_id)} already", hint="Remove it first: notifier timer remove")
        now, then = clock.stamp(tx.now()), clock.stamp(upcoming)
        tx.append(sql.TIMER_INSERT, TASKS, timer=timer_id, cron=cron, timezone=timezone, now=now, next=then, **binds)
        row = tx.one(sql.TIMER_GET, timer=timer_id)
        set_mode(tx, resume=True)
    standby.wake(notifier.home)
    return Timer(*row or ())


def list_timers(notifier: NotifierFile) -> tuple[Timer, ...]:
    """Every timer, and when it fires next."""
    with notifier.read() as tx:
        return tuple(Timer(*row) for row in tx.all(sql.TIMERS))


def remove_timer(notifier: NotifierFile, timer_id: str) -> None:
    """Let a timer fire no more. What it queued already stays queued."""
    checks.name("timer-id", timer_id, hint="Name it with --timer-id.")
    with notifier.write() as tx:
        if tx.one(sql.TIMER_GET, timer=timer_id) is None:
            raise NotFound(f"there is no timer {shown(timer_id)}", hint="See which there are: notifier timer list")
        tx.append(sql.TIMER_DELETE, TASKS, timer=timer_id)


def start(notifier: NotifierFile) -> NotifierStatus:
    """Have the runner stay, also when it has nothing to do."""
    with notifier.write() as tx:
        tx.append(sql.SETTING_SET, TASKS, name="mode", value=RESIDENT)
    standby.wake(notifier.home)
    standby.settle(notifier.home)
    return status(notifier)


def stop(notifier: NotifierFile) -> NotifierStatus:
    """End the runner, once what it runs has ended. What is queued stays queued until the next task, or `start`."""
    up, _ = standby.look(notifier.home)  # asked first: a runner that was to stay may be gone before we tell it
    with notifier.write() as tx:
        tx.append(sql.SETTING_SET, TASKS, name="mode", value=STOPPED)
    standby.end(notifier.home)
    if not up:
        raise NotFound("no runner is up", hint="There is nothing to stop; `notifier task add` or `notifier start` starts one.")
    return status(notifier)


def status(notifier: NotifierFile) -> NotifierStatus:
    with notifier.read() as tx:
        counts, timers = tx.one(sql.TASK_COUNTS), tx.one(sql.TIMER_COUNT)
        resident = mode(tx) == RESIDENT
    up, process = standby.look(notifier.home)
    queued, running = (int(count) for count in counts or (0, 0))
    return NotifierStatus(up, process, resident, queued, running, int(timers[0]) if timers else 0, notifier.home)


def revive(notifier: NotifierFile) -> None:
    """Start a runner if something waits that a dead one left behind."""
    with notifier.read() as tx:
        waiting = tx.one(sql.TASK_NEXT_DUE) or tx.all(sql.TASKS_RUNNING) or tx.one(sql.TIMER_NEXT)
        wanted = mode(tx)
    if wanted == RESIDENT or (waiting and wanted != STOPPED):
        standby.wake(notifier.home)


def schedule(queue: Queue, *, author: str) -> str:
    """Have the consumers of a queue started, soon. Whether that was to be done already makes no difference to them."""
    other = os.environ.get("THREAD_NOTIFIER")
    if other:
        from postroom.queues.elsewhere import hand_over

        return hand_over(other, author, *dispatch_of(queue.path))
    with open_notifier(door=queue.file.door) as notifier:
        return queue_dispatch(notifier, queue.path, author=author)


def queue_dispatch(notifier: NotifierFile, path: str, *, author: str) -> str:
    """Queue the dispatch of a queue, unless it waits already."""
    task, command = dispatch_of(path)
    with notifier.read() as tx:
        waits = tx.one(sql.TASK_QUEUED, task=task, command=command) is not None
    if not waits:
        with notifier.write() as tx:
            waits = tx.one(sql.TASK_QUEUED, task=task, command=command) is not None  # again, now that nobody else writes
            if not waits:
                binds = {"author": author, "command": command, "retries": 0, "timeout": None}
                tx.append(sql.TASK_INSERT, TASKS, task=task, queue=path, now=clock.stamp(tx.now()), **binds)
                set_mode(tx, resume=True)
    standby.wake(notifier.home)
    return ALREADY_QUEUED if waits else QUEUED


def dispatch_of(path: str) -> tuple[str, str]:
    """The task that dispatches a queue: its id, which other queues may share, and its command, which they do not."""
    return task_for(path), f"thread dispatch --thread {quoted(path)}"


def task_for(path: str) -> str:
    """The id of the task that dispatches a queue."""
    return f"dispatch-{slug(path)}"


def slug(path: str) -> str:
    """A path as part of a task's id: `home-user-my-project-thread`."""
    plain = "".join([letter if letter.isascii() and letter.isalnum() else "-" for letter in path]).lstrip("-")
    if len(plain) <= 40:
        return plain
    return f"{plain[:32]}-{digest(path)[:6]}"


def mode(tx: Transaction) -> str:
    row = tx.one(sql.SETTING_GET, name="mode")
    return str(row[0]) if row else ON_DEMAND


def set_mode(tx: Transaction, *, resume: bool) -> None:
    """A task for a notifier that was stopped makes it go on."""
    if resume and mode(tx) == STOPPED:
        tx.run(sql.SETTING_SET, name="mode", value=ON_DEMAND)


def _checked(author: str, command: str, retries: int, timeout_seconds: float | None) -> dict[str, object]:
    checks.name("author", author, hint="Name it with --author.", longest=_LONGEST_AUTHOR)
    if not checks.text("command", command).strip():
        raise InvalidInput("command is empty", field="command", hint="Pass a shell line with --command.")
    if not 0 <= retries <= MOST_RETRIES:
        raise InvalidInput(f"retries must be from 0 to {MOST_RETRIES}, not {retries}", field="retries", hint="Choose a smaller number.")
    if timeout_seconds is not None:
        checks.seconds("timeout-seconds", timeout_seconds)
    return {"author": author, "command": command, "retries": retries, "timeout": timeout_seconds}
