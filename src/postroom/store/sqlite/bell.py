"""Waiting for a bell: every writer touches, after its COMMIT, `<db>.bell` and those in `<db>.bells/` of the event's topics.

So a waiter is woken for what may concern it, and a hundred waiters do not wake for each other's messages. Commands hear by
dnotify, libraries by inotify, and on macOS both by kqueue; where none can be had (Linux allows 128 inotify instances a user),
by looking at the files' times at growing intervals. For writers that ring no bell, the database itself is asked: within a
second while its log moves, and not at all while nobody writes.
"""

from __future__ import annotations

import fcntl
import os
import select
import signal
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

        def attend(self, bells: list[str]) -> None:
            """Listen to these, from now on."""

        def expect(self, log: str) -> bool:
            """Be told, once, when the log is written next; False if this ear cannot."""

        def listen(self, seconds: float, wake: int | None) -> str:
            """`bell` when one rang or `wake` became readable, `log` when that was written, `` when `seconds` are over."""

        def close(self) -> None: ...


LOOK_AGAIN = 1.0
LOOK_ANYWAY = 60.0
# The log is written before the commit can be seen: so it is looked at again, once and once more, after it came to rest.
LOOKS_AFTER_LOG = 3
_kernel: Any = select  # a type checker on one system does not know the other's calls


class BellWatch:
    """A waiter's watch on one store."""

    def __init__(self, store: SqliteStore, bells: list[str]) -> None:
        self._store = store
        if os.path.exists(store.place):  # of a store that was deleted nothing is made again
            for bell in bells:
                touch(bell)
        self._ear = _attending(store.ears, bells, store.solitary)
        self._seen = store.data_version()
        self._looks = LOOKS_AFTER_LOG

    def wait(self, seconds: float | None, wake: int | None = None) -> None:
        deadline = None if seconds is None else monotonic() + seconds
        while True:
            pause = LOOK_AGAIN if self._looks else LOOK_ANYWAY
            left = pause if deadline is None else min(pause, deadline - monotonic())
            heard = self._ear.listen(left, wake) if left > 0 else "bell"
            if heard == "bell":
                return
            if heard == "log":
                self._looks = LOOKS_AFTER_LOG
            elif left == pause and self._changed():
                return

    def _changed(self) -> bool:
        """Whether somebody committed without ringing."""
        expecting = self._ear.expect(self._store.place + "-wal")  # first, so that nothing falls between
        self._looks = max(self._looks - 1, 0) if expecting else LOOKS_AFTER_LOG
        version = self._store.data_version()
        changed, self._seen = version != self._seen, version
        return changed

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        # Kept for the next wait: closing an inotify instance takes milliseconds, between a message and whoever waits for it.
        self._store.ears.append(self._ear)


def _attending(idle: list[Ear], bells: list[str], solitary: bool) -> Ear:
    """An ear that the store has left over, or a new one."""
    try:
        ear = idle.pop()
    except IndexError:
        return hear(bells, solitary)
    try:
        ear.attend(bells)
    except OSError:
        ear.close()
        return hear(bells, solitary)
    return ear


def hear(bells: list[str], solitary: bool = False) -> Ear:
    """The best ear that this system gives us now."""
    for ear in (Dnotify, Inotify, Kqueue) if solitary else (Inotify, Kqueue):
        try:
            return ear(bells)
        except (OSError, AttributeError):
            continue
    return Polling(bells)


class Dnotify:
    """Linux, for a process that only waits: its signals are ours to use.

    Beside inotify it needs no `ctypes`, knows no limit of instances, and lets the process end at once: to close an inotify
    instance, the kernel takes up to 17 ms.
    """

    name = "dnotify"
    _BELL, _LOG = signal.SIGIO, signal.SIGUSR2

    def __init__(self, bells: list[str]) -> None:
        signal.pthread_sigmask(signal.SIG_BLOCK, (self._BELL, self._LOG))
        self._folders: list[int] = []
        self._log: int | None = None
        self.attend(bells)

    def attend(self, bells: list[str]) -> None:
        self.close()
        for bell in bells:
            self._folders.append(os.open(os.path.dirname(bell), os.O_RDONLY | os.O_CLOEXEC))
            fcntl.fcntl(self._folders[-1], fcntl.F_NOTIFY, fcntl.DN_ATTRIB | fcntl.DN_MULTISHOT)

    def expect(self, log: str) -> bool:
        """Hears, once, when any file in the log's folder is written; that may be a few times too many."""
        if self._log is None:
            self._log = os.open(os.path.dirname(log), os.O_RDONLY | os.O_CLOEXEC)
            self._folders.append(self._log)
            fcntl.fcntl(self._log, fcntl.F_SETSIG, self._LOG)
        fcntl.fcntl(self._log, fcntl.F_NOTIFY, fcntl.DN_MODIFY)
        return True

    def listen(self, seconds: float, wake: int | None) -> str:
        heard = signal.sigtimedwait((self._BELL, self._LOG), seconds)
        if heard is None:
            return ""
        return "bell" if heard.si_signo == self._BELL else "log"

    def close(self) -> None:
        for folder in self._folders:
            os.close(folder)
        self._folders, self._log = [], None


