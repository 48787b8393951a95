"""The open file of a store: its connection, its place in the writer queue and its idle watchers, which all copies of a store share.

It notices that another file is at the path now, and opens that one. Nothing is written into a file that was deleted or replaced.
"""

from __future__ import annotations

import os

from postroom._fastpath import RLock
from postroom._fastpath.sqlite import Connection, Error, connect
from postroom.core.errors import Contended, NotAStore, StoreReadOnly, StoreUnreachable
from postroom.store import forks
from postroom.store.sqlite.writer_queue import WriterQueue

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from postroom.core.errors import Refusal
    from postroom.store.sqlite.file_watcher import FileWatcher

BUSY_TIMEOUT_SECONDS = 10.0
MAX_WAL_PAGES = 1000  # in the log, before a commit copies them to the database. It does so rarely, and recovery of so many takes 2 ms
MAX_IDLE_WAL_BYTES = 2 * MAX_WAL_PAGES * 4120  # a log that grew while a reader held it up shrinks to this size once it starts again
FORK_WAIT_SECONDS = 2.0  # for a transaction of another thread, before a fork

_inherited_files: set[tuple[int, int]] = set()  # files with a transaction of the parent, which this process must not open
_abandoned: list[object] = []


def map_error(error: Error, location: str) -> Refusal:
    """Return the refusal for an error of the driver. The mapping is imported only when there is an error."""
    from postroom.store.sqlite import errors

    return errors.map_error(error, location)


def open_connection(path: str) -> Connection:
    """Return a connection with our settings: durable commits, foreign keys, and a small log."""
    try:
        connection = connect(path, timeout=BUSY_TIMEOUT_SECONDS, isolation_level=None, check_same_thread=False)
        # FULL: a commit is on the disk before COMMIT returns.
        connection.execute("PRAGMA synchronous=FULL")
        connection.execute("PRAGMA foreign_keys=ON")
        connection.execute(f"PRAGMA wal_autocheckpoint={MAX_WAL_PAGES}")
        connection.execute(f"PRAGMA journal_size_limit={MAX_IDLE_WAL_BYTES}")
    except Error as error:
        raise map_error(error, path) from None
    return connection


def open_immutable(path: str) -> Connection:
    """Return a connection that only reads, for read-only media, where SQLite cannot create the files that it keeps beside the database."""
    if os.path.exists(path + "-wal") and os.path.getsize(path + "-wal"):
        hint = "Copy the folder to a place that can be written, and read it there."
        raise StoreReadOnly(f"{path} is on read-only media, with a log that has to be applied first", hint=hint)
    quoted = path.replace("%", "%25").replace("?", "%3f").replace("#", "%23")
    try:
        return connect(f"file:{quoted}?immutable=1", uri=True, isolation_level=None, check_same_thread=False)
    except Error as error:
        raise map_error(error, path) from None


class WalFile:
    """The write-ahead log of a database, open to be synced. It closes when no transaction uses it any more."""

    def __init__(self, path: str) -> None:
        self._descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)

    def sync(self) -> None:
        """Wait until every commit in the log is on the disk. One call covers the commits of all processes before it."""
        os.fdatasync(self._descriptor)

    def __del__(self) -> None:
        if hasattr(self, "_descriptor"):
            os.close(self._descriptor)


