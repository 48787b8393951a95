"""The program `notifier`: queued commands and timers.

A handler reads flags and calls one verb of `queues.notifier`. It must not know SQL or the rules of the room.
"""

from __future__ import annotations

from postroom.cli.framework import runner
from postroom.cli.notifier.spec import NOTIFIER

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn


def main() -> NoReturn:
    """Run the command line of this process and exit."""
    runner.run_and_exit(NOTIFIER)


def run(argv: list[str]) -> int:
    """Run one command line in this process and return its exit code."""
    return runner.run_command(NOTIFIER, argv)
