"""Waiting for a bell: every writer touches, after its COMMIT, `<db>.bell` and those in `<db>.bells/` of the event's topics.

So a waiter is woken for what may concern it, and a hundred waiters do not wake for each other's messages. inotify on Linux,
kqueue on macOS; where neither can be had (Linux allows 128 inotify instances a user), looking at the files' times at growing
intervals. However it is heard, the database itself is asked at least once a second, for writers that are not ours.
"""

from __future__ import annotations

import os
import select
import sys
from time import monotonic

from postroom.store.sqlite.engine import touch

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Protocol, Self

    from postroom.store.sqlite.engine import SqliteStore

    class Ear(Protocol):
        """One way of hearing the bell."""

        name: str

        def listen(self, seconds: float, wake: int | None) -> bool:
            """True if the bell rang or `wake` became readable within `seconds`."""

        def close(self) -> None: ...


LOOK_AGAIN = 1.0
_kernel: Any = select  # a type checker on one system does not know the other's calls


class BellWatch:
    """A waiter's watch on one store."""

    def __init__(self, store: SqliteStore, bells: list[str]) -> None:
        self._store = store
        for bell in bells:
            touch(bell)
        self._ear = hear(bells)
        self._seen = store.data_version()

    def wait(self, seconds: float | None, wake: int | None = None) -> None:
        deadline = None if seconds is None else monotonic() + seconds
        while True:
            left = LOOK_AGAIN if deadline is None else min(LOOK_AGAIN, deadline - monotonic())
            if left <= 0 or self._ear.listen(left, wake):
                return
            version = self._store.data_version()
            if version != self._seen:
                self._seen = version
                return

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self._ear.close()


def hear(bells: list[str]) -> Ear:
    """The best ear that this system gives us now."""
    try:
        return Inotify(bells) if sys.platform == "linux" else Kqueue(bells)
    except (OSError, AttributeError):
        return Polling(bells)


class Inotify:
    """Linux. `ctypes` is imported by waiters alone."""

    name = "inotify"
    _IN_ATTRIB, _NONBLOCK_CLOEXEC = 0x4, os.O_NONBLOCK | os.O_CLOEXEC

    def __init__(self, bells: list[str]) -> None:
        import ctypes

        libc = ctypes.CDLL(None, use_errno=True)
        self._file = libc.inotify_init1(self._NONBLOCK_CLOEXEC)
        if self._file < 0:
            raise OSError(ctypes.get_errno(), "no inotify instance left")
        self._poll = select.poll()
        self._poll.register(self._file, select.POLLIN)
        for bell in bells:
            if libc.inotify_add_watch(self._file, os.fsencode(bell), self._IN_ATTRIB) < 0:
                os.close(self._file)
                raise OSError(ctypes.get_errno(), "cannot watch the bell")

    def listen(self, seconds: float, wake: int | None) -> bool:
        if wake is not None:
            self._poll.register(wake, select.POLLIN)
        if not self._poll.poll(seconds * 1000):
            return False
        try:
            os.read(self._file, 65536)  # all rings so far are one
        except BlockingIOError:
            pass
        return True

    def close(self) -> None:
        os.close(self._file)


class Kqueue:
    """macOS and the BSDs."""

    name = "kqueue"

    def __init__(self, bells: list[str]) -> None:
        self._queue: Any = _kernel.kqueue()
        self._files = [os.open(bell, os.O_RDONLY | os.O_CLOEXEC) for bell in bells]
        flags, rung = _kernel.KQ_EV_ADD | _kernel.KQ_EV_CLEAR, _kernel.KQ_NOTE_ATTRIB | _kernel.KQ_NOTE_WRITE
        self._queue.control([_kernel.kevent(file, _kernel.KQ_FILTER_VNODE, flags, rung) for file in self._files], 0)

    def listen(self, seconds: float, wake: int | None) -> bool:
        changes = [] if wake is None else [_kernel.kevent(wake, _kernel.KQ_FILTER_READ, _kernel.KQ_EV_ADD)]
        return bool(self._queue.control(changes, 16, seconds))

    def close(self) -> None:
        self._queue.close()
        for file in self._files:
            os.close(file)


class Polling:
    """Looking at the bells' times: soon after a ring, ever more seldom while it is quiet."""

    name = "polling"
    _SHORTEST, _LONGEST = 0.005, 0.25

    def __init__(self, bells: list[str]) -> None:
        self._bells = bells
        self._rung = self._times()
        self._pause = self._SHORTEST
        self._poll = select.poll()

    def listen(self, seconds: float, wake: int | None) -> bool:
        if wake is not None:
            self._poll.register(wake, select.POLLIN)
        deadline = monotonic() + seconds
        while True:
            rung = self._times()
            if rung != self._rung:
                self._rung, self._pause = rung, self._SHORTEST
                return True
            left = deadline - monotonic()
            if left <= 0:
                return False
            if self._poll.poll(min(self._pause, left) * 1000):
                return True
            self._pause = min(self._pause * 1.5, self._LONGEST)

    def _times(self) -> list[int]:
        return [os.stat(bell).st_mtime_ns if os.path.exists(bell) else 0 for bell in self._bells]

    def close(self) -> None:
        pass
