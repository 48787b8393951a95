"""Children: a command line that somebody named, run so that it dies with us, and so that no amount of output stops anybody."""

from __future__ import annotations

import os
import tempfile
import threading
from time import monotonic

from postroom.leash import end_group, let_go, spawn

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import IO

KEPT_OUTPUT = 1 << 20  # of each command, its end
GRACE_SECONDS = 10.0


class Child:
    """One run of a command. Its input and output are files; `wake` is rung when it ends."""

    def __init__(self, command: str, environment: dict[str, str], told: str, wake: Wake) -> None:
        self.status = 0
        self.over = False
        self.kill_at: float | None = None
        self._output, self._errors = tempfile.TemporaryFile(), tempfile.TemporaryFile()  # noqa: SIM115 - closed in close()
        with tempfile.TemporaryFile() as told_file:
            told_file.write(told.encode())
            told_file.seek(0)
            files = (told_file.fileno(), self._output.fileno(), self._errors.fileno())
            self._pid, self._leash = spawn(command, environment, files)
        self._waiter = threading.Thread(target=self._watch, args=(wake,), daemon=True)
        self._waiter.start()

    @property
    def how(self) -> str:
        return f"killed by signal {-self.status}" if self.status < 0 else f"exit status {self.status}"

    def _watch(self, wake: Wake) -> None:
        self.status = os.waitstatus_to_exitcode(os.waitpid(self._pid, 0)[1])
        self.over = True
        wake.ring()

    def wait(self, seconds: float | None) -> bool:
        self._waiter.join(seconds)
        return not self._waiter.is_alive()

    def end(self, signal: int) -> None:
        self.kill_at = monotonic() + GRACE_SECONDS
        end_group(self._pid, signal)

    def output(self) -> str:
        return end_of(self._output)

    def errors(self) -> str:
        return end_of(self._errors)

    def close(self) -> None:
        let_go(self._leash)
        self._output.close()
        self._errors.close()


class Wake:
    """A pipe by which signal handlers and other threads wake who waits for its reading end."""

    def __init__(self) -> None:
        self.woken, self._wake = os.pipe()
        os.set_blocking(self.woken, False)
        os.set_blocking(self._wake, False)

    def ring(self) -> None:
        try:
            os.write(self._wake, b".")
        except OSError:
            pass  # nobody listens any more, or has rings enough to read

    def drain(self) -> None:
        try:
            os.read(self.woken, 4096)
        except BlockingIOError:
            pass

    def close(self) -> None:
        os.close(self.woken)
        os.close(self._wake)


def end_of(file: IO[bytes]) -> str:
    size = file.seek(0, os.SEEK_END)
    file.seek(max(size - KEPT_OUTPUT, 0))
    text = file.read().decode(errors="replace").replace("\0", "\ufffd").strip()
    return f"[{size - KEPT_OUTPUT} bytes before this were left out]\n{text}" if size > KEPT_OUTPUT else text


def last_line(text: str) -> str:
    return text.rsplit("\n", 1)[-1].strip()[:200]
