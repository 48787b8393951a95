"""One run of a handler: a process group, started here or left behind by a supervisor that died. `supervised_consumer.py` calls it.

A run is over when its leader has ended and, if it was killed or stopped, no process of its group is left. A handler that ends by itself
may leave processes in the background on purpose: they live on.
"""

from __future__ import annotations

import os
from signal import SIGKILL, SIGTERM
from time import monotonic

from postroom.core import clock
from postroom.core.text import to_file_name
from postroom.processes.command_environment import add_own_programs, command_environment
from postroom.processes.process_group import (
    find_members,
    has_members,
    read_start_mark,
    release_held_group,
    signal_group,
    spawn_held_group,
)
from postroom.queues.consumer_status import output_path
from postroom.store.files.private_files import file_mode_beside, folder_mode_for, make_private_folder, open_beside

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from postroom.queues.subscriptions import SubscriptionState

GRACE_SECONDS = 10.0  # between SIGTERM and SIGKILL
MAX_OUTPUT_BYTES = 10 << 20
KEPT_OUTPUT_BYTES = 1 << 20  # of an output that grew too long


class HandlerProcess:
    """The process group of one run. `pid` is its leader, and `mark` tells it from a later process with that number.

    `status` is the exit code, minus a signal, or None if another process would have to know. It is valid when `is_over` is true.
    """

    def __init__(self, pid: int, mark: str, *, started_at: int, timeout_seconds: float | None, output: str, is_child: bool) -> None:
        self.pid = pid
        self.mark = mark
        self.started_at = started_at
        self.status: int | None = None
        self.stop_reason = ""
        self._output = output
        self._is_child = is_child
        self._has_ended = False
        self._kills_rest = False
        self._signal_at: float | None = None
        elapsed = max((clock.now() - started_at) / clock.MICROSECONDS_PER_SECOND, 0.0)
        self._began = monotonic() - elapsed
        self._times_out_at = self._began + timeout_seconds if timeout_seconds is not None else None
        self._timeout_seconds = timeout_seconds

    @property
    def seconds(self) -> float:
        return monotonic() - self._began

    @property
    def is_over(self) -> bool:
        return self._has_ended and not (self._kills_rest and has_members(self.pid))

    @property
    def needs_polling(self) -> bool:
        """Whether its next change comes without a signal to this process."""
        return self._has_ended or not self._is_child

    def next_due(self) -> float | None:
        """Return the monotonic time of the next signal, if any."""
        times = [time for time in (self._times_out_at, self._signal_at) if time is not None]
        return min(times, default=None)

    def request_stop(self, reason: str) -> None:
        """Send SIGTERM to the group, and SIGKILL after `GRACE_SECONDS`. A second request changes nothing."""
        if not self.stop_reason:
            self.stop_reason = reason
            self._times_out_at = None
            self._signal_at = monotonic() + GRACE_SECONDS
            signal_group(self.pid, SIGTERM)

    def advance(self) -> None:
        """Send the signals that are due, notice the end of a process that is not a child, and bound the output."""
        now = monotonic()
        if self._times_out_at is not None and now >= self._times_out_at:
            self.request_stop(f"timeout of {self._timeout_seconds:g} s")
        if self._signal_at is not None and now >= self._signal_at:
            self._signal_at = None
            signal_group(self.pid, SIGKILL)
        if not self._has_ended and not self._is_child and read_start_mark(self.pid) != self.mark:
            self.record_exit(None)
        bound_output(self._output)

    def record_exit(self, status: int | None) -> None:
        """Record that the leader has ended. The rest of the group is killed, unless the leader ended by itself."""
        self._has_ended, self.status = True, status
        self._times_out_at = self._signal_at = None
        self._kills_rest = bool(self.stop_reason) or status is None or status < 0
        if self._kills_rest:
            signal_group(self.pid, SIGKILL)

    def describe_end(self) -> str:
        if self.stop_reason:
            return f"stopped: {self.stop_reason}"
        if self.status is None:
            return "exit unknown"
        return f"exit {self.status}" if self.status >= 0 else f"signal {-self.status}"


def start_handler(folder: str, state: SubscriptionState, *, limit: int | None) -> tuple[HandlerProcess, int]:
    """Start a handler that waits until `release_held_group` is called with the returned descriptor. Raises OSError.

    `limit` bounds how many events its `thread pop` returns.
    """
    consumer = state.subscription.consumer_id
    environment = {**add_own_programs(command_environment()), **state.environment, "THREAD_DIR": folder, "THREAD_CONSUMER": consumer}
    if limit is not None:
        environment["THREAD_LIMIT"] = str(limit)
    output = _open_output(folder, consumer)
    try:
        pid, held = spawn_held_group(state.subscription.handler_cmd, environment, output, make_work_folder(folder, consumer))
    finally:
        os.close(output)
    path = output_path(folder, consumer)
    run = HandlerProcess(
        pid, read_start_mark(pid), started_at=clock.now(), timeout_seconds=state.timeout_seconds, output=path, is_child=True
    )
    return run, held


def find_survivor(folder: str, state: SubscriptionState, stored: dict[str, Any]) -> HandlerProcess | None:
    """Return the handler that a supervisor which died has left running, or None. `stored` is the state in the consumer's lock."""
    pid, mark = stored.get("group"), stored.get("group_mark")
    if not isinstance(pid, int) or pid <= 1 or not mark:
        return None
    consumer = state.subscription.consumer_id
    run = HandlerProcess(
        pid,
        str(mark),
        started_at=int(stored.get("started_at") or clock.now()),
        timeout_seconds=state.timeout_seconds,
        output=output_path(folder, consumer),
        is_child=False,
    )
    if read_start_mark(pid) == mark:
        return run
    if has_members(pid) and find_members(pid, f"THREAD_DIR={folder}"):  # its leader has ended, but not the rest
        run.record_exit(None)
        return run
    return None


def work_folder_path(folder: str, consumer: str) -> str:
    """Return the folder in which a consumer's handler runs. It has one of its own, so that two consumers may use the same file names."""
    return os.path.join(folder, "handlers", to_file_name(consumer))


def make_work_folder(folder: str, consumer: str) -> str:
    path = work_folder_path(folder, consumer)
    make_private_folder(path, mode=folder_mode_for(file_mode_beside(os.path.join(folder, "events.db"))))
    return path


def _open_output(folder: str, consumer: str) -> int:
    database, path = os.path.join(folder, "events.db"), output_path(folder, consumer)
    make_private_folder(os.path.dirname(path), mode=folder_mode_for(file_mode_beside(database)))
    bound_output(path)
    return open_beside(database, path, os.O_WRONLY | os.O_APPEND)


def bound_output(path: str) -> None:
    """Cut a file that is longer than `MAX_OUTPUT_BYTES` to its end. Processes that append to it continue there."""
    try:
        size = os.stat(path).st_size
        if size <= MAX_OUTPUT_BYTES:
            return
        with open(path, "rb+") as file:
            file.seek(-KEPT_OUTPUT_BYTES, os.SEEK_END)
            kept = file.read(KEPT_OUTPUT_BYTES)
            file.truncate(0)
        with open(path, "ab") as file:  # appended, like the output of a handler that still runs
            file.write(f"[{size - len(kept)} bytes before this were left out]\n".encode() + kept)
    except OSError:
        pass  # it is gone, or not a file: the handler's start reports that


release_handler = release_held_group
