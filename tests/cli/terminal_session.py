"""A command in a real pseudo-terminal: what it paints, and the keys that are pressed."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import termios
import time
from pathlib import Path
from typing import Self

from tests.cli.process import LIMIT

ROWS, COLUMNS = 40, 120
ESCAPES = re.compile(r"\x1b(?:\[[0-9;?<>=]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[PX^_].*?\x1b\\|[@-Z\\-_=>78])", re.DOTALL)


class TerminalSession:
    """Starts a command whose standard streams are a terminal of its own."""

    def __init__(self, argv: list[str], *, folder: Path, environment: dict[str, str]) -> None:
        self._descriptor, other = pty.openpty()
        fcntl.ioctl(other, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
        self._painted = ""
        self.process = subprocess.Popen(
            argv, cwd=folder, env={**environment, "TERM": "xterm-256color"}, stdin=other, stdout=other, stderr=other, start_new_session=True
        )
        os.close(other)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        os.close(self._descriptor)

    def press(self, keys: str) -> None:
        os.write(self._descriptor, keys.encode())

    def wait_for(self, text: str) -> None:
        """Read what the command paints until the text is among it. What was read before it is forgotten."""
        end = time.monotonic() + LIMIT
        while text not in self._painted:
            arrived = time.monotonic() < end and self._read()
            assert arrived, f"{text!r} was not painted: {self._painted[-2000:]!r}"
        self._painted = self._painted.partition(text)[2]

    def finish(self) -> int:
        """Read to the end, and return the exit code."""
        while self._read():
            pass
        return self.process.wait(LIMIT)

    def _read(self) -> bool:
        if not select.select([self._descriptor], [], [], LIMIT)[0]:
            return False
        try:
            data = os.read(self._descriptor, 65536)
        except OSError:  # the command has ended
            return False
        self._painted += ESCAPES.sub("", data.decode(errors="replace"))
        return bool(data)
