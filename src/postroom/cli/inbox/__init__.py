"""The program `inbox`: work threads, tasks, people, the server and the store itself.

`spec.py` and `people_spec.py` list its commands. The other modules hold their handlers, `handle_<command>`.
A handler reads flags and calls one verb. It must not know SQL or the rules of a room.
"""

from __future__ import annotations

from postroom.cli.framework import runner
from postroom.cli.inbox.spec import INBOX

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn


def main() -> NoReturn:
    """Run the command line of this process and exit."""
    runner.run_and_exit(INBOX)


def run(argv: list[str]) -> int:
    """Run one command line in this process and return its exit code."""
    return runner.run_command(INBOX, argv)
