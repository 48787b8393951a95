"""The files beside a queue that people read: `events.jsonl`, the exact twin of the rows, and `logs/thread.log`.

Where each file stands (its lines, its size, its newest event) is noted in `run/.tracks`, so that nobody has to count; that file
is also the lock. A file that is not as noted was left by a crash, or changed by hand: the journal is then compared with the rows
and put right, before anything is added. Nothing here is awaited by the events themselves, which are in the database.
"""

from __future__ import annotations

import fcntl
import os
from time import monotonic, sleep

from postroom.core import clock
from postroom.core.errors import Refusal
from postroom.core.events import QueueEvent
from postroom.core.jsontext import dumps, loads
from postroom.store.sqlite import queue_statements as sql

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from postroom.store.sqlite.files import QueueFile

MOST_LINES = 10_000
_PATIENCE = 2.0  # behind a writer that was stopped; then the next push writes what is missing
_PAGE = 1000
_FIELDS = 5  # of each file: its first event, its last, its lines, its bytes, and when it was last written
_UNKNOWN = (1, 0, 0, -1, 0)


class Track:
    """One file of lines, and how it was noted."""

    def __init__(self, folder: str, *names: str) -> None:
        self._folder = folder
        self.path = os.path.join(folder, *names)
        self.note(_UNKNOWN)
        self._file: int | None = None
        self._inode = 0

    def note(self, fields: Sequence[int]) -> None:
        self.first, self.last, self.lines, self.size, self._changed = fields

    def noted(self) -> tuple[int, ...]:
        return self.first, self.last, self.lines, self.size, self._changed

    def as_noted(self) -> bool:
        """Whether the file is as it was left. It may be another one by now; then that is opened."""
        try:
            found = os.stat(self.path)
        except FileNotFoundError:
            found = None
        if found is None or self._file is None or found.st_ino != self._inode:
            self.close()
            self._file = _open(self._folder, self.path, os.O_RDWR | os.O_APPEND)
            found = os.fstat(self._file)
            self._inode = found.st_ino
        return found.st_size == self.size and found.st_mtime_ns == self._changed

    @property
    def file(self) -> int:
        assert self._file is not None, "as_noted comes first"
        return self._file

    def add(self, data: bytes, lines: int) -> None:
        size = self.size
        while data:
            written = os.write(self.file, data)
            size, data = size + written, data[written:]
        self.lines, self.size, self._changed = self.lines + lines, size, os.fstat(self.file).st_mtime_ns

    def rotate_if_long(self, now: int) -> None:
        if self.lines <= MOST_LINES:
            return
        stem, suffix = os.path.splitext(self.path)
        digits = clock.stamp(now)[:19].replace("-", "").replace(":", "").replace("T", "-")
        target, ordinal = f"{stem}-{digits}{suffix}", 1
        while os.path.lexists(target):
            ordinal += 1
            target = f"{stem}-{digits}-{ordinal}{suffix}"
        os.rename(self.path, target)
        self.first, self.lines, self.size = self.last + 1, 0, 0
        self.as_noted()

    def rotated(self) -> list[str]:
        """The files that this one was before, oldest first."""
        folder, name = os.path.split(self.path)
        stem, suffix = os.path.splitext(name)
        found = []
        for entry in os.listdir(folder):
            stamp = entry[len(stem) + 1 : -len(suffix)].split("-")
            if entry.startswith(stem + "-") and entry.endswith(suffix) and all(part.isdigit() for part in stamp) and len(stamp) in (2, 3):
                found.append((stamp[0], stamp[1], int(stamp[2]) if len(stamp) == 3 else 1, os.path.join(folder, entry)))
        return [path for *_, path in sorted(found)]

    def close(self) -> None:
        if self._file is not None:
            os.close(self._file)
            self._file = None


