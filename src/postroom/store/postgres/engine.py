"""The PostgreSQL engine: many machines, one database server. `open_store` imports it, and with it psycopg."""

from __future__ import annotations

import os
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any, Self

from postroom.core import ids
from postroom.core.errors import NoStore, StoreUnreachable, WrongVersion
from postroom.store.base_transaction import BaseTransaction
from postroom.store.forks import forked_inside_transaction
from postroom.store.postgres import statements
from postroom.store.postgres.connection_url import parse_url
from postroom.store.postgres.connections.pool import ConnectionPool
from postroom.store.postgres.driver import Error, map_error
from postroom.store.postgres.settling import STORE_INTERVAL_EVENTS, EventSettler
from postroom.store.tables import SCHEMA_VERSION

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from postroom.core.errors import Refusal
    from postroom.store.catalogue import Catalogue
    from postroom.store.interface import Row
    from postroom.store.postgres.connections.pipelined_connection import PipelinedConnection, Reply
    from postroom.store.postgres.listener import PostgresWatch

CHANNEL_COUNT = 1009
NOW = "SELECT CAST(extract(epoch FROM clock_timestamp()) * 1000000 AS bigint)"
# Also, until when some process listens. NOTIFY locks the whole database for a moment, so it is left out if nobody does.
NOW_AND_LISTENING = "SELECT CAST(extract(epoch FROM clock_timestamp()) * 1000000 AS bigint), listening_until FROM meta"
# A payload names the topics' channels by number, and the ids of the events, for processes that listen to all.
# The commit of a notification holds a lock of the whole database, and is not worth a flush to disk.
NOTIFY = """
    SELECT pg_notify(:schema || '_' || channel, payload), set_config('synchronous_commit', 'off', true) FROM (
      SELECT 'all' AS channel, CAST(:payload AS text) AS payload UNION ALL
      SELECT CAST(number AS text), '' FROM unnest(CAST(:numbers AS integer[])) AS number) AS channels"""
SEEN_INTERVAL_MICROSECONDS = 1_000_000  # also in the statement `agent_seen`
MAX_SEEN_AGENTS = 10_000
MAX_PAYLOAD_BYTES = 7900  # PostgreSQL allows 8000


def channel_number(topic: str) -> int:
    """Return the number of the channel of a topic. Some topics share a channel."""
    return int.from_bytes(topic.encode(), "big") % CHANNEL_COUNT


