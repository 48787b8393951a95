"""The SQLite engine: one file, many processes, no daemon."""

from __future__ import annotations

import os
from _thread import RLock

from postroom.core import clock, ids
from postroom.core.errors import NoStore, NotAStore, StoreReadOnly, WrongVersion
from postroom.core.words import quoted
from postroom.store.sqlite import statements
from postroom.store.sqlite.driver import Connection, Error, connect
from postroom.store.sqlite.turnstile import Turnstile
from postroom.store.turns import Turn

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Self

    from postroom.core.errors import Refusal
    from postroom.store.port import Catalogue, Row
    from postroom.store.sqlite.bell import BellWatch, Ear
    from postroom.store.sqlite.together import Batch

VERSION = 5  # of the schema: the number of the newest migration
APPLICATION = 0x506F7374  # "Post", in the header of each of our files
BUSY_SECONDS = 10.0
LOG_PAGES = 250  # a process that leaves without closing is quickly recovered
LOG_BYTES = LOG_PAGES * 4120  # as a file: pages with their headers
BELLS = 1009  # prime, so that ids that end alike do not share one


def refusal(error: Error, place: str) -> Refusal:
    from postroom.store.sqlite import faults

    return faults.refusal(error, place)


def connection(path: str) -> Connection:
    """A connection with the settings that the promises need."""
    try:
        opened = connect(path, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False)
        # FULL: a commit is on the disk before we say so.
        opened.execute("PRAGMA synchronous=FULL")
        opened.execute("PRAGMA foreign_keys=ON")
        opened.execute(f"PRAGMA wal_autocheckpoint={LOG_PAGES}")
    except Error as error:
        raise refusal(error, path) from None
    return opened


class SqliteStore:
    """An open store in a file. Threads may share it: transactions take turns. Do not carry it across a fork."""

    elsewhere = False

    def __init__(self, path: str, *, door: str = "library", solitary: bool = False, now: Callable[[], int] = clock.now) -> None:
        self.place = resolved(path)
        self.door = door
        self.solitary = solitary
        self.clock = now
        self._check_place(path)
        self.turnstile = Turnstile(self.place)
        self.ears: list[Ear] = []  # left over from waits, for the next
        self.mutex = RLock()  # reentrant, so that a transaction inside a transaction is refused, not hung
        self.connection = connection(self.place)
        self._check_version()

    @property
    def data(self) -> str | None:
        return os.environ.get("INBOX_DATA") or os.path.join(os.path.dirname(self.place), "data")

    def through(self, door: str) -> SqliteStore:
        other = object.__new__(type(self))  # shares everything else, the connection and its mutex too
        other.__dict__.update(self.__dict__, door=door)
        return other

    def together(self, *, careful: bool = False) -> Batch:
        from postroom.store.sqlite.together import Batch

        return Batch(self, careful=careful)

    def read(self) -> Transaction:
        return Transaction(self)

    def write(self) -> Transaction:
        return WriteTransaction(self)

    def watch(self, *topics: str) -> BellWatch:
        from postroom.store.sqlite.bell import BellWatch

        return BellWatch(self, [self.bell(topic) for topic in topics] or [self.place + ".bell"])

    def data_version(self) -> int:
        """A number that changes when another connection commits."""
        try:
            with self.mutex:
                version: int = self.connection.execute("PRAGMA data_version").fetchone()[0]
        except Error as error:
            raise refusal(error, self.place) from error
        return version

    def bell(self, topic: str) -> str:
        """The bell of a topic. Some topics share one: who is woken for another's finds nothing, and sleeps on."""
        return f"{self.place}.bells/{int.from_bytes(topic.encode(), 'big') % BELLS}/bell"

    def ring(self, topics: Iterable[str]) -> None:
        """Wake those who watch. A bell that cannot be rung costs them up to a second, never a message."""
        for path in (self.place + ".bell", *map(self.bell, topics)):
            try:
                os.utime(path)
            except OSError:
                pass  # not there: nobody ever waited for it

    def tidy(self) -> None:
        """Empty a log that has grown long, unless somebody is in the way.

        SQLite starts its log over at the second write of a process that finds it copied; a command writes once and leaves, and
        the next one cannot know what was copied. Without this, the log of a store that only commands use would grow for ever.
        """
        try:
            if os.stat(self.place + "-wal").st_size <= LOG_BYTES:
                return
            self.connection.execute("PRAGMA busy_timeout=0")
            try:
                self.connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
            finally:
                self.connection.execute(f"PRAGMA busy_timeout={BUSY_SECONDS * 1000:.0f}")
        except (OSError, Error):
            pass  # the next command tries again

    def close(self) -> None:
        self.connection.close()
        self.turnstile.close()
        while self.ears:
            self.ears.pop().close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def _check_place(self, named: str) -> None:
        check_place(self.place, named)

    def _check_version(self) -> None:
        try:
            version = self.connection.execute("PRAGMA user_version").fetchone()[0]
            application = self.connection.execute("PRAGMA application_id").fetchone()[0]
        except Error as error:
            raise refusal(error, self.place) from None
        if application != APPLICATION:
            raise NotAStore(f"{self.place} is not a Postroom store", hint="Pass the path of a store made with `inbox init`.")
        if version > VERSION:
            raise WrongVersion(f"{self.place} has schema {version}; this program knows {VERSION}", hint="Upgrade postroom.")
        if version < VERSION:
            raise WrongVersion(
                f"{self.place} has schema {version}; this program needs {VERSION}",
                hint=f"Upgrade it with `inbox init --db {quoted(self.place)}`.",
            )


