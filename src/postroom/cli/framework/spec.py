"""The classes of a command table. The parser, the help, the completion and the reference pages all read it."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

TEXT, INTEGER, NUMBER, LIST, SWITCH = "text", "integer", "number", "list", "switch"


class Flag:
    """One flag. `metavar` shows the form of the value. A flag without one is a switch. `repeat` collects every value given."""

    __slots__ = ("help", "key", "kind", "metavar", "name", "repeat")

    def __init__(self, name: str, metavar: str, help: str, kind: str = TEXT, repeat: bool = False) -> None:
        self.name = name
        self.key = name[2:].replace("-", "_")
        self.metavar = metavar
        self.help = help
        self.kind = kind if metavar else SWITCH
        self.repeat = repeat


class Command:
    """One command. `handler` names the function that serves it as `module:function`. It is imported when the command runs."""

    __slots__ = ("details", "example", "flags", "handler", "name", "summary", "words")

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


EXITS = "Exit codes: 0 success, 10 no matching work, 20 conflict, 30 invalid input or state, 40 not found, 50 storage trouble."
DB = Flag("--db", "PATH", "the store; default: $INBOX_DB, else the nearest .agents/coord.db in this folder or above")
ENV = Flag("--env", "NAME", "give it this variable, with the value that it has now; may be repeated", repeat=True)
SHARED = Flag("--shared", "GROUP", "let the members of a group use the files; default: only you")
JSON = Flag("--json", "", "print one JSON object")
HELP = Flag("--help", "", "show this help")
VERBOSE = Flag("--verbose", "", "with --help: show examples too")


class CommandTable:
    """A program and its commands. Its `flags` may stand before or after any command."""

    def __init__(
        self,
        name: str,
        about: str,
        flags: tuple[Flag, ...],
        commands: tuple[Command, ...],
        *,
        snake_case_fields: bool = False,
        output_module: str = "framework.output",
        exits: str = EXITS,
    ) -> None:
        self.name = name
        self.snake_case_fields = snake_case_fields  # whether refusals name fields in snake_case, as the document of the program does
        self.output_module = output_module  # prints the outcomes and refusals of this program
        self.exit_codes_text = exits
        self.about = about
        self.flags = flags
        self.commands = {command.name: command for command in commands}
        self.groups = frozenset(command.split()[0] for command in self.commands if " " in command)


def load_handler(command: Command) -> Callable[..., object]:
    """Import and return the function that serves a command."""
    module, _, function = command.handler.partition(":")
    return getattr(__import__(f"postroom.cli.{module}", fromlist=(function,)), function)  # type: ignore[no-any-return]
