"""The notifier: a durable queue of shell commands, and timers that add to it. The command `notifier` and `schedule` call it.

No daemon is needed. Each call that queues a task starts a runner if none is up. The runner exits when it is idle.
"""

from __future__ import annotations

import os

from postroom._fastpath.json_text import dumps
from postroom.core import checks, clock
from postroom.core.errors import Conflict, InvalidInput, NotFound
from postroom.core.records.notifier import NotifierStatus
from postroom.core.records.queues import ALREADY_QUEUED, LEFT_TO_OWNER, QUEUED
from postroom.core.text import sha1_hex, shell_quote, short_repr
from postroom.processes.command_environment import check_environment
from postroom.queues.running import runner_process
from postroom.store.files.ownership import find_other_owner, require_own_queue
from postroom.store.sqlite.queues import notifier_statements as sql
from postroom.store.sqlite.queues.queue_databases import NotifierDatabase

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from postroom.core.records.notifier import KnownQueue, NotifierRun, NotifierTask, NotifierTimer
    from postroom.queues.queue import Queue
    from postroom.store.sqlite.engine import SqliteTransaction

MAX_RETRIES = 100
TASK_TOPICS = ("tasks",)  # wakes the runner
RESIDENT, STOPPED, ON_DEMAND = "resident", "stopped", ""  # the values of the setting `mode`
_MAX_AUTHOR_CHARS = 500


def default_home() -> str:
    """Return the notifier's folder: NOTIFIER_HOME, or `notifier` in the user's state folder."""
    configured = os.environ.get("NOTIFIER_HOME")
    if configured:
        return configured
    state_folder = os.environ.get("XDG_STATE_HOME") or os.path.join(os.path.expanduser("~"), ".local", "state")
    return os.path.join(state_folder, "notifier")


def open_notifier(place: str | None = None, *, door: str = "library", now: Callable[[], int] = clock.now) -> NotifierDatabase:
    """Open the notifier at `place`, or at its default folder. Creates the folder if it does not exist."""
    return NotifierDatabase(place or default_home(), door=door, now=now)


def add_task(
    notifier: NotifierDatabase,
    task_id: str,
    *,
    author: str,
    command: str,
    retries: int = 0,
    timeout_seconds: float | None = None,
    environment: Mapping[str, str] | None = None,
) -> NotifierTask:
    """Queue a command for the runner. It has a short environment and the variables in `environment`, which are stored.

    Refuses with `Conflict` if the same command is queued under the same id.
    """
    checks.name("task-id", task_id, hint="Name it with --task-id.")
    binds = _check_command_fields(author, command, retries, timeout_seconds, environment)
    with notifier.write() as tx:
        if tx.fetch_one(sql.TASK_QUEUED, task=task_id, command=command) is not None:
            raise Conflict(f"{short_repr(task_id)} is already queued", hint="It will be run; there is nothing to do.")
        number = tx.insert_event(sql.TASK_INSERT, TASK_TOPICS, task=task_id, queue=None, now=clock.format_stamp(tx.now()), **binds)
        task = tx.fetch_one(sql.TASK_GET, number=number)
        resume_if_stopped(tx)
    assert task is not None
    runner_process.wake_runner(notifier.home)
    return task


def list_tasks(notifier: NotifierDatabase) -> tuple[NotifierTask, ...]:
    """Return the queued and the running tasks, oldest first."""
    with notifier.read() as tx:
        return tuple(tx.fetch_all(sql.TASKS))


def remove_task(notifier: NotifierDatabase, task_id: str) -> int:
    """Remove the queued tasks of an id, and return how many there were. A running task is not stopped.

    Refuses with `NotFound` if none is queued.
    """
    checks.name("task-id", task_id, hint="Name it with --task-id.")
    with notifier.write() as tx:
        removed = len(tx.fetch_all(sql.TASKS_REMOVE, task=task_id))
    if not removed:
        raise NotFound(f"no task {short_repr(task_id)} is queued", hint="See what is: notifier task list")
    return removed


