"""The supervisor of one consumer: a process that holds its lock and runs its handler until no unread events are left.

`dispatching` starts one per consumer, so that no daemon is needed. The handler is killed if the supervisor dies, and never inherits
the lock. So a crash of either releases the lock, and processes that a handler leaves in the background do not hold it.

A supervisor begins as a fork of the dispatching process, which starts the handler within a millisecond. A fork must not use SQLite,
because its parent's connections are not valid in it. When it needs the database, it replaces itself with a new interpreter that
inherits the lock.
"""

from __future__ import annotations

import os
import sys
from time import monotonic, sleep

from postroom._fastpath.json_text import dumps
from postroom.core.clock import MICROSECONDS_PER_SECOND
from postroom.core.errors import FilterFailed, NoStore, Refusal, StoreBusy
from postroom.core.text import sha1_hex, to_file_name
from postroom.processes.command_environment import add_own_programs, command_environment
from postroom.processes.process_group import release_watchdog, spawn_group
from postroom.queues.locks import ConsumerLock
from postroom.queues.queue import Queue
from postroom.queues.subscriptions import SubscriptionState, read_subscription_state
from postroom.store.private_files import file_mode_beside, folder_mode_for, make_private_folder, open_beside

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn

    from postroom.core.records.queues import Subscription

FIRST_BACKOFF_SECONDS, MAX_BACKOFF_SECONDS = 1.0, 300.0
EXIT_CODE_NOT_STARTED = 126  # the exit code of a shell for a command that cannot be run
_MAX_BUSY_RETRIES = 20  # reads of a busy store, 0.1 seconds apart
MAX_FRUITLESS_RUNS = 10  # in a row, without an ack; then the supervisor exits, and the next dispatch tries again
MAX_OUTPUT_BYTES = 10 << 20
_UNQUOTED_CHARS = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._:/@-")


def exec_supervisor(path: str, state: SubscriptionState, lock: ConsumerLock, run_now: bool) -> NoReturn:
    """Run the handler once if `run_now`, then replace this forked process with a new interpreter.

    Without `run_now` the handler is in its backoff, and the new interpreter waits for its end.
    """
    consumer, first_run = state.subscription.consumer_id, ""
    _detach_from_parent(lock.fd)
    lock.write_state(**{**lock.read_state(), "pid": os.getpid(), "resting": not run_now})
    if run_now:
        first_run = " ".join(map(str, run_handler(path, state)))
    os.set_inheritable(lock.fd, True)
    code = "from postroom.queues.supervisor import run_from_arguments; run_from_arguments()"
    arguments = (path, consumer, str(lock.fd), str(state.acked), str(state.head), state.subscription.handler_cmd, first_run)
    # Not -I, which would hide a Postroom that is installed for one user. Without PYTHON… variables, -P is as safe.
    os.execve(sys.executable, (sys.executable, "-P", "-c", code, *arguments), command_environment())  # noqa: S606


def run_from_arguments() -> NoReturn:
    """Run the supervisor in the new interpreter, with the arguments that `exec_supervisor` passed."""
    path, consumer, lock_fd, acked, head, handler, first_run = sys.argv[1:]
    lock = ConsumerLock(int(lock_fd))
    os.set_inheritable(lock.fd, False)
    try:
        if lock.is_current(path, consumer):
            with Queue(path) as queue:
                supervisor = Supervisor(queue, consumer, lock, int(acked), int(head), handler)
                if first_run:
                    status, seconds, *start_error = first_run.split(" ", 2)
                    supervisor.record_run(int(status), float(seconds), " ".join(start_error))
                supervisor.run()
    except NoStore:
        pass  # the queue was deleted
    except (Refusal, OSError):
        os._exit(1)  # the runner that adopted this process dispatches the queue again
    os._exit(0)


def backoff_end(lock: ConsumerLock, state: SubscriptionState, now: int) -> int:
    """Return when the backoff of a handler without progress ends, in microseconds since the epoch, or 0 if there is none."""
    stored = lock.read_state()
    applies = stored.get("acked") == state.acked and stored.get("handler") == sha1_hex(state.subscription.handler_cmd)
    until = int(stored.get("not_before") or 0) if stored.get("fruitless") and applies else 0
    return until if 0 < until - now <= MAX_BACKOFF_SECONDS * MICROSECONDS_PER_SECOND else 0


