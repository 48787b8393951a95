"""The PostgreSQL engine: many machines, one server. Importing it imports its driver."""

from __future__ import annotations

import os
import re
from contextlib import AbstractContextManager, ExitStack, nullcontext
from threading import RLock
from typing import TYPE_CHECKING, Any, Self

from postroom.core import ids
from postroom.core.errors import NoStore, StoreAway, WrongVersion
from postroom.store.postgres import statements
from postroom.store.postgres.address import parse
from postroom.store.postgres.driver import Connection, Error, connect, refusal
from postroom.store.turns import Turn

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from postroom.core.errors import Refusal
    from postroom.store.port import Catalogue, Row
    from postroom.store.postgres.listening import ListenWatch

VERSION = 5  # of the schema: the number of the newest migration
CHANNELS = 1009
FORGOTTEN = "26000"  # invalid_sql_statement_name
NOW = "SELECT CAST(extract(epoch FROM clock_timestamp()) * 1000000 AS bigint)"
RING = "SELECT pg_notify(channel, '') FROM unnest(CAST(:channels AS text[])) AS channel"

_written: dict[str, str] = {}


def written(statement: str) -> str:
    """A statement with its `:name` binds as the driver wants them."""
    if statement not in _written:
        _written[statement] = re.sub(r"(?<![:\w]):(\w+)", r"%(\1)s", statement)
    return _written[statement]


class PostgresStore:
    """An open store on a server. Threads may share it: transactions take turns. A lost connection is made again."""

    elsewhere = False

    def __init__(self, place: str, *, door: str = "library", now: Callable[[], int] | None = None) -> None:
        self.address = parse(place)
        self.place = place
        self.door = door
        self.clock = now
        self.mutex = RLock()
        self._line = {"connection": connect(self.address)}  # shared by all the doors of this store
        self._check_version()

    @property
    def connection(self) -> Connection:
        return self._line["connection"]

    @connection.setter
    def connection(self, made: Connection) -> None:
        self._line["connection"] = made

    @property
    def data(self) -> str | None:
        return os.environ.get("INBOX_DATA")

    def through(self, door: str) -> PostgresStore:
        other = object.__new__(PostgresStore)
        other.__dict__.update(self.__dict__, door=door)
        return other

    def together(self, *, careful: bool = False) -> AbstractContextManager[PostgresStore]:
        """Differs from SQLite: each verb keeps a transaction of its own; the server itself flushes commits together."""
        return nullcontext(self)

    def read(self) -> Transaction:
        return Transaction(self)

    def write(self) -> Transaction:
        return WriteTransaction(self)

    def watch(self, *topics: str) -> ListenWatch:
        from postroom.store.postgres.listening import ListenWatch

        return ListenWatch(self, [self.channel(topic) for topic in topics] or [self.channel()])

    def channel(self, topic: str | None = None) -> str:
        """The channel of a topic, or of all events. Some topics share one."""
        number = "all" if topic is None else str(int.from_bytes(topic.encode(), "big") % CHANNELS)
        return f"{self.address.schema}_{number}"

    def reconnect(self) -> None:
        self.connection.close()
        self.connection = connect(self.address)

    def close(self) -> None:
        self.connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def _check_version(self) -> None:
        shown = self.address.shown
        try:
            row = self.connection.execute("SELECT version FROM meta").fetchone()
        except Error as error:
            self.connection.close()
            raise refusal(error, shown) from None
        version = row[0] if row else 0
        if version == 0:
            raise NoStore(f"there is no store at {shown}", hint="Create it with `inbox init --db URL`.")
        if version != VERSION:
            todo = "Upgrade postroom." if version > VERSION else "Upgrade it with `inbox init --db URL`."
            raise WrongVersion(f"{shown} has schema {version}; this program knows {VERSION}", hint=todo)


