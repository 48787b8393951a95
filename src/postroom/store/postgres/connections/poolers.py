"""Detection of poolers that give each transaction another session, so that the search path, prepared statements and LISTEN are lost."""

from __future__ import annotations

import select
from typing import TYPE_CHECKING

from postroom.core.errors import StorageFailure
from postroom.store.postgres.driver import Connection, connect

if TYPE_CHECKING:
    from postroom.store.postgres.connection_url import ConnectionUrl

BACKEND = "SELECT pg_backend_pid()"
ROUNDS = 3
ANSWER_SECONDS = 2.0


def refuse_transaction_pooling(connection: Connection, address: ConnectionUrl, backend: int) -> None:
    """Refuse with `StorageFailure` if a pooler shares sessions between its clients. `backend` is the connection's pg_backend_pid().

    A pooler tells its clients another process id than that of the session. Only then, a second connection is opened: in transaction mode it
    gets the session that the first one has just given up, and in session mode never. Other clients may be in between, so it asks again.
    """
    if backend == connection.info.backend_pid:
        return
    second = connect(address.url)
    try:
        is_shared = any(_find_backend(second) == backend or _find_backend(connection) != backend for _ in range(ROUNDS))
    except TimeoutError:  # the pooler has no session for the second connection, because the first one keeps its own
        return
    finally:
        second.close()
    if is_shared:
        connection.execute("RESET ALL")  # the next client of the pooler would have our search path
        raise StorageFailure(
            f"{address.shown} is reached through a pooler that shares sessions between transactions",
            hint="Set pool_mode = session in PgBouncer (for this database or user), or connect to the server directly.",
        )


def _find_backend(connection: Connection) -> int:
    """Return the process id of the session that runs the next statement. Raises TimeoutError if none becomes free."""
    pgconn = connection.pgconn
    pgconn.send_query(BACKEND.encode())
    poll = select.poll()
    poll.register(pgconn.socket, select.POLLIN)
    while pgconn.is_busy():
        if not poll.poll(ANSWER_SECONDS * 1000):
            raise TimeoutError
        pgconn.consume_input()
    result = pgconn.get_result()
    while pgconn.get_result() is not None:
        pass
    value = result.get_value(0, 0) if result is not None and result.ntuples else None
    return int(value or 0)