class Supervisor:
    """Runs the handler of one consumer again and again, with a backoff that doubles while it acknowledges nothing."""

    def __init__(self, queue: Queue, consumer: str, lock: ConsumerLock, acked: int, head: int, handler: str) -> None:
        self._queue = queue
        self._consumer = consumer
        self._lock = lock
        self._acked = acked
        self._head = head  # the newest event when the last run began
        self._handler = handler
        stored = lock.read_state()
        applies = stored.get("acked") == acked and stored.get("handler") == sha1_hex(handler)
        self._fruitless = int(stored.get("fruitless") or 0) if applies else 0
        self._not_before = int(stored.get("not_before") or 0) if applies else 0
        self._start_error = ""
        self._runs = 0

    def run(self) -> None:
        """Run the handler until no unread events are left, or until it made no progress `MAX_FRUITLESS_RUNS` times."""
        self._write_lock_state()
        while self._lock.is_current(self._queue.path, self._consumer):
            state = self._read_state()
            if state is not None and (state.acked > self._acked or state.subscription.handler_cmd != self._handler):
                self._acked, self._handler = state.acked, state.subscription.handler_cmd
                self._fruitless = self._not_before = 0
            if state is None or not state.unread or (self._runs and self._fruitless >= MAX_FRUITLESS_RUNS):
                if self._release_lock():
                    return
            elif not self._wait_for_backoff():
                self._run_handler(state)

    def _read_state(self) -> SubscriptionState | None:
        """Return the consumer's state, or None if its handler must not be started. Retries while the store is busy."""
        for _ in range(_MAX_BUSY_RETRIES):
            try:
                return read_subscription_state(self._queue, self._consumer)
            except StoreBusy:
                sleep(0.1)
            except FilterFailed as refusal:
                self._append_log(f"filter: {refusal}", "ERROR")
                return None
        return read_subscription_state(self._queue, self._consumer)

    def _release_lock(self) -> bool:
        """Release the lock, and return whether to exit.

        A dispatch may have found the lock held just before, and skipped this consumer. So read the state once more after the release,
        and acquire the lock again if there are unread events.
        """
        self._write_lock_state(pid=None)
        self._lock.release()
        state = self._read_state()
        if state is None or not state.unread:
            return True
        gave_up = self._runs > 0 and self._fruitless >= MAX_FRUITLESS_RUNS
        if gave_up and state.head == self._head and state.subscription.handler_cmd == self._handler:
            return True
        if not self._lock.try_acquire():
            return True
        self._runs = 0
        self._write_lock_state()
        return False

    def _wait_for_backoff(self) -> bool:
        """Wait until the backoff ends, or until the progress or the subscription changes. Returns whether there was a backoff."""
        seconds_left = (self._not_before - self._queue.file.clock()) / MICROSECONDS_PER_SECOND
        if seconds_left <= 0 or seconds_left > MAX_BACKOFF_SECONDS:
            return False
        self._write_lock_state(resting=True)
        with self._queue.file.watch("progress") as watcher:
            state = self._read_state()
            if state is not None and state.acked == self._acked and state.subscription.handler_cmd == self._handler:
                watcher.wait(seconds_left)
        self._write_lock_state()
        return True

    def _run_handler(self, state: SubscriptionState) -> None:
        self._append_log(format_spawned(state.subscription))
        self._head = state.head
        self.record_run(*run_handler(self._queue.path, state))

    def record_run(self, status: int, seconds: float, start_error: str = "") -> None:
        """Log one run of the handler, and start a backoff if it acknowledged nothing.

        `status` is its exit code, or minus the signal that ended it. `start_error` is the reason if it could not be started.
        """
        self._runs += 1
        self._start_error = start_error
        if start_error:
            self._append_log(f"could not be started: {start_error}", "ERROR")
        after = self._read_state()
        acked = after.acked if after is not None else self._acked
        ending = f"exit={status}" if status >= 0 else f"signal={-status}"
        self._append_log(f"ended {ending} seconds={seconds:.2f} acked={acked}", "INFO" if status == 0 else "WARN")
        if acked > self._acked:
            self._acked, self._fruitless, self._not_before = acked, 0, 0
        elif after is not None and after.unread:
            self._back_off()
        self._write_lock_state()

    def _back_off(self) -> None:
        self._fruitless += 1
        wait_seconds = min(first_backoff_seconds() * 2 ** (min(self._fruitless, 20) - 1), MAX_BACKOFF_SECONDS)
        self._not_before = self._queue.file.clock() + int(wait_seconds * MICROSECONDS_PER_SECOND)
        next_step = f"next run in {wait_seconds:g} s" if self._fruitless < MAX_FRUITLESS_RUNS else "waits for the next dispatch"
        self._append_log(f"no progress, {next_step}", "WARN")

    def _write_lock_state(self, pid: int | None = -1, *, resting: bool = False) -> None:
        self._lock.write_state(
            pid=os.getpid() if pid == -1 else pid,
            fruitless=self._fruitless,
            acked=self._acked,
            not_before=self._not_before,
            resting=resting,
            trouble=self._start_error,
            handler=sha1_hex(self._handler),
        )

    def _append_log(self, text: str, level: str = "INFO") -> None:
        self._queue.journal.append_log(f"dispatch: consumer={quote_for_log(self._consumer)} {one_line(text)}", level)


