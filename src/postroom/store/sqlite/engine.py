"""The store in a SQLite file: transactions, the notification of waiters, and the check of the schema."""

from __future__ import annotations

import os

from postroom._fastpath.sqlite import Connection, Error
from postroom.core import clock, ids
from postroom.core.errors import NoStore, NotAStore, Refusal, StoreReadOnly, StoreUnreachable, WrongVersion
from postroom.core.text import shell_quote
from postroom.store.base_transaction import BaseTransaction
from postroom.store.forks import forked_inside_transaction
from postroom.store.sqlite import statements
from postroom.store.sqlite.open_database import BUSY_TIMEOUT_SECONDS, OpenDatabase, map_error
from postroom.store.sqlite.wake_files import all_wake_file_path, wake_file_path
from postroom.store.tables import SCHEMA_VERSION, Query

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Self

    from postroom._fastpath import RLock
    from postroom._fastpath.sqlite import Cursor
    from postroom.store.catalogue import Catalogue
    from postroom.store.sqlite.batch import BatchStore
    from postroom.store.sqlite.file_watcher import SqliteWatch
    from postroom.store.sqlite.open_database import WalFile

APPLICATION_ID = 0x506F7374  # "Post", in the header of each store
# 250 pages of 4096 bytes, with a header of 24. A command leaves its log to the next one, which must recover it. A larger one is truncated.
MAX_WAL_BYTES = 250 * 4120


