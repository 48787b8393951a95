"""Mirror the entries in DIR/inbox/entries.jsonl, one line per entry, in the format of document 002.

`store/files/jsonl_mirror.py` has the parts shared with a queue's journal: positions, the lock, torn lines, rewriting. The position is in
`.entries`. Other programs may append entries to this file: if it is not at its position, its new lines are imported. A delete rewrites
the file. Lines that are not entries stay where they are. The verbs that make or delete entries, and the server, call this module.
"""

from __future__ import annotations

import fcntl
import os

from postroom._fastpath import json_text as jsontext
from postroom.core import clock
from postroom.core.errors import Refusal
from postroom.core.records.people import INBOX, PART, PUSH, Entry
from postroom.people import repository
from postroom.people.entry_lines import is_importable, parse_entry_line
from postroom.store.files.jsonl_mirror import JsonlMirror, LockedPositions, load_positions, make_file_opener

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import Any, Self

    from postroom.store.interface import Store, Transaction

PAGE_ROWS = 500
MARK_BYTES = 20
MAX_IDS_SOUGHT_AS_TEXT = 8  # up to this many ids, a text search in a line is faster than parsing it
LOCK_WAIT_SECONDS = 5.0  # behind a stopped writer. After a timeout, the next change writes the missing lines


def update_mirror(store: Store) -> None:
    """Bring the mirror up to date after a change. The entries are committed, so if this fails, the next change does it."""
    if store.data_folder is not None:
        EntriesMirror(store, store.data_folder).sync()