def list_runs(notifier: NotifierDatabase, task_id: str | None = None, *, limit: int = 20) -> tuple[NotifierRun, ...]:
    """Return finished runs, newest first, each with its outcome, duration and output.

    `task_id` is the id of a task. If no task of that id was run, it is the id of a timer, whose tasks are named `timer-ID`.
    """
    checks.limit("limit", limit)
    with notifier.read() as tx:
        if task_id is None:
            return tuple(tx.fetch_all(sql.RUNS, limit=limit))
        runs = tx.fetch_all(sql.RUNS_OF, task=task_id, limit=limit)
        return tuple(runs or tx.fetch_all(sql.RUNS_OF, task=timer_task_id(task_id), limit=limit))


def add_timer(
    notifier: NotifierDatabase,
    timer_id: str,
    *,
    author: str,
    cron: str,
    command: str,
    timezone: str = "",
    retries: int = 0,
    timeout_seconds: float | None = None,
    environment: Mapping[str, str] | None = None,
) -> NotifierTimer:
    """Add a timer that queues a command at the times of a cron expression: five fields, six with seconds first, or a name like `@daily`.

    `@reboot` is when a runner starts for the first time after the machine. Without `timezone` the times are local.
    Refuses with `Conflict` if the timer exists.
    """
    from postroom.queues.running.timer_list import record_boot
    from postroom.queues.running.timers import next_fire_time

    checks.name("timer-id", timer_id, hint="Name it with --timer-id.")
    binds = _check_command_fields(author, command, retries, timeout_seconds, environment)
    with notifier.write() as tx:
        upcoming = next_fire_time(cron, timezone, tx.now())
        if tx.fetch_one(sql.TIMER_GET, timer=timer_id) is not None:
            raise Conflict(f"there is a timer {short_repr(timer_id)} already", hint="Remove it first: notifier timer remove")
        now, next_at = clock.format_stamp(tx.now()), clock.format_stamp(upcoming) if upcoming is not None else sql.NEVER
        if upcoming is None:
            record_boot(tx, timer_id)
        tx.insert_event(sql.TIMER_INSERT, TASK_TOPICS, timer=timer_id, cron=cron, timezone=timezone, now=now, next=next_at, **binds)
        timer = tx.fetch_one(sql.TIMER_GET, timer=timer_id)
        resume_if_stopped(tx)
    assert timer is not None
    runner_process.wake_runner(notifier.home)
    return timer


def list_timers(notifier: NotifierDatabase) -> tuple[NotifierTimer, ...]:
    """Return every timer with the time when it fires next."""
    with notifier.read() as tx:
        return tuple(tx.fetch_all(sql.TIMERS))


def remove_timer(notifier: NotifierDatabase, timer_id: str) -> None:
    """Remove a timer. Tasks that it queued stay queued. Refuses with `NotFound` if the timer does not exist."""
    checks.name("timer-id", timer_id, hint="Name it with --timer-id.")
    with notifier.write() as tx:
        if tx.fetch_one(sql.TIMER_GET, timer=timer_id) is None:
            raise NotFound(f"there is no timer {short_repr(timer_id)}", hint="See which there are: notifier timer list")
        tx.insert_event(sql.TIMER_DELETE, TASK_TOPICS, timer=timer_id)


def start(notifier: NotifierDatabase) -> NotifierStatus:
    """Start a runner that stays up when it is idle, and return the status."""
    with notifier.write() as tx:
        tx.insert_event(sql.SETTING_SET, TASK_TOPICS, name="mode", value=RESIDENT)
    runner_process.wake_runner(notifier.home)
    runner_process.wait_for_start(notifier.home)
    return status(notifier)


def run_here(notifier: NotifierDatabase) -> None:
    """Run as the runner in this process until SIGTERM, after any other runner has ended. A service manager calls this."""
    from postroom.queues.running.runner import run_until_idle

    with notifier.write() as tx:
        resume_if_stopped(tx)
    home = notifier.home
    notifier.close()
    run_until_idle(home, runner_process.wait_for_lock(home), stays=True)


