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

    from postroom.cli.inbox.harness.planning import Change

MAX_FILE_BYTES = 4 * 1024 * 1024
RESTORED, REMOVED, CHANGED_SINCE, GONE, KEPT = "restored", "removed", "changed since", "gone", "kept"
LEFT_ALONE = "left alone"


def read_text(path: str) -> str:
    """Return the text of a file, or "" if there is none. Raises `ValueError` if it is not ours to change."""
    _require_writable_folder(path)  # a file is replaced, which writes its folder
    try:
        found = os.lstat(path)
    except FileNotFoundError:
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


def require_inside(folder: str, path: str) -> None:
    """Raise `ValueError` if a file of a project would be written outside of it, because a folder above the file is a link.

    Files of the user are not below the project: their folders may be links.
    """
    project = os.path.join(os.path.realpath(folder), "")
    place = os.path.join(os.path.realpath(os.path.dirname(path)), "")
    if os.path.abspath(path).startswith(project) and not place.startswith(project):
        raise ValueError("a folder above it is a link that leads out of the project")


def _require_writable_folder(path: str) -> None:
    folder = os.path.dirname(path)
    while not os.path.isdir(folder):
        folder = os.path.dirname(folder)
    if not os.access(folder, os.W_OK):
        raise ValueError(f"{folder} cannot be written")


class ConnectionRecord:
    """The record of a connection: for each file its text before and after, or None if there was no file, and the folders that were made.

    `uses` are the files in which it found its entries, because another connection had written them. `workspace` is the id of the
    workspace that was made for the connection, if any.
    """

    def __init__(self, folder: str, program: str) -> None:
        self.path = os.path.join(state_root(), "connections", f"{program}-{sha1_hex(os.path.realpath(folder))[:16]}.json")
        self.data: dict[str, Any] = {"folder": os.path.realpath(folder), "program": program, "files": {}, "folders": []}
        self.data = _read_record(self.path) or self.data
        self.data.setdefault("uses", [])
        self.data.setdefault("workspace", "")
        self.data.setdefault("options", {})

    @property
    def exists(self) -> bool:
        return bool(self.data["files"] or self.data["uses"])

    @property
    def workspace_id(self) -> str:
        """The workspace that was made for the connection, or ""."""
        return str(self.data["workspace"])

    def note_workspace(self, workspace_id: str) -> None:
        """Record that the folder became a workspace for this connection."""
        self.data["workspace"] = workspace_id
        self._save()

    @property
    def options(self) -> dict[str, bool]:
        """Return the choices of the connection: `is_user` and `hold`. Empty if nothing is recorded."""
        return dict(self.data["options"])

    def apply(self, changes: dict[str, Change], used: Iterable[str], options: dict[str, bool]) -> None:
        """Write the new texts. The record is written before each file, so that a killed process leaves nothing unrecorded."""
        self.data["options"] = options
        self.data["uses"] = sorted({*self.data["uses"], *used})
        if self.exists:
            self._save()
        for path, change in changes.items():
            before = read_text(path) if os.path.lexists(path) else None
            self._make_folders(os.path.dirname(path))
            self._record_change(path, change, before)
            self._save()
            mode = 0o644 if before is None else os.stat(path).st_mode & 0o777
            write_private_file(path, change.text, mode=mode)

    def _record_change(self, path: str, change: Change, before: str | None) -> None:
        if change.holder is not None:  # all entries of that connection were removed and written anew
            had_file = change.holder.data["files"][path]["before"] is not None
            if change.holder.path != self.path:
                change.holder.give_file(path, self)
            first = change.start if had_file or change.start.strip() not in ("", "{}") else None
            self.data["files"][path] = {"before": first, "after": change.text, "pieces": change.pieces, "entries": change.entries}
            return
        first, after = before, change.text
        if path in self.data["files"]:
            first = self.text_without_entries(path, before or "")
            after = change.text if first is not None else ""  # they were changed by hand: no text is known as it was before them
            first = None if self.data["files"][path]["before"] is None and not (first or "").strip() else first
        for holder, old, new in change.replaced:
            (self if holder.path == self.path else holder).replace_piece(path, old, new)
        if any(holder.path != self.path for holder, _, _ in change.replaced):
            self.data["uses"] = sorted({*self.data["uses"], path})
        if change.pieces or path in self.data["files"]:
            known = self.data["files"].get(path, {})
            pieces = [*known.get("pieces", ()), *change.pieces]
            entries = [*known.get("entries", ()), *change.entries]
            self.data["files"][path] = {"before": first, "after": after, "pieces": pieces, "entries": entries}

    def give_file(self, path: str, receiver: ConnectionRecord) -> None:
        """Let another connection undo a file. This one still uses it."""
        folders = [folder for folder in self.data["folders"] if path.startswith(folder + os.sep)]
        receiver.inherit_file(path, self.data["files"].pop(path), folders)
        self.data["folders"] = [folder for folder in self.data["folders"] if folder not in folders]
        self.data["uses"] = sorted({*self.data["uses"], path})
        self._save()

    def replace_piece(self, path: str, old: str, new: str) -> None:
        """Record that a piece of this connection was replaced."""
        texts = self.data["files"][path]
        texts["pieces"] = [new if piece == old else piece for piece in texts["pieces"]]
        self._save()

    def text_without_entries(self, path: str, now: str) -> str | None:
        """Return a file without the entries of this connection, or None if they are not found as they were written."""
        texts = self.data["files"][path]
        return (texts["before"] or "") if now == texts["after"] else _remove_pieces(now, texts["pieces"])

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

    def undo(self) -> list[dict[str, str]]:
        """Restore every file. Returns each file, what was done with it, and why it was left alone. What others changed meanwhile stays.

        A file that another connection uses stays too. The other one restores it.
        """
        done = []
        for path, texts in self.data["files"].items():
            user = self._find_other_user(path)
            if user is not None:
                user.inherit_file(path, texts, self.data["folders"])
            done.append({"file": path, **({"action": KEPT} if user is not None else _undo_file(path, **texts))})
        for folder in reversed(self.data["folders"]):
            try:
                os.rmdir(folder)
            except OSError:
                continue  # others put files there, or it is gone
        if all(file["action"] not in (CHANGED_SINCE, LEFT_ALONE) for file in done) and os.path.exists(self.path):
            os.unlink(self.path)
        return done

    def _find_other_user(self, path: str) -> ConnectionRecord | None:
        """Return another connection that found its entries in a file."""
        return next((other for other in self.list_others() if path in other.data["uses"]), None)

    def list_holders(self, path: str) -> list[ConnectionRecord]:
        """Return the connections that have written to a file, this one first."""
        return [record for record in (self, *self.list_others()) if path in record.data["files"]]

    def list_others(self) -> list[ConnectionRecord]:
        """Return the connections of other folders and programs."""
        place, own = os.path.split(self.path)
        names = sorted(os.listdir(place)) if os.path.isdir(place) else []
        found = [_read_record(os.path.join(place, name)) for name in names if name != own]
        return [ConnectionRecord(other["folder"], other["program"]) for other in found if other is not None]

    def inherit_file(self, path: str, texts: dict[str, Any], folders: list[str]) -> None:
        """Take over the undoing of a file from another connection. It knows the file as it was before the other one wrote it."""
        own = self.data["files"].get(path)
        if own is None:
            merged = texts
        else:
            first = texts["before"] if own["before"] == texts["after"] else own["before"]
            lists = {name: [*texts.get(name, ()), *own.get(name, ())] for name in ("pieces", "entries")}
            merged = {"before": first, "after": own["after"], **lists}
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


