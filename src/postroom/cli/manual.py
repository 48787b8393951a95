"""Help pages, drawn from the table."""

from __future__ import annotations

from postroom.cli.table import COMMANDS, GLOBAL, Command, Flag

EXITS = "Exit codes: 0 success, 10 no matching work, 20 conflict, 30 invalid input or state, 40 not found, 50 storage trouble."
_WIDTH = 28


def page(name: str, words: list[str]) -> str:
    """The help of one command, or of all of them."""
    asked = " ".join(words) if name == "help" else name
    if asked in COMMANDS and asked != "help":
        return command_page(COMMANDS[asked])
    return overview()


def overview() -> str:
    rows = "".join(_entry(f"  {command.name}", command.summary) for command in COMMANDS.values())
    flags = "".join(_flag(flag) for flag in GLOBAL)
    return (
        "inbox: the durable inbox for AI agents and the people they work for\n\n"
        f"Usage: inbox COMMAND [FLAGS]\n\nCommands:\n{rows}\nFlags of every command, before or after it:\n{flags}\n{EXITS}\n"
        "`inbox COMMAND --help` tells more.\n"
    )


def command_page(command: Command) -> str:
    words = "".join(f" {word}" for word in command.words)
    own = "".join(_flag(flag) for flag in command.flags)
    shared = "".join(_flag(flag) for flag in GLOBAL)
    details = f"\n{_wrap(command.details)}\n" if command.details else ""
    flags = f"\nFlags:\n{own}" if own else ""
    return (
        f"inbox {command.name}: {command.summary}\n\nUsage: inbox {command.name}{words}{' [FLAGS]' if own else ''}\n{details}{flags}"
        f"\nFlags of every command:\n{shared}\nExample:\n  {command.example}\n"
    )


def _flag(flag: Flag) -> str:
    return _entry(f"  {flag.name} {flag.metavar}".rstrip(), flag.help)


def _entry(left: str, right: str) -> str:
    if len(left) >= _WIDTH:
        return f"{left}\n{'':{_WIDTH}}{right}\n"
    return f"{left:{_WIDTH}}{right}\n"


def _wrap(text: str) -> str:
    from textwrap import fill

    return fill(text, 100)
