"""The twin: DIR/inbox/entries.jsonl, one line an entry, as document 002 describes it. The store is the truth; this follows it.

Where the file stood when we left it (its inode, size and time, and the newest event that is in it) is noted in `.entries`, which is
also the lock. A file that is not as noted was written by somebody else, or by one of us who was killed: what is new in it is then
looked at, and lines of others are taken in. Appending is one write; a delete writes a new file and renames it. Lines that cannot
be read stay where they are.
"""

from __future__ import annotations

import fcntl
import os
from time import monotonic, sleep

from postroom.core import jsontext
from postroom.core.entries import INBOX, PUSH, Entry, entry_of
from postroom.core.errors import Refusal
from postroom.people import ledger

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import IO, Any

    from postroom.store.port import Store, Transaction

_BATCH = 500
FEW = 8  # ids that are looked for in a line more quickly than the line is read
_PATIENCE = 5.0  # behind a writer that was stopped; then whoever comes next writes what is missing
_NOTE = 4  # numbers in the note: inode, size, time, newest event
_KNOWN = ("id", "ts", "workspaceId", "workspaceLabel", "docs", "comments", "kind")
LATEST = 253_402_300_799_000  # the last second of the year 9999


def follow(store: Store) -> None:
    """Bring the twin up to date after a change. What cannot be written now is written by the next: the entries are safe."""
    if store.data is not None:
        Twin(store, store.data).sync()


def take_in(store: Store) -> None:
    """Take in what others wrote into the twin, if it is there and not as we left it."""
    if store.data is not None:
        twin = Twin(store, store.data)
        if twin.changed():
            twin.sync()


