"""What a table of commands is made of. The parser, the help, the completion and the reference pages are all read from one."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

TEXT, INTEGER, NUMBER, LIST, SWITCH = "text", "integer", "number", "list", "switch"


class Flag:
    """`metavar` shows the value's form; a flag without one is a switch. `repeat` collects every value given."""

    __slots__ = ("help", "key", "kind", "metavar", "name", "repeat")

    def __init__(self, name: str, metavar: str, help: str, kind: str = TEXT, repeat: bool = False) -> None:
        self.name = name
        self.key = name[2:].replace("-", "_")
        self.metavar = metavar
        self.help = help
        self.kind = kind if metavar else SWITCH
        self.repeat = repeat


class Command:
    """`face` is the function that serves it, as `module:function`, loaded when it is called."""

    __slots__ = ("details", "example", "face", "flags", "name", "summary", "words")

    def __init__(
        self, name: str, summary: str, face: str, flags: tuple[Flag, ...], words: tuple[str, ...] = (), details: str = "", example: str = ""
    ) -> None:
        self.name = name
        self.summary = summary
        self.face = face
        self.flags = flags
        self.words = words
        self.details = details
        self.example = example


EXITS = "Exit codes: 0 success, 10 no matching work, 20 conflict, 30 invalid input or state, 40 not found, 50 storage trouble."
DB = Flag("--db", "PATH", "the store; default: $INBOX_DB, else the nearest .agents/coord.db upward")
JSON = Flag("--json", "", "print one JSON object")
HELP = Flag("--help", "", "show this help")
VERBOSE = Flag("--verbose", "", "with --help: examples too")


class Program:
    """A command with its table: `flags` may stand before or after any of its commands."""

    def __init__(
        self,
        name: str,
        about: str,
        flags: tuple[Flag, ...],
        commands: tuple[Command, ...],
        *,
        snake: bool = False,
        manner: str = "envelope",
        exits: str = EXITS,
    ) -> None:
        self.name = name
        self.snake = snake  # whether refusals name fields as its document does, in snake_case
        self.manner = manner  # the module that knows how it answers and refuses
        self.exits = exits
        self.about = about
        self.flags = flags
        self.commands = {command.name: command for command in commands}
        self.groups = frozenset(command.split()[0] for command in self.commands if " " in command)


def load(command: Command) -> Callable[..., object]:
    """The function that serves a command."""
    module, _, function = command.face.partition(":")
    return getattr(__import__(f"postroom.cli.{module}", fromlist=(function,)), function)  # type: ignore[no-any-return]