class SqliteStore:
    """An open store in a file. Threads may share it: their transactions take turns. After a fork it opens the file again."""

    is_remote = False
    is_one_transaction = False

    def __init__(self, path: str, *, door: str = "library", owns_process: bool = False, now: Callable[[], int] = clock.now) -> None:
        self.location = resolve_path(path)
        self.checked_names: set[str] = set()
        self.door = door
        self.owns_process = owns_process
        self.clock = now
        self._check_location(path)
        self.file = OpenDatabase(self.location, self.check_schema)

    @property
    def mutex(self) -> RLock:
        return self.file.mutex

    @property
    def connection(self) -> Connection:
        return self.file.connect()

    @connection.setter
    def connection(self, connection: Connection) -> None:
        self.file.connection = connection

    @property
    def data_folder(self) -> str | None:
        return os.environ.get("INBOX_DATA") or os.path.join(os.path.dirname(self.location), "data")

    def with_door(self, door: str) -> SqliteStore:
        other = object.__new__(type(self))  # shares everything else, including the connection and its mutex
        other.__dict__.update(self.__dict__, door=door)
        return other

    def batch(self, *, isolate_verbs: bool = False, committed_topics: set[str] | None = None) -> BatchStore:
        from postroom.store.sqlite.batch import BatchStore

        return BatchStore(self, isolate_verbs=isolate_verbs, committed_topics=committed_topics)

    def read(self) -> SqliteTransaction:
        return SqliteTransaction(self)

    def write(self) -> SqliteTransaction:
        return SqliteWriteTransaction(self)

    def watch(self, *topics: str) -> SqliteWatch:
        from postroom.store.sqlite.file_watcher import SqliteWatch

        return SqliteWatch(self, [self.wake_file_path(topic) for topic in topics] or [all_wake_file_path(self.location)])

    @property
    def replacements(self) -> int:
        return self.file.replacements

    def data_version(self) -> tuple[tuple[int, int] | None, int]:
        """Return a value that changes when another connection commits, and when another file replaces that of the store."""
        try:
            with self.mutex:
                version: int = self.connection.execute("PRAGMA data_version").fetchone()[0]
        except Error as error:
            raise map_error(error, self.location) from error
        return self.file.opened_id, version

    def change_mark(self) -> tuple[object, int]:
        """Return a value that changes with every commit: of other connections, and of this one, which `data_version` leaves out."""
        version, opened = self.data_version(), self.file.connection
        return version, 0 if opened is None else opened.total_changes

    def wake_file_path(self, topic: str) -> str:
        return wake_file_path(self.location, topic)

    def notify(self, topics: Iterable[str]) -> None:
        """Wake the waiters of these topics by writing to their wake files. A failure delays a waiter by up to a second."""
        if not os.access(self.location + ".bells", os.F_OK):
            return  # there was never a waiter, and each missing file would cost an exception
        for path in (all_wake_file_path(self.location), *map(self.wake_file_path, topics)):
            try:
                file = os.open(path, os.O_WRONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
            except OSError:
                continue  # the file does not exist, because there was never a waiter of its topics
            try:
                os.pwrite(file, b"\n", 0)  # not `utime`, which can slow the next sync of the log down by half
            except OSError:
                pass  # the disk is full
            finally:
                os.close(file)

    def truncate_wal(self) -> None:
        """Truncate a long write-ahead log, unless another connection is using it.

        SQLite restarts its log at the second write of a process, if everything in it was copied to the database. A command writes once
        and exits, and the next command cannot know what was copied. Without this, the log of a store that only commands use would grow
        for ever.
        """
        try:
            if os.stat(self.location + "-wal").st_size <= MAX_WAL_BYTES:
                return
            with self.mutex:
                connection = self.connection
                connection.execute("PRAGMA busy_timeout=0")
                try:
                    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
                finally:
                    connection.execute(f"PRAGMA busy_timeout={BUSY_TIMEOUT_SECONDS * 1000:.0f}")
        except (OSError, Error, Refusal):
            pass  # the next command tries again

    def checkpoint(self, mode: str) -> bool:
        """Copy the log to the file, as `rewriting.checkpoint` does."""
        from postroom.store.sqlite.rewriting import checkpoint

        return checkpoint(self, mode)

    def rewrite_file(self) -> tuple[int, int]:
        """Rewrite the file without free space, as `rewriting.rewrite_file` does."""
        from postroom.store.sqlite.rewriting import rewrite_file

        return rewrite_file(self)

    def close(self) -> None:
        self.file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def _check_location(self, named: str) -> None:
        check_exists(self.location, named)

    @staticmethod
    def check_schema(connection: Connection, location: str) -> None:
        """Refuse a file that is not a store of this version."""
        try:
            version = connection.execute("PRAGMA user_version").fetchone()[0]
            application = connection.execute("PRAGMA application_id").fetchone()[0]
        except Error as error:
            raise map_error(error, location) from None
        if application != APPLICATION_ID:
            raise NotAStore(f"{location} is not a Postroom store", hint="Pass the path of a store made with `inbox init`.")
        if version > SCHEMA_VERSION:
            raise WrongVersion(f"{location} has schema {version}; this program knows {SCHEMA_VERSION}", hint="Upgrade postroom.")
        if version < SCHEMA_VERSION:
            raise WrongVersion(
                f"{location} has schema {version}; this program needs {SCHEMA_VERSION}",
                hint=f"Upgrade it with `inbox init --db {shell_quote(location)}`.",
            )


class SqliteTransaction(BaseTransaction):
    """A read transaction: one consistent view."""

    begin = "BEGIN"
    sql: Catalogue = statements
    candidate_limit = 1
    _connection: Connection

    def __init__(self, store: SqliteStore) -> None:
        self.store = store
        self.door = store.door
        self._file = store.file
        self._mutex = self._file.mutex
        self._now: int | None = None
        self._topics: set[str] = set()

    def now(self) -> int:
        if self._now is None:
            self._now = self.store.clock()
        return self._now

    def lock_thread(self, thread_id: str, *, wait: bool = True) -> bool:
        return True  # a write transaction is alone from its BEGIN on

    def new_id(self, prefix: str) -> str:
        return ids.new_id(prefix, self.now())

    if not TYPE_CHECKING:  # as in `BaseTransaction`, which has the signatures, in one call: every verb makes several

        def fetch_one(self, statement, **binds):
            if self._mutex is not self._file.mutex:
                raise forked_inside_transaction()
            try:
                row = self._connection.execute(statement, binds).fetchone()
            except Error as error:
                raise map_error(error, self.store.location) from error
            return row if row is None or type(statement) is not Query else statement.make(*row)

        def fetch_all(self, statement, **binds):
            if self._mutex is not self._file.mutex:
                raise forked_inside_transaction()
            try:
                rows = self._connection.execute(statement, binds).fetchall()
            except Error as error:
                raise map_error(error, self.store.location) from error
            if type(statement) is not Query:
                return rows
            make = statement.make
            return [make(*row) for row in rows]

    # As `_run_statement`, in one call.
    def execute(self, statement: str, **binds: object) -> None:
        if self._mutex is not self._file.mutex:
            raise forked_inside_transaction()
        try:
            self._connection.execute(statement, binds)
        except Error as error:
            raise map_error(error, self.store.location) from error

    def insert_queue_events(self, statement: str, topics: Iterable[str], rows: list[tuple[object, ...]]) -> int:
        """Insert many rows and return the id of the first. Their ids are consecutive, because a write transaction is alone."""
        self._topics.update(topics)
        if self._mutex is not self._file.mutex:
            raise forked_inside_transaction()
        try:
            self._connection.executemany(statement, rows)
            last: int = self._run_statement("SELECT last_insert_rowid()", {}).fetchone()[0]
        except Error as error:
            raise map_error(error, self.store.location) from error
        return last - len(rows) + 1

    def execute_exactly_one(self, otherwise: Refusal, statement: str, **binds: object) -> None:
        if self._run_statement(statement, binds).rowcount != 1:
            raise otherwise

    def insert_event(self, statement: str, topics: Iterable[str], **binds: object) -> int:
        self._topics.update(topics)
        event_id = self._run_statement(statement, binds).lastrowid
        assert event_id is not None
        return event_id

    send_event = insert_event

    def prefetch(self, statement: str, **binds: object) -> None:
        """Do nothing: there are no round trips."""

    def _run_statement(self, statement: str, binds: dict[str, object]) -> Cursor:
        if self._mutex is not self._file.mutex:
            raise forked_inside_transaction()
        try:
            return self._connection.execute(statement, binds)
        except Error as error:
            raise map_error(error, self.store.location) from error

    def _begin_transaction(self) -> None:
        self._connection = self._file.connect()
        self._run_or_roll_back(self.begin)

    def _end_transaction(self, *, commit: bool) -> None:
        if commit:
            self._run_or_roll_back("COMMIT")
        else:
            self._roll_back()

    def _run_or_roll_back(self, statement: str) -> None:
        """Run BEGIN or COMMIT. If it fails, or a signal handler raises, no transaction is left open."""
        try:
            self._connection.execute(statement)
        except Error as error:
            self._roll_back()
            raise map_error(error, self.store.location) from error
        except BaseException:
            self._roll_back()
            raise

    def _roll_back(self) -> None:
        if self._connection.in_transaction:  # a full disk rolls back by itself
            self._connection.execute("ROLLBACK")


class SqliteWriteTransaction(SqliteTransaction):
    """A write transaction: alone from BEGIN to COMMIT, after its turn in the writer queue. It is on the disk when it ends."""

    begin = "BEGIN IMMEDIATE"
    defers_sync = False  # leaves the sync to a later commit: nobody was promised anything for this one
    _wal_file: WalFile | None = None

    def _begin_transaction(self) -> None:
        self._file.writer_queue.enter()
        try:
            self._connection = self._file.connect()
            if self._file.has_committed and self._file.wal_file is None:
                self._file.sync_outside_commit()
            self._run_or_roll_back(self.begin)
        except BaseException:
            self._file.writer_queue.leave()
            raise
        self._changes_before = self._connection.total_changes
        self._wal_mark = None if self._file.wal_file is not None else self._file.read_wal_mark()

    def _end_transaction(self, *, commit: bool) -> None:
        try:
            if not commit:
                self._roll_back()
                return
            try:
                self._file.check_not_replaced()
                self._connection.execute("COMMIT")
                self._wal_file = self._file.wal_file or self._find_wal_to_sync()
            except Error as error:
                self._roll_back()
                raise map_error(error, self.store.location) from error
            except BaseException:
                self._roll_back()
                raise
        finally:
            self._file.writer_queue.leave()
        if self._connection.total_changes != self._changes_before:
            self._file.has_committed = True

    def _find_wal_to_sync(self) -> WalFile | None:
        """Return the log if COMMIT had nothing to write and so synced nothing, else None. Call it before another writer has its turn.

        The answer may rest on a commit of another process that died before its own sync: the first call of a repeated send.
        """
        return self._file.open_wal() if self._file.read_wal_mark() == self._wal_mark else None

    def __exit__(self, *exc: object) -> None:
        super().__exit__(*exc)
        if exc[0] is None:
            self._finish_commit()

    def _finish_commit(self) -> None:
        """Wait for the disk, and wake waiters. Other threads and processes write meanwhile, so that one sync covers several commits."""
        if self._wal_file is not None and not self.defers_sync:
            try:
                self._wal_file.sync()
            except OSError as error:
                raise unsynced_error(self.store.location, error) from None
        # After the COMMIT, never before: a waiter that wakes too early finds nothing.
        if self._topics:
            self.store.notify(self._topics)
        if self.store.door == "cli" and not self.defers_sync:
            self.store.truncate_wal()


def unsynced_error(location: str, error: OSError) -> StoreUnreachable:
    """Return the refusal for a commit of which the disk did not confirm that it keeps it."""
    hint = "The change is in the store, but a power cut may undo it: check the disk, and look before you repeat it."
    return StoreUnreachable(f"the disk did not confirm a change of {location}: {error.strerror}", hint=hint)


def resolve_path(path: str) -> str:
    """Return the absolute path without symbolic links. Refuses if the current folder was deleted."""
    try:
        return os.path.realpath(path)
    except FileNotFoundError:
        raise NoStore("the current folder is gone", hint="Go to one that exists, or name the store by its full path.") from None


def check_exists(location: str, named: str) -> None:
    """Refuse a path without a file: `NoStore` if it is missing or a folder, `StoreReadOnly` if it cannot be read.

    `named` is the path as the user wrote it, for the message.
    """
    try:
        mode = os.stat(location).st_mode
    except (FileNotFoundError, NotADirectoryError):
        raise NoStore(f"there is no store at {named}", hint=f"Create it with `inbox init --db {shell_quote(named)}`.", path=named) from None
    except OSError as error:
        raise StoreReadOnly(f"{named} cannot be read: {error.strerror}", hint="Check the permissions of its folders.") from None
    if mode & 0o170000 == 0o040000:
        raise NoStore(f"{named} is a folder, not a store", hint="Name the file in it.", path=named)


def create_file(path: str, database: str) -> None:
    """Create a file of a database and its folder if they are missing. Failures are ignored: every user of the file works without it."""
    from postroom.store.files.private_files import file_mode_beside, folder_mode_for, make_private_folder, open_beside

    try:
        make_private_folder(os.path.dirname(path), mode=folder_mode_for(file_mode_beside(database)))
        os.close(open_beside(database, path, os.O_WRONLY))
    except OSError:
        pass
