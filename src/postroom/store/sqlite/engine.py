"""The store in a SQLite file: transactions, notification of waiters, and the connection with its settings."""

from __future__ import annotations

import os

from postroom._fastpath.sqlite import Connection, Error
from postroom.core import clock, ids
from postroom.core.errors import NoStore, NotAStore, Refusal, StoreReadOnly, WrongVersion
from postroom.core.text import shell_quote
from postroom.store.base_transaction import BaseTransaction
from postroom.store.sqlite import statements
from postroom.store.sqlite.open_database import BUSY_TIMEOUT_SECONDS, MAX_WAL_PAGES, OpenDatabase, map_error
from postroom.store.tables import SCHEMA_VERSION

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Self

    from postroom._fastpath import RLock
    from postroom._fastpath.sqlite import Cursor
    from postroom.store.interface import Catalogue, Row
    from postroom.store.sqlite.batch import BatchStore
    from postroom.store.sqlite.file_watcher import SqliteWatch

APPLICATION_ID = 0x506F7374  # "Post", in the header of each store
MAX_WAL_BYTES = MAX_WAL_PAGES * 4120  # the same as the size of a file: a page of 4096 bytes has a header of 24
BELL_FILE_COUNT = 1009  # prime, so that ids with the same ending do not share a file


class SqliteStore:
    """An open store in a file. Threads may share it: their transactions take turns. After a fork it opens the file again."""

    is_remote = False

    def __init__(self, path: str, *, door: str = "library", owns_process: bool = False, now: Callable[[], int] = clock.now) -> None:
        self.location = resolve_path(path)
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

    def batch(self, *, use_savepoints: bool = False, committed_topics: set[str] | None = None) -> BatchStore:
        from postroom.store.sqlite.batch import BatchStore

        return BatchStore(self, use_savepoints=use_savepoints, committed_topics=committed_topics)

    def read(self) -> SqliteTransaction:
        return SqliteTransaction(self)

    def write(self) -> SqliteTransaction:
        return SqliteWriteTransaction(self)

    def watch(self, *topics: str) -> SqliteWatch:
        from postroom.store.sqlite.file_watcher import SqliteWatch

        return SqliteWatch(self, [self.bell_path(topic) for topic in topics] or [self.location + ".bell"])

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

    def bell_path(self, topic: str) -> str:
        """Return the path of the wake file of a topic. Some topics share a file: a waiter that wakes for another topic waits again."""
        return f"{self.location}.bells/{int.from_bytes(topic.encode(), 'big') % BELL_FILE_COUNT}/bell"

    def notify(self, topics: Iterable[str]) -> None:
        """Wake the waiters of these topics by touching their wake files. A failure delays a waiter by up to a second."""
        for path in (self.location + ".bell", *map(self.bell_path, topics)):
            try:
                os.utime(path)
            except OSError:
                pass  # the file does not exist, because there was never a waiter

    def truncate_wal(self) -> None:
        """Truncate a long write-ahead log, unless another connection is using it.

        SQLite restarts its log at the second write of a process, if everything in it was copied to the database. A command writes once
        and exits, and the next command cannot know what was copied. Without this, the log of a store that only commands use would grow
        for ever.
        """
        try:
            if os.stat(self.location + "-wal").st_size <= MAX_WAL_BYTES:
                return
            connection = self.connection
            connection.execute("PRAGMA busy_timeout=0")
            try:
                connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
            finally:
                connection.execute(f"PRAGMA busy_timeout={BUSY_TIMEOUT_SECONDS * 1000:.0f}")
        except (OSError, Error, Refusal):
            pass  # the next command tries again

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
        self._mutex = store.mutex
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

    def _fetch_one(self, statement: str, binds: dict[str, object]) -> Row | None:
        try:
            row: Row | None = self._run_statement(statement, binds).fetchone()
        except Error as error:
            raise map_error(error, self.store.location) from error
        return row

    def _fetch_all(self, statement: str, binds: dict[str, object]) -> list[Row]:
        try:
            return self._run_statement(statement, binds).fetchall()
        except Error as error:
            raise map_error(error, self.store.location) from error

    def execute(self, statement: str, **binds: object) -> None:
        self._run_statement(statement, binds)

    def insert_queue_events(self, statement: str, topics: Iterable[str], rows: list[tuple[object, ...]]) -> int:
        """Insert many rows and return the id of the first. Their ids are consecutive, because a write transaction is alone."""
        self._topics.update(topics)
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

    def _run_statement(self, statement: str, binds: dict[str, object]) -> Cursor:
        self._check_same_process()
        try:
            return self._connection.execute(statement, binds)
        except Error as error:
            raise map_error(error, self.store.location) from error

    def _begin_transaction(self) -> None:
        self._connection = self.store.file.connect()
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
    """A write transaction: alone from BEGIN to COMMIT, after its turn in the writer queue."""

    begin = "BEGIN IMMEDIATE"

    def _begin_transaction(self) -> None:
        self.store.file.writer_queue.enter()
        try:
            super()._begin_transaction()
        except BaseException:
            self.store.file.writer_queue.leave()
            raise

    def _end_transaction(self, *, commit: bool) -> None:
        try:
            if commit:
                self._roll_back_if_replaced()
            super()._end_transaction(commit=commit)
        finally:
            self.store.file.writer_queue.leave()
        # After the COMMIT, never before: a waiter that wakes too early finds nothing.
        if commit and self._topics:
            self.store.notify(self._topics)
        if commit and self.store.door == "cli":
            self.store.truncate_wal()

    def _roll_back_if_replaced(self) -> None:
        try:
            self.store.file.check_not_replaced()
        except BaseException:
            self._roll_back()
            raise


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
    from postroom.store.private_files import file_mode_beside, folder_mode_for, make_private_folder, open_beside

    try:
        make_private_folder(os.path.dirname(path), mode=folder_mode_for(file_mode_beside(database)))
        os.close(open_beside(database, path, os.O_WRONLY))
    except OSError:
        pass