class EntriesPruning:
    """Marks that entries are pruned: meanwhile, the calls of others leave the lines of these entries in the file, which they would rewrite.

    The mark is a locked file with the newest event before. Once the lock is gone, also because the process was killed, the next call
    removes the lines and the mark.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._file: int | None = None

    def begin(self, tx: Transaction) -> None:
        """Make the mark, unless another process has made it."""
        if self._store.data_folder is None or self._file is not None:
            return
        file = make_file_opener(self._store.location)(_mark_path(self._store.data_folder), os.O_RDWR)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(file)
            return
        if not os.pread(file, MARK_BYTES, 0):
            os.pwrite(file, str(tx.fetch_one(tx.sql.event_latest) or 0).encode(), 0)
        self._file = file

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        if self._file is not None:
            fcntl.flock(self._file, fcntl.LOCK_UN)
            os.close(self._file)
            self._file = None


def _mark_path(folder: str) -> str:
    return os.path.join(folder, "inbox", ".pruning")


def _read_mark(folder: str) -> tuple[bool, int | None]:
    """Return whether entries are being pruned, and if they were and the lines are still there, the newest event before."""
    try:
        file = os.open(_mark_path(folder), os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    except OSError:
        return False, None
    try:
        fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        return False, int(os.pread(file, MARK_BYTES, 0) or b"0")
    except BlockingIOError:
        return True, None
    finally:
        os.close(file)


def begin_again(store: Store, mark: str) -> None:
    """Set the mirror aside under a name with a mark, and write a new one, because other rows have replaced those that it repeats."""
    set_aside(store, mark)
    update_mirror(store)


def set_aside(store: Store, mark: str) -> None:
    """Rename the mirror to a name with a mark. The next change writes a new one from the rows."""
    if store.data_folder is None:
        return
    folder = os.path.join(store.data_folder, "inbox")
    for name in (".entries", "entries.jsonl"):
        try:
            os.rename(os.path.join(folder, name), os.path.join(folder, f"{name}.before-{mark}"))
        except FileNotFoundError:
            pass


def import_foreign_lines(store: Store) -> None:
    """Import the lines that other programs wrote into the mirror, if it exists and is not at its position."""
    if store.data_folder is not None:
        mirror = EntriesMirror(store, store.data_folder)
        if mirror.is_changed():
            mirror.sync()


def concerns_entries(topics: Iterable[str]) -> bool:
    """Return whether a commit with events of these topics may have changed the mirror."""
    return any(topic.startswith(repository.ENTRY_TOPIC_PREFIX) for topic in topics)


class EntriesMirror:
    """The mirror of one store's entries in one folder."""

    def __init__(self, store: Store, folder: str) -> None:
        self._store = store
        self._folder = folder
        self._open_file = make_file_opener(store.location)
        self._positions_path = os.path.join(folder, "inbox", ".entries")
        self._file = JsonlMirror(os.path.join(folder, "inbox", "entries.jsonl"), self._open_file, ("inode", "size", "mtime_ns", "last_id"))
        self.synced_fingerprint = (0, 0, 0)  # of the file, when this object last synchronized it
        self._synced_id = 0

    def is_changed(self) -> bool:
        """Return whether the file was written since its position was recorded. Takes no lock."""
        try:
            with open(self._positions_path, "rb") as positions:
                load_positions(positions.read(), (self._file,))
            return not self._file.is_at_position()
        except OSError:
            return os.path.exists(self._file.path)

    def is_changed_since_sync(self) -> bool:
        """Return whether the file was written since this object synchronized it. Costs one `stat`."""
        return self._file.read_fingerprint() != self.synced_fingerprint

    def is_behind(self) -> bool:
        """Return whether an entry was made or deleted since this object synchronized the file. Does not touch the file."""
        try:
            with self._store.read() as tx:
                place = {"after": self._synced_id, "limit": 1}
                return bool(
                    tx.fetch_all(tx.sql.entries_after, **place)
                    or tx.fetch_all(tx.sql.gone_after, pruned=int(not _read_mark(self._folder)[0]), **place)
                    or tx.fetch_all(tx.sql.entries_changed, **place)
                )
        except Refusal:
            return False

    def sync(self, *, briefly: bool = False) -> bool:
        """Make the file and the store agree. Return False if that failed and the next call has to do it.

        `briefly`: only append, and only if no other process has the lock. A later call without it does the rest.
        """
        wait_seconds = 0 if briefly else LOCK_WAIT_SECONDS
        try:
            with LockedPositions(self._positions_path, (self._file,), self._open_file, wait_seconds=wait_seconds) as positions:
                return self._sync_locked(positions, briefly=briefly)
        except (OSError, Refusal, ValueError):
            return False

    def _sync_locked(self, positions: LockedPositions, *, briefly: bool) -> bool:
        file = self._file
        fingerprint = file.read_fingerprint()
        unchanged = file.is_at_position(fingerprint)
        if briefly and not unchanged:
            return False
        deleted_after = file.last_id
        if not unchanged and (fingerprint[0] != file.inode or fingerprint[1] <= file.size):
            # The file was rewritten, not only appended to. Each line is looked up below, so only later deletions matter.
            deleted_after, file.size, file.last_id = self._newest_event_id(), 0, 0
        lines = _ForeignLines(file)
        if not unchanged:
            lines.read_and_import(self._store)
        is_pruning, pruned_after = _read_mark(self._folder)
        with self._store.read() as tx:  # one snapshot: the next call handles a later deletion
            newest = tx.fetch_one(tx.sql.event_latest)
            changed = _changed_ids(tx, deleted_after)
            deleted = _deleted_ids(tx, deleted_after if pruned_after is None else min(pruned_after, deleted_after), pruned=not is_pruning)
            if briefly and (deleted or changed):
                return False
            file.accept_fingerprint(fingerprint)
            self._write_lines(tx, lines, deleted, changed)
        file.last_id = newest or 0
        if file.is_at_position():  # else another program wrote at the same time: the next call imports from the old position
            positions.save_positions()
            if pruned_after is not None:
                os.unlink(_mark_path(self._folder))
            self.synced_fingerprint, self._synced_id = (file.inode, file.size, file.mtime_ns), file.last_id
        return True

    def _write_lines(self, tx: Transaction, lines: _ForeignLines, deleted: set[str], changed: set[str]) -> None:
        """Correct the lines that are wrong or changed, remove those of deleted entries, and append the entries that the file lacks."""
        if lines.has_wrong_line:
            self._file.rewrite_lines(lambda old_lines: _corrected_lines(tx, old_lines), is_torn=lines.is_torn)
        elif deleted or changed:
            self._file.rewrite_lines(lambda old_lines: _edited_lines(tx, old_lines, deleted, changed), is_torn=lines.is_torn)
        elif lines.is_torn or not self._file.inode:
            self._file.append_lines(b"\n" if lines.is_torn else b"")
        after = self._file.last_id
        while True:
            entries = tx.fetch_all(tx.sql.entries_after, after=after, limit=PAGE_ROWS)
            missing = [entry for entry in entries if entry.section in (INBOX, PART) and entry.id not in lines.ids]
            if missing:
                self._file.append_lines("".join([f"{entry.to_jsonl_line()}\n" for entry in missing]).encode())
            if len(entries) < PAGE_ROWS:
                return
            after = entries[-1].seq

    def _newest_event_id(self) -> int:
        with self._store.read() as tx:
            return tx.fetch_one(tx.sql.event_latest) or 0


