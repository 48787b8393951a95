"""The program `notifier`: queued commands and timers.

A handler reads flags and calls one verb of `queues.notifier`. It must not know SQL or the rules of the room.
"""

from __future__ import annotations

from postroom._fastpath.imports import import_quickly

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn


def main() -> NoReturn:
    """Run the command line of this process and exit."""
    import_quickly()
    from postroom.cli.framework.runner import run_and_exit
    from postroom.cli.notifier.spec import NOTIFIER

    run_and_exit(NOTIFIER)


def run(argv: list[str]) -> int:
    """Run one command line in this process and return its exit code."""
    from postroom.cli.framework.runner import run_command
    from postroom.cli.notifier.spec import NOTIFIER

    return run_command(NOTIFIER, argv)
