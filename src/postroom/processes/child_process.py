"""One run of a shell command, with its output in files so that a full pipe never blocks it. The workers of the rooms call this module."""

from __future__ import annotations

import os
import tempfile
import threading
from time import monotonic

from postroom.core import limits
from postroom.processes.command_environment import add_own_programs
from postroom.processes.process_group import release_watchdog, signal_group, spawn_group

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import IO

    from postroom.processes.wake_pipe import WakePipe

MAX_OUTPUT_BYTES = limits.MAX_BODY_BYTES - 1024  # the end of the output is kept, with room for the note of the cut
MAX_LAST_LINE_CHARS = 200
CANNOT_RUN_STATUSES = (126, 127)  # with which a shell says that a command is not executable, or does not exist
GRACE_SECONDS = 10.0  # between the first signal to a command and its SIGKILL


class ChildProcess:
    """One run of a command. Its input and output are files. It notifies `wake` when the command has ended.

    The command finds the programs of this installation, such as `inbox`, even if PATH does not name their folder.

    `status` is the exit status, or the negative number of the signal that killed the command. It is valid once `has_ended` is true.
    `kill_at` is set by `send_signal`: the monotonic time from which the caller may send SIGKILL.
    """

    def __init__(self, command: str, environment: dict[str, str], stdin_text: str, wake: WakePipe) -> None:
        self.status = 0
        self.has_ended = False
        self.kill_at: float | None = None
        self._output = tempfile.TemporaryFile()  # noqa: SIM115 - closed in close()
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - closed in close()
        with tempfile.TemporaryFile() as stdin_file:
            stdin_file.write(stdin_text.encode())
            stdin_file.seek(0)
            files = (stdin_file.fileno(), self._output.fileno(), self._errors.fileno())
            self._pid, self._watchdog_pipe = spawn_group(command, add_own_programs(environment), files)
        self._waiter = threading.Thread(target=self._wait_for_exit, args=(wake,), daemon=True)
        self._waiter.start()

    @property
    def exit_description(self) -> str:
        """The exit status or the signal, as text for a person."""
        return f"killed by signal {-self.status}" if self.status < 0 else f"exit status {self.status}"

    def _wait_for_exit(self, wake: WakePipe) -> None:
        self.status = os.waitstatus_to_exitcode(os.waitpid(self._pid, 0)[1])
        self.has_ended = True
        wake.notify()

    def wait(self, seconds: float | None) -> bool:
        """Wait until the command has ended, at most `seconds`, or without limit for None. Return whether it has ended."""
        self._waiter.join(seconds)
        return not self._waiter.is_alive()

    def send_signal(self, signal: int) -> None:
        """Send a signal to the command and all processes that it started, and set `kill_at`."""
        self.kill_at = monotonic() + GRACE_SECONDS
        signal_group(self._pid, signal)

    def read_output(self) -> str:
        """Return the end of the standard output."""
        return read_tail(self._output)

    def read_errors(self) -> str:
        """Return the end of the standard error output."""
        return read_tail(self._errors)

    def close(self) -> None:
        """Close the files. Processes that the command left running in the background keep running."""
        release_watchdog(self._watchdog_pipe)
        self._output.close()
        self._errors.close()


def read_tail(file: IO[bytes], max_bytes: int = MAX_OUTPUT_BYTES) -> str:
    """Return the end of a file as text that fits into a body. If it is longer, a first line states how many bytes were left out."""
    size = file.seek(0, os.SEEK_END)
    file.seek(max(size - max_bytes, 0))
    text = file.read().decode(errors="replace").replace("\0", "\ufffd").strip()
    encoded = text.encode()  # a byte that is not UTF-8 has become three
    left_out = max(size - max_bytes, len(encoded) - max_bytes, 0)
    if not left_out:
        return text
    return f"[{left_out} bytes before this were left out]\n{encoded[-max_bytes:].decode(errors='ignore')}"


def last_line(text: str) -> str:
    """Return the last line of a text, cut to 200 characters."""
    return text.rsplit("\n", 1)[-1].strip()[:MAX_LAST_LINE_CHARS]
