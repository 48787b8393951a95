"""JSONL files that mirror committed rows: `entries.jsonl` of the inbox and `events.jsonl` of a queue.

The rows are authoritative. A file is appended to after each COMMIT, and no verb waits for it. The position at which a file was left (its
size, its modification time, its newest row) is recorded in another file, which is also the lock. A file that is not at its recorded
position was changed by a crash or by another program. The room compares it with the rows before it appends anything:

- `queues/journal.py` allows only lines that equal the rows: `JsonlMirror.keep_matching_lines`.
- `people/entries_mirror.py` imports the lines of other programs: `JsonlMirror.read_lines`, then `rewrite_lines` if a line is wrong.

This module knows files, not what an entry or an event is.
"""

from __future__ import annotations

import fcntl
import os
from time import monotonic, sleep

from postroom.core import clock
from postroom.store.files.private_files import create_draft, file_mode_beside, folder_mode_for, make_private_folder, open_beside

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from typing import Self

    FileOpener = Callable[[str, int], int]

LOCK_RETRY_SECONDS = 0.0002
NUMBER_BYTES = 8
MAX_POSITIONS_BYTES = 1024
COUNT_CHUNK_BYTES = 1 << 20


class JsonlMirror:
    """One file of lines, and the position at which it was left.

    `recorded` lists the attributes that are kept in the file of positions, in the order in which they are written there.
    """

    def __init__(self, path: str, open_file: FileOpener, recorded: Sequence[str]) -> None:
        self.path = path
        self.recorded = recorded
        self._open_file = open_file
        self.reset_position()

    def reset_position(self) -> None:
        """Set the position to that of a new file."""
        self.inode = self.size = self.mtime_ns = self.lines = 0
        self.first_id, self.last_id = 1, 0  # the ids of the rows of the first and the last line

    def read_fingerprint(self) -> tuple[int, int, int]:
        """Return inode, size and modification time, at least one of which changes with every write. Zeros if there is no file."""
        try:
            status = os.stat(self.path)
        except FileNotFoundError:
            return 0, 0, 0
        return status.st_ino, status.st_size, status.st_mtime_ns

    def is_at_position(self, fingerprint: tuple[int, int, int] | None = None) -> bool:
        """Return whether the file is as it was left. `fingerprint` is its current one, if the caller has read it."""
        inode, size, mtime_ns = fingerprint or self.read_fingerprint()
        return (size, mtime_ns) == (self.size, self.mtime_ns) and (inode == self.inode or "inode" not in self.recorded)

    def accept_fingerprint(self, fingerprint: tuple[int, int, int]) -> None:
        """Set the position to the end of the file that has this fingerprint. The next append follows there."""
        self.inode, self.size, self.mtime_ns = fingerprint

    def read_lines(self, start: int = 0) -> Iterator[bytes]:
        """Yield each line from byte `start` on, with its newline. The last line may lack the newline."""
        try:
            with open(self.path, "rb") as file:
                file.seek(start)
                yield from file
        except FileNotFoundError:
            return

    def append_lines(self, data: bytes, lines: int = 0) -> None:
        """Write whole lines at the end of the file and advance the position by them. Creates a missing file.

        If another program writes at the same time, the file is larger than the position, and the next comparison finds its lines.
        """
        file = self._open_file(self.path, os.O_WRONLY | os.O_APPEND)
        unwritten = data
        try:
            while unwritten:
                unwritten = unwritten[os.write(file, unwritten) :]
            status = os.fstat(file)
        finally:
            os.close(file)
        self.accept_fingerprint((status.st_ino, self.size + len(data), status.st_mtime_ns))
        self.lines += lines

    def keep_matching_lines(self, expected: Iterable[tuple[int, bytes]], now: int) -> str:
        """Keep the lines up to the first that differs from the expected one. `expected` has row ids and lines, from `first_id` on.

        The torn line of a crash is cut. Anything else that follows may be in no row, so it is never cut: the whole file is set aside under
        another name, and a new one begins. Return that name, or an empty text.
        """
        self.lines, self.size, self.last_id = 0, 0, self.first_id - 1
        file_lines, expected_line = self.read_lines(), b""
        for row_id, expected_line in expected:
            found = next(file_lines, b"")
            if found != expected_line:
                break
            self.lines, self.size, self.last_id = self.lines + 1, self.size + len(found), row_id
        else:
            found, expected_line = next(file_lines, b""), b""
        if expected_line.startswith(found) and next(file_lines, b"") == b"":
            self.drop_lines_from(self.size)
            return ""
        return self.set_aside(now)

    def set_aside(self, now: int) -> str:
        """Rename the file to one whose name says so, begin a new one, and return the name."""
        target = self._rename_file("-set-aside", now)
        self.lines, self.size, self.last_id = 0, 0, self.first_id - 1
        self.append_lines(b"")
        return os.path.basename(target)

    def drop_lines_from(self, start: int) -> None:
        """Truncate the file at byte `start`, where the torn line of a crash begins."""
        with open(self.path, "ab", opener=self._open_file) as file:
            file.truncate(start)
            status = os.fstat(file.fileno())
        self.accept_fingerprint((status.st_ino, start, status.st_mtime_ns))

    def rewrite_lines(self, edit: Callable[[Iterator[bytes]], Iterable[bytes]], *, is_torn: bool) -> None:
        """Replace the file with a new one of the edited lines. Lines that other programs append meanwhile follow, beyond the position.

        `is_torn` means that the rest of the last line will never be written. Otherwise another program is still writing a last line
        without a newline, and it is copied as it is.
        """
        read_bytes = written_bytes = 0

        def read_whole_lines() -> Iterator[bytes]:
            nonlocal read_bytes
            for line in before:
                if not line.endswith(b"\n") and not is_torn:
                    return
                read_bytes += len(line)
                yield line

        with open(self.path, "rb", opener=self._open_file) as before:
            descriptor, draft = create_draft(self.path, mode=os.fstat(before.fileno()).st_mode & 0o666)
            with open(descriptor, "wb") as target:
                try:
                    for line in edit(read_whole_lines()):
                        written_bytes += target.write(line if line.endswith(b"\n") else line + b"\n")
                    target.flush()
                    os.fsync(target.fileno())
                    os.rename(draft, self.path)
                except BaseException:
                    os.unlink(draft)
                    raise
            before.seek(read_bytes)
            self.append_lines(before.read())
        self.size = written_bytes

    def recount_lines(self) -> None:
        """Count the lines of a file that is not at its position, and add a newline to a torn last line."""
        self.accept_fingerprint(self.read_fingerprint())
        self.lines = 0
        last_byte = b"\n"
        with open(self.path, "rb", opener=self._open_file) as file:
            while chunk := file.read(COUNT_CHUNK_BYTES):
                self.lines += chunk.count(b"\n")
                last_byte = chunk[-1:]
            self.size = file.tell()
        if last_byte != b"\n":
            self.append_lines(b"\n", 1)

    def rotate_file(self, now: int) -> None:
        """Rename the file after the second of `now` (microseconds since 1970), and begin a new one."""
        self._rename_file("", now)
        self.first_id, self.lines, self.size = self.last_id + 1, 0, 0
        self.append_lines(b"")

    def _rename_file(self, mark: str, now: int) -> str:
        """Give the file a name with a mark and the second of `now` that no other file has, and return its path."""
        stem, suffix = os.path.splitext(self.path)
        digits = clock.format_stamp(now)[:19].replace("-", "").replace(":", "").replace("T", "-")
        target, ordinal = f"{stem}{mark}-{digits}{suffix}", 1
        while os.path.lexists(target):
            ordinal += 1
            target = f"{stem}{mark}-{digits}-{ordinal}{suffix}"
        os.rename(self.path, target)
        return target

    def rotated_paths(self) -> list[str]:
        """Return the files that `rotate_file` renamed, oldest first."""
        folder, name = os.path.split(self.path)
        stem, suffix = os.path.splitext(name)
        rotated = []
        for entry in os.listdir(folder):
            stamp = entry[len(stem) + 1 : -len(suffix)].split("-")
            if entry.startswith(stem + "-") and entry.endswith(suffix) and all(part.isdigit() for part in stamp) and len(stamp) in (2, 3):
                rotated.append((stamp[0], stamp[1], int(stamp[2]) if len(stamp) == 3 else 1, os.path.join(folder, entry)))
        return [path for *_, path in sorted(rotated)]


