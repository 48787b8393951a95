"""Children: a command line that somebody named, run so that it dies with us, and so that no amount of output stops anybody."""

from __future__ import annotations

import os
import subprocess
import tempfile
import threading
from time import monotonic

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import IO

KEPT_OUTPUT = 1 << 20  # of each command, its end
GRACE_SECONDS = 10.0

# The first line dies with the worker: its pipe closes, and the whole process group is killed. A worker that lives writes a
# line before it closes the pipe, so that what a command left running on purpose is left alone.
SHELL = '{ read -r line < "/dev/fd/$INBOX_LEASH" || kill -s KILL 0; } & exec /bin/sh -c "$1"'


class Child:
    """One run of a command. Its input and output are files; `wake` is rung when it ends."""

    def __init__(self, command: str, environment: dict[str, str], told: str, wake: Wake) -> None:
        self.status = 0
        self.over = False
        self.kill_at: float | None = None
        self._output, self._errors = tempfile.TemporaryFile(), tempfile.TemporaryFile()  # noqa: SIM115 - closed in close()
        leash, self._leash = os.pipe()
        with tempfile.TemporaryFile() as told_file:
            told_file.write(told.encode())
            told_file.seek(0)
            self._process = subprocess.Popen(  # noqa: S603 - running what the user named is the purpose
                ["/bin/sh", "-c", SHELL, "inbox", command],
                stdin=told_file,
                stdout=self._output,
                stderr=self._errors,
                env={**environment, "INBOX_LEASH": str(leash)},
                pass_fds=(leash,),
                start_new_session=True,
            )
        os.close(leash)
        self._waiter = threading.Thread(target=self._watch, args=(wake,), daemon=True)
        self._waiter.start()

    @property
    def how(self) -> str:
        return f"killed by signal {-self.status}" if self.status < 0 else f"exit status {self.status}"

    def _watch(self, wake: Wake) -> None:
        self.status = self._process.wait()
        self.over = True
        wake.ring()

    def wait(self, seconds: float | None) -> bool:
        self._waiter.join(seconds)
        return not self._waiter.is_alive()

    def end(self, signal: int) -> None:
        self.kill_at = monotonic() + GRACE_SECONDS
        try:
            os.killpg(self._process.pid, signal)
        except ProcessLookupError:
            pass

    def output(self) -> str:
        return _end_of(self._output)

    def errors(self) -> str:
        return _end_of(self._errors)

    def close(self) -> None:
        try:
            os.write(self._leash, b"\n")
        except BrokenPipeError:
            pass
        os.close(self._leash)
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


def _end_of(file: IO[bytes]) -> str:
    size = file.seek(0, os.SEEK_END)
    file.seek(max(size - KEPT_OUTPUT, 0))
    text = file.read().decode(errors="replace").replace("\0", "\ufffd").strip()
    return f"[{size - KEPT_OUTPUT} bytes before this were left out]\n{text}" if size > KEPT_OUTPUT else text


def last_line(text: str) -> str:
    return text.rsplit("\n", 1)[-1].strip()[:200]
