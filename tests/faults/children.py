"""Child processes: real ones, started together, killed for real."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from types import TracebackType
from typing import IO, Self

ROOT = Path(__file__).parents[2]
LONG = 60.0

# What every child begins with. `say` writes one whole line at once, so that a kill never leaves half of one.
PREAMBLE = """
import os, sys, postroom
from postroom import work
from postroom.core.errors import Refusal, LeaseHeld, LeaseLost, StoreTrouble
def say(*words):
    os.write(1, (" ".join(map(str, words)) + "\\n").encode())
"""


class Child:
    """A Python program that says READY when it stands at the barrier."""

    def __init__(self, program: str, *arguments: object) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", PREAMBLE + program, *map(str, arguments)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=ROOT,
        )

    def ready(self) -> Self:
        assert self.line() == "READY"
        return self

    def tell(self, line: str = "") -> None:
        self._pipe(self.process.stdin).write(line + "\n")
        self._pipe(self.process.stdin).flush()

    def line(self) -> str:
        """The next line that it said; empty once it has ended."""
        return self._pipe(self.process.stdout).readline().rstrip("\n")

    def rest(self) -> list[str]:
        """All that it says until it ends, in whole lines."""
        text = self._pipe(self.process.stdout).read()
        self.process.wait(LONG)
        return text.splitlines()

    def kill(self) -> None:
        self.process.kill()
        self.process.wait(LONG)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.kill()
        self._pipe(self.process.stdout).close()
        try:
            self._pipe(self.process.stdin).close()
        except BrokenPipeError:  # what it was last told never reached it
            pass

    @staticmethod
    def _pipe(pipe: IO[str] | None) -> IO[str]:
        assert pipe is not None
        return pipe
