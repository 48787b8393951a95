"""Reading a command line by the table. Global flags may stand before or after the command."""

from __future__ import annotations

import os

from postroom.cli.table import COMMANDS, GLOBAL, GROUPS, INTEGER, LIST, NUMBER, SWITCH, Command, Flag
from postroom.core.errors import InvalidInput

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_GLOBAL = {flag.name: flag for flag in GLOBAL}
HINT = "See `inbox help`."


class Arguments:
    """What was said on a command line. A flag that was not given is None, an empty tuple, or False."""

    def __init__(self, command: Command, values: dict[str, Any], words: list[str]) -> None:
        self.command = command
        self.words = words
        for flag in (*GLOBAL, *command.flags):
            empty: object = () if flag.repeat else False if flag.kind == SWITCH else None
            values.setdefault(flag.key, empty)
        self.values = values
        self.agent: str | None = values["agent"] or os.environ.get("INBOX_AGENT") or None

    def __getattr__(self, key: str) -> Any:
        try:
            return self.values[key]
        except KeyError:
            raise AttributeError(key) from None


def parse(argv: list[str]) -> Arguments:
    """The command and its arguments, or a refusal that says which word is wrong."""
    flags, command, words, values = _GLOBAL, None, [], {}
    rest = list(reversed(argv))
    while rest:
        word = rest.pop()
        if word in ("-h", "--help"):
            values["help"] = True
        elif word == "--version" and command is None:
            rest.append("version")
        elif word.startswith("--") and len(word) > 2:
            _read_flag(word, rest, flags, values, command)
        elif command is None:
            command = _command(word, rest, values)
            flags = {**_GLOBAL, **{flag.name: flag for flag in command.flags}}
        else:
            words.append(word)
    if command is None:
        command = COMMANDS["help"]
        if not values.get("help"):
            raise InvalidInput("no command was given", hint=HINT)
    if not values.get("help"):
        _check_words(command, words)
    return Arguments(command, values, words)


def _command(word: str, rest: list[str], values: dict[str, Any]) -> Command:
    if word in GROUPS:
        second = rest.pop() if rest and not rest[-1].startswith("-") else ""
        if not second and values.get("help", rest[-1:] == ["--help"] or rest[-1:] == ["-h"]):
            return COMMANDS["help"]
        word = f"{word} {second}".strip()
    if word not in COMMANDS:
        raise InvalidInput(f"{word!r} is not a command", hint=_nearest(word, COMMANDS) or HINT)
    return COMMANDS[word]


def _read_flag(word: str, rest: list[str], flags: dict[str, Flag], values: dict[str, Any], command: Command | None) -> None:
    name, equals, value = word.partition("=")
    flag = flags.get(name)
    if flag is None:
        where = f"`inbox {command.name}` has no" if command else "there is no global"
        hint = f"See `inbox {command.name} --help`." if command else "Flags of a command stand after it."
        raise InvalidInput(f"{where} flag {name}", hint=_nearest(name, flags) or hint)
    if flag.kind == SWITCH:
        if equals:
            raise InvalidInput(f"{name} takes no value")
        values[flag.key] = True
        return
    if not equals:
        if not rest or rest[-1].partition("=")[0] in flags:
            raise InvalidInput(f"{name} needs a value", hint=f"Write {name} {flag.metavar}; a value that looks like a flag, {name}=VALUE.")
        value = rest.pop()
    read = _value(flag, value)
    if flag.repeat:
        values[flag.key] = (*values.get(flag.key, ()), read)
    elif values.setdefault(flag.key, read) != read:
        raise InvalidInput(f"{name} was given twice, with different values", field=name)


def _value(flag: Flag, value: str) -> Any:
    if flag.kind == LIST:
        return tuple(part.strip() for part in value.replace("|", ",").split(","))
    if flag.kind not in (INTEGER, NUMBER):
        return value
    try:
        return int(value) if flag.kind == INTEGER else float(value)
    except ValueError:
        kind = "a whole number" if flag.kind == INTEGER else "a number"
        raise InvalidInput(f"{flag.name} must be {kind}, not {value!r}", field=flag.name) from None


def _check_words(command: Command, words: list[str]) -> None:
    needed = [word for word in command.words if not word.startswith("[")]
    if len(words) < len(needed):
        raise InvalidInput(f"`inbox {command.name}` needs {' '.join(needed)}", hint=f"For example: {command.example}")
    if len(words) > len(command.words) and command.name != "help":
        raise InvalidInput(f"{words[len(command.words)]!r} is not expected here", hint=f"See `inbox {command.name} --help`.")


def _nearest(word: str, known: dict[str, Any]) -> str:
    from difflib import get_close_matches

    near = get_close_matches(word, known, n=1)
    return f"Did you mean {near[0]}?" if near else ""
