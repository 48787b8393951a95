"""The program `thread`: event queues.

A handler reads flags and calls one verb of the queues room. It must not know SQL or the rules of the room.
"""

from __future__ import annotations

from postroom.cli.framework import runner
from postroom.cli.thread.spec import THREAD

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn


def main() -> NoReturn:
    """Run the command line of this process and exit."""
    runner.run_and_exit(THREAD)


def run(argv: list[str]) -> int:
    """Run one command line in this process and return its exit code."""
    return runner.run_command(THREAD, argv)
