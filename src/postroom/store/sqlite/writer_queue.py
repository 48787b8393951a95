"""A ticket lock that orders writers before BEGIN, because SQLite's own busy handler sleeps and lets writers starve.

The tickets are in `<db>.lock`. A writer draws the next number, locks the byte of that number, and waits until the byte of the number
before it is free. So each writer waits for one other, and none is overtaken. The locks belong to the open file (Linux's OFD locks) and
end with their process, so that the ticket of a dead process blocks no writer. The wait is bounded: a writer behind a stopped process
continues without its turn, and SQLite's own lock still keeps the two apart.

On systems without OFD locks, an flock of the same file replaces them. It is as safe, but less fair.
"""

from __future__ import annotations

import fcntl
import os
import sys
from time import monotonic, sleep

MAX_WAIT_SECONDS = 2.0
# A contended write takes about 0.6 ms. The next writer in the queue polls as often as the system's timers allow (some 50 µs).
_SECONDS_PER_TICKET, _POLL_SECONDS = 0.0006, 0.000001

# In the file: a byte to lock while drawing, the last ticket drawn, the last ticket whose turn came.
_GUARD_OFFSET, _DRAWN_OFFSET, _SERVED_OFFSET = 0, 8, 16
_FIRST_TICKET_OFFSET = 1 << 20  # a ticket's number is the offset of its byte
_BYTE_ORDER = sys.byteorder
_FLOCK_HEAD = {kind: kind.to_bytes(2, _BYTE_ORDER) + bytes(6) for kind in (fcntl.F_WRLCK, fcntl.F_UNLCK)}
_FLOCK_TAIL = {length: length.to_bytes(8, _BYTE_ORDER) + bytes(8) for length in (0, 1, 2)}
_fcntl, _SETLK = fcntl.fcntl, getattr(fcntl, "F_OFD_SETLK", 0)
_HAS_OFD_LOCKS = hasattr(fcntl, "F_OFD_SETLK") and sys.maxsize > 2**32


class WriterQueue:
    """The position of one connection in the queue of the writers of a database. Every write transaction enters it before BEGIN."""

    def __init__(self, database: str) -> None:
        self._database = database
        self._file: int | None = None
        self._ticket: int | None = None

    def enter(self) -> None:
        """Wait for the turn to write, at most `MAX_WAIT_SECONDS`."""
        deadline = monotonic() + MAX_WAIT_SECONDS
        try:
            if self._file is None:
                self._file = self._open_file()
            self._ticket, in_turn = _draw_ticket(self._file, deadline)
            if self._ticket is not None and not in_turn:
                _wait_for_turn(self._file, self._ticket, deadline)
        except OSError:
            pass  # the folder cannot be written, and BEGIN raises the right refusal for that

    def _open_file(self) -> int:
        path = self._database + ".lock"
        try:
            return os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
        except FileNotFoundError:
            from postroom.store.private_files import open_beside

            return open_beside(self._database, path, os.O_RDWR)

    def leave(self) -> None:
        """Release the ticket, so that the next writer gets its turn. Does nothing without a ticket."""
        if self._file is not None and self._ticket is not None:
            if _HAS_OFD_LOCKS:
                _set_lock(self._file, fcntl.F_UNLCK, self._ticket - 1, 2)  # its own byte and the one before, whose writer has left
            else:
                fcntl.flock(self._file, fcntl.LOCK_UN)
            self._ticket = None

    def close(self) -> None:
        if self._file is not None:
            os.close(self._file)
            self._file = None


def _draw_ticket(file: int, deadline: float) -> tuple[int | None, bool]:
    """Draw the next ticket and lock its byte. Return the ticket, and whether its turn has come already.

    The ticket is None if the deadline passed, because another process was stopped while it drew a ticket.
    """
    while not _try_lock(file, _GUARD_OFFSET):
        if monotonic() > deadline:
            return None, False
        sleep(_POLL_SECONDS)
    if not _HAS_OFD_LOCKS:
        return _FIRST_TICKET_OFFSET, True  # the holder of the flock has its turn
    ticket = max(_read_number(file, _DRAWN_OFFSET), _FIRST_TICKET_OFFSET) + 1
    alone = _try_lock(file, ticket - 1, 2)  # its own byte and the one before, in one call
    if alone:
        os.pwrite(file, ticket.to_bytes(8, "little") * 2, _DRAWN_OFFSET)  # and _SERVED_OFFSET, which follows it
    else:
        _set_lock(file, fcntl.F_WRLCK, ticket)
        os.pwrite(file, ticket.to_bytes(8, "little"), _DRAWN_OFFSET)
    _set_lock(file, fcntl.F_UNLCK, _GUARD_OFFSET)
    return ticket, alone


def _wait_for_turn(file: int, ticket: int, deadline: float) -> None:
    while not _try_lock(file, ticket - 1):
        if monotonic() > deadline:
            return
        ahead = ticket - _read_number(file, _SERVED_OFFSET) - 1
        sleep(min(ahead, 10) * _SECONDS_PER_TICKET if ahead > 0 else _POLL_SECONDS)
    os.pwrite(file, ticket.to_bytes(8, "little"), _SERVED_OFFSET)


def _read_number(file: int, where: int) -> int:
    return int.from_bytes(os.pread(file, 8, where), "little")


def _try_lock(file: int, byte: int, length: int = 1) -> bool:
    try:
        if _HAS_OFD_LOCKS:
            _set_lock(file, fcntl.F_WRLCK, byte, length)
        else:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return True
    except BlockingIOError:
        return False


def _set_lock(file: int, kind: int, start: int, length: int = 1) -> None:
    """Make one fcntl call with a `struct flock` that is laid out by hand, because importing `struct` costs more than the call."""
    _fcntl(file, _SETLK, _FLOCK_HEAD[kind] + start.to_bytes(8, _BYTE_ORDER) + _FLOCK_TAIL[length])