class OpenDatabase:
    """The file of a store and this process's connection to it. `check_schema` refuses a file that is not such a store."""

    def __init__(self, location: str, check_schema: Callable[[Connection, str], None]) -> None:
        self.location = location
        self._check_schema = check_schema
        self.mutex = RLock()  # reentrant, so that a nested transaction fails instead of blocking for ever
        self.writer_queue = WriterQueue(location)
        self.idle_watchers: list[FileWatcher] = []  # kept from earlier waits, for the next one
        self.connection: Connection | None = None
        self.wal_file: WalFile | None = None  # if it is open, a writer syncs it after its COMMIT, which does not
        self.has_committed = False
        self.opened_id: tuple[int, int] | None = None  # of the file that the connection has open
        self.replacements = -1  # the first file replaces none
        self._is_prepared_for_fork = False
        self.connect()
        forks.track(self)

    def connect(self) -> Connection:
        """Return the connection to the file that is at the path now. Call it with the mutex held.

        Raises `StoreUnreachable` if the file was deleted.
        """
        found_id = self._find_file_id()
        connection = self.connection
        if connection is not None and (self.opened_id == found_id or connection.in_transaction):
            return connection
        if found_id in _inherited_files:
            raise forks.forked_inside_transaction()
        self.close()
        try:
            connection = self._open_checked(open_connection)
        except StoreReadOnly:
            if not os.statvfs(self.location).f_flag & os.ST_RDONLY:
                raise
            connection = self._open_checked(open_immutable)
        except NotAStore as refusal:
            if self.opened_id is None:
                raise
            # Another file replaced the store, and it is not finished yet: waiters and workers try again.
            raise StoreUnreachable(str(refusal), hint=refusal.hint) from None
        self.replacements += found_id != self.opened_id
        # The id was read before the file was opened: if another one came in between, the next call opens that one.
        self.connection, self.opened_id = connection, found_id
        return connection

    def _open_checked(self, open_file: Callable[[str], Connection]) -> Connection:
        connection = open_file(self.location)
        try:
            self._check_schema(connection, self.location)
        except BaseException:
            connection.close()
            raise
        return connection

    def sync_outside_commit(self) -> None:
        """Let the next commits be synced by `wal_file` instead of inside COMMIT, where other writers would wait for the disk.

        The first commit of a connection syncs by itself, so a command does not pay for this. Afterwards the log exists.
        """
        if self.connection is None:
            return
        self.wal_file = self.open_wal()
        if self.wal_file is None:
            return  # COMMIT goes on syncing
        try:
            self.connection.execute("PRAGMA synchronous=NORMAL")
        except Error as error:
            self.connection.execute("PRAGMA synchronous=FULL")  # if this fails too, `wal_file` stays open, and is synced in any case
            self.wal_file = None
            raise map_error(error, self.location) from None

    def read_wal_mark(self) -> tuple[int, int] | None:
        """Return the size and the time of the log, or None if there is none. As long as they are the same, it may not have been written."""
        try:
            status = os.stat(self.location + "-wal")
        except OSError:
            return None
        return status.st_size, status.st_mtime_ns

    def open_wal(self) -> WalFile | None:
        """Open the log to sync it. Returns None if there is none, as in another journal mode, or if this system syncs inside of COMMIT."""
        if not hasattr(os, "fdatasync"):
            return None
        try:
            return WalFile(self.location + "-wal")
        except OSError:
            return None

    def check_not_replaced(self) -> None:
        """Raise `Contended`, so that the verb runs again, if the transaction would be committed into a file that is no longer here."""
        if self._find_file_id() != self.opened_id:
            raise Contended(f"{self.location} was replaced by another file", hint="Try again: nothing was changed in either file.")

    def _find_file_id(self) -> tuple[int, int]:
        try:
            found = os.stat(self.location)
        except OSError as error:
            hint = "Restore it, or create a new one with `inbox init`. This does not mean that there is nothing to do."
            raise StoreUnreachable(f"the store at {self.location} is gone: {error.strerror}", hint=hint) from None
        return found.st_dev, found.st_ino

    def close(self) -> None:
        """Close the connection and the files beside the store. The next transaction opens them again."""
        if self.connection is not None:
            self.connection.close()
            self.connection = None
        self._forget_commits()
        self.writer_queue.close()
        while self.idle_watchers:
            self.idle_watchers.pop().close()

    def _forget_commits(self) -> None:
        self.wal_file, self.has_committed = None, False

    def before_fork(self) -> None:
        """Close an idle connection. A transaction of this thread, or a long one of another, stays open in this process."""
        self._is_prepared_for_fork = self.mutex.acquire(True, FORK_WAIT_SECONDS)
        if self._is_prepared_for_fork and self.connection is not None and not self.connection.in_transaction:
            self.close()

    def after_fork_in_parent(self) -> None:
        if self._is_prepared_for_fork:
            self.mutex.release()

    def after_fork_in_child(self) -> None:
        self.mutex = RLock()  # a thread of the parent may hold the other one
        self.writer_queue.close()
        while self.idle_watchers:
            self.idle_watchers.pop().close()
        if self.connection is not None:
            _abandon(self.connection)
            if self.opened_id is not None:
                _inherited_files.add(self.opened_id)
            self.connection = None
        self._forget_commits()


def _abandon(connection: Connection) -> None:
    """Keep a connection of the parent from ever being closed here: that would end the transaction of the parent."""
    import ctypes

    _abandoned.append(connection)
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(connection))  # the list itself ends with the interpreter