class Twin:
    """The twin of one store in one folder."""

    def __init__(self, store: Store, folder: str) -> None:
        self._store = store
        self._folder = os.path.join(folder, "inbox")
        self.path = os.path.join(self._folder, "entries.jsonl")
        self._notes = os.path.join(self._folder, ".entries")
        self.noted: tuple[int, int, int] | None = None  # how it was when we last agreed with it

    def changed(self) -> bool:
        """Whether somebody else wrote into it. Two looks at the file system, no lock."""
        try:
            with open(self._notes, "rb") as file:
                note = _numbers(file.read())
            return self.state() != note[:3]
        except OSError:
            return os.path.exists(self.path)

    def sync(self, *, briefly: bool = False) -> bool:
        """Make the file and the store agree. False if that has to wait for the next time.

        `briefly`: only append, and only if nobody else is at it; what takes longer is left to a call that has time.
        """
        try:
            for folder in (os.path.dirname(self._folder), self._folder):
                os.makedirs(folder, mode=0o700, exist_ok=True)
            notes = os.open(self._notes, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                if not _lock(notes, 0 if briefly else _PATIENCE):
                    return False
                return self._sync(notes, briefly=briefly)
            finally:
                os.close(notes)
        except (OSError, Refusal, ValueError):
            return False

    def _sync(self, notes: int, *, briefly: bool) -> bool:
        note = _numbers(os.pread(notes, 8 * _NOTE, 0))
        inode, size, _, cursor = note
        state = self.state()
        as_left = state == note[:3]
        if briefly and not as_left:
            return False
        # Appended to, by others or by one of us who was killed: only the tail is news. Anything else: all of it is.
        whole = not as_left and (state[0] != inode or state[1] <= size)
        looked_up = self._latest() if whole else cursor  # of a whole file each line is looked up: only what is deleted meanwhile is news
        cursor = 0 if whole else cursor
        lines = _Lines(self.path, 0 if whole else size)
        if not as_left:
            lines.read(self._store, cursor)
        with self._store.read() as tx:  # one view: what is deleted after it is news to the next
            latest = tx.one(tx.sql.event_latest)
            gone = _gone(tx, looked_up)
            if briefly and gone:
                return False
            if lines.wrong or gone:
                expected = self._rewrite(lines, lines.right(tx) if lines.wrong else lines.without(gone))
            else:
                expected = state[1] + self._append(b"\n" if lines.torn else b"")
            expected += self._write_new(tx, cursor, lines.ids)
        found = self.state()
        if found[1] == expected and latest is not None:  # else somebody wrote at the same time: the next look finds it
            self.noted = found
            os.pwrite(notes, b"".join(field.to_bytes(8, "little", signed=True) for field in (*found, latest[0])), 0)
        return True

    def state(self) -> tuple[int, int, int]:
        """What tells that somebody wrote into it."""
        try:
            found = os.stat(self.path)
        except FileNotFoundError:
            return 0, 0, 0
        return found.st_ino, found.st_size, found.st_mtime_ns

    def _latest(self) -> int:
        with self._store.read() as tx:
            row = tx.one(tx.sql.event_latest)
        return row[0] if row else 0

    def _write_new(self, tx: Transaction, cursor: int, there: set[str]) -> int:
        """Append the entries that the file lacks; how many bytes."""
        written = 0
        while True:
            entries = [entry_of(row) for row in tx.all(tx.sql.entries_after, after=cursor, limit=_BATCH)]
            wanted = [entry for entry in entries if entry.section == INBOX and entry.id not in there]
            written += self._append("".join(f"{entry.line()}\n" for entry in wanted).encode())
            if len(entries) < _BATCH:
                return written
            cursor = entries[-1].seq

    def _append(self, data: bytes) -> int:
        length = len(data)
        if data or not os.path.exists(self.path):
            file = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                while data:
                    data = data[os.write(file, data) :]
            finally:
                os.close(file)
        return length

    def _rewrite(self, source: _Lines, lines: Iterable[bytes]) -> int:
        """These lines, in a new file that takes the old one's place; how many bytes. What others wrote meanwhile comes after them."""
        draft, written = f"{self.path}.new", 0
        file = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        with os.fdopen(file, "wb") as target:
            before = source.open()
            for line in lines:
                written += target.write(line if line.endswith(b"\n") else line + b"\n")
            target.flush()
            os.fsync(target.fileno())
            os.rename(draft, self.path)
        if before is not None:
            with before:
                before.seek(source.consumed)
                self._append(before.read())  # not counted: so the next look finds it
        return written


def _gone(tx: Transaction, cursor: int) -> set[str]:
    """The entries that were deleted since."""
    gone: set[str] = set()
    while True:
        rows = tx.all(tx.sql.gone_after, after=cursor, limit=_BATCH)
        gone.update(row[1] for row in rows)
        if len(rows) < _BATCH:
            return gone
        cursor = rows[-1][0]


class _Lines:
    """What stands in the file from some byte on: which entries, and whether any line of them is not as the store has it."""

    def __init__(self, path: str, start: int) -> None:
        self._path = path
        self._start = start
        self.ids: set[str] = set()
        self.torn = False
        self.wrong = False
        self.consumed = 0  # bytes of the file that were read for a new one

    def read(self, store: Store, cursor: int) -> None:
        """Look at every line, and take in what the store does not know. What is in the file up to `cursor` is not news."""
        upto = self._start
        for line in _lines(self._path, self._start):
            upto += len(line)
            self.torn = not line.endswith(b"\n")
            found = _parsed(line)
            if found is None:
                continue
            entry = _taken(store, found)
            again = found["id"] in self.ids or (entry is not None and entry.seq <= cursor)
            self.wrong = self.wrong or entry is None or again or found != _parsed(entry.line().encode())
            self.ids.add(str(found["id"]))
        if self.torn and os.path.getsize(self._path) != upto:
            raise BlockingIOError("somebody is in the middle of a line")

    def right(self, tx: Transaction) -> Iterator[bytes]:
        """Every line of the file as it should be: none that was deleted, none twice, each as the store has it."""
        seen: set[str] = set()
        for line in self._all():
            found = _parsed(line)
            row = None if found is None else tx.one(tx.sql.entry_find, id=found["id"])
            if found is None or (row is None and tx.one(tx.sql.gone_find, id=found["id"]) is None):
                yield line  # not ours, or not yet
            elif row is not None and found["id"] not in seen:
                seen.add(found["id"])
                written = entry_of(row).line().encode()
                yield line if found == _parsed(written) else written

    def open(self) -> IO[bytes] | None:
        try:
            return open(self._path, "rb")
        except FileNotFoundError:
            return None

    def _all(self) -> Iterator[bytes]:
        for line in _lines(self._path, 0):
            if line.endswith(b"\n") or self.torn:  # else it is being written: it comes after the others
                self.consumed += len(line)
                yield line

    def without(self, gone: set[str]) -> Iterator[bytes]:
        """Every line of the file but those of these entries."""
        for line in self._all():
            suspect = len(gone) > FEW or any(entry_id.encode() in line for entry_id in gone)
            if not suspect or (_parsed(line) or {"id": ""})["id"] not in gone:
                yield line


def _taken(store: Store, found: dict[str, Any]) -> Entry | None:
    """The entry that a line stands for, made if the store does not know it; None if it was deleted, and the line is to go."""
    with store.read() as tx:
        row, gone = tx.one(tx.sql.entry_find, id=found["id"]), tx.one(tx.sql.gone_find, id=found["id"])
    if row is not None or gone is not None:
        return None if row is None else entry_of(row)
    with store.write() as tx:  # nobody else takes lines in: the file is locked
        known = tx.one(tx.sql.workspace_find, workspace_id=found["workspaceId"])
        return ledger.insert(
            tx,
            kind=PUSH,
            entry_id=found["id"],
            ts=found["ts"],
            workspace_id=found["workspaceId"],
            label=found["workspaceLabel"],
            agent="" if known is None else known[3],
            docs=found["docs"],
            comments=found["comments"],
            door="file",
            extra_json=found["extra"],
        )


def _is_doc(doc: object) -> bool:
    """A document as an entry has it: a path, and perhaps what it was when it was pushed."""
    if not isinstance(doc, dict) or not isinstance(doc.get("path"), str) or not set(doc) <= {"path", "sha256", "size"}:
        return False
    size, sha256 = doc.get("size"), doc.get("sha256")
    return isinstance(sha256, str | None) and (size is None or (isinstance(size, int) and 0 <= size < 2**63))


def _parsed(line: bytes) -> dict[str, Any] | None:
    """A line as an entry, or None if it is not one."""
    try:
        found = jsontext.loads(line.decode())
        entry_id, ts, docs = found["id"], found["ts"], found.get("docs", [])
        texts = [found.get(name, "") for name in ("workspaceId", "workspaceLabel", "comments")]
        extra = jsontext.dumps({name: value for name, value in found.items() if name not in _KNOWN})
        extra.encode()
        sound = isinstance(entry_id, str) and 0 < len(entry_id) <= 200 and entry_id.isprintable() and entry_id == entry_id.strip()
        sound = sound and isinstance(ts, int) and not isinstance(ts, bool) and 0 <= ts <= LATEST
        sound = sound and all(isinstance(text, str) and "\0" not in text and text.encode() is not None for text in texts)
        sound = sound and isinstance(docs, list) and all(_is_doc(doc) for doc in docs) and bool(jsontext.dumps(docs).encode())
        sound = sound and "\\u0000" not in extra + jsontext.dumps(docs)
    except (ValueError, KeyError, TypeError, AttributeError):
        return None
    if not sound:
        return None
    return {"id": entry_id, "ts": ts, "docs": docs, "extra": extra, **dict(zip(("workspaceId", "workspaceLabel", "comments"), texts))}


def _lines(path: str, start: int) -> Iterator[bytes]:
    try:
        with open(path, "rb") as file:
            file.seek(start)
            yield from file
    except FileNotFoundError:
        return


def _numbers(data: bytes) -> tuple[int, ...]:
    padded = data.ljust(8 * _NOTE, b"\0")
    return tuple(int.from_bytes(padded[at : at + 8], "little", signed=True) for at in range(0, 8 * _NOTE, 8))


def _lock(notes: int, patience: float) -> bool:
    """Alone from here on, unless somebody is stopped in the middle of it."""
    deadline = monotonic() + patience
    while True:
        try:
            fcntl.flock(notes, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        except BlockingIOError:
            if monotonic() > deadline:
                return False
            sleep(0.002)
