"""The PostgreSQL engine: many machines, one server. Importing it imports its driver."""

from __future__ import annotations

import re
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

    from postroom.store.port import Catalogue, Row
    from postroom.store.postgres.listening import ListenWatch

VERSION = 1  # of the schema: the number of the newest migration
CHANNELS = 1009
NOW = "SELECT CAST(extract(epoch FROM clock_timestamp()) * 1000000 AS bigint)"

_written: dict[str, str] = {}


def written(statement: str) -> str:
    """A statement with its `:name` binds as the driver wants them."""
    if statement not in _written:
        _written[statement] = re.sub(r"(?<![:\w]):(\w+)", r"%(\1)s", statement)
    return _written[statement]


class PostgresStore:
    """An open store on a server. Threads may share it: transactions take turns. A lost connection is made again."""

    def __init__(self, place: str, *, door: str = "library", now: Callable[[], int] | None = None) -> None:
        self.address = parse(place)
        self.place = place
        self.door = door
        self.clock = now
        self.mutex = RLock()
        self.connection: Connection = connect(self.address)
        self._check_version()

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

    def now(self) -> int:
        return self._now

    def fresh(self, prefix: str) -> str:
        return ids.fresh(prefix, self._now)

    def hold(self, thread_id: str, *, wait: bool = True) -> bool:
        # A statement of its own: the one that reads next must see what the holder before us wrote.
        lock = "SELECT 1 FROM threads WHERE thread_id = :thread_id FOR UPDATE"
        return self.one(lock if wait else f"{lock} SKIP LOCKED", thread_id=thread_id) is not None

    def one(self, statement: str, **binds: object) -> Row | None:
        return self._run(statement, binds).fetchone()  # type: ignore[no-any-return]

    def all(self, statement: str, **binds: object) -> list[Row]:
        return self._run(statement, binds).fetchall()  # type: ignore[no-any-return]

    def run(self, statement: str, **binds: object) -> int:
        return self._run(statement, binds).rowcount  # type: ignore[no-any-return]

    def append(self, statement: str, topics: Iterable[str], **binds: object) -> int:
        self._topics.update(topics)
        return self._run(statement, binds).fetchone()[0]  # type: ignore[no-any-return]

    def _run(self, statement: str, binds: dict[str, object]) -> Any:
        try:
            return self.store.connection.execute(written(statement), binds)
        except Error as error:
            raise refusal(error, self.store.address.shown) from error

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
            raise refusal(error, self.store.address.shown) from error
        if self.store.clock is not None:
            self._now = self.store.clock()

    def _close(self, *, commit: bool) -> None:
        try:
            self.store.connection.execute(self._ending() if commit else "ROLLBACK")
        except Error as error:
            if commit:
                raise refusal(error, self.store.address.shown) from error
            self.store.connection.close()  # a transaction that cannot be rolled back ends with its connection

    def _ending(self) -> str:
        return "COMMIT"


class WriteTransaction(Transaction):
    """A write: rows that it holds are its own until COMMIT."""

    begin = f"BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE; {NOW}"

    def _ending(self) -> str:
        """The notifications travel with the COMMIT. The names are ours: nothing in them needs quoting."""
        if not self._topics:
            return "COMMIT"
        channels = {self.store.channel(), *map(self.store.channel, self._topics)}
        rung = ", ".join(f"pg_notify('{channel}', '')" for channel in sorted(channels))
        return f"SELECT {rung}; COMMIT"
