"""psycopg as the rest of the engine uses it: connections with our settings, and errors mapped to refusals."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from psycopg import Connection as _Connection
from psycopg import Error, ProgrammingError, sql
from psycopg.conninfo import conninfo_to_dict
from psycopg.errors import ConnectionTimeout, DivisionByZero

from postroom.store.postgres.connection_url import malformed_url
from postroom.store.postgres.errors import map_error

if TYPE_CHECKING:
    from postroom.store.postgres.connection_url import ConnectionUrl

Connection = _Connection[Any]
CONNECT_TIMEOUT_SECONDS = 10
# The lock timeout is that of SQLite. A client that stops in the middle of a transaction holds the lock on the events for at most a minute.
# Each statement is written for its index. Planning it again at each call would cost more than running it.
_SETTINGS = """
    SET plan_cache_mode TO force_generic_plan;
    SET lock_timeout TO '10s';
    SET statement_timeout TO '60s';
    SET idle_in_transaction_session_timeout TO '60s'"""

__all__ = ["Connection", "DivisionByZero", "Error", "connect", "map_error", "open_connection"]


def open_connection(address: ConnectionUrl) -> Connection:
    """Return a connection whose search path is our schema only. It is in autocommit mode, because the engine sends BEGIN itself."""
    try:
        conninfo_to_dict(address.url)
    except ProgrammingError:
        raise malformed_url(address.shown) from None
    try:
        connection = connect(address.url)
        connection.execute(sql.SQL("SET search_path TO {};{}").format(sql.Identifier(address.schema), sql.SQL(_SETTINGS)))
    except Error as error:
        raise map_error(error, address.shown) from None
    return connection


def connect(url: str) -> Connection:
    """Connect. An error has the SQLSTATE of the server's refusal, if it was the server that refused."""
    options: dict[str, Any] = {"autocommit": True, "connect_timeout": CONNECT_TIMEOUT_SECONDS, "application_name": "postroom"}
    try:
        return _Connection.connect(url, **options)
    except ConnectionTimeout:
        raise
    except Error as error:
        from postroom.store.postgres.connections.failed_connects import ACCEPTED, find_sqlstate

        error.sqlstate = error.sqlstate or find_sqlstate(url)
        if error.sqlstate != ACCEPTED:
            raise
    return _Connection.connect(url, **options)  # there was no room for a moment