class LockedPositions:
    """The positions of one or more mirrors, read from their file while its lock is held.

    Raises `BlockingIOError` if another process keeps the lock for longer than `wait_seconds`.
    """

    def __init__(self, path: str, mirrors: Sequence[JsonlMirror], open_file: FileOpener, *, wait_seconds: float) -> None:
        self._mirrors = mirrors
        self._file = open_file(path, os.O_RDWR)
        try:
            self._wait_for_lock(monotonic() + wait_seconds)
            self.is_new = not load_positions(os.pread(self._file, MAX_POSITIONS_BYTES, 0), mirrors)
        except BaseException:
            os.close(self._file)
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        fcntl.flock(self._file, fcntl.LOCK_UN)  # closing does not unlock if another thread has just forked
        os.close(self._file)

    def save_positions(self) -> None:
        """Write the positions of the mirrors to the file."""
        numbers = [getattr(mirror, name) for mirror in self._mirrors for name in mirror.recorded]
        os.pwrite(self._file, b"".join([number.to_bytes(NUMBER_BYTES, "little", signed=True) for number in numbers]), 0)

    def _wait_for_lock(self, deadline: float) -> None:
        while True:
            try:
                return fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if monotonic() > deadline:
                    raise
                sleep(LOCK_RETRY_SECONDS)


def load_positions(data: bytes, mirrors: Sequence[JsonlMirror]) -> bool:
    """Set the mirrors to their recorded positions and return True. If the record is missing or cut short, reset them and return False."""
    size = NUMBER_BYTES * sum([len(mirror.recorded) for mirror in mirrors])
    is_complete = len(data) >= size
    numbers = iter([int.from_bytes(data[at : at + NUMBER_BYTES], "little", signed=True) for at in range(0, size, NUMBER_BYTES)])
    for mirror in mirrors:
        if is_complete:
            mirror.__dict__.update(zip(mirror.recorded, numbers))
        else:
            mirror.reset_position()
    return is_complete


def make_file_opener(database: str, make_folder: Callable[[str], None] | None = None) -> FileOpener:
    """Return a function that opens a file. It creates a missing one for the users of `database`, and its folder by `make_folder`.

    By default, a missing folder is created for the same users.
    """

    def open_file(path: str, flags: int) -> int:
        try:
            return open_beside(database, path, flags)
        except FileNotFoundError:
            folder = os.path.dirname(path)
            if make_folder is not None:
                make_folder(folder)
            else:
                make_private_folder(folder, mode=folder_mode_for(file_mode_beside(database)))
            return open_beside(database, path, flags)

    return open_file
