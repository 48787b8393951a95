"""Parse a command line according to a command table. Global flags may stand before or after the command."""

from __future__ import annotations

import os

from postroom.cli.framework.spec import INTEGER, LIST, NUMBER, SWITCH, Command, Flag
from postroom.core.errors import InvalidInput
from postroom.core.text import short_repr

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from postroom.cli.framework.spec import CommandTable


MIN_LIKENESS = 0.75  # of a word to a known one: with difflib's 0.6, `create` is taken for `read`


class Arguments:
    """A parsed command line. A flag that was not given is None, an empty tuple (repeatable flags) or False (switches)."""

    def __init__(self, program: CommandTable, command: Command, values: dict[str, Any], words: list[str]) -> None:
        self.program = program
        self.command = command
        self.words = words
        for flag in (*program.flags, *command.flags):
            values.setdefault(flag.key, _empty_value(flag))
        self.values = values
        self.agent: str | None = values.get("agent")
        if self.agent is None:
            self.agent = os.environ.get("INBOX_AGENT") or None

    def __getattr__(self, key: str) -> Any:
        try:
            return self.values[key]
        except KeyError:
            raise AttributeError(key) from None


def parse(program: CommandTable, argv: list[str]) -> Arguments:
    """Return the command and its arguments. Raises `InvalidInput`, which names the wrong word."""
    reader = _CommandLineReader(program, argv)
    try:
        return reader.read_all()
    except InvalidInput as refusal:
        refusal.command = reader.command.name if reader.command else None
        raise


