"""Waiting on SQLite: after its COMMIT, a writer writes a byte to the wake files of the event's topics in `<db>.bells/`.

A waiter watches the wake files of its topics, so that a hundred waiters do not wake for each other's messages. Commands use dnotify,
libraries use inotify, and on macOS both use kqueue. If none is available (Linux allows 128 inotify instances for each user), the waiter
polls the times of the files at growing intervals. Some writers, such as the sqlite3 shell, write to no wake file. For them, the waiter
polls the database itself: every second while its write-ahead log (WAL) changes, and hardly ever while there are no writes.
"""

from __future__ import annotations

import fcntl
import os
import select
import signal
import sys
from time import monotonic

from postroom.core.errors import StoreUnreachable
from postroom.store.sqlite.engine import create_file

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Protocol, Self

    from postroom.store.sqlite.engine import SqliteStore

    class FileWatcher(Protocol):
        """One way to wait for a change of the wake files."""

        name: str

        def watch(self, wake_files: list[str], store_path: str) -> None:
            """Watch these wake files from now on, and the file of the store for its removal."""

        def arm_for_wal(self, wal_path: str) -> bool:
            """Let `wait` return once when the log is next written. Return False if this watcher cannot do that."""

        def wait(self, seconds: float, wake: int | None) -> str:
            """Wait for at most `seconds`, and return the reason for the end of the wait.

            It is `notified` if a wake file was written or descriptor `wake` is readable, `wal` if the log was written, and "" after a
            timeout.
            """

        def close(self) -> None: ...


POLL_SECONDS = 1.0
IDLE_POLL_SECONDS = 60.0
# The log is written before the commit is visible. So the database is polled twice more after the last write to the log.
POLLS_AFTER_WAL_WRITE = 3
_kernel: Any = select  # a type checker on one system does not know the other's calls


class SqliteWatch:
    """The watch of one waiter on one store."""

    def __init__(self, store: SqliteStore, wake_files: list[str]) -> None:
        self._store = store
        self._wake_files = wake_files
        self._create_wake_files()
        self._watcher = _reuse_or_open_watcher(store, wake_files)
        self._seen_version = store.data_version()
        self._polls_left = POLLS_AFTER_WAL_WRITE

    def _create_wake_files(self) -> None:
        if os.path.exists(self._store.location):  # do not create files for a store that was deleted
            for wake_file in self._wake_files:
                create_file(wake_file, self._store.location)

    def wait(self, seconds: float | None, wake: int | None = None) -> None:
        if self._seen_version[0] != self._store.file.opened_id:
            self._watch_new_file()
            return
        deadline = None if seconds is None else monotonic() + seconds
        while True:
            pause_seconds = POLL_SECONDS if self._polls_left else IDLE_POLL_SECONDS
            left = pause_seconds if deadline is None else min(pause_seconds, deadline - monotonic())
            wake_reason = self._watcher.wait(left, wake) if left > 0 else "notified"
            if wake_reason == "notified":
                return
            if wake_reason == "wal":
                self._polls_left = POLLS_AFTER_WAL_WRITE
            elif left == pause_seconds and self._database_changed():
                return

    def _database_changed(self) -> bool:
        """Return whether a writer committed without a wake file."""
        is_armed = self._watcher.arm_for_wal(self._store.location + "-wal")  # before the read, so that no write is missed in between
        self._polls_left = max(self._polls_left - 1, 0) if is_armed else POLLS_AFTER_WAL_WRITE
        try:
            version = self._store.data_version()
        except StoreUnreachable:
            return True  # the caller reads the store, and decides what that means
        changed, self._seen_version = version != self._seen_version, version
        return changed

    def _watch_new_file(self) -> None:
        """Watch the files of a store that replaced the one before. The caller reads the store now, so that it misses nothing."""
        self._create_wake_files()
        self._watcher.close()
        self._watcher = open_watcher(self._wake_files, self._store.location, self._store.owns_process)
        self._seen_version = self._store.data_version()
        self._polls_left = POLLS_AFTER_WAL_WRITE

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        # Keep the watcher for the next wait: closing an inotify instance takes milliseconds, which would delay the caller.
        self._store.file.idle_watchers.append(self._watcher)


