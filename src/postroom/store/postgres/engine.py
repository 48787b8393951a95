"""The PostgreSQL engine: many machines, one database server. `open_store` imports it, and with it psycopg."""

from __future__ import annotations

import os
from contextlib import AbstractContextManager, nullcontext
from functools import cache
from time import monotonic
from typing import TYPE_CHECKING, Any, Self

from postroom.core import ids
from postroom.core.errors import NoStore, Refusal, StorageFailure, StoreUnreachable, WrongVersion
from postroom.store.base_transaction import BaseTransaction
from postroom.store.event_log import BLOCK_EVENTS, summarise_blocks
from postroom.store.forks import forked_inside_transaction
from postroom.store.postgres import statements
from postroom.store.postgres.connection_url import parse_url
from postroom.store.postgres.connections.pool import ConnectionPool
from postroom.store.postgres.driver import DivisionByZero, Error, map_error
from postroom.store.postgres.settling import STORE_INTERVAL_EVENTS, EventSettler
from postroom.store.tables import SCHEMA_VERSION

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from postroom.store.catalogue import Catalogue
    from postroom.store.interface import Row
    from postroom.store.postgres.connections.pipelined_connection import PipelinedConnection, Reply
    from postroom.store.postgres.listener import PostgresWatch

Requirement = tuple[str, tuple[tuple[str, object], ...]]  # a query, and the names and values of its binds
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
# A connection that was idle for less is trusted: BEGIN is sent with the first statement. Otherwise it is awaited first, which shows
# whether the connection still works.
TRUSTED_IDLE_SECONDS = 1.0
MAX_PAYLOAD_BYTES = 7900  # PostgreSQL allows 8000


@cache
def guard_row_count(statement: str) -> str:
    """Return a write that fails by a division by zero unless it changes exactly one row.

    So the server itself refuses the COMMIT that was sent behind it, and nobody waits for the number of rows before sending it.
    """
    return f"WITH changed AS ({statement} RETURNING 1) SELECT 1 / (CASE count(*) WHEN 1 THEN 1 ELSE 0 END) FROM changed"  # noqa: S608


@cache
def guard_row_exists(query: str) -> str:
    """Return a query that fails by a division by zero if the given one finds no row, as `guard_row_count` does for a write."""
    return f"SELECT 1 / count(*) FROM ({query}) AS found"  # noqa: S608


def channel_number(topic: str) -> int:
    """Return the number of the channel of a topic. Some topics share a channel."""
    return int.from_bytes(topic.encode(), "big") % CHANNEL_COUNT


