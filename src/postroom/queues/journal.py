"""The files of a queue that people read: `events.jsonl`, which holds the rows of the database, and `logs/thread.log`.

`store/files/jsonl_mirror.py` has what it shares with the other mirror: positions, the lock, torn lines, rotation. The positions are in
`run/.tracks`. A journal that is not at its position is compared with the rows before anything is appended (`_repair_events`). Lines that
no row has are never cut: the file is set aside under another name. `warnings` has what went wrong with the events of this process.
"""

from __future__ import annotations

import os

from postroom._fastpath.json_text import dumps, loads
from postroom.core import clock
from postroom.core.errors import Refusal
from postroom.core.records.queues import QueueEvent
from postroom.store.files.jsonl_mirror import JsonlMirror, LockedPositions, make_file_opener
from postroom.store.files.private_files import file_mode_beside, folder_mode_for, make_private_folder
from postroom.store.sqlite.queues import queue_statements as sql

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from postroom.store.sqlite.queues.queue_databases import QueueDatabase

ROTATION_LINES = 10_000
LOCK_WAIT_SECONDS = 2.0  # for the lock of a stopped writer. If it runs out, the next push writes the missing lines
PAGE_ROWS = 1000
TAIL_CHUNK_BYTES = 1 << 16
_UNKNOWN_SIZE = -1  # never the size of a file, so the next write compares the file with the rows
_RECORDED = ("first_id", "last_id", "lines", "size", "mtime_ns")


class JournalFiles:
    """The journal and the log of one queue."""

    def __init__(self, file: QueueDatabase) -> None:
        self.warnings: list[str] = []
        self._store = file
        self._open_file = make_file_opener(file.location, self._make_folder)
        self._positions_path = os.path.join(file.folder, "run", ".tracks")
        self._events = JsonlMirror(os.path.join(file.folder, "events.jsonl"), self._open_file, _RECORDED)
        self._log = JsonlMirror(os.path.join(file.folder, "logs", "thread.log"), self._open_file, _RECORDED)

    def append_events(self, events: Sequence[QueueEvent], log_text: str) -> None:
        """Write the lines of committed events into the journal, and a line about them into the log."""
        lines = "".join([format_event_line(event) for event in events]).encode()

        def append_both(now: int) -> None:
            self._append_events(events, lines, now)
            self._append_log(log_text, "INFO", now)

        problem = self._write_locked(append_both)
        if problem:
            self.warnings.append(f"events.jsonl lacks the newest events, which are stored: {problem}")

    def append_missing_events(self) -> str:
        """Write the lines of all rows that the journal lacks. Return why that failed, or an empty text."""

        def append_missing(now: int) -> None:
            if not self._events.is_at_position():
                self._repair_events(now)
            self._append_missing_events(now)

        return self._write_locked(append_missing)

    def drop_events(self, upto: int) -> str:
        """Remove the lines of the events up to this one, before their rows go. Return why that failed, or an empty text.

        A rotated file goes once all of its events are that old.
        """
        return self._write_locked(lambda now: self._drop_events(upto, now))

    def append_log(self, text: str, level: str = "INFO") -> None:
        """Write text into the log: each of its lines with the time and the level."""
        self._write_locked(lambda now: self._append_log(text, level, now))

    def _write_locked(self, write: Callable[[int], None]) -> str:
        """Call `write` with the time, under the lock. A failure is returned, not raised: the next push repairs the file."""
        with self._store.mutex:  # the positions are shared by the threads of this process
            try:
                files = (self._events, self._log)
                with LockedPositions(self._positions_path, files, self._open_file, wait_seconds=LOCK_WAIT_SECONDS) as positions:
                    if positions.is_new:  # a new queue, or one whose run/ was emptied
                        self._events.first_id = _first_id_in(self._events.path)
                        self._events.size = self._log.size = _UNKNOWN_SIZE
                    write(self._store.clock())
                    positions.save_positions()
            except FileNotFoundError:
                pass  # the queue was deleted
            except (OSError, Refusal) as error:
                return str(error)
        return ""

    def _append_log(self, text: str, level: str, now: int) -> None:
        log = self._log
        if not log.is_at_position():
            log.recount_lines()
        if log.lines > ROTATION_LINES:
            log.rotate_file(now)
        log.append_lines(
            "".join([f"[{clock.format_stamp_milliseconds(now)}] [{level}] {part}\n" for part in text.split("\n")]).encode(),
            text.count("\n") + 1,
        )

    def _append_events(self, events: Sequence[QueueEvent], lines: bytes, now: int) -> None:
        journal = self._events
        if not journal.is_at_position():
            self._repair_events(now)
        if journal.lines > ROTATION_LINES:
            journal.rotate_file(now)
        if journal.last_id == events[0].id - 1:
            journal.append_lines(lines, len(events))
            journal.last_id = events[-1].id
        else:
            self._append_missing_events(now)

    def _drop_events(self, upto: int, now: int) -> None:
        journal = self._events
        if not journal.is_at_position():
            self._repair_events(now)
        for path in journal.rotated_paths():
            if _last_id_in(path) <= upto:
                os.unlink(path)
        if journal.first_id <= upto < journal.last_id:
            journal.rewrite_lines(lambda lines: (line for line in lines if _parse_event_id(line) > upto), is_torn=False)
            journal.lines, journal.first_id = journal.last_id - upto, upto + 1

    def _append_missing_events(self, now: int) -> None:
        """Append every row that the journal lacks: other pushes were faster, or one was killed before it wrote its lines."""
        journal, newest_id = self._events, self._newest_id()
        if journal.last_id > newest_id:  # the database is older than the journal: it was restored from a backup
            journal.first_id = min(journal.first_id, newest_id)
            self._repair_events(now)
        for page in self._pages_after(journal.last_id):
            journal.append_lines("".join([format_event_line(event) for event in page]).encode(), len(page))
            journal.last_id = page[-1].id

    def _repair_events(self, now: int) -> None:
        """Cut a torn last line. If another line differs from the rows, set the file aside and begin an empty one.

        The caller appends the events that are missing.
        """
        journal = self._events
        newest_id = self._newest_id()
        for path in reversed(journal.rotated_paths()):
            last_id = _last_id_in(path)
            # A file with events that the database lacks was written before the database was restored from a backup.
            if last_id <= newest_id:
                journal.first_id = max(journal.first_id, last_id + 1)
                break
        pages = self._pages_after(journal.first_id - 1)
        aside = journal.keep_matching_lines(((event.id, format_event_line(event).encode()) for page in pages for event in page), now)
        if aside:
            warning = f"events.jsonl had lines that the database does not have: they are in {aside}"
            self.warnings.append(warning)
            self._append_log(f"push: {warning}", "WARN", now)

    def _newest_id(self) -> int:
        with self._store.read() as tx:
            return tx.fetch_one(sql.EVENT_HEAD) or 0

    def _pages_after(self, after: int) -> Iterator[list[QueueEvent]]:
        while True:
            with self._store.read() as tx:
                page = tx.fetch_all(sql.EVENTS_AFTER, after=after, limit=PAGE_ROWS)
            if not page:
                return
            yield page
            after = page[-1].id

    def _make_folder(self, folder: str) -> None:
        if not os.path.exists(self._store.location):
            raise FileNotFoundError(self._store.location)  # the queue was deleted: do not make any of it again
        make_private_folder(folder, mode=folder_mode_for(file_mode_beside(self._store.location)))


