"""The program `mailbox`: its command table, handlers and text views.

A handler reads flags and calls one verb of the mail room. It must not know SQL or the rules of the room.
"""

from __future__ import annotations

from postroom._fastpath.imports import import_quickly
from postroom.cli import COMMAND_MODULES, MAIL_MODULES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn


def main() -> NoReturn:
    """Run the command line of this process and exit."""
    import_quickly(*COMMAND_MODULES, *MAIL_MODULES, archive="mailbox")
    from postroom.cli.framework.runner import run_and_exit
    from postroom.cli.mailbox.spec import MAILBOX

    run_and_exit(MAILBOX)


def run(argv: list[str]) -> int:
    """Run one command line in this process and return its exit code."""
    from postroom.cli.framework.runner import run_command
    from postroom.cli.mailbox.spec import MAILBOX

    return run_command(MAILBOX, argv)