class _ForeignLines:
    """The lines after a file's position: the ids of their entries, and whether a line differs from the store."""

    def __init__(self, file: JsonlMirror) -> None:
        self._file = file
        self.ids: set[str] = set()
        self.is_torn = False
        self.has_wrong_line = False

    def read_and_import(self, store: Store) -> None:
        """Compare every line with the store, and import the entries that the store does not know, many in one transaction."""
        end = self._file.size
        waiting: list[dict[str, Any]] = []
        for line in self._file.read_lines(end):
            end += len(line)
            self.is_torn = not line.endswith(b"\n")
            fields = parse_entry_line(line)
            if fields is not None:
                waiting.append(fields)
            if len(waiting) == PAGE_ROWS:
                self._compare_entries(store, waiting)
                waiting = []
        self._compare_entries(store, waiting)
        if self.is_torn and os.path.getsize(self._file.path) != end:
            raise BlockingIOError("another program is in the middle of a line")

    def _compare_entries(self, store: Store, lines: list[dict[str, Any]]) -> None:
        for fields, (entry, is_known) in zip(lines, _find_or_import(store, lines), strict=True):
            if not is_known:
                continue
            is_repeated = fields["id"] in self.ids or (entry is not None and entry.seq <= self._file.last_id)
            is_wrong = entry is None or is_repeated or fields != parse_entry_line(entry.to_jsonl_line().encode())
            self.has_wrong_line = self.has_wrong_line or is_wrong
            self.ids.add(fields["id"])


def _corrected_lines(tx: Transaction, lines: Iterable[bytes]) -> Iterator[bytes]:
    """Yield the lines as they should be: no deleted entry, no entry twice, and each as it is in the store."""
    seen: set[str] = set()
    for line in lines:
        fields = parse_entry_line(line)
        row = None if fields is None else tx.fetch_one(tx.sql.entry_find, id=fields["id"])
        if fields is None or (row is None and tx.fetch_one(tx.sql.gone_find, id=fields["id"]) is None):
            yield line  # not an entry, or appended after we read the file
        elif row is not None and fields["id"] not in seen:
            seen.add(fields["id"])
            written = row.to_jsonl_line().encode()
            yield line if fields == parse_entry_line(written) else written


def _edited_lines(tx: Transaction, lines: Iterable[bytes], deleted: set[str], changed: set[str]) -> Iterator[bytes]:
    """Yield the lines without those of the deleted entries, and with those of the changed entries as they are in the store."""
    sought = deleted | changed
    for line in lines:
        may_match = len(sought) > MAX_IDS_SOUGHT_AS_TEXT or any(entry_id.encode() in line for entry_id in sought)
        entry_id = (parse_entry_line(line) or {"id": ""})["id"] if may_match else ""
        row = tx.fetch_one(tx.sql.entry_find, id=entry_id) if entry_id in changed else None
        if row is not None:
            yield f"{row.to_jsonl_line()}\n".encode()
        elif entry_id not in deleted:
            yield line