class PostgresStore:
    """An open store on a database server. Threads may share it: each transaction has a connection of its own. It reconnects when needed."""

    is_remote = False
    is_one_transaction = False
    isolates_verbs = False  # whether each verb commits by itself, after the batch that they shared has failed
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
        """Differs from SQLite: with `isolate_verbs`, each verb commits by itself, because locks of others may be in the way.

        Such a verb may open a batch once more, to make its own transactions one. That batch waits for locks as long as a transaction
        does, and a shared one for `batch.LOCK_WAIT`.
        """
        if isolate_verbs:
            isolating = self.with_door(self.door)
            isolating.committed_topics = committed_topics
            isolating.isolates_verbs = True
            return nullcontext(isolating)
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
        self._now: int | None = None
        self._seen_agents: set[str] = set()
        self._topics: set[str] = set()
        self._event_ids: list[int] = []
        self._sent_events: list[Reply] = []  # of which nobody has asked the ids yet
        self._has_filled_block = False
        self._prefetched: dict[tuple[str, tuple[object, ...]], Reply] = {}
        self._guards: list[tuple[Reply, Refusal]] = []
        self._requirements: dict[Requirement, Refusal] = {}
        self.failed_guard: Refusal | None = None

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
        if self._now is None:
            self._now = self._read_server_time() if self.store.clock is None else self.store.clock()
        return self._now

    def _read_server_time(self) -> int:
        return int(self._receive_begin()[0])

    def _receive_begin(self) -> Row:
        """Return the row that BEGIN was sent with. Waits for it, unless an earlier fetch has."""
        return self._receive_rows(self._begun)[0]

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
        sent = self._prefetched.pop((statement, tuple(binds.values())), None) if self._prefetched else None
        return self._receive_rows(sent or self._send_statement(statement, binds))

    def _receive_rows(self, sent: Reply) -> list[Row]:
        try:
            rows: list[Row] = sent.fetchall()
        except Error as error:
            raise self._map_error(error) from error
        return rows

    def prefetch(self, statement: str, **binds: object) -> None:
        self._prefetched[statement, tuple(binds.values())] = self._send_statement(statement, binds)

    def execute(self, statement: str, **binds: object) -> None:
        if statement:  # otherwise SQLite needs one, and this engine none
            self._send_write(statement, binds)

    def execute_exactly_one(self, otherwise: Refusal, statement: str, **binds: object) -> None:
        self._guards.append((self._send_write(guard_row_count(statement), binds), otherwise))

    def require_until_commit(self, otherwise: Refusal, query: str, **binds: object) -> None:
        self._requirements[query, tuple(binds.items())] = otherwise

    def waive_requirement(self, query: str, **binds: object) -> None:
        self._requirements.pop((query, tuple(binds.items())), None)

    def insert_event(self, statement: str, topics: Iterable[str], **binds: object) -> int:
        self._topics.update(topics)
        [(event_id,)] = self._receive_rows(self._send_write(statement, binds))
        self._event_ids.append(event_id)
        return int(event_id)

    def send_event(self, statement: str, topics: Iterable[str], **binds: object) -> None:
        self._topics.update(topics)
        self._sent_events.append(self._send_write(statement, binds))

    def _receive_event_ids(self) -> None:
        for sent in self._sent_events:
            [(event_id,)] = self._receive_rows(sent)
            self._event_ids.append(event_id)
            self._has_filled_block = self._has_filled_block or not event_id % BLOCK_EVENTS
        self._sent_events.clear()

    def _send_write(self, statement: str, binds: dict[str, object]) -> Reply:
        self._prefetched.clear()  # what was read ahead may no longer be true
        return self._send_statement(statement, binds)

    def _send_statement(self, statement: str, binds: dict[str, object]) -> Reply:
        self._check_same_process()
        try:
            sent: Reply = self._connection.execute(statement, binds)
        except Error as error:
            raise self._map_error(error) from error
        return sent

    def _map_error(self, error: Error) -> Refusal:
        """Return the refusal for an error of the driver. Results arrive in order, so a guard that failed is the first without a result."""
        if isinstance(error, DivisionByZero):
            self.failed_guard = next((otherwise for sent, otherwise in self._guards if sent.result is None), None)
        return self.failed_guard or map_error(error, self.store.address.shown)

    def _begin_transaction(self) -> None:
        """Send BEGIN. Uses a new connection if the idle one was lost, which is seen at once, or by waiting for the answer."""
        try:
            self._begun = self._send_statement(self.begin, {})
            if monotonic() - self._connection.idle_since >= TRUSTED_IDLE_SECONDS:
                self._receive_begin()
        except StoreUnreachable:
            self._connection.close()
            self.store.pool.give_back(self._connection)
            self.store.pool.close_idle()
            self._connection = self.store.pool.borrow()
            self._begun = self._send_statement(self.begin, {})
            self._receive_begin()

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
        if self._seen_agents:
            self.store.note_seen_agents(self._seen_agents, self.now())
        if self.store.committed_topics is not None:
            self.store.committed_topics.update(self._topics)

    def __exit__(self, *exc: object) -> None:
        super().__exit__(*exc)
        if exc[0] is None and self._has_filled_block:
            self._summarise_blocks()

    def _summarise_blocks(self) -> None:
        """Summarise the blocks of events that are full. It is no part of the write, and may fail: the next full block makes up for it."""
        try:
            with self.store.write() as tx:
                summarise_blocks(tx)
        except Refusal:
            pass

    def _commit(self) -> None:
        """Send COMMIT and what follows it, and receive all results. An error after the COMMIT is a notification's, which may be lost."""
        is_announced = bool(self._topics) and self._has_listeners()
        if is_announced:
            self._receive_event_ids()  # the notification names them
        for (query, binds), otherwise in self._requirements.items():
            self._guards.append((self._send_statement(guard_row_exists(query), dict(binds)), otherwise))
        commit = self._send_statement("COMMIT", {})  # the server skips it if a statement before it fails
        if is_announced:
            self._send_notifications()
        try:
            self._connection.sync()
        except Error:
            if commit.statusmessage != "COMMIT":
                raise
        if commit.statusmessage != "COMMIT":  # the server rolled back, because of an error that nobody has noticed
            raise StorageFailure(f"{self.store.address.shown}: the transaction had failed before its COMMIT", hint="Try again.")
        self._receive_event_ids()

    def _has_listeners(self) -> bool:
        return bool(self._receive_begin()[-1] >= self.now())

    def _roll_back(self) -> None:
        super()._roll_back()
        if self._event_ids or self._sent_events:
            self.store.settler.has_left_gap = True

    def _send_notifications(self) -> None:
        """Send the notifications in the same pipeline as the COMMIT, but after it: they run in a transaction of their own.

        Inside, NOTIFY would lock out the commits of all others until this one is on disk. Their own commit is not flushed. A process that
        has begun to listen meanwhile finds the events by itself within two seconds.
        """
        numbers = sorted({channel_number(topic) for topic in self._topics})
        payload = f"{','.join(map(str, numbers))} {','.join(map(str, self._event_ids))}"
        binds = {"schema": self.store.address.schema, "numbers": numbers}
        self._send_statement(NOTIFY, {**binds, "payload": payload if len(payload) <= MAX_PAYLOAD_BYTES else ""})

    def _settle_events(self) -> None:
        """Settle the events after a rollback, and after each `STORE_INTERVAL_EVENTS`. It is no part of the write, and may fail."""
        if self.store.settler.has_left_gap or any(event_id % STORE_INTERVAL_EVENTS == 0 for event_id in self._event_ids):
            try:
                self.store.settler.settle(self._connection.driver)
            except Error:
                pass