class Inotify:
    """Linux. `ctypes` is imported by waiters alone."""

    name = "inotify"
    _MODIFY, _ATTRIB, _ONCE = 0x2, 0x4, 0x80000000
    _RECORD = 16  # bytes of an event about a file: which watch, what, and two more

    def __init__(self, bells: list[str]) -> None:
        import ctypes

        libc = ctypes.CDLL(None, use_errno=True)
        self._file = libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        if self._file < 0:
            raise OSError(ctypes.get_errno(), "no inotify instance left")
        self._poll = select.poll()
        self._poll.register(self._file, select.POLLIN)
        self._add_watch = libc.inotify_add_watch
        self._log = -1
        try:
            self.attend(bells)
        except OSError:
            self.close()
            raise

    def attend(self, bells: list[str]) -> None:
        """Bells of earlier waits stay watched: a ring too many costs a look."""
        for bell in bells:
            if self._add_watch(self._file, os.fsencode(bell), self._ATTRIB) < 0:
                raise OSError("cannot watch the bell")

    def expect(self, log: str) -> bool:
        self._log = self._add_watch(self._file, os.fsencode(log), self._MODIFY | self._ONCE)
        return bool(self._log >= 0)

    def listen(self, seconds: float, wake: int | None) -> str:
        if wake is not None:
            self._poll.register(wake, select.POLLIN)
        ready = self._poll.poll(seconds * 1000)
        if not ready:
            return ""
        try:
            rung = os.read(self._file, 65536)  # all rings so far are one
        except BlockingIOError:
            return "bell"  # not a bell, but whoever rings `wake`
        watches = {int.from_bytes(rung[at : at + 4], sys.byteorder) for at in range(0, len(rung), self._RECORD)}
        return "log" if watches == {self._log} and len(ready) == 1 else "bell"

    def close(self) -> None:
        os.close(self._file)


class Kqueue:
    """macOS and the BSDs."""

    name = "kqueue"

    def __init__(self, bells: list[str]) -> None:
        self._queue: Any = _kernel.kqueue()
        self._files: list[int] = []
        self.attend(bells)

    def attend(self, bells: list[str]) -> None:
        for file in self._files:
            os.close(file)
        self._files = [os.open(bell, os.O_RDONLY | os.O_CLOEXEC) for bell in bells]
        flags, rung = _kernel.KQ_EV_ADD | _kernel.KQ_EV_CLEAR, _kernel.KQ_NOTE_ATTRIB | _kernel.KQ_NOTE_WRITE
        self._queue.control([_kernel.kevent(file, _kernel.KQ_FILTER_VNODE, flags, rung) for file in self._files], 0)

    def expect(self, log: str) -> bool:
        return False

    def listen(self, seconds: float, wake: int | None) -> str:
        changes = [] if wake is None else [_kernel.kevent(wake, _kernel.KQ_FILTER_READ, _kernel.KQ_EV_ADD)]
        return "bell" if self._queue.control(changes, 16, seconds) else ""

    def close(self) -> None:
        self._queue.close()
        for file in self._files:
            os.close(file)


class Polling:
    """Looking at the bells' times: soon after a ring, ever more seldom while it is quiet."""

    name = "polling"
    _SHORTEST, _LONGEST = 0.005, 0.25

    def __init__(self, bells: list[str]) -> None:
        self._poll = select.poll()
        self.attend(bells)

    def attend(self, bells: list[str]) -> None:
        self._bells = bells
        self._rung = self._times()
        self._pause = self._SHORTEST

    def expect(self, log: str) -> bool:
        return False

    def listen(self, seconds: float, wake: int | None) -> str:
        if wake is not None:
            self._poll.register(wake, select.POLLIN)
        deadline = monotonic() + seconds
        while True:
            rung = self._times()
            if rung != self._rung:
                self._rung, self._pause = rung, self._SHORTEST
                return "bell"
            left = deadline - monotonic()
            if left <= 0:
                return ""
            if self._poll.poll(min(self._pause, left) * 1000):
                return "bell"
            self._pause = min(self._pause * 1.5, self._LONGEST)

    def _times(self) -> list[int]:
        return [os.stat(bell).st_mtime_ns if os.path.exists(bell) else 0 for bell in self._bells]

    def close(self) -> None:
        pass