def stop(notifier: NotifierDatabase) -> NotifierStatus:
    """Stop the runner after its running commands have ended, and return the status.

    Queued tasks and timers wait until the next task or timer is added, or until `start`. Refuses with `NotFound` if no runner is up;
    none starts by itself in that case, too.
    """
    up, _ = runner_process.find_runner(notifier.home)  # before the write: a resident runner may exit as soon as the mode changes
    with notifier.write() as tx:
        tx.insert_event(sql.SETTING_SET, TASK_TOPICS, name="mode", value=STOPPED)
    runner_process.stop_runner(notifier.home)
    if not up:
        hint = "Tasks and timers wait until `notifier start`, or until a task or a timer is added."
        raise NotFound("no runner is up, and none starts by itself now", hint=hint)
    return status(notifier)


def status(notifier: NotifierDatabase) -> NotifierStatus:
    """Return whether a runner is up, and how many tasks and timers there are."""
    with notifier.read() as tx:
        counts, timers = tx.fetch_one(sql.TASK_COUNTS), tx.fetch_one(sql.TIMER_COUNT) or 0
        mode = read_mode(tx)
    up, process = runner_process.find_runner(notifier.home)  # no process id: it is just starting
    assert counts is not None
    counted = (counts.queued, counts.running, timers)
    return NotifierStatus(up, process, mode == RESIDENT, *counted, notifier.home, stopped=mode == STOPPED)


def revive_runner(notifier: NotifierDatabase, *, looks_at_queues: bool = False) -> None:
    """Start a runner if tasks or timers are left that a dead runner did not finish. `looks_at_queues` does so for unread events too."""
    with notifier.read() as tx:
        waiting = tx.fetch_one(sql.TASK_NEXT_DUE) or tx.fetch_all(sql.TASKS_RUNNING) or tx.fetch_one(sql.TIMER_NEXT)
        mode = read_mode(tx)
        known = tx.fetch_all(sql.QUEUES) if looks_at_queues and not waiting else []
    if mode != STOPPED and not waiting:
        from postroom.queues.consumer_status import needs_dispatch

        waiting = any(needs_dispatch(queue.path) for queue in known)
    if mode == RESIDENT or (waiting and mode != STOPPED):
        runner_process.wake_runner(notifier.home)


def schedule(queue: Queue, *, author: str) -> str:
    """Queue a dispatch of a queue, which starts its consumers' handlers. Returns `QUEUED`, `ALREADY_QUEUED` or `LEFT_TO_OWNER`.

    With the first two, a dispatch starts after this call, so that it sees every event stored before. With the last, the queue belongs to
    another user, and its handlers run when that user dispatches it. Refuses with `UntrustedStore` if other users can change the queue.
    """
    if find_other_owner(queue.file.location):
        return LEFT_TO_OWNER
    require_own_queue(queue.file.location)
    external = os.environ.get("THREAD_NOTIFIER")
    if external:
        from postroom.queues.running.external_notifier import schedule_externally

        return schedule_externally(external, author, *dispatch_task(queue.path))
    with open_notifier(door=queue.file.door) as notifier:
        return queue_dispatch(notifier, queue.path, author=author)


def remember_queue(path: str) -> None:
    """Add a queue to those that the runner looks after when it starts, and that `list_queues` returns."""
    with open_notifier() as notifier, notifier.write() as tx:
        tx.execute(sql.QUEUE_ADD, path=path, now=clock.format_stamp(tx.now()))


def list_queues(notifier: NotifierDatabase) -> tuple[KnownQueue, ...]:
    """Return the queues that this user has used, by path. A queue that was deleted may still be among them."""
    with notifier.read() as tx:
        return tuple(tx.fetch_all(sql.QUEUES))


def explain_runner() -> tuple[bool, str]:
    """Return whether a runner is up, and why it is not. Starts nothing, and creates no notifier."""
    home = default_home()
    if not os.path.exists(os.path.join(home, "notifier.db")):
        return False, "nothing has dispatched it: `thread dispatch` does"
    with open_notifier(home) as notifier:
        up, _ = runner_process.find_runner(notifier.home)
        with notifier.read() as tx:
            is_stopped = read_mode(tx) == STOPPED
    if is_stopped:
        return False, "the notifier was stopped: `notifier start` or a push starts it"
    return up, "no runner is up, for example since a reboot: `notifier start`, `thread dispatch` or a push starts one"