class Transaction(Turn):
    """A read: one consistent view."""

    begin = "BEGIN"
    sql: Catalogue = statements
    rivals = 1

    def __init__(self, store: SqliteStore) -> None:
        self.store = store
        self.door = store.door
        self._mutex = store.mutex
        self._connection = store.connection
        self._now: int | None = None
        self._topics: set[str] = set()

    def now(self) -> int:
        if self._now is None:
            self._now = self.store.clock()
        return self._now

    def hold(self, thread_id: str, *, wait: bool = True) -> bool:
        return True  # a write transaction is alone from its BEGIN on

    def fresh(self, prefix: str) -> str:
        return ids.fresh(prefix, self.now())

    def one(self, statement: str, **binds: object) -> Row | None:
        try:
            row: Row | None = self._connection.execute(statement, binds).fetchone()
        except Error as error:
            raise refusal(error, self.store.place) from error
        return row

    def all(self, statement: str, **binds: object) -> list[Row]:
        try:
            return self._connection.execute(statement, binds).fetchall()
        except Error as error:
            raise refusal(error, self.store.place) from error

    def run(self, statement: str, **binds: object) -> None:
        try:
            self._connection.execute(statement, binds)
        except Error as error:
            raise refusal(error, self.store.place) from error

    def append_all(self, statement: str, topics: Iterable[str], rows: list[tuple[object, ...]]) -> int:
        """One INSERT for many rows; the id of the first. They follow one another: a write is alone."""
        self._topics.update(topics)
        try:
            self._connection.executemany(statement, rows)
            last: int = self._connection.execute("SELECT last_insert_rowid()").fetchone()[0]
        except Error as error:
            raise refusal(error, self.store.place) from error
        return last - len(rows) + 1

    def must(self, otherwise: Refusal, statement: str, **binds: object) -> None:
        try:
            changed = self._connection.execute(statement, binds).rowcount
        except Error as error:
            raise refusal(error, self.store.place) from error
        if changed != 1:
            raise otherwise

    def append(self, statement: str, topics: Iterable[str], **binds: object) -> int:
        self._topics.update(topics)
        try:
            event_id = self._connection.execute(statement, binds).lastrowid
        except Error as error:
            raise refusal(error, self.store.place) from error
        assert event_id is not None
        return event_id

    def _open(self) -> None:
        self._run_whole(self.begin)

    def _close(self, *, commit: bool) -> None:
        if commit:
            self._run_whole("COMMIT")
        else:
            self._roll_back()

    def _run_whole(self, statement: str) -> None:
        """BEGIN or COMMIT: if it fails, or a signal cuts in, no transaction is left open."""
        try:
            self._connection.execute(statement)
        except Error as error:
            self._roll_back()
            raise refusal(error, self.store.place) from error
        except BaseException:
            self._roll_back()
            raise

    def _roll_back(self) -> None:
        if self._connection.in_transaction:  # a full disk rolls back by itself
            self._connection.execute("ROLLBACK")


class WriteTransaction(Transaction):
    """A write: alone from BEGIN to COMMIT, after its turn in the line."""

    begin = "BEGIN IMMEDIATE"

    def _open(self) -> None:
        self.store.turnstile.enter()
        try:
            super()._open()
        except BaseException:
            self.store.turnstile.leave()
            raise

    def _close(self, *, commit: bool) -> None:
        try:
            super()._close(commit=commit)
        finally:
            self.store.turnstile.leave()
        # After the COMMIT, never before: a bell that rings too early finds nothing.
        if commit and self._topics:
            self.store.ring(self._topics)
        if commit and self.store.door == "cli":
            self.store.tidy()


def resolved(path: str) -> str:
    try:
        return os.path.realpath(path)
    except FileNotFoundError:
        raise NoStore("the current folder is gone", hint="Go to one that exists, or name the store by its full path.") from None


def check_place(place: str, named: str) -> None:
    """A store that is not there, and one that cannot be looked at, are two things."""
    try:
        mode = os.stat(place).st_mode
    except (FileNotFoundError, NotADirectoryError):
        raise NoStore(f"there is no store at {named}", hint=f"Create it with `inbox init --db {quoted(named)}`.", path=named) from None
    except OSError as error:
        raise StoreReadOnly(f"{named} cannot be looked at: {error.strerror}", hint="Check the permissions of its folders.") from None
    if mode & 0o170000 == 0o040000:
        raise NoStore(f"{named} is a folder, not a store", hint="Name the file in it.", path=named)


def touch(path: str) -> None:
    """Make sure that a file exists; where it cannot be made, whoever needs it does without."""
    try:
        if not os.path.isdir(os.path.dirname(path)):
            os.makedirs(os.path.dirname(path), exist_ok=True)
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o666))
    except OSError:
        pass
