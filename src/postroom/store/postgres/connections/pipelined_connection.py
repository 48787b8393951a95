"""A connection whose statements are sent without waiting for the results of those before them. The pool gives it to transactions.

It calls libpq, by psycopg's own binding, and prepares every statement at its first use. psycopg's cursors would cost several times as much
for each statement as the statement costs the server.
"""

from __future__ import annotations

import re
import select
from collections import deque
from functools import cache
from typing import TYPE_CHECKING, Any

from psycopg import OperationalError, pq
from psycopg.adapt import Transformer
from psycopg.errors import error_from_result

if TYPE_CHECKING:
    from psycopg import ConnectionInfo
    from psycopg.pq.abc import PGresult

    from postroom.store.postgres.driver import Connection, Error

MAX_PREPARED_STATEMENTS = 300  # of a connection; then it forgets the oldest
INT8_OID, FLOAT8_OID, BOOL_OID, UNKNOWN_OID = 20, 701, 16, 0
_FAILED = (pq.ExecStatus.FATAL_ERROR, pq.ExecStatus.BAD_RESPONSE)
_ABORTED = pq.ExecStatus.PIPELINE_ABORTED
_SYNCED = pq.ExecStatus.PIPELINE_SYNC


@cache
def parse_statement(statement: str) -> tuple[tuple[bytes, tuple[str, ...]], ...]:
    """Return the parts of a statement between semicolons: each with `$1` for its first `:name`, and the names."""
    return tuple(_number_binds(part) for part in statement.split(";"))


def _number_binds(statement: str) -> tuple[bytes, tuple[str, ...]]:
    names: list[str] = []

    def replace(found: re.Match[str]) -> str:
        if found[1] not in names:
            names.append(found[1])
        return f"${names.index(found[1]) + 1}"

    return re.sub(r"(?<![:\w]):(\w+)", replace, statement).encode(), tuple(names)


def _encode(value: object) -> tuple[int, bytes | None]:
    """Return the type and the text of a bind. The server infers the type of a text, and of NULL, from its use."""
    if type(value) is str:
        return UNKNOWN_OID, value.encode()
    if type(value) is int:
        return INT8_OID, b"%d" % value
    if value is None:
        return UNKNOWN_OID, None
    if isinstance(value, bool):
        return BOOL_OID, b"t" if value else b"f"
    if isinstance(value, (list, tuple)):  # of numbers
        return UNKNOWN_OID, f"{{{','.join(map(str, value))}}}".encode()
    return FLOAT8_OID if isinstance(value, float) else UNKNOWN_OID, str(value).encode()


class Reply:
    """The result of a statement that was sent. Its methods wait until the result has arrived."""

    __slots__ = ("_connection", "result")

    def __init__(self, connection: PipelinedConnection) -> None:
        self._connection = connection
        self.result: PGresult | None = None

    def fetchall(self) -> list[tuple[Any, ...]]:
        if self.result is None:
            self._connection.receive(self)
        assert self.result is not None
        return self._connection.load_rows(self.result) if self.result.ntuples else []

    @property
    def statusmessage(self) -> str | None:
        status = None if self.result is None else self.result.command_status
        return status.decode() if status else None