def _changed_ids(tx: Transaction, after: int) -> set[str]:
    """Return the ids of the entries whose line changed after this event."""
    changed: set[str] = set()
    while True:
        rows = tx.fetch_all(tx.sql.entries_changed, after=after, limit=PAGE_ROWS)
        changed.update(row.id for row in rows)
        if len(rows) < PAGE_ROWS:
            return changed
        after = rows[-1].changed_seq


def _deleted_ids(tx: Transaction, after: int, *, pruned: bool) -> set[str]:
    """Return the ids of the entries that were deleted after this event. With `pruned`, also by pruning."""
    deleted: set[str] = set()
    while True:
        rows = tx.fetch_all(tx.sql.gone_after, after=after, pruned=int(pruned), limit=PAGE_ROWS)
        deleted.update(row.id for row in rows)
        if len(rows) < PAGE_ROWS:
            return deleted
        after = rows[-1].seq


def _find_or_import(store: Store, lines: list[dict[str, Any]]) -> list[tuple[Entry | None, bool]]:
    """Return for each line its entry, made if the store does not know it, or None if it was deleted; and whether the store knows it now.

    A line beyond the bounds of a push stays in the file like one that is not an entry.
    """
    with store.read() as tx:
        found = [_find_known(tx, fields) for fields in lines]
    if all(is_known or not is_importable(fields) for fields, (_, is_known) in zip(lines, found, strict=True)):
        return found
    with store.write() as tx:  # no other process imports these lines: we hold the lock of the file
        return [_find_known(tx, fields, imports=True) for fields in lines]


def _find_known(tx: Transaction, fields: dict[str, Any], *, imports: bool = False) -> tuple[Entry | None, bool]:
    row = tx.fetch_one(tx.sql.entry_find, id=fields["id"])
    if row is not None or tx.fetch_one(tx.sql.gone_find, id=fields["id"]) is not None:
        return row, True
    return (_import_entry(tx, fields), True) if imports and is_importable(fields) else (None, False)


def _import_entry(tx: Transaction, fields: dict[str, Any]) -> Entry:
    """Make the entry of a line. A line that names another entry of the same workspace is added to that one."""
    states = fields["states"]
    workspace = tx.fetch_one(tx.sql.workspace_find, workspace_id=fields["workspaceId"])
    content: dict[str, Any] = {
        "kind": PUSH,
        "entry_id": fields["id"],
        "ts": fields["ts"],
        "workspace_id": fields["workspaceId"],
        "label": fields["workspaceLabel"],
        "agent": "" if workspace is None else workspace.agent,
        "docs": fields["docs"],
        "comments": fields["comments"],
        "door": "file",
        "title": states.get("title", ""),
    }
    root = repository.lock_entry_if_exists(tx, states["entryId"]) if "entryId" in states else None
    if root is not None and root.root_id is None and root.workspace_id == fields["workspaceId"]:
        return repository.add_part(tx, root, {**content, "extra_json": fields["extra"]})
    extra = fields["extra"] if "entryId" not in states else _with_field(fields["extra"], "entryId", states["entryId"])
    content |= {"triage": states.get("state", INBOX), "snoozed_until": states.get("snoozedUntil"), "extra_json": extra}
    return repository.insert_entry(tx, pinned_at=clock.format_stamp(tx.now()) if states.get("pinned") else None, **content)


def _with_field(extra_json: str, name: str, value: str) -> str:
    """Return the unknown fields of a line with one more: the entry that it names is not here."""
    return jsontext.dumps({**jsontext.loads(extra_json), name: value})
