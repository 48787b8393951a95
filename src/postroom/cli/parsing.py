"""Reading a command line by the table. Global flags may stand before or after the command."""

from __future__ import annotations

import os

from postroom.cli.grammar import INTEGER, LIST, NUMBER, SWITCH, Command, Flag
from postroom.core.errors import InvalidInput
from postroom.core.words import shown

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from postroom.cli.grammar import Program


class Arguments:
    """What was said on a command line. A flag that was not given is None, an empty tuple, or False."""

    def __init__(self, program: Program, command: Command, values: dict[str, Any], words: list[str]) -> None:
        self.program = program
        self.command = command
        self.words = words
        for flag in (*program.flags, *command.flags):
            empty: object = () if flag.repeat else False if flag.kind == SWITCH else None
            values.setdefault(flag.key, empty)
        self.values = values
        named = values.get("agent")
        self.agent: str | None = os.environ.get("INBOX_AGENT") or None if named is None else named

    def __getattr__(self, key: str) -> Any:
        try:
            return self.values[key]
        except KeyError:
            raise AttributeError(key) from None


def parse(program: Program, argv: list[str]) -> Arguments:
    """The command and its arguments, or a refusal that says which word is wrong."""
    reading = _Reading(program, argv)
    try:
        return reading.whole()
    except InvalidInput as refusal:
        refusal.command = reading.command.name if reading.command else None
        raise


class _Reading:
    """A command line, read from its first word to its last."""

    def __init__(self, program: Program, argv: list[str]) -> None:
        self.command: Command | None = None
        self._program = program
        self._hint = f"See `{program.name} help`."
        self._flags = {flag.name: flag for flag in program.flags}
        self._values: dict[str, Any] = {}
        self._words: list[str] = []
        self._rest = list(reversed(argv))

    def whole(self) -> Arguments:
        while self._rest:
            self._read(self._rest.pop())
        if self.command is None and not self._values.get("help"):
            raise InvalidInput("no command was given", hint=self._hint)
        command = self.command or self._program.commands["help"]
        if not self._values.get("help"):
            self._check_words(command, self._words)
        return Arguments(self._program, command, self._values, self._words)

    def _read(self, word: str) -> None:
        if word in ("-h", "--help"):
            self._values["help"] = True
        elif word == "--version" and self.command is None:
            self._rest.append("version")
        elif word.startswith("--") and len(word) > 2:
            self._read_flag(word)
        elif self.command is None:
            self.command = self._find_command(word)
            self._flags = {**self._flags, **{flag.name: flag for flag in self.command.flags}}
        else:
            self._words.append(word)

    def _find_command(self, word: str) -> Command:
        if word in self._program.groups:
            if self._rest and self._rest[-1] in ("-h", "--help"):
                return self._program.commands["help"]
            word = f"{word} {self._rest.pop()}" if self._rest and not self._rest[-1].startswith("-") else word
        return self._command(word)

    def _command(self, name: str) -> Command:
        known = self._program.commands
        if name not in known:
            raise InvalidInput(f"{shown(name)} is not a command", hint=_nearest(name, known) or self._hint)
        return known[name]

    def _read_flag(self, word: str) -> None:
        name, equals, value = word.partition("=")
        flag = self._flags.get(name)
        if flag is None:
            raise self._unknown(name)
        if flag.kind == SWITCH:
            if equals:
                raise InvalidInput(f"{name} takes no value", field=name[2:])
            self._values[flag.key] = True
            return
        if not equals:
            if not self._rest or self._rest[-1].partition("=")[0] in self._flags:
                hint = f"Write {name} {flag.metavar}; a value that looks like a flag, {name}=VALUE."
                raise InvalidInput(f"{name} needs a value", field=name[2:], hint=hint)
            value = self._rest.pop()
        self._keep(flag, _value(flag, value))

    def _keep(self, flag: Flag, value: Any) -> None:
        if flag.repeat:
            self._values[flag.key] = (*self._values.get(flag.key, ()), value)
        elif flag.key in self._values and self._values[flag.key] != value:
            raise InvalidInput(f"{flag.name} was given twice, with different values", field=flag.name[2:], hint="Leave one of them out.")
        else:
            self._values[flag.key] = value

    def _unknown(self, name: str) -> InvalidInput:
        if self.command is None:
            belongs = any(name == flag.name for command in self._program.commands.values() for flag in command.flags)
            hint = "Flags of a command stand after it." if belongs else _nearest(name, self._flags) or "Flags of a command stand after it."
            return InvalidInput(f"there is no global flag {shown(name)[1:-1]}", hint=hint)
        hint = _nearest(name, self._flags) or f"See `{self._program.name} {self.command.name} --help`."
        return InvalidInput(f"`{self._program.name} {self.command.name}` has no flag {shown(name)[1:-1]}", hint=hint)

    def _check_words(self, command: Command, words: list[str]) -> None:
        called = f"{self._program.name} {command.name}"
        needed = [word for word in command.words if not word.startswith("[")]
        if len(words) < len(needed):
            raise InvalidInput(f"`{called}` needs {' '.join(needed)}", hint=f"For example: {command.example}")
        if len(words) > len(command.words) and command.name != "help":
            raise InvalidInput(f"{shown(words[len(command.words)])} is not expected here", hint=f"See `{called} --help`.")
        if command.name == "help" and words:
            self._command(" ".join(words))
        for word in words:
            if word.startswith("-") and len(word) == 2:
                raise self._unknown(word)


def _value(flag: Flag, value: str) -> Any:
    if flag.kind == LIST:
        return tuple(part.strip() for part in value.replace("|", ",").split(","))
    if flag.kind not in (INTEGER, NUMBER):
        return value
    try:
        return int(value) if flag.kind == INTEGER else float(value)
    except ValueError:
        kind = "a whole number" if flag.kind == INTEGER else "a number"
        raise InvalidInput(f"{flag.name[2:]} must be {kind}, not {shown(value)}", field=flag.name[2:]) from None


def _nearest(word: str, known: dict[str, Any]) -> str:
    from difflib import get_close_matches

    near = get_close_matches(word, known, n=1)
    return f"Did you mean {near[0]}?" if near else ""