def queue_dispatch(notifier: NotifierDatabase, path: str, *, author: str) -> str:
    """Queue the dispatch of the queue at `path`, unless it is queued already. Returns `QUEUED` or `ALREADY_QUEUED`."""
    task, command = dispatch_task(path)
    with notifier.read() as tx:
        is_queued = tx.fetch_one(sql.TASK_QUEUED, task=task, command=command) is not None
        is_known = tx.fetch_one(sql.QUEUE_IS_KNOWN, path=path) is not None
    if not is_queued:
        notifier.relax(is_known)  # after a power cut, the runner dispatches every queue that it knows
        with notifier.write() as tx:
            # Check again: another process may have queued it before this transaction began.
            is_queued = tx.fetch_one(sql.TASK_QUEUED, task=task, command=command) is not None
            if not is_queued:
                binds = {"author": author, "command": command, "retries": 0, "timeout": None, "environment": "{}"}
                tx.insert_event(sql.TASK_INSERT, TASK_TOPICS, task=task, queue=path, now=clock.format_stamp(tx.now()), **binds)
                tx.execute(sql.QUEUE_ADD, path=path, now=clock.format_stamp(tx.now()))
                resume_if_stopped(tx)
        notifier.relax(False)
    runner_process.wake_runner(notifier.home)
    return ALREADY_QUEUED if is_queued else QUEUED


def dispatch_task(path: str) -> tuple[str, str]:
    """Return the id and the command of the task that dispatches a queue. Two queues may share an id, but not a command."""
    return dispatch_task_id(path), f"thread dispatch --thread {shell_quote(path)}"


def timer_task_id(timer_id: str) -> str:
    """Return the id of the tasks that a timer queues."""
    return f"timer-{timer_id}"


def dispatch_task_id(path: str) -> str:
    """Return the id of the task that dispatches a queue."""
    return f"dispatch-{path_slug(path)}"


def path_slug(path: str) -> str:
    """Return a path as part of a task's id, such as `home-user-my-project-thread`. Longer ones are cut and get a hash."""
    plain = "".join([letter if letter.isascii() and letter.isalnum() else "-" for letter in path]).lstrip("-")
    if len(plain) <= 40:
        return plain
    return f"{plain[:32]}-{sha1_hex(path)[:6]}"


def read_mode(tx: SqliteTransaction) -> str:
    """Return `RESIDENT`, `STOPPED` or `ON_DEMAND`."""
    return tx.fetch_one(sql.SETTING_GET, name="mode") or ON_DEMAND


def resume_if_stopped(tx: SqliteTransaction) -> None:
    """Leave the mode `STOPPED`. A new task or timer restarts a stopped notifier."""
    if read_mode(tx) == STOPPED:
        tx.execute(sql.SETTING_SET, name="mode", value=ON_DEMAND)


def _check_command_fields(
    author: str, command: str, retries: int, timeout_seconds: float | None, environment: Mapping[str, str] | None
) -> dict[str, object]:
    """Check the fields that tasks and timers share, and return them as bind parameters."""
    checks.name("author", author, hint="Name yourself with --agent.", max_chars=_MAX_AUTHOR_CHARS)
    if not checks.text("command", command).strip():
        raise InvalidInput("command is empty", field="command", hint="Pass a shell line with --command.")
    if not 0 <= retries <= MAX_RETRIES:
        raise InvalidInput(f"retries must be from 0 to {MAX_RETRIES}, not {retries}", field="retries", hint="Choose a smaller number.")
    if timeout_seconds is not None:
        checks.seconds("timeout-seconds", timeout_seconds)
    variables = dumps(check_environment(environment or {}))
    return {"author": author, "command": command, "retries": retries, "timeout": timeout_seconds, "environment": variables}
