"""VACUUM of the tables of a store on PostgreSQL. `store/maintenance/space.py` calls it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from postroom.store.postgres.driver import Error, map_error, open_connection

if TYPE_CHECKING:
    from postroom.store.interface import Store
    from postroom.store.postgres.engine import PostgresStore

_BYTES = """
    SELECT coalesce(sum(pg_total_relation_size(oid)), 0)::bigint FROM pg_class
    WHERE relnamespace = current_schema()::regnamespace AND relkind = 'r'"""


def vacuum_tables(store: Store) -> tuple[int, int]:
    """Rewrite every table by VACUUM FULL, so that no remains of deleted rows are in its files. Return the bytes before and after."""
    opened: PostgresStore = store  # type: ignore[assignment]
    connection = open_connection(opened.address)  # not of the pool, whose connections send statements in pipelines: VACUUM runs alone
    try:
        before = connection.execute(_BYTES).fetchall()[0][0]
        tables = connection.execute("SELECT tablename FROM pg_tables WHERE schemaname = current_schema()").fetchall()
        for (table,) in tables:
            connection.execute(f'VACUUM FULL "{table}"')
        return before, connection.execute(_BYTES).fetchall()[0][0]
    except Error as error:
        raise map_error(error, opened.address.shown) from None
    finally:
        connection.close()
