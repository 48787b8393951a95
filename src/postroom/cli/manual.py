"""Help pages, drawn from the table."""

from __future__ import annotations

from postroom.cli.grammar import VERBOSE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from postroom.cli.grammar import Command, Flag, Program

_WIDTH = 28


def page(program: Program, name: str, words: list[str], *, verbose: bool = False) -> str:
    """The help of one command, or of all of them. Where there is a `--verbose`, only that shows examples."""
    asked = " ".join(words) if name == "help" else name
    brief = VERBOSE in program.flags and not verbose
    if asked in program.commands and asked != "help":
        return command_page(program, program.commands[asked], brief=brief)
    examples = "".join(f"  {command.example}\n" for command in program.commands.values()) if verbose else ""
    return overview(program) + (f"\nExamples:\n{examples}" if examples else "")


def overview(program: Program) -> str:
    rows = "".join(_entry(f"  {command.name}", command.summary) for command in program.commands.values())
    flags = "".join(_flag(flag) for flag in program.flags)
    return (
        f"{program.name}: {program.about}\n\n"
        f"Usage: {program.name} COMMAND [FLAGS]\n\nCommands:\n{rows}\nFlags of every command, before or after it:\n{flags}\n"
        f"{program.exits}\n"
        f"`{program.name} COMMAND --help` tells more.\n"
    )


def command_page(program: Program, command: Command, *, brief: bool = False) -> str:
    words = "".join(f" {word}" for word in command.words)
    own = "".join(_flag(flag) for flag in command.flags)
    shared = "".join(_flag(flag) for flag in program.flags)
    details = f"\n{_wrap(command.details)}\n" if command.details else ""
    flags = f"\nFlags:\n{own}" if own else ""
    called = f"{program.name} {command.name}"
    example = "" if brief else f"\nExample:\n  {command.example}\n"
    return (
        f"{called}: {command.summary}\n\nUsage: {called}{words}{' [FLAGS]' if own else ''}\n{details}{flags}"
        f"\nFlags of every command:\n{shared}{example}"
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
