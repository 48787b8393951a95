"""The PostgreSQL engine: many machines, one database server. `open_store` imports it, and with it psycopg."""

from __future__ import annotations

import os
import re
from contextlib import AbstractContextManager, ExitStack, nullcontext
from threading import RLock
from typing import TYPE_CHECKING, Any, Self

from postroom.core import ids
from postroom.core.errors import NoStore, StoreUnreachable, WrongVersion
from postroom.store import forks
from postroom.store.base_transaction import BaseTransaction
from postroom.store.postgres import statements
from postroom.store.postgres.connection_url import parse_url
from postroom.store.postgres.driver import Connection, Error, map_error, open_connection
from postroom.store.tables import SCHEMA_VERSION

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from postroom.core.errors import Refusal
    from postroom.store.interface import Catalogue, Row
    from postroom.store.postgres.connection_url import ConnectionUrl
    from postroom.store.postgres.listener import PostgresWatch

CHANNEL_COUNT = 1009
PREPARED_STATEMENT_LOST = "26000"  # invalid_sql_statement_name
NOW = "SELECT CAST(extract(epoch FROM clock_timestamp()) * 1000000 AS bigint)"
# Ids become visible out of order when transactions overlap. A cursor past the later id would never see the earlier one. So one
# transaction at a time writes events: it takes the lock before the id and releases it after the COMMIT. The lock is on a table of
# ours: any role that may connect can hold an advisory lock. `meta` hardly ever changes, so that no vacuum waits for the lock.
EVENT_LOCK = "LOCK TABLE meta IN SHARE ROW EXCLUSIVE MODE"
NOTIFY = "SELECT pg_notify(channel, '') FROM unnest(CAST(:channels AS text[])) AS channel"

_translated_statements: dict[str, str] = {}


def to_driver_binds(statement: str) -> str:
    """Return a statement with its `:name` binds in the form of the driver, `%(name)s`."""
    if statement not in _translated_statements:
        _translated_statements[statement] = re.sub(r"(?<![:\w]):(\w+)", r"%(\1)s", statement)
    return _translated_statements[statement]


class PostgresSession:
    """The connection of a store, which all its copies share. A forked child forgets it and connects anew."""

    def __init__(self, address: ConnectionUrl) -> None:
        self.address = address
        self.mutex = RLock()
        self.connection = open_connection(address)
        self._inherited: list[Connection] = []
        self._forgotten = False
        forks.track(self)

    def ensure_open(self) -> None:
        """Connect if the connection was closed, or belongs to the parent process."""
        if self._forgotten or self.connection.closed:
            self.reconnect()

    def reconnect(self) -> None:
        self.close()
        self.connection = open_connection(self.address)
        self._forgotten = False

    def close(self) -> None:
        if not self._forgotten:
            self.connection.close()

    def before_fork(self) -> None:
        """Do nothing: the parent keeps its connection."""

    def after_fork_in_parent(self) -> None:
        """Do nothing: the parent keeps its connection."""

    def after_fork_in_child(self) -> None:
        """Forget the connection. To close it would end the session of the parent, so only the copy of its descriptor is closed."""
        self.mutex = RLock()  # a thread of the parent may hold the other one
        self._inherited.append(self.connection)
        if not self._forgotten and not self.connection.closed:
            os.close(self.connection.fileno())
        self._forgotten = True


class PostgresStore:
    """An open store on a database server. Threads may share it: their transactions take turns. It reconnects when needed."""

    is_remote = False
    replacements = 0
    committed_topics: set[str] | None = None  # in a batch: receives the topics of committed events

    def __init__(self, location: str, *, door: str = "library", now: Callable[[], int] | None = None) -> None:
        self.address = parse_url(location)
        self.location = location
        self.door = door
        self.clock = now
        self._session = PostgresSession(self.address)
        self._check_version()

    @property
    def mutex(self) -> Any:
        return self._session.mutex

    @property
    def connection(self) -> Connection:
        return self._session.connection

    @connection.setter
    def connection(self, connection: Connection) -> None:
        self._session.connection = connection

    @property
    def data_folder(self) -> str | None:
        return os.environ.get("INBOX_DATA")

    def with_door(self, door: str) -> PostgresStore:
        other = object.__new__(PostgresStore)
        other.__dict__.update(self.__dict__, door=door)
        return other

    def batch(self, *, use_savepoints: bool = False, committed_topics: set[str] | None = None) -> AbstractContextManager[PostgresStore]:
        """Differs from SQLite: each verb keeps a transaction of its own, and the database server flushes commits together."""
        batch = self.with_door(self.door)
        batch.committed_topics = committed_topics
        return nullcontext(batch)

    def read(self) -> PostgresTransaction:
        return PostgresTransaction(self)

    def write(self) -> PostgresTransaction:
        return PostgresWriteTransaction(self)

    def watch(self, *topics: str) -> PostgresWatch:
        from postroom.store.postgres.listener import PostgresWatch

        return PostgresWatch(self, [self.channel_name(topic) for topic in topics] or [self.channel_name()])

    def channel_name(self, topic: str | None = None) -> str:
        """Return the channel of a topic, or the one of all events. Some topics share a channel."""
        number = "all" if topic is None else str(int.from_bytes(topic.encode(), "big") % CHANNEL_COUNT)
        return f"{self.address.schema}_{number}"

    def ensure_open(self) -> None:
        self._session.ensure_open()

    def reconnect(self) -> None:
        self._session.reconnect()

    def close(self) -> None:
        self._session.close()

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
            raise map_error(error, shown) from None
        version = row[0] if row else 0
        if version == 0:
            raise NoStore(f"there is no store at {shown}", hint="Create it with `inbox init --db URL`.")
        if version != SCHEMA_VERSION:
            hint = "Upgrade postroom." if version > SCHEMA_VERSION else "Upgrade it with `inbox init --db URL`."
            raise WrongVersion(f"{shown} has schema {version}; this program knows {SCHEMA_VERSION}", hint=hint)


