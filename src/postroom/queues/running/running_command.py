"""A running command of the notifier. The runner starts it. Its output goes to a file, so that a full pipe never blocks it."""

from __future__ import annotations

import fcntl
import os
import tempfile
from signal import SIGKILL, SIGTERM
from time import monotonic

from postroom.processes.child_process import GRACE_SECONDS, read_tail
from postroom.processes.process_group import release_watchdog, signal_group, spawn_group

TYPE_CHECKING = False
if TYPE_CHECKING:
    from postroom.core.records.notifier import NotifierTask

MAX_OUTPUT_BYTES = 16 << 20  # on the disk, while a command runs
MAX_STORED_OUTPUT_BYTES = 64 << 10  # of each run, in the database


class RunningCommand:
    """A shell command in its own process group. `pid` is its leader. `signal_at` is the monotonic time of the next signal, if any."""

    def __init__(self, task: NotifierTask, home: str, environment: dict[str, str]) -> None:
        self.task = task
        self.started_at = monotonic()
        self.timed_out = False
        self.signal_at = self.started_at + task.timeout_seconds if task.timeout_seconds is not None else None
        self._output = tempfile.TemporaryFile(dir=home)  # noqa: SIM115 - closed in close()
        fcntl.fcntl(self._output, fcntl.F_SETFL, os.O_APPEND)  # so that the command continues at the end of a file that was cut
        with open(os.devnull, "rb") as nothing:
            files = (nothing.fileno(), self._output.fileno(), self._output.fileno())
            self.pid, self._watchdog_fd = spawn_group(task.command, environment, files)

    def advance(self) -> None:
        """Bound the output. Send SIGTERM when the timeout is over, and SIGKILL after `GRACE_SECONDS` more."""
        self._bound_output()
        if self.signal_at is None or monotonic() < self.signal_at:
            return
        signal_group(self.pid, SIGKILL if self.timed_out else SIGTERM)
        self.signal_at = None if self.timed_out else monotonic() + GRACE_SECONDS
        self.timed_out = True

    def close_and_read_output(self) -> str:
        """Release the process group and the output file, and return the end of the output."""
        release_watchdog(self._watchdog_fd)
        output = read_tail(self._output, MAX_STORED_OUTPUT_BYTES)
        self._output.close()
        return output

    def _bound_output(self) -> None:
        if os.fstat(self._output.fileno()).st_size > MAX_OUTPUT_BYTES:
            kept = read_tail(self._output, MAX_STORED_OUTPUT_BYTES)
            self._output.truncate(0)
            self._output.write(kept.encode())
            self._output.flush()
