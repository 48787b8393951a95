"""Change files of other programs so that everything can be restored: what was written is recorded, with each file as it was before."""

from __future__ import annotations

import json
import os

from postroom.cli.inbox.harness.sessions import state_root
from postroom.core.text import sha1_hex
from postroom.store.files.private_files import make_private_folder, write_private_file

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    from postroom.cli.inbox.harness.parts import Part

MAX_FILE_BYTES = 4 * 1024 * 1024
ADD, PRESENT, LEFT_ALONE = "add", "present", "left alone"
RESTORED, REMOVED, CHANGED_SINCE, GONE, KEPT = "restored", "removed", "changed since", "gone", "kept"


class Step:
    """The plan for one part: it is added, is present already, or is left alone for a reason."""

    def __init__(self, part: Part, action: str, reason: str = "") -> None:
        self.part = part
        self.action = action
        self.reason = reason

    def to_json(self) -> dict[str, Any]:
        fields = {"file": self.part.file, "part": self.part.summary, "action": self.action}
        return {**fields, "reason": self.reason} if self.reason else fields


class Change:
    """The new text of a file, and the pieces that were inserted into it, one after another."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.pieces: list[str] = []

    def add_part(self, part: Part) -> None:
        before, self.text = self.text, part.add_to(self.text)
        self.pieces.append(_inserted_piece(before, self.text))


def _inserted_piece(before: str, after: str) -> str:
    """Return the piece by which a text has grown."""
    start = next((at for at, (old, new) in enumerate(zip(before, after)) if old != new), len(before))
    return after[start : start + len(after) - len(before)]


def plan_parts(parts: list[Part]) -> tuple[list[Step], dict[str, Change]]:
    """Return a step for each part, and the change of each file. Writes nothing."""
    changes: dict[str, Change] = {}
    steps = []
    for part in parts:
        try:
            change = changes.get(part.file) or Change(read_text(part.file))
            if part.is_in(change.text):
                steps.append(Step(part, PRESENT))
                continue
            change.add_part(part)
            changes[part.file] = change
            steps.append(Step(part, ADD))
        except (ValueError, OSError) as error:
            steps.append(Step(part, LEFT_ALONE, str(error)))
    return steps, changes


def read_text(path: str) -> str:
    """Return the text of a file, or "" if there is none. Raises `ValueError` if it is not ours to change."""
    try:
        found = os.lstat(path)
    except FileNotFoundError:
        _require_writable_folder(path)
        return ""
    if os.path.islink(path):
        raise ValueError("it is a link to another file")
    if not os.path.isfile(path):
        raise ValueError("it is not a file")
    if found.st_uid != os.getuid():
        raise ValueError("it belongs to another user")
    if not found.st_mode & 0o200:
        raise ValueError("it is read-only")
    if found.st_size > MAX_FILE_BYTES:
        raise ValueError("it is too large")
    with open(path, encoding="utf-8", newline="") as file:
        return file.read()


def _require_writable_folder(path: str) -> None:
    folder = os.path.dirname(path)
    while not os.path.isdir(folder):
        folder = os.path.dirname(folder)
    if not os.access(folder, os.W_OK):
        raise ValueError(f"{folder} cannot be written")


class ConnectionRecord:
    """The record of a connection: for each file its text before and after, or None if there was no file, and the folders that were made.

    `uses` are the files in which it found its entries, because another connection had written them.
    """

    def __init__(self, folder: str, program: str) -> None:
        self.path = os.path.join(state_root(), "connections", f"{program}-{sha1_hex(os.path.realpath(folder))[:16]}.json")
        self.data: dict[str, Any] = {"folder": os.path.realpath(folder), "program": program, "files": {}, "folders": []}
        self.data = _read_record(self.path) or self.data
        self.data.setdefault("uses", [])

    @property
    def exists(self) -> bool:
        return bool(self.data["files"] or self.data["uses"])

    def apply(self, changes: dict[str, Change], used: Iterable[str]) -> None:
        """Write the new texts. The record is written before each file, so that a killed process leaves nothing unrecorded."""
        self.data["uses"] = sorted({*self.data["uses"], *used})
        if self.exists:
            self._save()
        for path, change in changes.items():
            before = read_text(path) if os.path.lexists(path) else None
            known = self.data["files"].get(path, {"before": before, "pieces": []})
            first = known["before"] if known.get("after", before) == before else before
            self._make_folders(os.path.dirname(path))
            self.data["files"][path] = {"before": first, "after": change.text, "pieces": [*known["pieces"], *change.pieces]}
            self._save()
            mode = 0o644 if before is None else os.stat(path).st_mode & 0o777
            write_private_file(path, change.text, mode=mode)

    def _make_folders(self, folder: str) -> None:
        missing = []
        while not os.path.isdir(folder):
            missing.append(folder)
            folder = os.path.dirname(folder)
        for path in reversed(missing):
            self.data["folders"].append(path)
            os.mkdir(path)

    def _save(self) -> None:
        make_private_folder(os.path.dirname(self.path))
        write_private_file(self.path, json.dumps(self.data))

    def undo(self) -> list[tuple[str, str]]:
        """Restore every file. Returns each file, and what was done with it. What others changed meanwhile stays.

        A file that another connection uses stays too. The other one restores it.
        """
        done = []
        for path, texts in self.data["files"].items():
            user = self._find_other_user(path)
            if user is not None:
                user.inherit_file(path, texts, self.data["folders"])
            done.append((path, KEPT if user is not None else _undo_file(path, **texts)))
        for folder in reversed(self.data["folders"]):
            try:
                os.rmdir(folder)
            except OSError:
                continue  # others put files there, or it is gone
        if all(action != CHANGED_SINCE for _, action in done):
            os.unlink(self.path)
        return done

    def _find_other_user(self, path: str) -> ConnectionRecord | None:
        """Return another connection that found its entries in a file."""
        place = os.path.dirname(self.path)
        for name in sorted(os.listdir(place)):
            other = _read_record(os.path.join(place, name)) if name != os.path.basename(self.path) else None
            if other is not None and path in other.get("uses", ()):
                return ConnectionRecord(other["folder"], other["program"])
        return None

    def inherit_file(self, path: str, texts: dict[str, Any], folders: list[str]) -> None:
        """Take over the undoing of a file from another connection. It knows the file as it was before the other one wrote it."""
        own = self.data["files"].get(path)
        if own is None:
            merged = texts
        else:
            first = texts["before"] if own["before"] == texts["after"] else own["before"]
            merged = {"before": first, "after": own["after"], "pieces": [*texts["pieces"], *own["pieces"]]}
        self.data["files"][path] = merged
        self.data["folders"] = [*(folder for folder in folders if path.startswith(folder + os.sep)), *self.data["folders"]]
        self._save()


def _read_record(path: str) -> dict[str, Any] | None:
    try:
        with open(path, encoding="utf-8") as file:
            data: dict[str, Any] = json.load(file)
            return data
    except (FileNotFoundError, ValueError):
        return None


def _undo_file(path: str, *, before: str | None, after: str, pieces: list[str]) -> str:
    try:
        now = read_text(path) if os.path.lexists(path) else None
    except (ValueError, OSError):
        return CHANGED_SINCE
    if now is None:
        return GONE
    restored = before if now == after else _remove_pieces(now, pieces)
    if restored is None and now != after:
        return CHANGED_SINCE
    if restored is None or (before is None and restored.strip() in ("", "{}")):
        os.unlink(path)
        return REMOVED
    write_private_file(path, restored, mode=os.stat(path).st_mode & 0o777)
    return RESTORED


def _remove_pieces(text: str, pieces: list[str]) -> str | None:
    """Return a text that others changed meanwhile, without our pieces. None if one of them is not found as it was written."""
    for piece in reversed(pieces):
        if text.count(piece) != 1:
            return None
        text = text.replace(piece, "")
    return text