class PipelinedConnection:
    """A psycopg connection in libpq's pipeline mode from the first statement of a transaction until `sync`.

    Each wait for results ends with a synchronization point. A mere flush would be less for the server to do, but it would take the session
    for one at work, and `idle_in_transaction_session_timeout` would not free the locks of a client that stopped.
    """

    def __init__(self, driver: Connection) -> None:
        self.driver = driver  # for statements outside of a transaction
        self._pgconn = driver.pgconn
        self._transformer = Transformer(driver)
        self._replies: deque[Reply | None] = deque()  # what the server will answer, in this order. None: a statement was prepared
        self._prepared: dict[tuple[bytes, tuple[int, ...]], bytes] = {}
        self._being_prepared: list[tuple[bytes, tuple[int, ...]]] = []
        self._number = 0
        self._has_unsent = False  # statements behind which no synchronization point was sent
        self._awaited_syncs = 0
        self.idle_since = 0.0  # set by the pool
        self._poll = select.poll()
        self._poll.register(self._pgconn.socket, select.POLLIN)

    @property
    def closed(self) -> bool:
        return self.driver.closed

    @property
    def info(self) -> ConnectionInfo:
        return self.driver.info

    def fileno(self) -> int:
        return self.driver.fileno()

    def close(self) -> None:
        self.driver.close()

    def execute(self, statement: str, binds: dict[str, object] | None = None) -> Reply:
        """Send a statement, or several without binds. Returns the reply of the last one."""
        self._check_open()
        if self._pgconn.pipeline_status == pq.PipelineStatus.OFF:
            self._pgconn.enter_pipeline_mode()
        for text, names in parse_statement(statement):
            encoded = [_encode(binds[name]) for name in names] if binds else []
            reply = Reply(self)
            self._has_unsent = True
            self._send(text, tuple(oid for oid, _ in encoded), [value for _, value in encoded])
            self._replies.append(reply)
        return reply

    def _send(self, text: bytes, types: tuple[int, ...], values: list[bytes | None]) -> None:
        name = self._prepared.get((text, types))
        if name is None:
            if len(self._prepared) >= MAX_PREPARED_STATEMENTS:
                self._forget_oldest()
            self._number += 1
            name = b"p%d" % self._number
            self._pgconn.send_prepare(name, text, types)
            self._prepared[text, types] = name
            self._being_prepared.append((text, types))
            self._replies.append(None)
        self._pgconn.send_query_prepared(name, values)

    def _forget_oldest(self) -> None:
        oldest = next(iter(self._prepared))
        self._pgconn.send_query_params(b"DEALLOCATE " + self._prepared.pop(oldest), None)
        self._replies.append(None)

    def receive(self, last: Reply | None = None) -> None:
        """Wait for the results up to `last`, or for all. Raises the error of the first statement that failed."""
        if self._has_unsent:
            self._send_sync()
        while self._replies:
            result = self._next_result()
            if result is None:  # the end of one statement's results, or a synchronization point
                continue
            reply = self._replies.popleft()
            if result.status in _FAILED or result.status == _ABORTED:
                self._forget_unconfirmed()
                raise self._make_error(result)
            if reply is not None:
                reply.result = result
                if reply is last:
                    return

    def sync(self) -> None:
        """End the pipeline: wait for all results, and raise the first error. The transaction may still be open, or failed."""
        self._check_open()
        if self._pgconn.pipeline_status == pq.PipelineStatus.OFF:
            return
        self._send_sync()
        error = self._receive_until_sync()
        self._replies.clear()
        self._pgconn.exit_pipeline_mode()
        if error is not None:
            self._forget_unconfirmed()
            raise error
        self._being_prepared.clear()

    def _send_sync(self) -> None:
        self._pgconn.pipeline_sync()
        self._awaited_syncs += 1
        self._flush()
        self._has_unsent = False

    def _forget_unconfirmed(self) -> None:
        """Forget statements that may not have been prepared, because one before them failed."""
        for key in self._being_prepared:
            self._prepared.pop(key, None)
        self._being_prepared.clear()

    def _receive_until_sync(self) -> Error | None:
        error = None
        while self._awaited_syncs:
            result = self._next_result()
            if result is None:
                continue
            reply = self._replies.popleft() if self._replies else None
            if result.status in _FAILED:
                error = error or self._make_error(result)
            elif reply is not None and result.status != _ABORTED:
                reply.result = result
        return error

    def _next_result(self) -> PGresult | None:
        """Return the next result, or None at the end of a statement's results and at a synchronization point."""
        while self._pgconn.is_busy():
            self._poll.poll()
            self._pgconn.consume_input()
        result = self._pgconn.get_result()
        if self._pgconn.status == pq.ConnStatus.BAD:
            raise OperationalError(self._pgconn.get_error_message()) if result is None else self._make_error(result)
        if result is not None and result.status == _SYNCED:
            self._awaited_syncs -= 1
            return None
        return result

    def _flush(self) -> None:
        """Send all. Reads meanwhile, so that a server that waits for its answers to be read goes on."""
        while self._pgconn.flush():
            self._poll.modify(self._pgconn.socket, select.POLLIN | select.POLLOUT)
            ready = self._poll.poll()
            self._poll.modify(self._pgconn.socket, select.POLLIN)
            if any(events & ~select.POLLOUT for _, events in ready):
                self._pgconn.consume_input()

    def _make_error(self, result: PGresult) -> Error:
        return error_from_result(result)

    def _check_open(self) -> None:
        if self.driver.closed:
            raise OperationalError("the connection is closed")

    def load_rows(self, result: PGresult) -> list[tuple[Any, ...]]:
        self._transformer.set_pgresult(result)
        return self._transformer.load_rows(0, result.ntuples, tuple)
