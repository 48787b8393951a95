"""The turn to write, which a writer takes before BEGIN, because SQLite's own busy handler sleeps and lets writers starve.

The turn is a lock on one byte of `<db>.lock`. A writer takes it in one call if it is free and nobody is in the queue, and tries again for
a moment if not. Then it joins the queue: it draws the next ticket, locks the byte of that number, and waits until the byte of the number
before it is free. From then on newcomers have to queue behind it, so that no writer starves. The locks belong to the open file (Linux's
OFD locks) and end with their process, so that a dead process blocks no writer. The wait is bounded: a writer behind a stopped process
continues without its turn, and SQLite's own lock still keeps the two apart.

On systems without OFD locks, an flock of the same file replaces them. It is as safe, but less fair.
"""

from __future__ import annotations

import fcntl
import os
import sys
from time import monotonic, sleep

MAX_WAIT_SECONDS = 2.0
MAX_UNQUEUED_SECONDS = 0.001  # that a writer tries to get the turn before it joins the queue: a few writes of others
# A contended write holds the turn for about 0.1 ms. The writer that is next yields its core for so long, and then polls as often as the
# system's timers allow (some 50 µs). The others in the queue sleep.
_SECONDS_PER_TICKET, _POLL_SECONDS = 0.0001, 0.000001
_YIELD_SECONDS = 0.001

# In the file: a byte to lock while drawing, the byte of the turn, the last ticket drawn, the last ticket whose turn came.
_GUARD_OFFSET, _TURN_OFFSET, _DRAWN_OFFSET, _SERVED_OFFSET = 0, 1, 8, 16
_FIRST_TICKET_OFFSET = 1 << 20  # of the byte of ticket 0
_BYTE_ORDER = sys.byteorder
_FLOCK_HEAD = {kind: kind.to_bytes(2, _BYTE_ORDER) + bytes(6) for kind in (fcntl.F_WRLCK, fcntl.F_UNLCK)}
_FLOCK_TAIL = {length: length.to_bytes(8, _BYTE_ORDER) + bytes(8) for length in (0, 1, 2)}
_LOCK_TURN = _FLOCK_HEAD[fcntl.F_WRLCK] + _TURN_OFFSET.to_bytes(8, _BYTE_ORDER) + _FLOCK_TAIL[1]
_UNLOCK_TURN = _FLOCK_HEAD[fcntl.F_UNLCK] + _LOCK_TURN[8:]
_fcntl, _SETLK = fcntl.fcntl, getattr(fcntl, "F_OFD_SETLK", 0)
_HAS_OFD_LOCKS = hasattr(fcntl, "F_OFD_SETLK") and sys.maxsize > 2**32


class WriterQueue:
    """The place of one connection among the writers of a database. Every write transaction enters before BEGIN, and leaves after COMMIT."""

    def __init__(self, database: str) -> None:
        self._database = database
        self._file: int | None = None
        self._has_turn = False
        self.left_at = 0.0  # when the last writer left, with or without the turn, in monotonic seconds

    def enter(self) -> None:
        """Wait for the turn to write, at most `MAX_WAIT_SECONDS`."""
        try:
            if self._file is None:
                self._file = self._open_file()
            self._has_turn = _try_turn(self._file) or _wait_for_turn(self._file)
        except OSError:
            pass  # the folder cannot be written, and BEGIN raises the right refusal for that

    def _open_file(self) -> int:
        path = self._database + ".lock"
        try:
            return os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
        except FileNotFoundError:
            from postroom.store.files.private_files import open_beside

            return open_beside(self._database, path, os.O_RDWR)

    def leave(self) -> None:
        """Release the turn, if the writer got it."""
        if self._has_turn and self._file is not None:
            self._has_turn = False
            if _HAS_OFD_LOCKS:
                _fcntl(self._file, _SETLK, _UNLOCK_TURN)
            else:
                fcntl.flock(self._file, fcntl.LOCK_UN)
        self.left_at = monotonic()

    def close(self) -> None:
        if self._file is not None:
            os.close(self._file)
            self._file = None
            self._has_turn = False


def _try_turn(file: int) -> bool:
    """Take the turn if it is free and nobody is in the queue."""
    numbers = os.pread(file, 16, _DRAWN_OFFSET)  # the last ticket drawn, and the last one served: equal if nobody waits
    if numbers[:8] != numbers[8:]:
        return False
    try:
        if _HAS_OFD_LOCKS:
            _fcntl(file, _SETLK, _LOCK_TURN)
        else:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _wait_for_turn(file: int) -> bool:
    """Wait for the turn: a moment without a ticket, then in the queue. Return whether it came before the deadline."""
    start = monotonic()
    deadline = start + MAX_WAIT_SECONDS
    unqueued_until = start + MAX_UNQUEUED_SECONDS if _HAS_OFD_LOCKS else deadline
    while (now := monotonic()) < unqueued_until:
        _pause(now - start)
        if _try_turn(file):
            return True
    if not _HAS_OFD_LOCKS:
        return False
    ticket = _draw_ticket(file, deadline)
    if ticket is None:
        return False
    try:
        return _wait_in_queue(file, ticket, deadline)
    finally:
        _set_lock(file, fcntl.F_UNLCK, _FIRST_TICKET_OFFSET + ticket - 1, 2)  # its own byte and the one before


def _draw_ticket(file: int, deadline: float) -> int | None:
    """Draw the next ticket, lock its byte, and return it.

    Return None if the deadline passed, because another process was stopped while it drew a ticket.
    """
    while not _try_lock(file, _GUARD_OFFSET):
        if monotonic() > deadline:
            return None
        sleep(_POLL_SECONDS)
    ticket = _read_number(file, _DRAWN_OFFSET) + 1
    _set_lock(file, fcntl.F_WRLCK, _FIRST_TICKET_OFFSET + ticket)
    os.pwrite(file, ticket.to_bytes(8, "little"), _DRAWN_OFFSET)
    _set_lock(file, fcntl.F_UNLCK, _GUARD_OFFSET)
    return ticket


def _wait_in_queue(file: int, ticket: int, deadline: float) -> bool:
    """Wait until the ticket before is no longer held, then for the turn. Newcomers queue meanwhile, so nobody else takes the turn."""
    while not _try_lock(file, _FIRST_TICKET_OFFSET + ticket - 1):
        if monotonic() > deadline:
            return False
        ahead = ticket - _read_number(file, _SERVED_OFFSET) - 1
        sleep(min(ahead, 10) * _SECONDS_PER_TICKET if ahead > 0 else _POLL_SECONDS)
    start = monotonic()
    while not _try_lock(file, _TURN_OFFSET):
        now = monotonic()
        if now > deadline:
            return False
        _pause(now - start)
    os.pwrite(file, ticket.to_bytes(8, "little"), _SERVED_OFFSET)
    return True


def _pause(waited_seconds: float) -> None:
    """Let others run before the next attempt. `waited_seconds` is how long the writer has been next."""
    if waited_seconds < _YIELD_SECONDS:
        os.sched_yield()
    else:
        sleep(_POLL_SECONDS)


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