class _CommandLineReader:
    """Reads a command line word by word."""

    def __init__(self, program: CommandTable, argv: list[str]) -> None:
        self.command: Command | None = None
        self._program = program
        self._hint = f"See `{program.name} help`."
        self._flags = {flag.name: flag for flag in program.flags}
        self._aliases: dict[str, Flag] = {}
        self._values: dict[str, Any] = {}
        self._words: list[str] = []
        self._plain_words: list[str] = []
        self._rest = list(reversed(argv))

    def read_all(self) -> Arguments:
        while self._rest:
            self._read_word(self._rest.pop())
        if self.command is None and self._values and not self._values.get("help"):
            raise InvalidInput("no command was given", hint=self._hint)
        command = self.command or self._program.commands["help"]
        words = self._words + self._plain_words
        if not self._values.get("help"):
            self._check_words(command, words)
            for word in self._words:
                if word.startswith("-") and len(word) == 2:
                    raise self._unknown_flag(word)
            if command.subject is not None:
                words = self._store_subject(command.subject, words)
        return Arguments(self._program, command, self._values, words)

    def _store_subject(self, flag: Flag, words: list[str]) -> list[str]:
        """Store the word that names the subject as the value of its flag. Return the words that are left: none."""
        for word in words:
            self._store_value(flag, _convert_value(flag, word))
        return []

    def _read_word(self, word: str) -> None:
        if word == "--" and self.command is not None:  # everything behind it is a word, also if it looks like a flag
            self._plain_words = list(reversed(self._rest))
            self._rest.clear()
        elif word in ("-h", "--help"):
            self._values["help"] = True
        elif word in ("--version", "-V", "-v") and self.command is None:
            self._rest.append("version")
        elif word.startswith("--") and len(word) > 2:
            self._read_flag(word)
        elif self.command is None:
            self.command = self._find_command(word)
            self._flags = {**self._flags, **{flag.name: flag for flag in self.command.flags}}
            self._aliases = {flag.alias: flag for flag in self.command.flags if flag.alias}
        else:
            self._words.append(word)

    def _find_command(self, word: str) -> Command:
        word = self._program.aliases.get(word, word)
        if self._program.is_group(word):
            if not self._rest or self._rest[-1].startswith("-"):  # the group alone: its help
                self._words.append(word)
                return self._program.commands["help"]
            word = f"{word} {self._rest.pop()}"
            word = self._program.aliases.get(word, word)
        return self._command_named(word)

    def _command_named(self, name: str) -> Command:
        found = self._program.find_command(name)
        if found is None:
            hint = _suggest_nearest(name, self._program.commands) or self._hint
            raise InvalidInput(f"{short_repr(name)} is not a command", hint=hint)
        return found

    def _read_flag(self, word: str) -> None:
        name, equals, value = word.partition("=")
        flag = self._flags.get(name) or self._aliases.get(name)
        if flag is None:
            raise self._unknown_flag(name)
        if flag.kind == SWITCH:
            if equals:
                raise InvalidInput(f"{name} takes no value", field=flag.field)
            self._values[flag.key] = True
            return
        if not equals:
            if not self._rest or self._rest[-1].partition("=")[0] in self._flags:
                hint = f"Write {name} {flag.metavar}; a value that looks like a flag, {name}=VALUE."
                raise InvalidInput(f"{name} needs a value", field=flag.field, hint=hint)
            value = self._rest.pop()
        self._store_value(flag, _convert_value(flag, value))

    def _store_value(self, flag: Flag, value: Any) -> None:
        if flag.repeat:
            self._values[flag.key] = (*self._values.get(flag.key, ()), value)
        elif flag.key in self._values and self._values[flag.key] != value:
            raise InvalidInput(f"{flag.name} was given twice, with different values", field=flag.field, hint="Leave one of them out.")
        else:
            self._values[flag.key] = value

    def _unknown_flag(self, name: str) -> InvalidInput:
        if self.command is None:
            belongs = any(name == flag.name for command in self._program.commands.values() for flag in command.flags)
            nearest = "" if belongs else _suggest_nearest(name, self._flags)
            hint = nearest or "Flags of a command stand after it."
            return InvalidInput(f"there is no global flag {short_repr(name)[1:-1]}", hint=hint)
        hint = _suggest_nearest(name, self._flags) or f"See `{self._program.name} {self.command.name} --help`."
        return InvalidInput(f"`{self._program.name} {self.command.name}` has no flag {short_repr(name)[1:-1]}", hint=hint)

    def _check_words(self, command: Command, words: list[str]) -> None:
        full_name = f"{self._program.name} {command.name}"
        required = [word for word in command.words if not word.startswith("[")]
        if len(words) < len(required):
            raise InvalidInput(f"`{full_name}` needs {' '.join(required)}", hint=f"For example: {command.example}")
        repeats = command.subject is not None and command.subject.repeat
        if len(words) > len(command.words) and command.name != "help" and not repeats:
            hint = f"For example: {command.example}"
            raise InvalidInput(f"{short_repr(words[len(command.words)])} is not expected here", hint=hint)
        if command.name == "help" and words and " ".join(words) not in self._program.groups:
            name = " ".join(words)
            self._command_named(self._program.aliases.get(name, name))


def require_flags(args: Arguments, keys: tuple[str, ...]) -> None:
    """Refuse if a flag with one of these keys is missing."""
    for flag in args.command.flags:
        if flag.key in keys and args.values[flag.key] is None:
            raise InvalidInput(f"{flag.name} is missing", field=flag.field, hint=f"For example: {args.command.example}")


def _empty_value(flag: Flag) -> object:
    if flag.repeat:
        return ()
    return False if flag.kind == SWITCH else None


def _convert_value(flag: Flag, value: str) -> Any:
    """Convert a flag's text to its kind: a tuple, an int, a float or the text itself."""
    if flag.kind == LIST:
        return tuple(part.strip() for part in value.replace("|", ",").split(","))
    if flag.kind not in (INTEGER, NUMBER):
        return value
    try:
        return int(value) if flag.kind == INTEGER else float(value)
    except ValueError:
        kind = "a whole number" if flag.kind == INTEGER else "a number"
        raise InvalidInput(f"{flag.name[2:]} must be {kind}, not {short_repr(value)}", field=flag.field) from None


def _suggest_nearest(word: str, known: dict[str, Any]) -> str:
    """Return a hint with the most similar known word, or an empty text."""
    from difflib import get_close_matches

    matches = get_close_matches(word, known, n=1, cutoff=MIN_LIKENESS)
    return f"Did you mean {matches[0]}?" if matches else ""
