"""Plan a connection: what each part changes in which file. Writes nothing.

A connection can be repeated, also by an `inbox` at another path or of another version: entries that were recorded are replaced.
"""

from __future__ import annotations

from postroom.cli.inbox.harness.files import LEFT_ALONE, read_text, require_inside
from postroom.cli.inbox.harness.parts import JsonEntry, TomlTable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from postroom.cli.inbox.harness.files import ConnectionRecord
    from postroom.cli.inbox.harness.parts import Part

ADD, REPLACE, PRESENT = "add", "replace", "present"


class Step:
    """The plan for one part: it is added, replaces an earlier one, is present already, or is left alone for a reason."""

    def __init__(self, part: Part, action: str, reason: str = "") -> None:
        self.part = part
        self.action = action
        self.reason = reason

    def to_json(self) -> dict[str, Any]:
        fields = {"file": self.part.file, "part": self.part.summary, "action": self.action}
        return {**fields, "reason": self.reason} if self.reason else fields


class Change:
    """The new text of a file, the pieces that were inserted into it, one after another, and those that are entries of JSON.

    `holder` is the connection whose entries were removed from the file first, all at once: pieces may be nested. `replaced` are single
    pieces of connections, each with the new one.
    """

    def __init__(self, text: str, holder: ConnectionRecord | None = None) -> None:
        self.start = text
        self.text = text
        self.pieces: list[str] = []
        self.entries: list[list[Any]] = []
        self.holder = holder
        self.replaced: list[tuple[ConnectionRecord, str, str]] = []

    def add_part(self, part: Part) -> None:
        """Insert a part. Raises `ValueError`, and changes nothing, if the file would not be read as before with the part in it."""
        text = _insert(part, self.text)
        self.pieces.append(_inserted_piece(self.text, text))
        if isinstance(part, JsonEntry):
            self.entries.append(part.entry)
        self.text = text

    def replace_table(self, part: TomlTable, holders: list[ConnectionRecord]) -> bool:
        """Replace the table of an earlier connection by that of `part`. Returns False if none is found as it was written."""
        for holder in holders:
            for piece in holder.data["files"][part.file]["pieces"]:
                if part.is_piece(piece) and self.text.count(piece) == 1:
                    rest = self.text.replace(piece, "")
                    self.text = _insert(part, rest)
                    self.replaced.append((holder, piece, _inserted_piece(rest, self.text)))
                    return True
        return False


def _insert(part: Part, text: str) -> str:
    made = part.add_to(text)
    try:
        is_added = part.is_in(made)
    except ValueError as error:
        raise ValueError(f"the file could not be read with it: {error}") from None
    if not is_added:
        raise ValueError("the file would not be read with it")
    return made


def _inserted_piece(before: str, after: str) -> str:
    """Return the piece by which a text has grown."""
    start = next((at for at, (old, new) in enumerate(zip(before, after)) if old != new), len(before))
    return after[start : start + len(after) - len(before)]


def plan_parts(parts: list[Part], record: ConnectionRecord) -> tuple[list[Step], dict[str, Change]]:
    """Return a step for each part, and the change of each file. Writes nothing. `record` is that of the connection."""
    files: dict[str, _FilePlan] = {}
    steps = []
    for part in parts:
        try:
            if part.file not in files:
                files[part.file] = _FilePlan(part.file, [other for other in parts if other.file == part.file], record)
            steps.append(Step(part, files[part.file].place(part)))
        except (ValueError, OSError) as error:
            steps.append(Step(part, LEFT_ALONE, str(error)))
    return steps, {path: plan.change for path, plan in files.items() if plan.change.text != plan.now}


class _FilePlan:
    """The plan for one file."""

    def __init__(self, path: str, parts: list[Part], record: ConnectionRecord) -> None:
        require_inside(record.data["folder"], path)
        self.now = read_text(path)
        self.change = Change(self.now)
        self._holders = record.list_holders(path)
        is_complete = all(part.is_in(self.now) for part in parts)
        if is_complete or len(self._holders) != 1 or path.endswith(".toml"):
            return  # tables of several connections stand side by side in a TOML file: they are replaced one by one
        start = self._holders[0].text_without_entries(path, self.now)
        if start is None:
            raise ValueError("the entries of an earlier connection were changed by hand")
        self.change = Change(start, self._holders[0])

    def place(self, part: Part) -> str:
        """Put a part into the new text. Returns the action of its step."""
        is_present = part.is_in(self.now)
        if part.is_in(self.change.text):
            return PRESENT
        if isinstance(part, TomlTable) and self.change.replace_table(part, self._holders):
            return REPLACE
        self.change.add_part(part)
        return PRESENT if is_present else REPLACE if self.change.holder is not None else ADD
