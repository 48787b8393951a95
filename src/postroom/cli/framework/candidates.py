"""Candidates for the word that a person completes in a shell: from a command table, and from the store where it has such values."""

from __future__ import annotations

from postroom.core.errors import Refusal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from postroom.cli.framework.spec import Command, CommandTable, Flag

    Candidate = tuple[str, str]  # a word and its description
    ListValues = Callable[[str, str, dict[str, str]], list[Candidate]]

FILES = ":files"  # printed instead of candidates: the shell completes the name of a file


class _Position:
    """The place of the word that is completed: its command, the words and values before it, and the flag whose value it is."""

    def __init__(self, program: CommandTable, before: list[str]) -> None:
        self.command: Command | None = None
        self.group = ""
        self.words: list[str] = []
        self.values: dict[str, str] = {}
        self.flag: Flag | None = None
        self.flags = {flag.name: flag for flag in program.flags}
        self.is_unknown = False
        for word in before:
            self._read_word(program, word)

    def _read_word(self, program: CommandTable, word: str) -> None:
        if self.flag is not None:
            self.values[self.flag.key] = word
            self.flag = None
        elif word.startswith("--"):
            self._read_flag(word)
        elif self.command is not None:
            self.words.append(word)
        elif not self.group and word in program.groups:
            self.group = word
        else:
            self.command = program.commands.get(f"{self.group} {word}".strip())
            self.is_unknown = self.command is None
            self.flags |= {flag.name: flag for flag in (self.command.flags if self.command else ())}

    def _read_flag(self, word: str) -> None:
        name, equals, value = word.partition("=")
        flag = self.flags.get(name)
        if flag is None or not flag.metavar:
            return
        if equals:
            self.values[flag.key] = value
        else:
            self.flag = flag


def list_candidates(program: CommandTable, words: list[str]) -> list[Candidate]:
    """Return the candidates for the last of `words`, which begin with it. A candidate `FILES` stands for the names of files."""
    *before, current = words or [""]
    position = _Position(program, before)
    found = _candidates_at(program, position, current)
    return [(word, about) for word, about in found if word.startswith(current) or word == FILES]


def _candidates_at(program: CommandTable, position: _Position, current: str) -> list[Candidate]:
    if position.is_unknown:
        return []
    if position.flag is not None:
        return _list_values(program, position.flag.name, position.flag.metavar, position.values)
    flags = [(flag.name, flag.help) for flag in position.flags.values()]
    if position.command is None:
        return flags if current.startswith("-") else _list_commands(program, position.group)
    if current.startswith("-"):
        return flags
    return _list_words(program, position, position.command) or flags


def _list_words(program: CommandTable, position: _Position, command: Command) -> list[Candidate]:
    """Return the candidates for a word that belongs to no flag."""
    if command.name == "help":
        return _list_commands(program, " ".join(position.words))
    if len(position.words) >= len(command.words):
        return []
    owner = command.name.partition(" ")[0] if command.subject is None else command.subject.name
    return _list_values(program, owner, command.words[len(position.words)].strip("[]"), position.values)


def _list_commands(program: CommandTable, group: str) -> list[Candidate]:
    """Return the commands of a group, or the first words of all commands."""
    if group:
        inside = {name.partition(" ")[2]: command.summary for name, command in program.commands.items() if name.startswith(f"{group} ")}
        return list(inside.items())
    first = {name.partition(" ")[0]: "" for name in program.commands}
    first |= {name: command.summary for name, command in program.commands.items() if " " not in name}
    return list(first.items())


def _list_values(program: CommandTable, owner: str, metavar: str, values: dict[str, str]) -> list[Candidate]:
    """Return the values of a flag or word: listed ones such as `low|normal|high`, files, or those that the store has now."""
    listed = metavar.replace("|", ",").split(",")
    if len(listed) > 1:
        return [(word, "") for word in listed]
    if metavar in ("PATH", "DIR", "FILE"):
        return [(FILES, "")]
    if not program.value_lister:
        return []
    from postroom.cli.framework.spec import load_function

    list_values: ListValues = load_function(program.value_lister)
    try:
        return list_values(owner, metavar, values)
    except Refusal:  # a shell shows no errors while a person types
        return []
