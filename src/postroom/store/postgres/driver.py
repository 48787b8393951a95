"""psycopg, as the rest of the engine uses it: connections with our settings, and errors that are ours."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from psycopg import Connection as _Connection
from psycopg import Error, sql

from postroom.store.postgres.faults import refusal

if TYPE_CHECKING:
    from postroom.store.postgres.address import Address

Connection = _Connection[Any]
CONNECT_SECONDS = 10

__all__ = ["Connection", "Error", "connect", "refusal"]


def connect(address: Address) -> Connection:
    """A connection in autocommit mode (transactions are begun by hand), that sees our schema alone."""
    try:
        opened = _Connection.connect(address.url, autocommit=True, connect_timeout=CONNECT_SECONDS, application_name="postroom")
        opened.execute(sql.SQL("SET search_path TO {}").format(sql.Identifier(address.schema)))
        # Our statements are made for their indexes: planning them anew each time would cost more than running them.
        opened.execute("SET plan_cache_mode TO force_generic_plan")
    except Error as error:
        raise refusal(error, address.shown) from None
    return opened
