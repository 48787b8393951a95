"""Creation of a store in a schema of its own, and upgrades of an older one. `init_store` calls it."""

from __future__ import annotations

from psycopg import sql

from postroom.core.errors import NotAStore, WrongVersion
from postroom.store.migrations import read_scripts
from postroom.store.postgres.connection_url import parse_url
from postroom.store.postgres.driver import Connection, Error, map_error, open_connection
from postroom.store.tables import SCHEMA_VERSION


def init_database(location: str) -> bool:
    """Create or upgrade the store, and return whether it was created. Any number of processes may call it at the same time."""
    address = parse_url(location)
    connection = open_connection(address)
    try:
        connection.execute("BEGIN")
        connection.execute("SELECT pg_advisory_xact_lock(hashtextextended(%s, 0))", (f"{address.schema}:init",))
        current_version = _read_version(connection, address.schema, address.shown)
        if current_version == SCHEMA_VERSION:
            connection.execute("ROLLBACK")
            return False
        connection.execute(sql.SQL("CREATE SCHEMA IF NOT EXISTS {}").format(sql.Identifier(address.schema)))
        for number, script in read_scripts("postgres"):
            if number > current_version:
                connection.execute(script.encode())
        connection.execute("DELETE FROM meta")
        connection.execute("INSERT INTO meta (version) VALUES (%s)", (SCHEMA_VERSION,))
        connection.execute("COMMIT")
    except Error as error:
        raise map_error(error, address.shown) from None
    finally:
        connection.close()
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
