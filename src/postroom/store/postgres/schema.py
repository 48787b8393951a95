"""Creation of a store in a schema of its own, and upgrades of an older one. `init_store` calls it."""

from __future__ import annotations

from psycopg import sql

from postroom.core.errors import NotAStore, WrongVersion
from postroom.store.migrations import read_scripts
from postroom.store.postgres.connection_url import ConnectionUrl, parse_url
from postroom.store.postgres.connections.poolers import BACKEND, refuse_transaction_pooling
from postroom.store.postgres.driver import Connection, Error, map_error, open_connection
from postroom.store.tables import SCHEMA_VERSION

MAX_ATTEMPTS = 5
ALREADY_CREATED_STATES = ("42P06", "42P07", "23505", "42710", "40P01")  # a schema, table, row or object; or a deadlock between the two


def init_database(location: str) -> bool:
    """Create or upgrade the store, and return whether it was created. Any number of processes may call it at the same time."""
    address = parse_url(location)
    for attempt in range(1, MAX_ATTEMPTS + 1):
        connection = open_connection(address)
        try:
            return _create_or_upgrade(connection, address)
        except Error as error:
            # Two processes create the schema or its tables at the same time: the second fails, and then finds what the first created.
            if error.sqlstate not in ALREADY_CREATED_STATES or attempt == MAX_ATTEMPTS:
                raise map_error(error, address.shown) from None
        finally:
            connection.close()
    raise AssertionError("the last attempt returns or raises")


def read_stored_version(location: str) -> int:
    """Return the version of the schema of a store, or 0 if there is none."""
    address = parse_url(location)
    connection = open_connection(address)
    try:
        return _read_version(connection, address.schema, address.shown)
    except Error as error:
        raise map_error(error, address.shown) from None
    finally:
        connection.close()


def _create_or_upgrade(connection: Connection, address: ConnectionUrl) -> bool:
    """Create or upgrade the store in one transaction, and return whether it was created.

    The lock is on a table of ours: any role that may connect could hold an advisory lock, and so stop every `init`.
    """
    [(backend,)] = connection.execute(BACKEND).fetchall()
    refuse_transaction_pooling(connection, address, backend)
    connection.execute("SET statement_timeout TO 0")  # a migration may take long
    connection.execute("BEGIN")
    current_version = _read_version(connection, address.schema, address.shown)
    if 0 < current_version < SCHEMA_VERSION:
        connection.execute("LOCK TABLE meta IN ACCESS EXCLUSIVE MODE")
        current_version = _read_version(connection, address.schema, address.shown)  # another process may have upgraded it meanwhile
    if current_version == SCHEMA_VERSION:
        connection.execute("ROLLBACK")
        return False
    connection.execute(sql.SQL("CREATE SCHEMA IF NOT EXISTS {}").format(sql.Identifier(address.schema)))
    for number, script in read_scripts("postgres"):
        if number > current_version:
            connection.execute(script.encode())
    if connection.execute("UPDATE meta SET version = %s", (SCHEMA_VERSION,)).rowcount == 0:
        connection.execute("INSERT INTO meta (version) VALUES (%s)", (SCHEMA_VERSION,))
    connection.execute("COMMIT")
    return current_version == 0


def _read_version(connection: Connection, schema: str, shown: str) -> int:
    """Return the version of the schema, or 0 if it is empty. Refuses a schema with other tables, and a version that is too new."""
    tables = {
        name
        for (name,) in connection.execute("SELECT table_name FROM information_schema.tables WHERE table_schema = %s", (schema,)).fetchall()
    }
    if tables and "meta" not in tables:
        raise NotAStore(f"the schema {schema} of {shown} is used for something else", hint="Name another with ?schema=NAME.")
    row = connection.execute("SELECT version FROM meta").fetchone() if tables else None
    version: int = row[0] if row else 0
    if version > SCHEMA_VERSION:
        raise WrongVersion(f"{shown} has schema {version}; this program knows {SCHEMA_VERSION}", hint="Upgrade postroom.")
    return version