class PostgresStore:
    """An open store on a database server. Threads may share it: each transaction has a connection of its own. It reconnects when needed."""

    is_remote = False
    is_one_transaction = False
    replacements = 0
    committed_topics: set[str] | None = None  # in a batch: receives the topics of committed events

    def __init__(self, location: str, *, door: str = "library", now: Callable[[], int] | None = None) -> None:
        self.address = parse_url(location)
        self.location = location
        self.door = door
        self.clock = now
        self.pool = ConnectionPool(self.address)
        self.settler = EventSettler()
        self.checked_names: set[str] = set()
        self.seen_agents: dict[str, int] = {}
        self._check_version()

    @property
    def connection(self) -> PipelinedConnection:
        """The connection that the next transaction uses, if no other thread begins one."""
        return self.pool.next_connection

    @connection.setter
    def connection(self, connection: PipelinedConnection) -> None:
        self.pool.next_connection = connection

    @property
    def data_folder(self) -> str | None:
        return os.environ.get("INBOX_DATA")

    def with_door(self, door: str) -> PostgresStore:
        other = object.__new__(PostgresStore)
        other.__dict__.update(self.__dict__, door=door)
        return other

    def batch(self, *, isolate_verbs: bool = False, committed_topics: set[str] | None = None) -> AbstractContextManager[Any]:
        """Differs from SQLite: with `isolate_verbs`, each verb has a transaction of its own, because locks of others may be in the way."""
        if isolate_verbs:
            singly = self.with_door(self.door)
            singly.committed_topics = committed_topics
            return nullcontext(singly)
        from postroom.store.postgres.batch import PostgresBatch

        return PostgresBatch(self, committed_topics=committed_topics)

    def read(self) -> PostgresTransaction:
        return PostgresTransaction(self)

    def write(self) -> PostgresTransaction:
        return PostgresWriteTransaction(self)

    def watch(self, *topics: str) -> PostgresWatch:
        from postroom.store.postgres.listener import PostgresWatch

        return PostgresWatch(self.address, {channel_number(topic) for topic in topics}, self.pool)

    def note_seen_agents(self, names: set[str], now: int) -> None:
        """Remember the agents of a committed transaction, so that the next ones need not write them again within a second."""
        if len(self.seen_agents) + len(names) > MAX_SEEN_AGENTS:
            self.seen_agents.clear()
        self.seen_agents.update(dict.fromkeys(names, now))

    def reconnect(self) -> None:
        """Drop the connections, because one of them was found to be lost. The next transaction opens another."""
        self.pool.close_idle()

    def close(self) -> None:
        self.pool.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def _check_version(self) -> None:
        shown = self.address.shown
        connection = self.pool.borrow()
        try:
            row = connection.driver.execute("SELECT version, pg_backend_pid() FROM meta").fetchone()
            if row and row[1] != connection.info.backend_pid:
                from postroom.store.postgres.connections.poolers import refuse_transaction_pooling

                refuse_transaction_pooling(connection.driver, self.address, row[1])
        except Error as error:
            connection.close()
            raise map_error(error, shown) from None
        finally:
            self.pool.give_back(connection)
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
        self._now = 0
        self._seen_agents: set[str] = set()
        self._topics: set[str] = set()
        self._event_ids: list[int] = []
        self._expected_single_rows: list[tuple[Reply, Refusal]] = []

    def __enter__(self) -> Self:
        self._process = self.store.pool.process
        self._connection = self.store.pool.borrow()
        try:
            self.store.settler.settle_if_due(self._connection.driver)
            self._begin_transaction()
        except BaseException:
            self._connection.close()  # it may be in the middle of a transaction
            self.store.pool.give_back(self._connection)
            raise
        return self

    def __exit__(self, *exc: object) -> None:
        self._check_same_process()
        try:
            self._end_transaction(commit=exc[0] is None)
        finally:
            self.store.pool.give_back(self._connection)

    def _check_same_process(self) -> None:
        """Refuse a transaction that began before a fork. A child replaces the mark of each pool."""
        if self._process is not self.store.pool.process:
            raise forked_inside_transaction()

    def now(self) -> int:
        return self._now

    def new_id(self, prefix: str) -> str:
        return ids.new_id(prefix, self.now())

    def was_just_seen(self, agent: str) -> bool:
        """Return whether this process has noted within the last second that an agent acts. If not, the caller notes it now."""
        if 0 <= self.now() - self.store.seen_agents.get(agent, 0) < SEEN_INTERVAL_MICROSECONDS:
            return True
        self._seen_agents.add(agent)
        return False

    def lock_thread(self, thread_id: str, *, wait: bool = True) -> bool:
        # A separate statement: the read that follows must see the rows that the previous holder of the lock wrote.
        lock = "SELECT 1 FROM threads WHERE thread_id = :thread_id FOR UPDATE"
        if wait:
            self._send_statement(lock, {"thread_id": thread_id})
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
        self._topics.update(topics)
        [(event_id,)] = self.fetch_all(statement, **binds)
        self._event_ids.append(event_id)
        return int(event_id)

    def _send_statement(self, statement: str, binds: dict[str, object]) -> Reply:
        self._check_same_process()
        try:
            sent: Reply = self._connection.execute(statement, binds)
        except Error as error:
            raise self._map_error(error) from error
        return sent

    def _map_error(self, error: Error) -> Refusal:
        """Return the refusal for an error of the driver."""
        return map_error(error, self.store.address.shown)

    def _check_row_counts(self) -> None:
        """Check the writes that must change one row. Results arrive in the order of the statements, so all earlier results are here."""
        for sent, otherwise in self._expected_single_rows:
            if sent.rowcount != 1:
                raise otherwise
        self._expected_single_rows.clear()

    def _begin_transaction(self) -> None:
        """Send BEGIN. Uses a new connection if the idle one was lost."""
        try:
            self._send_begin()
        except StoreUnreachable:
            self._connection.close()
            self.store.pool.give_back(self._connection)
            self.store.pool.close_idle()
            self._connection = self.store.pool.borrow()
            self._send_begin()

    def _send_begin(self) -> None:
        """Send BEGIN and read the server's time, in one round trip."""
        try:
            [row] = self._connection.execute(self.begin).fetchall()
            self._now = row[0]
            self._has_listeners = row[-1] >= self._now
        except Error as error:
            raise self._map_error(error) from error
        if self.store.clock is not None:
            self._now = self.store.clock()

    def _end_transaction(self, *, commit: bool) -> None:
        if not commit:
            self._roll_back()
            return
        try:
            self._send_statement("COMMIT", {})
            self._connection.sync()
        except Error as error:
            self._roll_back()
            raise self._map_error(error) from error

    def _roll_back(self) -> None:
        try:
            self._connection.sync()
        except Error:
            pass  # a statement that was sent and not awaited failed, and the transaction is being rolled back anyway
        try:
            self._connection.execute("ROLLBACK")
            self._connection.sync()
        except Error:
            self._connection.close()  # a transaction that cannot be rolled back ends with its connection