def _undo_file(path: str, *, before: str | None, after: str, pieces: list[str], entries: Iterable[list[Any]] = ()) -> dict[str, str]:
    """Restore a file. Returns what was done, and a reason if it was left alone."""
    try:
        now = read_text(path) if os.path.lexists(path) else None
    except (ValueError, OSError) as error:
        return {"action": LEFT_ALONE, "reason": str(error)}
    if now is None:
        return {"action": GONE}
    if now == before:  # the process was killed before it had written
        return {"action": RESTORED}
    restored = before if now == after else _remove_pieces(now, pieces)
    if restored is None and now != after and entries:
        restored = _remove_entries(now, entries, before or "{}")
    if restored is None and now != after:
        return {"action": CHANGED_SINCE}
    if restored is None or (before is None and restored.strip() in ("", "{}")):
        os.unlink(path)
        return {"action": REMOVED}
    write_private_file(path, restored, mode=os.stat(path).st_mode & 0o777)
    return {"action": RESTORED}


def _remove_pieces(text: str, pieces: list[str]) -> str | None:
    """Return a text that others changed meanwhile, without our pieces. None if one of them is not found as it was written."""
    for piece in reversed(pieces):
        if text.count(piece) != 1:
            return None
        text = text.replace(piece, "")
    return text


def _remove_entries(text: str, entries: Iterable[list[Any]], before: str) -> str | None:
    """Return a JSON file that its program has written anew, without our entries. None if one of them is not found as it was written.

    What they made empty goes with them, unless it was there before.
    """
    from postroom.cli.inbox.harness.json_edits import find_value, remove_entry

    try:
        for path, value, append in entries:
            removed = remove_entry(text, tuple(path), value, append=append)
            if removed is None:
                return None
            text = removed
            for depth in range(len(path) if append else len(path) - 1, 0, -1):
                outer = tuple(path[:depth])
                left = find_value(text, outer)
                if left or find_value(before, outer) is not None:
                    break
                text = remove_entry(text, outer, left) or text
    except ValueError:
        return None
    return text