def _reuse_or_open_watcher(store: SqliteStore, wake_files: list[str]) -> FileWatcher:
    """Return an idle watcher of the store, or open a new one."""
    try:
        watcher = store.file.idle_watchers.pop()
    except IndexError:
        return open_watcher(wake_files, store.location, store.owns_process)
    try:
        watcher.watch(wake_files, store.location)
    except OSError:
        watcher.close()
        return open_watcher(wake_files, store.location, store.owns_process)
    return watcher


def open_watcher(wake_files: list[str], store_path: str, owns_process: bool = False) -> FileWatcher:
    """Return the best watcher that is available on this system now."""
    for watcher_class in (DnotifyWatcher, InotifyWatcher, KqueueWatcher) if owns_process else (InotifyWatcher, KqueueWatcher):
        try:
            return watcher_class(wake_files, store_path)
        except (OSError, AttributeError):
            continue
    return PollingWatcher(wake_files, store_path)


class DnotifyWatcher:
    """A watcher for Linux, in a process that only waits, so that its signals may be used.

    Unlike inotify, it needs no `ctypes`, has no limit of instances, and lets the process end at once. The kernel takes up to 17 ms to
    close an inotify instance.
    """

    name = "dnotify"
    _WAKE_SIGNAL, _WAL_SIGNAL = signal.SIGIO, signal.SIGUSR2

    def __init__(self, wake_files: list[str], store_path: str) -> None:
        signal.pthread_sigmask(signal.SIG_BLOCK, (self._WAKE_SIGNAL, self._WAL_SIGNAL))
        self._folders: list[int] = []
        self._wal_watch: int | None = None
        self.watch(wake_files, store_path)

    def watch(self, wake_files: list[str], store_path: str) -> None:
        self.close()
        removal = fcntl.DN_DELETE | fcntl.DN_RENAME
        for path, changes in [*((wake_file, fcntl.DN_MODIFY | fcntl.DN_DELETE) for wake_file in wake_files), (store_path, removal)]:
            self._folders.append(os.open(os.path.dirname(path), os.O_RDONLY | os.O_CLOEXEC))
            fcntl.fcntl(self._folders[-1], fcntl.F_NOTIFY, changes | fcntl.DN_MULTISHOT)

    def arm_for_wal(self, wal_path: str) -> bool:
        """Watch the folder of the log once. It reports a write to any file there, which costs a few needless polls."""
        if self._wal_watch is None:
            self._wal_watch = os.open(os.path.dirname(wal_path), os.O_RDONLY | os.O_CLOEXEC)
            self._folders.append(self._wal_watch)
            fcntl.fcntl(self._wal_watch, fcntl.F_SETSIG, self._WAL_SIGNAL)
        fcntl.fcntl(self._wal_watch, fcntl.F_NOTIFY, fcntl.DN_MODIFY)
        return True

    def wait(self, seconds: float, wake: int | None) -> str:
        received = signal.sigtimedwait((self._WAKE_SIGNAL, self._WAL_SIGNAL), seconds)
        if received is None:
            return ""
        return "notified" if received.si_signo == self._WAKE_SIGNAL else "wal"

    def close(self) -> None:
        for folder in self._folders:
            os.close(folder)
        self._folders, self._wal_watch = [], None