class PostgresWriteTransaction(PostgresTransaction):
    """A write transaction: rows that it locks stay locked until COMMIT."""

    begin = f"BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE; {NOW_AND_LISTENING}"

    def _end_transaction(self, *, commit: bool) -> None:
        if not commit:
            self._roll_back()
            return
        try:
            self._commit()
        except Error as error:
            self._roll_back()
            raise self._map_error(error) from error
        except BaseException:
            self._roll_back()
            raise
        self._settle_events()
        self.store.note_seen_agents(self._seen_agents, self._now)
        if self.store.committed_topics is not None:
            self.store.committed_topics.update(self._topics)

    def _commit(self) -> None:
        """Send COMMIT and what follows it, and receive all results. An error after the COMMIT is a notification's, which may be lost."""
        if self._expected_single_rows:
            self._connection.receive()
            self._check_row_counts()
        commit = self._send_statement("COMMIT", {})  # the server skips it if a statement before it fails
        self._send_notifications()
        try:
            self._connection.sync()
        except Error:
            if commit.statusmessage != "COMMIT":
                raise

    def _roll_back(self) -> None:
        super()._roll_back()
        if self._event_ids:
            self.store.settler.has_left_gap = True

    def _send_notifications(self) -> None:
        """Send the notifications in the same pipeline as the COMMIT, but after it: they run in a transaction of their own.

        Inside, NOTIFY would lock out the commits of all others until this one is on disk. Their own commit is not flushed. A process that
        has begun to listen meanwhile finds the events by itself within two seconds.
        """
        if self._topics and self._has_listeners:
            numbers = sorted({channel_number(topic) for topic in self._topics})
            payload = f"{','.join(map(str, numbers))} {','.join(map(str, self._event_ids))}"
            binds = {"schema": self.store.address.schema, "numbers": numbers}
            self._send_statement(NOTIFY, {**binds, "payload": payload if len(payload) <= MAX_PAYLOAD_BYTES else ""})

    def _settle_events(self) -> None:
        """Settle the events, once in a while, if no waiter does it. It is no part of the write, and may fail."""
        if self.store.settler.has_left_gap or any(event_id % STORE_INTERVAL_EVENTS == 0 for event_id in self._event_ids):
            try:
                self.store.settler.settle(self._connection.driver)
            except Error:
                pass
