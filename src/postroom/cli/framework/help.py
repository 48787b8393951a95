"""Help pages, generated from a command table."""

from __future__ import annotations

from postroom.cli.framework.spec import VERBOSE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from postroom.cli.framework.spec import Command, CommandTable, Flag

_LEFT_COLUMN_CHARS = 28


def help_page(program: CommandTable, name: str, words: list[str], *, verbose: bool = False) -> str:
    """Return the help page of one command, or the overview. A program that has `--verbose` shows examples only with it."""
    command_name = " ".join(words) if name == "help" else name
    command_name = program.aliases.get(command_name, command_name)
    brief = VERBOSE in program.flags and not verbose
    if command_name in program.commands and command_name != "help":
        return command_page(program, program.commands[command_name], brief=brief)
    if command_name in program.groups:
        return group_page(program, command_name)
    examples = "".join(f"  {command.example}\n" for command in program.commands.values()) if verbose else ""
    return overview_page(program) + (f"\nExamples:\n{examples}" if examples else "")


def start_page(program: CommandTable) -> str:
    """Return the page of the bare program: the commands that people use first, the groups, and where to read on."""
    rows = "".join(_two_columns(f"  {program.name} {name}", program.commands[name].summary) for name in program.first_commands)
    groups = _group_rows(program)
    rows += f"\n{groups}" if groups else ""
    return (
        f"{program.name}: {program.about}\n\nStart here:\n{rows}\n"
        f"`{program.name} help` lists every command, `{program.name} COMMAND --help` shows one.\n{program.start_help}"
    )


def _group_rows(program: CommandTable) -> str:
    """Return a line for each group of commands."""
    members: dict[str, list[str]] = {}
    for name in program.commands:
        group, _, member = name.partition(" ")
        if member:
            members.setdefault(group, []).append(member)
    rows = "".join(_two_columns(f"  {group}", ", ".join(names)) for group, names in sorted(members.items()))
    return f"Groups (`{program.name} GROUP` shows the commands of one):\n{rows}" if rows else ""


def overview_page(program: CommandTable) -> str:
    """Return the page that lists every command, the global flags and the exit codes."""
    rows = "".join(_two_columns(f"  {command.name}", command.summary) for command in program.commands.values() if " " not in command.name)
    groups = _group_rows(program)
    rows += f"\n{groups}" if groups else ""
    flags = "".join(_flag_row(flag) for flag in program.flags)
    return (
        f"{program.name}: {program.about}\n\n"
        f"Usage: {program.name} COMMAND [FLAGS]\n\nCommands:\n{rows}\nFlags of every command, before or after it:\n{flags}\n"
        f"{program.exit_codes_text}\n"
        f"`{program.name} COMMAND --help` shows more.\n{program.more_help}"
    )


def group_page(program: CommandTable, group: str) -> str:
    """Return the page that lists the commands of one group, such as `inbox task`."""
    rows = "".join(
        _two_columns(f"  {command.name}", command.summary) for command in program.commands.values() if command.name.split()[0] == group
    )
    full_name = f"{program.name} {group}"
    return f"Usage: {full_name} COMMAND [FLAGS]\n\nCommands:\n{rows}\n`{full_name} COMMAND --help` shows more.\n"


def command_page(program: CommandTable, command: Command, *, brief: bool = False) -> str:
    """Return the help page of one command. `brief` leaves the example out."""
    words = "".join(f" {word}" for word in command.words)
    own_flags = "".join(_flag_row(flag) for flag in command.flags)
    global_flags = "".join(_flag_row(flag) for flag in program.flags)
    details = f"\n{_wrap_text(command.details)}\n" if command.details else ""
    flags = f"\nFlags:\n{own_flags}" if own_flags else ""
    full_name = f"{program.name} {command.name}"
    example = "" if brief else f"\nExample:\n  {command.example}\n"
    return (
        f"{full_name}: {command.summary}\n\nUsage: {full_name}{words}{' [FLAGS]' if own_flags else ''}\n{details}{flags}"
        f"\nFlags of every command:\n{global_flags}{example}"
    )


def _flag_row(flag: Flag) -> str:
    return _two_columns(f"  {flag.name} {flag.metavar}".rstrip(), flag.help)


def _two_columns(left: str, right: str) -> str:
    if len(left) >= _LEFT_COLUMN_CHARS:
        return f"{left}\n{'':{_LEFT_COLUMN_CHARS}}{right}\n"
    return f"{left:{_LEFT_COLUMN_CHARS}}{right}\n"


def _wrap_text(text: str) -> str:
    from textwrap import fill

    parts = text.split("`")
    parts[1::2] = [command.replace(" ", "\N{NO-BREAK SPACE}") for command in parts[1::2]]  # a command stays on one line
    filled = fill("`".join(parts), 100, break_long_words=False, break_on_hyphens=False)
    return filled.replace("\N{NO-BREAK SPACE}", " ")
