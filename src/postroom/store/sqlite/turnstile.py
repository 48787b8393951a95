"""Writers stand in line before BEGIN, because SQLite's own busy handler sleeps and starves.

Two flocks: `<db>.turn` to stand in line, `<db>.lock` to write. Whoever is next holds the turn while it waits for the lock,
so the one who just wrote cannot come back first. Both die with their process. The wait is bounded: behind a holder that
was stopped, writers go on without the turnstile, and SQLite's own lock still keeps them apart.
"""

from __future__ import annotations

import os
from _thread import allocate_lock, start_new_thread
from fcntl import LOCK_EX, LOCK_NB, LOCK_UN, flock
from time import monotonic

PATIENCE = 2.0


class Turnstile:
    def __init__(self, database: str) -> None:
        self._places = (database + ".turn", database + ".lock")
        self._files: list[int] = []
        self._stuck: _Blocked | None = None
        self._inside = False

    def enter(self) -> None:
        """Wait for one's turn to write, at most `PATIENCE` seconds."""
        if self._stuck is not None and not self._stuck.over:
            return  # the holder that stopped us last time still stands there
        self._stuck = None
        try:
            turn, lock = self._files or self._open()
        except OSError:
            return  # a folder that cannot be written: BEGIN says so, with the right words
        deadline = monotonic() + PATIENCE
        if self._take(turn, deadline):
            self._inside = self._take(lock, deadline)
            if turn in self._files:
                flock(turn, LOCK_UN)

    def leave(self) -> None:
        if self._inside:
            self._inside = False
            flock(self._files[1], LOCK_UN)

    def close(self) -> None:
        for file in self._files:
            os.close(file)
        self._files = []

    def _open(self) -> list[int]:
        for place in self._places:
            self._files.append(os.open(place, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666))
        return self._files

    def _take(self, file: int, deadline: float) -> bool:
        try:
            flock(file, LOCK_EX | LOCK_NB)
            return True
        except BlockingIOError:
            pass
        blocked = _Blocked(file)
        if blocked.wait(deadline - monotonic()):
            return True
        # The blocked thread keeps its descriptor until the kernel lets it go; the other one is ours to close.
        self._stuck = blocked
        for other in self._files:
            if other != file:
                os.close(other)
        self._files = []
        return False


class _Blocked:
    """A blocking flock with a bounded wait. The kernel offers none, so a thread blocks in our place; its queue is fair."""

    def __init__(self, file: int) -> None:
        self._file = file
        self._state = allocate_lock()
        self._granted = allocate_lock()
        self._granted.acquire()
        self._abandoned = False
        self.over = False
        start_new_thread(self._block, ())

    def _block(self) -> None:
        flock(self._file, LOCK_EX)
        with self._state:
            if self._abandoned:
                os.close(self._file)
            self.over = True
        self._granted.release()

    def wait(self, seconds: float) -> bool:
        if self._granted.acquire(True, max(seconds, 0)):
            return True
        with self._state:
            self._abandoned = not self.over
        return not self._abandoned