class InotifyWatcher:
    """A watcher for Linux. It imports `ctypes`, which only waiters pay for."""

    name = "inotify"
    _MODIFY, _ATTRIB, _ONCE = 0x2, 0x4, 0x80000000
    _RECORD_BYTES = 16  # of an event about a file: the watch, the mask, and two more numbers

    def __init__(self, wake_files: list[str], store_path: str) -> None:
        import ctypes

        libc = ctypes.CDLL(None, use_errno=True)
        self._inotify_fd = libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        if self._inotify_fd < 0:
            raise OSError(ctypes.get_errno(), "no inotify instance left")
        self._poll = select.poll()
        self._poll.register(self._inotify_fd, select.POLLIN)
        self._add_watch = libc.inotify_add_watch
        self._wal_watch = -1
        try:
            self.watch(wake_files, store_path)
        except OSError:
            self.close()
            raise

    def watch(self, wake_files: list[str], store_path: str) -> None:
        """Watch these wake files too. Those of earlier waits stay watched: a needless wake-up only makes the caller read the store."""
        # A file that is removed or replaced changes its count of links, which is an attribute.
        for path, changes in [*((wake_file, self._MODIFY | self._ATTRIB) for wake_file in wake_files), (store_path, self._ATTRIB)]:
            if self._add_watch(self._inotify_fd, os.fsencode(path), changes) < 0:
                raise OSError("cannot watch the wake file")

    def arm_for_wal(self, wal_path: str) -> bool:
        self._wal_watch = self._add_watch(self._inotify_fd, os.fsencode(wal_path), self._MODIFY | self._ONCE)
        return bool(self._wal_watch >= 0)

    def wait(self, seconds: float, wake: int | None) -> str:
        if wake is not None:
            self._poll.register(wake, select.POLLIN)
        ready = self._poll.poll(seconds * 1000)
        if not ready:
            return ""
        try:
            records = os.read(self._inotify_fd, 65536)  # one wake-up covers all events so far
        except BlockingIOError:
            return "notified"  # no wake file was written, but `wake` is readable
        watches = {int.from_bytes(records[at : at + 4], sys.byteorder) for at in range(0, len(records), self._RECORD_BYTES)}
        return "wal" if watches == {self._wal_watch} and len(ready) == 1 else "notified"

    def close(self) -> None:
        os.close(self._inotify_fd)


class KqueueWatcher:
    """A watcher for macOS and the BSDs."""

    name = "kqueue"

    def __init__(self, wake_files: list[str], store_path: str) -> None:
        self._queue: Any = _kernel.kqueue()
        self._files: list[int] = []
        self.watch(wake_files, store_path)

    def watch(self, wake_files: list[str], store_path: str) -> None:
        for file in self._files:
            os.close(file)
        self._files = [os.open(wake_file, os.O_RDONLY | os.O_CLOEXEC) for wake_file in wake_files]
        flags = _kernel.KQ_EV_ADD | _kernel.KQ_EV_CLEAR
        changes = _kernel.KQ_NOTE_ATTRIB | _kernel.KQ_NOTE_WRITE
        events = [_kernel.kevent(file, _kernel.KQ_FILTER_VNODE, flags, changes) for file in self._files]
        self._files.append(os.open(store_path, os.O_RDONLY | os.O_CLOEXEC))
        removal = _kernel.KQ_NOTE_DELETE | _kernel.KQ_NOTE_RENAME
        self._queue.control([*events, _kernel.kevent(self._files[-1], _kernel.KQ_FILTER_VNODE, flags, removal)], 0)

    def arm_for_wal(self, wal_path: str) -> bool:
        return False

    def wait(self, seconds: float, wake: int | None) -> str:
        changes = [] if wake is None else [_kernel.kevent(wake, _kernel.KQ_FILTER_READ, _kernel.KQ_EV_ADD)]
        return "notified" if self._queue.control(changes, 16, seconds) else ""

    def close(self) -> None:
        self._queue.close()
        for file in self._files:
            os.close(file)


class PollingWatcher:
    """A watcher that polls the times of the wake files: often after a change, and ever less often without one."""

    name = "polling"
    _MIN_POLL_SECONDS, _MAX_POLL_SECONDS = 0.005, 0.25

    def __init__(self, wake_files: list[str], store_path: str) -> None:
        self._poll = select.poll()
        self.watch(wake_files, store_path)

    def watch(self, wake_files: list[str], store_path: str) -> None:
        self._wake_files = wake_files
        self._known_times = self._read_times()
        self._poll_seconds = self._MIN_POLL_SECONDS

    def arm_for_wal(self, wal_path: str) -> bool:
        return False

    def wait(self, seconds: float, wake: int | None) -> str:
        if wake is not None:
            self._poll.register(wake, select.POLLIN)
        deadline = monotonic() + seconds
        while True:
            times = self._read_times()
            if times != self._known_times:
                self._known_times, self._poll_seconds = times, self._MIN_POLL_SECONDS
                return "notified"
            left = deadline - monotonic()
            if left <= 0:
                return ""
            if self._poll.poll(min(self._poll_seconds, left) * 1000):
                return "notified"
            self._poll_seconds = min(self._poll_seconds * 1.5, self._MAX_POLL_SECONDS)

    def _read_times(self) -> list[int]:
        return [os.stat(wake_file).st_mtime_ns if os.path.exists(wake_file) else 0 for wake_file in self._wake_files]

    def close(self) -> None:
        pass
