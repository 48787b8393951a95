"""`run/<consumer>.lock`: held by the supervisor of a consumer's handler, and by nobody once that is dead.

The lock is the kernel's (flock), so no death can leave it behind. The file stays: it tells who holds it, and remembers from run
to run how often a handler ran without getting anywhere.
"""

from __future__ import annotations

import fcntl
import os
from time import sleep

from postroom.core import clock
from postroom.core.jsontext import dumps, loads
from postroom.core.words import file_name

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def path_of(folder: str, consumer: str) -> str:
    return os.path.join(folder, "run", file_name(consumer) + ".lock")


class Lock:
    """A lock that is ours."""

    def __init__(self, file: int) -> None:
        self.file = file

    @classmethod
    def take(cls, folder: str, consumer: str) -> Lock | None:
        """The lock, unless somebody holds it."""
        os.makedirs(os.path.join(folder, "run"), exist_ok=True)
        file = os.open(path_of(folder, consumer), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        lock = cls(file)
        if lock.retake():
            return lock
        os.close(file)
        return None

    def retake(self) -> bool:
        while not _try(self.file, fcntl.LOCK_EX):
            if not self.only_looked_at():
                return False
            sleep(0.0001)
        return True

    def only_looked_at(self) -> bool:
        """Whether nobody holds it, though somebody may be looking just now, as we are."""
        if not _try(self.file, fcntl.LOCK_SH):
            return False
        self.release()
        return True

    def current(self, folder: str, consumer: str) -> bool:
        """Whether it is still the one that others would find: the queue may have been deleted, and even made anew."""
        try:
            found, ours = os.stat(path_of(folder, consumer)), os.fstat(self.file)
        except OSError:
            return False
        return (found.st_ino, found.st_dev) == (ours.st_ino, ours.st_dev)

    def release(self) -> None:
        fcntl.flock(self.file, fcntl.LOCK_UN)

    def close(self) -> None:
        """Let go of it, in this process alone: who inherited it holds it on."""
        os.close(self.file)

    def write(self, **facts: object) -> None:
        data = (dumps(facts) + "\n").encode()
        os.pwrite(self.file, data, 0)
        os.ftruncate(self.file, len(data))

    def read(self) -> dict[str, Any]:
        return _facts(os.pread(self.file, 4096, 0))


def look(folder: str, consumer: str) -> tuple[bool, str | None]:
    """Whether a consumer's handler is looked after now, and what is the matter with it, if anything."""
    try:
        file = os.open(path_of(folder, consumer), os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return False, None
    lock = Lock(file)
    noted, held = lock.read(), not lock.only_looked_at()
    lock.close()
    return held and not noted.get("resting"), _trouble(noted, held)


def _trouble(noted: dict[str, Any], held: bool) -> str | None:
    fruitless = noted.get("fruitless") or 0
    said = [str(noted["trouble"])] if noted.get("trouble") else []
    if fruitless:
        said.append(f"{fruitless} {'run' if fruitless == 1 else 'runs in a row'} made no progress")
    if held and noted.get("resting") and noted.get("not_before"):
        said.append(f"the next is at {clock.stamp(noted['not_before'])}")
    return ", ".join(said) or None


def _try(file: int, kind: int) -> bool:
    try:
        fcntl.flock(file, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _facts(data: bytes) -> dict[str, Any]:
    try:
        found = loads(data.decode())
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}