def run_handler(folder: str, state: SubscriptionState) -> tuple[int, float, str]:
    """Run the handler and wait for it. Returns its exit code or minus its signal, the seconds, and why it could not be started."""
    started_at = monotonic()
    try:
        pid, watchdog_fd = _spawn_handler(folder, state)
    except OSError as error:
        return EXIT_CODE_NOT_STARTED, monotonic() - started_at, one_line(str(error))
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    release_watchdog(watchdog_fd)
    return status, monotonic() - started_at, ""


def _spawn_handler(folder: str, state: SubscriptionState) -> tuple[int, int]:
    os.chdir(folder)
    consumer = state.subscription.consumer_id
    environment = {**add_own_programs(command_environment()), **state.environment}
    environment.update(THREAD_DIR=folder, THREAD_CONSUMER=consumer)
    output = _open_output(folder, consumer)
    try:
        null = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
        try:
            return spawn_group(state.subscription.handler_cmd, environment, (null, output, output))
        finally:
            os.close(null)
    finally:
        os.close(output)


def format_spawned(subscription: Subscription) -> str:
    return f"spawned handler_cmd={dumps(subscription.handler_cmd)}"


def one_line(text: str) -> str:
    return " ".join(text.split("\n"))


def quote_for_log(name: str) -> str:
    """Return a name for a log line, quoted if it could be read as another field."""
    return name if _UNQUOTED_CHARS.issuperset(name) else dumps(name)


def first_backoff_seconds() -> float:
    try:
        return max(float(os.environ.get("THREAD_BACKOFF_SECONDS") or FIRST_BACKOFF_SECONDS), 0.0)
    except ValueError:
        return FIRST_BACKOFF_SECONDS


def _open_output(folder: str, consumer: str) -> int:
    """Open the file for a handler's output, and return its descriptor. A file above `MAX_OUTPUT_BYTES` is renamed to `.1` first."""
    database = os.path.join(folder, "events.db")
    make_private_folder(os.path.join(folder, "logs"), mode=folder_mode_for(file_mode_beside(database)))
    path = os.path.join(folder, "logs", to_file_name(consumer) + ".out")
    try:
        if os.stat(path).st_size > MAX_OUTPUT_BYTES:
            os.replace(path, path + ".1")
    except OSError:
        pass
    return open_beside(database, path, os.O_WRONLY | os.O_APPEND)


def _detach_from_parent(kept_fd: int) -> None:
    """Leave the parent's session, close its files except `kept_fd`, and reset its signal handlers."""
    import signal

    os.setsid()
    signal.set_wakeup_fd(-1)
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGCHLD, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    null = os.open(os.devnull, os.O_RDWR)
    for standard_fd in (0, 1, 2):
        os.dup2(null, standard_fd)
    os.closerange(3, kept_fd)
    os.closerange(kept_fd + 1, 1 << 16)
