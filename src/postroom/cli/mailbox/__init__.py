"""The program `mailbox`: its command table, handlers and text views.

A handler reads flags and calls one verb of the mail room. It must not know SQL or the rules of the room.
"""

from __future__ import annotations

from postroom.cli.framework import runner
from postroom.cli.mailbox.spec import MAILBOX

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn


def main() -> NoReturn:
    """Run the command line of this process and exit."""
    runner.run_and_exit(MAILBOX)


def run(argv: list[str]) -> int:
    """Run one command line in this process and return its exit code."""
    return runner.run_command(MAILBOX, argv)