class PostgresTransaction(BaseTransaction):
    """A read transaction: one consistent view."""

    begin = f"BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; {NOW}"
    sql: Catalogue = statements
    candidate_limit = 16

    def __init__(self, store: PostgresStore) -> None:
        self.store = store
        self.door = store.door
        self._mutex = store.mutex
        self._now = 0
        self._topics: set[str] = set()
        self._holds_event_lock = False
        self._expected_single_rows: list[tuple[Any, Refusal]] = []

    def now(self) -> int:
        return self._now

    def new_id(self, prefix: str) -> str:
        return ids.new_id(prefix, self._now)

    def lock_thread(self, thread_id: str, *, wait: bool = True) -> bool:
        # A separate statement: the read that follows must see the rows that the previous holder of the lock wrote.
        lock = "SELECT 1 FROM threads WHERE thread_id = :thread_id FOR UPDATE"
        if wait:
            self.execute(lock, thread_id=thread_id)
            return True
        return self.fetch_one(f"{lock} SKIP LOCKED", thread_id=thread_id) is not None

    def _fetch_one(self, statement: str, binds: dict[str, object]) -> Row | None:
        rows = self._fetch_all(statement, binds)
        return rows[0] if rows else None

    def _fetch_all(self, statement: str, binds: dict[str, object]) -> list[Row]:
        sent = self._send_statement(statement, binds)
        try:
            rows: list[Row] = sent.fetchall()
        except Error as error:
            raise self._map_error(error) from error
        self._check_row_counts()
        return rows

    def execute(self, statement: str, **binds: object) -> None:
        self._send_statement(statement, binds)

    def execute_exactly_one(self, otherwise: Refusal, statement: str, **binds: object) -> None:
        self._expected_single_rows.append((self._send_statement(statement, binds), otherwise))

    def insert_event(self, statement: str, topics: Iterable[str], **binds: object) -> int:
        if not self._holds_event_lock:
            self._send_statement(EVENT_LOCK, {})
            self._holds_event_lock = True
        self._topics.update(topics)
        [(event_id,)] = self.fetch_all(statement, **binds)
        return int(event_id)

    def _send_statement(self, statement: str, binds: dict[str, object]) -> Any:
        self._check_same_process()
        try:
            return self.store.connection.execute(to_driver_binds(statement), binds)
        except Error as error:
            raise self._map_error(error) from error

    def _map_error(self, error: Error) -> Refusal:
        """Return the refusal for an error, and close a connection that can no longer be used.

        A failed pipeline may leave the driver with a prepared statement that the server never received. The refusal is then `Contended`,
        so that the verb runs again, on a new connection.
        """
        if error.sqlstate == PREPARED_STATEMENT_LOST:
            self.store.connection.close()
        return map_error(error, self.store.address.shown)

    def _check_row_counts(self) -> None:
        """Check the writes that must change one row. Results arrive in the order of the statements, so all earlier results are here."""
        for sent, otherwise in self._expected_single_rows:
            if sent.rowcount != 1:
                raise otherwise
        self._expected_single_rows.clear()

    def _begin_transaction(self) -> None:
        """Send BEGIN. Reconnects if the idle connection was lost."""
        self.store.ensure_open()
        try:
            self._send_begin()
        except StoreUnreachable:
            self.store.reconnect()
            self._send_begin()

    def _send_begin(self) -> None:
        """Send BEGIN and read the server's time, in one round trip."""
        try:
            cursor = self.store.connection.execute(self.begin)
            cursor.nextset()
            row = cursor.fetchone()
            self._now = row[0] if row else 0
        except Error as error:
            raise self._map_error(error) from error
        if self.store.clock is not None:
            self._now = self.store.clock()

    def _end_transaction(self, *, commit: bool) -> None:
        if commit:
            self._send_statement("COMMIT", {})
        else:
            self._roll_back()

    def _roll_back(self) -> None:
        try:
            self.store.connection.execute("ROLLBACK")
        except Error:
            self.store.connection.close()  # a transaction that cannot be rolled back ends with its connection


class PostgresWriteTransaction(PostgresTransaction):
    """A write transaction: rows that it locks stay locked until COMMIT.

    Its statements are pipelined: a statement without rows is sent and its result is not awaited until a later statement returns rows.
    """

    begin = f"BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE; {NOW}"

    def _begin_transaction(self) -> None:
        super()._begin_transaction()
        self._pipeline_stack = ExitStack()
        self._pipeline = self._pipeline_stack.enter_context(self.store.connection.pipeline())

    def _end_transaction(self, *, commit: bool) -> None:
        if not commit:
            self._roll_back()
            return
        try:
            if self._expected_single_rows:
                self._pipeline.sync()
                self._check_row_counts()
            self._send_notifications()
            self._send_statement("COMMIT", {})  # the server skips it if a statement before it fails
            self._pipeline_stack.close()
        except Error as error:
            self._roll_back()
            raise self._map_error(error) from error
        except BaseException:
            self._roll_back()
            raise
        if self.store.committed_topics is not None:
            self.store.committed_topics.update(self._topics)

    def _roll_back(self) -> None:
        try:
            self._pipeline_stack.close()
        except Error:
            pass  # a pipelined statement failed, and the transaction is being rolled back anyway
        super()._roll_back()

    def _send_notifications(self) -> None:
        """Send the notifications, in the same pipeline as the COMMIT."""
        if self._topics:
            channels = {self.store.channel_name(), *(self.store.channel_name(topic) for topic in self._topics)}
            self._send_statement(NOTIFY, {"channels": sorted(channels)})
