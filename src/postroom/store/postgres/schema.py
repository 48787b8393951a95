"""Making a store in a schema of its own, and bringing an older one up to date."""

from __future__ import annotations

from psycopg import sql

from postroom.core.errors import NotAStore, WrongVersion
from postroom.store.migrations import scripts
from postroom.store.postgres.address import parse
from postroom.store.postgres.driver import Connection, Error, connect, refusal
from postroom.store.postgres.engine import VERSION


def init(place: str) -> bool:
    """Make the store, or upgrade it. True if it was not there. Safe to call at any time, by any number at once."""
    address = parse(place)
    opened = connect(address)
    try:
        opened.execute("BEGIN")
        opened.execute("SELECT pg_advisory_xact_lock(hashtextextended(%s, 0))", (f"{address.schema}:init",))
        found = _version(opened, address.schema, address.shown)
        if found == VERSION:
            opened.execute("ROLLBACK")
            return False
        opened.execute(sql.SQL("CREATE SCHEMA IF NOT EXISTS {}").format(sql.Identifier(address.schema)))
        for number, script in scripts("postgres"):
            if number > found:
                opened.execute(script.encode())
        opened.execute("DELETE FROM meta")
        opened.execute("INSERT INTO meta (version) VALUES (%s)", (VERSION,))
        opened.execute("COMMIT")
    except Error as error:
        raise refusal(error, address.shown) from None
    finally:
        opened.close()
    return found == 0


def _version(opened: Connection, schema: str, shown: str) -> int:
    """The version in the schema, 0 if there is none; refuses a schema that is used for something else."""
    tables = {
        name for (name,) in opened.execute("SELECT table_name FROM information_schema.tables WHERE table_schema = %s", (schema,)).fetchall()
    }
    if tables and "meta" not in tables:
        raise NotAStore(f"the schema {schema} of {shown} is used for something else", hint="Name another with ?schema=NAME.")
    row = opened.execute("SELECT version FROM meta").fetchone() if tables else None
    version: int = row[0] if row else 0
    if version > VERSION:
        raise WrongVersion(f"{shown} has schema {version}; this program knows {VERSION}", hint="Upgrade postroom.")
    return version