class Transaction(Turn):
    """A read: one consistent view."""

    begin = f"BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; {NOW}"
    sql: Catalogue = statements
    rivals = 16

    def __init__(self, store: PostgresStore) -> None:
        self.store = store
        self.door = store.door
        self._mutex = store.mutex
        self._now = 0
        self._topics: set[str] = set()
        self._guards: list[tuple[Any, Refusal]] = []

    def now(self) -> int:
        return self._now

    def fresh(self, prefix: str) -> str:
        return ids.fresh(prefix, self._now)

    def hold(self, thread_id: str, *, wait: bool = True) -> bool:
        # A statement of its own: the one that reads next must see what the holder before us wrote.
        lock = "SELECT 1 FROM threads WHERE thread_id = :thread_id FOR UPDATE"
        if wait:
            self.run(lock, thread_id=thread_id)
            return True
        return self.one(f"{lock} SKIP LOCKED", thread_id=thread_id) is not None

    def one(self, statement: str, **binds: object) -> Row | None:
        rows = self.all(statement, **binds)
        return rows[0] if rows else None

    def all(self, statement: str, **binds: object) -> list[Row]:
        sent = self._send(statement, binds)
        try:
            rows: list[Row] = sent.fetchall()
        except Error as error:
            raise self._refusal(error) from error
        self._check_guards()
        return rows

    def run(self, statement: str, **binds: object) -> None:
        self._send(statement, binds)

    def must(self, otherwise: Refusal, statement: str, **binds: object) -> None:
        self._guards.append((self._send(statement, binds), otherwise))

    def append(self, statement: str, topics: Iterable[str], **binds: object) -> int:
        self._topics.update(topics)
        [(event_id,)] = self.all(statement, **binds)
        return int(event_id)

    def _send(self, statement: str, binds: dict[str, object]) -> Any:
        try:
            return self.store.connection.execute(written(statement), binds)
        except Error as error:
            raise self._refusal(error) from error

    def _refusal(self, error: Error) -> Refusal:
        """What an error means. A pipeline that failed may leave the driver with a prepared statement that the server never got:
        then the connection is given up, and the verb is run again on a new one."""
        if error.sqlstate == FORGOTTEN:
            self.store.connection.close()
        return refusal(error, self.store.address.shown)

    def _check_guards(self) -> None:
        """Answers come in the order of the questions: whatever was sent before one that is here is answered too."""
        for sent, otherwise in self._guards:
            if sent.rowcount != 1:
                raise otherwise
        self._guards.clear()

    def _open(self) -> None:
        """BEGIN, and the server's time, in one round trip. A connection that died while nobody used it is made again."""
        if self.store.connection.closed:
            self.store.reconnect()
        try:
            self._begin()
        except StoreAway:
            self.store.reconnect()
            self._begin()

    def _begin(self) -> None:
        try:
            cursor = self.store.connection.execute(self.begin)
            cursor.nextset()
            row = cursor.fetchone()
            self._now = row[0] if row else 0
        except Error as error:
            raise self._refusal(error) from error
        if self.store.clock is not None:
            self._now = self.store.clock()

    def _close(self, *, commit: bool) -> None:
        if commit:
            self._send("COMMIT", {})
        else:
            self._roll_back()

    def _roll_back(self) -> None:
        try:
            self.store.connection.execute("ROLLBACK")
        except Error:
            self.store.connection.close()  # a transaction that cannot be rolled back ends with its connection


class WriteTransaction(Transaction):
    """A write: rows that it holds are its own until COMMIT.

    Its statements travel together: what nobody asks an answer of is sent, and not waited for, until somebody does.
    """

    begin = f"BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE; {NOW}"

    def _open(self) -> None:
        super()._open()
        self._sending = ExitStack()
        self._pipeline = self._sending.enter_context(self.store.connection.pipeline())

    def _close(self, *, commit: bool) -> None:
        if not commit:
            return self._roll_back()
        try:
            if self._guards:
                self._pipeline.sync()
                self._check_guards()
            self._ring()
            self._send("COMMIT", {})  # is not reached on the server if anything before it fails there
            self._sending.close()
        except Error as error:
            self._roll_back()
            raise self._refusal(error) from error
        except BaseException:
            self._roll_back()
            raise

    def _roll_back(self) -> None:
        try:
            self._sending.close()
        except Error:
            pass  # what was sent has failed, and nobody is to hear of it any more
        super()._roll_back()

    def _ring(self) -> None:
        """The notifications travel with the COMMIT."""
        if self._topics:
            channels = {self.store.channel(), *map(self.store.channel, self._topics)}
            self._send(RING, {"channels": sorted(channels)})
