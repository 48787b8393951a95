"""The lock of one consumer, `run/<consumer>.lock`, held by the supervisor of its handler.

The lock is an flock: the kernel releases it when the holder dies. The file stays. It stores as JSON the process ids of the holder and of
the running handler, so that the next holder finds a handler that outlived the last one, and counts runs without progress.
"""

from __future__ import annotations

import fcntl
import os
from time import sleep

from postroom._fastpath.json_text import dumps, loads
from postroom.core.text import to_file_name
from postroom.store.files.private_files import file_mode_beside, folder_mode_for, make_private_folder, open_beside

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

MAX_STATE_BYTES = 8192


def lock_path(folder: str, consumer: str) -> str:
    return os.path.join(folder, "run", to_file_name(consumer) + ".lock")


class ConsumerLock:
    """An open lock file. `fd` is its file descriptor. The runner's lock, `runner.lock`, uses this class too."""

    def __init__(self, fd: int) -> None:
        self.fd = fd

    @classmethod
    def open_and_acquire(cls, folder: str, consumer: str) -> ConsumerLock | None:
        """Open and acquire the lock. Returns None if another process holds it."""
        database = os.path.join(folder, "events.db")
        make_private_folder(os.path.join(folder, "run"), mode=folder_mode_for(file_mode_beside(database)))
        lock = cls(open_beside(database, lock_path(folder, consumer), os.O_RDWR))
        if lock.try_acquire():
            return lock
        lock.close()
        return None

    def try_acquire(self) -> bool:
        """Acquire the lock without waiting for its holder. Returns whether that succeeded."""
        while not _try_flock(self.fd, fcntl.LOCK_EX):
            if not self.is_free():
                return False
            sleep(0.0001)  # another process was in `is_free`, which takes a shared lock for a moment
        return True

    def is_free(self) -> bool:
        """Return whether no process holds the lock. Takes a shared lock for a moment, so concurrent calls do not disturb each other."""
        if not _try_flock(self.fd, fcntl.LOCK_SH):
            return False
        self.release()
        return True

    def is_current(self, folder: str, consumer: str) -> bool:
        """Return whether the open file is still the one at its path. It is not if the queue was deleted, or deleted and made again."""
        try:
            at_path, opened = os.stat(lock_path(folder, consumer)), os.fstat(self.fd)
        except OSError:
            return False
        return (at_path.st_ino, at_path.st_dev) == (opened.st_ino, opened.st_dev)

    def release(self) -> None:
        fcntl.flock(self.fd, fcntl.LOCK_UN)

    def close(self) -> None:
        """Close the file in this process. A process that inherited it keeps the lock."""
        os.close(self.fd)

    def write_state(self, **state: object) -> None:
        data = (dumps(state) + "\n").encode()
        os.pwrite(self.fd, data, 0)
        os.ftruncate(self.fd, len(data))

    def read_state(self) -> dict[str, Any]:
        return _parse_state(os.pread(self.fd, MAX_STATE_BYTES, 0))


def read_lock(folder: str, consumer: str) -> tuple[dict[str, Any], bool]:
    """Return the stored state of a consumer's lock, and whether a supervisor holds it."""
    try:
        lock = ConsumerLock(os.open(lock_path(folder, consumer), os.O_RDONLY | os.O_CLOEXEC))
    except OSError:
        return {}, False
    try:
        return lock.read_state(), not lock.is_free()
    finally:
        lock.close()


def _try_flock(fd: int, kind: int) -> bool:
    try:
        fcntl.flock(fd, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _parse_state(data: bytes) -> dict[str, Any]:
    try:
        state = loads(data.decode())
    except ValueError:
        return {}
    return state if isinstance(state, dict) else {}
