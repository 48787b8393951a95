"""The parts of a connection: entries of JSON and TOML files, sections of Markdown files, and whole files. Each knows how to add itself.

A part adds text and changes nothing else. The record of a connection keeps each file as it was, so that `--undo` restores it.
"""

from __future__ import annotations

import json
import tomllib

from postroom.cli.inbox.harness import json_edits

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

SECTION_BEGIN, SECTION_END = "<!-- postroom: begin -->", "<!-- postroom: end -->"


class JsonEntry:
    """A value at a path of a JSON file. With `append`, an item of the list at the path.

    `mark` is a text by which an item of another connection is known, whichever `inbox` it runs. Two of them would do the work twice.
    """

    def __init__(self, file: str, path: tuple[str, ...], value: Any, *, append: bool = False, mark: str = "") -> None:
        self.file = file
        self._path = path
        self._value = value
        self._append = append
        self._mark = mark

    @property
    def summary(self) -> str:
        return ".".join(self._path)

    @property
    def entry(self) -> list[Any]:
        """The recorded form of the entry, by which it is found after its program has written the file anew."""
        return [list(self._path), self._value, self._append]

    def is_in(self, text: str) -> bool:
        found = json_edits.find_value(text or "{}", self._path)
        return (isinstance(found, list) and self._value in found) if self._append else found == self._value

    def add_to(self, text: str) -> str:
        """Return the text with this entry. Raises `ValueError` if the file is broken or has another entry there."""
        if not text.strip():
            text = "{}\n"
        if self._mark and self._mark in json.dumps(json_edits.find_value(text, self._path)):
            raise ValueError("a hook of another connection stands there, which is not recorded here")
        return json_edits.insert_entry(text, self._path, self._value, append=self._append)


class TomlTable:
    """A table of a TOML file, written at its end."""

    def __init__(self, file: str, name: str, values: dict[str, Any]) -> None:
        self.file = file
        self._name = name
        self._values = values

    @property
    def summary(self) -> str:
        return f"[{self._name}]"

    def _find(self, text: str) -> Any:
        found: Any = tomllib.loads(text)
        for name in self._name.split("."):
            found = found.get(name) if isinstance(found, dict) else None
        return found

    def is_in(self, text: str) -> bool:
        return bool(self._find(text) == self._values)

    def is_piece(self, piece: str) -> bool:
        """Return whether a piece that a connection wrote is this table, with whatever values."""
        return f"[{self._name}]\n" in piece

    def add_to(self, text: str) -> str:
        if self._find(text) is not None:
            raise ValueError(f"[{self._name}] exists already")
        lines = [f"{name} = {_toml_value(value)}" for name, value in self._values.items()]
        return f"{text}{_line_break(text)}[{self._name}]\n" + "\n".join(lines) + "\n"


class TomlListItem:
    """An item of a list in a table of a TOML file. The table and the list are made if they are missing."""

    def __init__(self, file: str, table: str, name: str, item: str) -> None:
        self.file = file
        self._table = table
        self._name = name
        self._item = item

    @property
    def summary(self) -> str:
        return f"[{self._table}] {self._name}"

    def is_in(self, text: str) -> bool:
        return self._item in tomllib.loads(text).get(self._table, {}).get(self._name, ())

    def add_to(self, text: str) -> str:
        known = tomllib.loads(text).get(self._table)
        item = json.dumps(self._item)
        if known is None:
            return f"{text}{_line_break(text)}[{self._table}]\n{self._name} = [{item}]\n"
        lines = text.splitlines(keepends=True)
        header = next((number for number, line in enumerate(lines) if line.strip().startswith(f"[{self._table}]")), None)
        if header is None:
            raise ValueError(f"[{self._table}] is written in a way that is not understood")
        if self._name not in known:
            lines.insert(header + 1, f"{self._name} = [{item}]\n")
            return "".join(lines)
        for number in range(header + 1, len(lines)):
            name, equals, value = lines[number].partition("=")
            if equals and name.strip() == self._name and "[" in value:
                comma = ", " if known[self._name] else ""
                lines[number] = lines[number].replace("[", f"[{item}{comma}", 1)
                return "".join(lines)
        raise ValueError(f"{self._name} is written in a way that is not understood")


class Section:
    """A section of a Markdown file, between two markers."""

    def __init__(self, file: str, content: str) -> None:
        self.file = file
        self._text = f"{SECTION_BEGIN}\n{content.strip()}\n{SECTION_END}\n"

    summary = "a section for agents"

    def is_in(self, text: str) -> bool:
        return self._text in text

    def add_to(self, text: str) -> str:
        if SECTION_BEGIN in text:
            raise ValueError("there is a section of another version")
        return f"{text}{_line_break(text)}{self._text}"


class WholeFile:
    """A file of our own."""

    def __init__(self, file: str, content: str) -> None:
        self.file = file
        self._content = content

    summary = "the whole file"

    def is_in(self, text: str) -> bool:
        return text == self._content

    def add_to(self, text: str) -> str:
        if text.strip():
            raise ValueError("there is another file of that name")
        return self._content


TYPE_CHECKING = False
if TYPE_CHECKING:
    Part = JsonEntry | TomlTable | TomlListItem | Section | WholeFile


def _line_break(text: str) -> str:
    """Return what separates an addition from the text before it."""
    if not text:
        return ""
    return "\n" if text.endswith("\n") else "\n\n"


def _toml_value(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return json.dumps(value, ensure_ascii=False)
