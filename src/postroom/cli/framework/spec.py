"""The classes of a command table. The parser, the help, the completion and the reference pages all read it."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

TEXT, INTEGER, NUMBER, LIST, SWITCH = "text", "integer", "number", "list", "switch"


class Flag:
    """One flag. `metavar` shows the form of the value. A flag without one is a switch. `repeat` collects every value given.

    `alias` is another name that is accepted and not shown: one that a document prescribes, or an older one. Refusals and `key` use it.
    """

    __slots__ = ("alias", "field", "help", "key", "kind", "metavar", "name", "repeat")

    def __init__(self, name: str, metavar: str, help: str, kind: str = TEXT, repeat: bool = False, alias: str = "") -> None:
        self.name = name
        self.alias = alias
        self.field = (alias or name)[2:]
        self.key = self.field.replace("-", "_")
        self.metavar = metavar
        self.help = help
        self.kind = kind if metavar else SWITCH
        self.repeat = repeat


class Command:
    """One command. `handler` names the function that serves it as `module:function`. It is imported when the command runs.

    `subject` is the flag that a word without a flag stands for: see `name_subjects`.
    """

    __slots__ = ("details", "example", "flags", "handler", "name", "subject", "summary", "words")

    def __init__(
        self,
        name: str,
        summary: str,
        handler: str,
        flags: tuple[Flag, ...],
        words: tuple[str, ...] = (),
        details: str = "",
        example: str = "",
    ) -> None:
        self.name = name
        self.summary = summary
        self.handler = handler
        self.flags = flags
        self.words = words
        self.details = details
        self.example = example
        self.subject: Flag | None = None


def name_subjects(commands: tuple[Command, ...], *names: str) -> tuple[Command, ...]:
    """Let the first of these flags that a command has also be written as a plain word: `task show ID`. Return the commands."""
    for command in commands:
        flag = next((flag for name in names for flag in command.flags if flag.name == name), None)
        if flag is not None and not command.words:
            command.subject = flag
            command.words = (f"[{flag.metavar}]",)
    return commands


EXITS = "Exit codes: 0 success, 10 no matching work, 20 conflict, 30 invalid input or state, 40 not found, 50 storage trouble."
DB = Flag("--db", "PATH", "the store; default: $INBOX_DB, else the nearest .agents/coord.db in this folder or above")
ENV = Flag("--env", "NAME", "give it this variable, with the value that it has now; may be repeated", repeat=True)
SHARED = Flag("--shared", "GROUP", "let the members of a group use the files; default: only you")
LOG_FORMAT = Flag("--log-format", "FORMAT", "json logs each step as a JSON object on standard error; default text, on standard output")
AFTER = Flag("--after", "CURSOR", "go on behind the page whose `after` this is")
JSON = Flag("--json", "", "print one JSON object")
HELP = Flag("--help", "", "show this help")
VERBOSE = Flag("--verbose", "", "with --help: show examples too")


class CommandTable:
    """A program and its commands. Its `flags` may stand before or after any command.

    `list_more_commands` returns the commands behind `commands`. It is called when one of them, or the whole table, is needed. Those in
    `quick_commands` are found without it.
    """

    def __init__(
        self,
        name: str,
        about: str,
        flags: tuple[Flag, ...],
        commands: tuple[Command, ...],
        *,
        list_more_commands: Callable[[], tuple[Command, ...]] | None = None,
        quick_commands: tuple[Command, ...] = (),
        snake_case_fields: bool = False,
        output_module: str = "framework.output",
        exits: str = EXITS,
        value_lister: str = "",
        id_expander: str = "",
        aliases: dict[str, str] | None = None,
        first_commands: tuple[str, ...] = (),
        start_help: str = "",
        more_help: str = "",
    ) -> None:
        self.name = name
        self.snake_case_fields = snake_case_fields  # whether refusals name fields in snake_case, as the document of the program does
        self.output_module = output_module  # prints the outcomes and refusals of this program
        self.exit_codes_text = exits
        self.value_lister = value_lister  # names the function that lists values of the store for shell completion, as `module:function`
        self.id_expander = id_expander  # names the function that completes shortened ids, as `module:function`
        self.aliases = aliases or {}  # names that people guess, and the commands that they mean
        self.first_commands = first_commands  # the commands that the page of the bare program shows
        self.start_help = start_help  # the end of that page
        self.more_help = more_help  # the end of the list of all commands
        self.about = about
        self.flags = flags
        self._first = {command.name: command for command in commands}
        self._quick = {**self._first, **{command.name: command for command in quick_commands}}
        self._list_more_commands = list_more_commands
        self._all: dict[str, Command] = {}

    @property
    def commands(self) -> dict[str, Command]:
        """All commands by name."""
        if not self._all:
            more = () if self._list_more_commands is None else self._list_more_commands()
            self._all = {**self._first, **{command.name: command for command in more}}
        return self._all

    @property
    def groups(self) -> frozenset[str]:
        """The first words of commands with two."""
        return frozenset(name.split()[0] for name in self.commands if " " in name)

    def find_command(self, name: str) -> Command | None:
        return self._quick.get(name) or self.commands.get(name)

    def is_group(self, word: str) -> bool:
        """Return whether a word begins commands with two words. No command has the name of a group."""
        return word not in self._quick and word in self.groups


def load_function(name: str) -> Callable[..., Any]:
    """Import and return the function that a table names as `module:function`."""
    module, _, function = name.partition(":")
    return getattr(__import__(f"postroom.cli.{module}", fromlist=(function,)), function)  # type: ignore[no-any-return]