class Tracks:
    """Both files of one queue."""

    def __init__(self, file: QueueFile) -> None:
        self._store = file
        self.journal = Track(file.folder, "events.jsonl")
        self.log = Track(file.folder, "logs", "thread.log")
        self._path = os.path.join(file.folder, "run", ".tracks")
        self._notes: int | None = None

    def pushed(self, events: Sequence[QueueEvent], said: str) -> None:
        """Write events that are stored into the journal, and a line about them into the log."""
        lines = "".join([line(event) for event in events]).encode()

        def write(now: int) -> None:
            self._journal(events, lines, now)
            self._logged(said, "INFO", now)

        self._alone(write)

    def say(self, text: str, level: str = "INFO") -> None:
        self._alone(lambda now: self._logged(text, level, now))

    def close(self) -> None:
        self.journal.close()
        self.log.close()
        if self._notes is not None:
            os.close(self._notes)
            self._notes = None

    def _alone(self, write: Callable[[int], None]) -> None:
        """Do it while nobody else does. What cannot be written now is put right by the next push: the events are safe already."""
        with self._store.mutex:  # threads of one process share the lock of the file
            try:
                notes = self._take()
                if notes is None:
                    return
                try:
                    self._read_notes(notes)
                    write(self._store.clock())
                    fields = (*self.journal.noted(), *self.log.noted())
                    os.pwrite(notes, b"".join([field.to_bytes(8, "little", signed=True) for field in fields]), 0)
                finally:
                    fcntl.flock(notes, fcntl.LOCK_UN)
            except (OSError, Refusal):
                pass

    def _take(self) -> int | None:
        if self._notes is not None and os.fstat(self._notes).st_nlink == 0:
            os.close(self._notes)
            self._notes = None
        if self._notes is None:
            self._notes = _open(self._store.folder, self._path, os.O_RDWR)
        deadline = monotonic() + _PATIENCE
        while True:
            try:
                fcntl.flock(self._notes, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return self._notes
            except BlockingIOError:
                if monotonic() > deadline:
                    return None
                sleep(0.0002)

    def _read_notes(self, notes: int) -> None:
        data = os.pread(notes, 16 * _FIELDS, 0)
        if len(data) == 16 * _FIELDS:
            fields = [int.from_bytes(data[at : at + 8], "little", signed=True) for at in range(0, len(data), 8)]
            self.journal.note(fields[:_FIELDS])
            self.log.note(fields[_FIELDS:])
        else:  # a new queue, or one whose run/ was emptied
            self.journal.note((_first_in(self.journal.path), *_UNKNOWN[1:]))
            self.log.note(_UNKNOWN)

    def _logged(self, text: str, level: str, now: int) -> None:
        if not self.log.as_noted():
            self.log.lines, self.log.size = _count(self.log.file)
        self.log.rotate_if_long(now)
        self.log.add("".join([f"[{clock.brief(now)}] [{level}] {part}\n" for part in text.split("\n")]).encode(), text.count("\n") + 1)

    def _journal(self, events: Sequence[QueueEvent], lines: bytes, now: int) -> None:
        journal = self.journal
        if not journal.as_noted():
            self._repair()
        journal.rotate_if_long(now)
        if journal.last == events[0].id - 1:
            journal.add(lines, len(events))
            journal.last = events[-1].id
            return
        if journal.last > self._head():  # the database is older than the journal: somebody put it back
            journal.first = min(journal.first, self._head())
            self._repair()
        for page in self._pages(journal.last):  # others were faster, or one was killed before it could write its own
            journal.add("".join([line(event) for event in page]).encode(), len(page))
            journal.last = page[-1].id

    def _repair(self) -> None:
        """Keep as much of the journal as is exactly the rows; the rest is cut off, and written anew by whoever called."""
        journal = self.journal
        older = journal.rotated()
        if older:
            journal.first = max(journal.first, _last_in(older[-1]) + 1)
        journal.lines, journal.size, journal.last = 0, 0, journal.first - 1
        with open(journal.file, "rb", closefd=False) as file:
            file.seek(0)
            for page in self._pages(journal.last):
                for event in page:
                    expected = line(event).encode()
                    if file.readline() != expected:
                        os.truncate(journal.file, journal.size)
                        return
                    journal.lines, journal.size, journal.last = journal.lines + 1, journal.size + len(expected), event.id
        os.truncate(journal.file, journal.size)

    def _head(self) -> int:
        with self._store.read() as tx:
            row = tx.one(sql.EVENT_HEAD)
        return int(row[0]) if row else 0

    def _pages(self, after: int) -> Iterator[list[QueueEvent]]:
        while True:
            with self._store.read() as tx:
                page = [QueueEvent(*row) for row in tx.all(sql.EVENTS_AFTER, after=after, limit=_PAGE)]
            if not page:
                return
            yield page
            after = page[-1].id


def line(event: QueueEvent) -> str:
    """An event as a line, in the journal as on standard output."""
    return dumps(event.__dict__) + "\n"  # the fields, in their order


def _open(folder: str, path: str, flags: int) -> int:
    flags |= os.O_CREAT | os.O_CLOEXEC
    try:
        return os.open(path, flags, 0o666)
    except FileNotFoundError:
        if not os.path.exists(os.path.join(folder, "events.db")):
            raise  # the queue is gone: nothing of it is made again
        os.makedirs(os.path.dirname(path), exist_ok=True)
        return os.open(path, flags, 0o666)


def _count(file: int) -> tuple[int, int]:
    """The lines and bytes of a file, counted. A last line that was cut short is ended."""
    lines, size, last = 0, 0, b"\n"
    while part := os.pread(file, 1 << 20, size):
        lines, size, last = lines + part.count(b"\n"), size + len(part), part[-1:]
    if last != b"\n":
        size += os.write(file, b"\n")
        lines += 1
    return lines, size


def _first_in(path: str) -> int:
    """The id in a journal's first line; 1 where there is none."""
    try:
        with open(path, "rb") as file:
            return _id_of(file.readline()) or 1
    except OSError:
        return 1


def _last_in(path: str) -> int:
    """The id in a journal's last whole line; 0 where there is none."""
    with open(path, "rb") as file:
        position, tail = file.seek(0, os.SEEK_END), b""
        while position > 0 and tail.rstrip(b"\n").count(b"\n") == 0:
            position = max(position - (1 << 16), 0)
            file.seek(position)
            tail = file.read()
        return _id_of(tail.rstrip(b"\n").rsplit(b"\n", 1)[-1])


def _id_of(data: bytes) -> int:
    try:
        found = loads(data.decode())["id"]
    except (ValueError, KeyError, TypeError):
        return 0
    return found if isinstance(found, int) and found > 0 else 0