def append_error(folder: str, text: str) -> None:
    """Write a line about a failed database into the log of its queue, if that can be written. The next push counts the line."""
    line = f"[{clock.format_stamp_milliseconds(clock.now())}] [ERROR] {' '.join(text.splitlines())}\n"
    try:
        file = os.open(os.path.join(folder, "logs", "thread.log"), os.O_WRONLY | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC)
        with open(file, "ab") as log:
            log.write(line.encode())
    except OSError:  # the refusal of the database is what the caller must see, not that its log is full too
        return


def format_event_line(event: QueueEvent) -> str:
    """Return an event as a line of the journal."""
    return dumps(event.__dict__) + "\n"  # the fields, in their order


def _first_id_in(path: str) -> int:
    """Return the id in a journal's first line, or 1 if there is none."""
    try:
        with open(path, "rb") as file:
            return _parse_event_id(file.readline()) or 1
    except OSError:
        return 1


def _last_id_in(path: str) -> int:
    """Return the id in a journal's last whole line, or 0 if there is none."""
    with open(path, "rb") as file:
        position, tail = file.seek(0, os.SEEK_END), b""
        while position > 0 and tail.rstrip(b"\n").count(b"\n") == 0:
            position = max(position - TAIL_CHUNK_BYTES, 0)
            file.seek(position)
            tail = file.read()
        return _parse_event_id(tail.rstrip(b"\n").rsplit(b"\n", 1)[-1])


def _parse_event_id(data: bytes) -> int:
    """Return the id in a line of the journal, or 0 if the line is not an event."""
    try:
        event_id = loads(data.decode())["id"]
    except (ValueError, KeyError, TypeError):
        return 0
    return event_id if isinstance(event_id, int) and event_id > 0 else 0
