"""Child processes: real ones, started together, killed for real. They are forked by a process that has imported ours already."""

from __future__ import annotations

import os
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.cli import fork_client

ROOT = Path(__file__).parents[2]
LONG = 60.0

# The first lines of every child. `say` writes one whole line at once, so that a kill never leaves half of one.
PREAMBLE = """
import os, sys, postroom
from postroom import work
from postroom.core.errors import Refusal, LeaseHeld, LeaseLost, StoreTrouble
def say(*words):
    os.write(1, (" ".join(map(str, words)) + "\\n").encode())
"""


class BarrierProcess:
    """A Python program that says READY when it stands at the barrier."""

    def __init__(self, program: str, *arguments: object) -> None:
        listens, tells = os.pipe()
        hears, says = os.pipe()
        self.stdin, self.stdout = open(tells, "w"), open(hears)  # noqa: SIM115 # closed with the child
        self.process = fork_client.python(PREAMBLE + program, *map(str, arguments), cwd=ROOT, stdin=listens, stdout=says)
        os.close(listens)
        os.close(says)

    def ready(self) -> Self:
        assert self.line() == "READY"
        return self

    def tell(self, line: str = "") -> None:
        self.stdin.write(line + "\n")
        self.stdin.flush()

    def line(self) -> str:
        """The next line that it said; empty once it has ended."""
        return self.stdout.readline().rstrip("\n")

    def rest(self) -> list[str]:
        """All that it says until it ends, in whole lines."""
        text = self.stdout.read()
        self.process.wait(LONG)
        return text.splitlines()

    def kill(self) -> None:
        self.process.kill()
        self.process.wait(LONG)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.kill()
        self.stdout.close()
        try:
            self.stdin.close()
        except BrokenPipeError:  # what it was last told never reached it
            pass
