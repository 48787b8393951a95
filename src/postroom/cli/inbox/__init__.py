"""The program `inbox`: work threads, tasks, people, the server and the store itself.

`spec.py` lists its commands, with those of `people/` and `tasks/`. The other modules hold their handlers, `handle_<command>`.
A handler reads flags and calls one verb. It must not know SQL or the rules of a room.
"""

from __future__ import annotations

from postroom._fastpath.imports import import_quickly
from postroom.cli import COMMAND_MODULES, WORK_MODULES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn


def main() -> NoReturn:
    """Run the command line of this process and exit."""
    import_quickly(*COMMAND_MODULES, *WORK_MODULES, archive="inbox")
    from postroom.cli.framework.runner import run_and_exit
    from postroom.cli.inbox.spec import INBOX

    run_and_exit(INBOX)


def run(argv: list[str]) -> int:
    """Run one command line in this process and return its exit code."""
    from postroom.cli.framework.runner import run_command
    from postroom.cli.inbox.spec import INBOX

    return run_command(INBOX, argv)
