"""The program `postroom`: the front door to `inbox`, `mailbox`, `thread` and `notifier`. Other words are commands of `inbox`."""

from __future__ import annotations

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn

PROGRAMS = ("inbox", "mailbox", "thread", "notifier")
PAGE = """postroom: the durable inbox for AI agents and the people they work for

  inbox       work with one owner, questions on the way, people, tasks; the server
  mailbox     messages that arrive, in order, and are acknowledged
  thread      events in a folder, and the programs that they start
  notifier    commands to run soon or at a time

`postroom PROGRAM` shows the commands of one. `postroom COMMAND` is short for `inbox COMMAND`.
"""


def main() -> NoReturn:
    """Run the program that the first word names, or `inbox`, and exit."""
    from postroom.cli.framework import output

    words = sys.argv[1:]
    if not words:
        output.keep_standard_descriptors()
        sys.exit(output.OK if output.print_answer(PAGE, only_reads=True) else output.TROUBLE)
    name = words[0] if words[0] in PROGRAMS else "inbox"
    if words[0] == name:
        del sys.argv[1]
    __import__(f"postroom.cli.{name}", fromlist=("main",)).main()
    raise AssertionError("the program did not exit")
