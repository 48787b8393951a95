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

ASK = "__complete"  # as in framework/runner.py, which this module does not load


def main() -> NoReturn:
    """Run the program that the first word names, or `inbox`, and exit."""
    from postroom.cli.framework import output

    words = sys.argv[1:]
    if len(words) > 1 and words[0] == "help" and words[1] in PROGRAMS:  # `postroom help mailbox ack` is `mailbox help ack`
        sys.argv[1:] = words = [words[1], "help", *words[2:]]
    page = PAGE if words in ([], ["help"], ["--help"], ["-h"]) else _complete(words)
    if page is not None:
        output.keep_standard_descriptors()
        sys.exit(output.OK if output.print_answer(page, only_reads=True) else output.TROUBLE)
    place = 2 if words[0] == ASK and len(words) > 1 else 1
    name = sys.argv[place] if sys.argv[place] in PROGRAMS and (place == 1 or len(words) > 2) else "inbox"
    if sys.argv[place] == name:
        del sys.argv[place]
    __import__(f"postroom.cli.{name}", fromlist=("main",)).main()
    raise AssertionError("the program did not exit")


def _complete(words: list[str]) -> str | None:
    """Return the completion script of `postroom`, or the candidates for its first word. None if a program answers the words itself."""
    if words[0] == "completion" and len(words) == 2 and words[1] in ("bash", "zsh", "fish"):
        from postroom.cli.framework.completion import completion_script

        return completion_script("postroom", words[1])
    if words[0] == ASK and len(words) == 2:
        from postroom.cli.framework.candidates import list_candidates
        from postroom.cli.inbox.spec import INBOX

        own = [(name, "") for name in PROGRAMS if name.startswith(words[1])]
        return "".join(f"{word}\t{about}\n" if about else f"{word}\n" for word, about in own + list_candidates(INBOX, words[1:]))
    return None
