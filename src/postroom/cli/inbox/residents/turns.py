"""One turn of a program: it behaves like a child process, so that the worker of `inbox work` runs it."""

from __future__ import annotations

from signal import SIGKILL
from threading import Thread
from time import monotonic

from postroom.processes.child_process import GRACE_SECONDS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from postroom.processes.wake_pipe import WakePipe

FAILED, CANNOT_RUN = 1, 127


class TurnFailed(Exception):
    """The program ended a turn without a result. `status` is the exit status to report."""

    def __init__(self, reason: str, status: int = FAILED) -> None:
        super().__init__(reason)
        self.status = status


class Turn:
    """Runs `play` in a thread. Its text is the output. It notifies `wake` at its end.

    `interrupt` asks the program to end the turn. `kill` ends the program. `mcp_session` is set by `play`: the name of the MCP server that
    the program has in this session.
    """

    def __init__(self, play: Callable[[Turn], str], wake: WakePipe, *, interrupt: Callable[[], None], kill: Callable[[], None]) -> None:
        self.status = 0
        self.has_ended = False
        self.kill_at: float | None = None
        self.text = ""
        self.mcp_session = ""
        self._errors = ""
        self._wake = wake
        self._interrupt = interrupt
        self._kill = kill
        self._thread = Thread(target=self._run, args=(play,), daemon=True)
        self._thread.start()

    def _run(self, play: Callable[[Turn], str]) -> None:
        try:
            self.text = play(self) or self.text
        except TurnFailed as failure:
            self.status, self._errors = failure.status, str(failure)
        except Exception as error:  # reported as the failure of the turn
            self.status, self._errors = FAILED, f"{type(error).__name__}: {error}"
        self.has_ended = True
        self._wake.notify()

    @property
    def exit_description(self) -> str:
        return "the turn failed" if self.status else "the turn ended"

    def wait(self, seconds: float | None) -> bool:
        self._thread.join(seconds)
        return not self._thread.is_alive()

    def send_signal(self, signal: int) -> None:
        self.kill_at = monotonic() + GRACE_SECONDS
        if signal == SIGKILL:
            self._kill()
        else:
            self._interrupt()

    def read_output(self) -> str:
        return self.text.strip()

    def read_errors(self) -> str:
        return self._errors

    def close(self) -> None:
        """Do nothing: the program stays for the next turn."""
