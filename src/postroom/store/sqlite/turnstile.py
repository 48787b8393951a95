"""Writers stand in line before BEGIN, because SQLite's own busy handler sleeps and starves.

A line of tickets in `<db>.lock`. Whoever comes draws the next number, locks the byte of that number, and waits until the byte
of the number before is free: so each waits for one other, and nobody is passed. Locks are of the open file (Linux's OFD locks)
and die with their process: a ticket of the dead is let through. The wait is bounded: behind a writer that was stopped, the
next one goes on without its turn, and SQLite's own lock still keeps them apart.

Where the system has no such locks, an flock of the same file takes their place: as safe, and less fair.
"""

from __future__ import annotations

import fcntl
import os
import sys
from time import monotonic, sleep

PATIENCE = 2.0
# A contended write takes about that long a place. Who is next looks as often as the system's timers allow (some 50 µs).
_A_PLACE, _A_LOOK = 0.0006, 0.000001

_GUARD, _DRAWN, _SERVED = 0, 8, 16  # in the file: a byte to lock while drawing, the last number drawn, the last let in
_TICKETS = 1 << 20  # where the tickets' bytes begin
_ORDER = sys.byteorder
_HEAD = {kind: kind.to_bytes(2, _ORDER) + bytes(6) for kind in (fcntl.F_WRLCK, fcntl.F_UNLCK)}
_TAIL = {length: length.to_bytes(8, _ORDER) + bytes(8) for length in (0, 1, 2)}
_fcntl, _SETLK = fcntl.fcntl, getattr(fcntl, "F_OFD_SETLK", 0)
_OFD = hasattr(fcntl, "F_OFD_SETLK") and sys.maxsize > 2**32


class Turnstile:
    def __init__(self, database: str) -> None:
        self._path = database + ".lock"
        self._file: int | None = None
        self._ticket: int | None = None

    def enter(self) -> None:
        """Wait for one's turn to write, at most `PATIENCE` seconds."""
        deadline = monotonic() + PATIENCE
        try:
            if self._file is None:
                self._file = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
            self._ticket, in_turn = _draw(self._file, deadline)
            if self._ticket is not None and not in_turn:
                _stand_in_line(self._file, self._ticket, deadline)
        except OSError:
            pass  # a folder that cannot be written: BEGIN says so, with the right words

    def leave(self) -> None:
        if self._file is not None and self._ticket is not None:
            if _OFD:
                _lock(self._file, fcntl.F_UNLCK, self._ticket - 1, 2)  # one's own, and the one before, which is nobody's any more
            else:
                fcntl.flock(self._file, fcntl.LOCK_UN)
            self._ticket = None

    def close(self) -> None:
        if self._file is not None:
            os.close(self._file)
            self._file = None


def _draw(file: int, deadline: float) -> tuple[int | None, bool]:
    """The next number, its byte locked, and whether it is already its turn; or none, if somebody was stopped while drawing."""
    while not _try(file, _GUARD):
        if monotonic() > deadline:
            return None, False
        sleep(_A_LOOK)
    if not _OFD:
        return _TICKETS, True  # the flock is itself the turn
    ticket = max(_number(file, _DRAWN), _TICKETS) + 1
    alone = _try(file, ticket - 1, 2)  # its own byte and the one before, in one call
    if alone:
        os.pwrite(file, ticket.to_bytes(8, "little") * 2, _DRAWN)  # and _SERVED, which follows it
    else:
        _lock(file, fcntl.F_WRLCK, ticket)
        os.pwrite(file, ticket.to_bytes(8, "little"), _DRAWN)
    _lock(file, fcntl.F_UNLCK, _GUARD)
    return ticket, alone


def _stand_in_line(file: int, ticket: int, deadline: float) -> None:
    while not _try(file, ticket - 1):
        if monotonic() > deadline:
            return
        ahead = ticket - _number(file, _SERVED) - 1
        sleep(min(ahead, 10) * _A_PLACE if ahead > 0 else _A_LOOK)
    os.pwrite(file, ticket.to_bytes(8, "little"), _SERVED)


def _number(file: int, where: int) -> int:
    return int.from_bytes(os.pread(file, 8, where), "little")


def _try(file: int, byte: int, length: int = 1) -> bool:
    try:
        if _OFD:
            _lock(file, fcntl.F_WRLCK, byte, length)
        else:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return True
    except BlockingIOError:
        return False


def _lock(file: int, kind: int, start: int, length: int = 1) -> None:
    """One fcntl call with a `struct flock`, laid out by hand: importing `struct` costs more than the call."""
    _fcntl(file, _SETLK, _HEAD[kind] + start.to_bytes(8, _ORDER) + _TAIL[length])
