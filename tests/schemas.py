"""Stores on a server that are used again: to take out the rows of a test costs a twentieth of what a new schema costs.

A schema is used again only if nothing tells it from a new one: the same tables, indexes, constraints, functions, triggers and rights, the
rows that a new store has and no other, each sequence at its start, and no statistics. Otherwise it is dropped. As long as one lives that
was connected when the test let go of it, it is left alone.
"""

from __future__ import annotations

from typing import Any

import psycopg

Connection = psycopg.Connection[Any]
Others = set[tuple[Any, ...]]
PAGE = 8192  # a table of one page is filled from the top again; a longer one would be filled wherever there is room
# A change of a definition writes its row anew, and so changes its xmin. TRUNCATE does that to pg_class: its columns are compared instead.
SHAPE = """
SELECT string_agg(line, E'\n' ORDER BY line) FROM (
  SELECT format('class %%s %%s %%s %%s %%s %%s %%s', oid, relname, relkind, relacl, reloptions, relowner, relrowsecurity) AS line
    FROM pg_class WHERE relnamespace = to_regnamespace(%(schema)s)
  UNION ALL SELECT format('column %%s %%s %%s', attrelid, attnum, pg_attribute.xmin)
    FROM pg_attribute JOIN pg_class ON pg_class.oid = attrelid WHERE relnamespace = to_regnamespace(%(schema)s)
  UNION ALL SELECT format('index %%s %%s', indexrelid, pg_index.xmin)
    FROM pg_index JOIN pg_class ON pg_class.oid = indexrelid WHERE relnamespace = to_regnamespace(%(schema)s)
  UNION ALL SELECT format('trigger %%s %%s', pg_trigger.oid, pg_trigger.xmin)
    FROM pg_trigger JOIN pg_class ON pg_class.oid = tgrelid WHERE relnamespace = to_regnamespace(%(schema)s)
  UNION ALL SELECT format('statistics %%s', starelid)
    FROM pg_statistic JOIN pg_class ON pg_class.oid = starelid WHERE relnamespace = to_regnamespace(%(schema)s)
  UNION ALL SELECT format('constraint %%s %%s', oid, xmin) FROM pg_constraint WHERE connamespace = to_regnamespace(%(schema)s)
  UNION ALL SELECT format('function %%s %%s', oid, xmin) FROM pg_proc WHERE pronamespace = to_regnamespace(%(schema)s)
  UNION ALL SELECT format('type %%s %%s', oid, xmin) FROM pg_type WHERE typnamespace = to_regnamespace(%(schema)s)
  UNION ALL SELECT format('schema %%s', xmin) FROM pg_namespace WHERE oid = to_regnamespace(%(schema)s)
) AS shape
"""
OURS = "postroom's tests"  # the name of the connections that schemas are looked after with
OTHERS = "SELECT pid, backend_start FROM pg_stat_activity WHERE backend_type = 'client backend' AND application_name <> %s"
KINDS = "SELECT relname FROM pg_class WHERE relnamespace = %s::regnamespace AND relkind = %s ORDER BY relname"


class Schema:
    """A schema with a store that was just made in it, as it then is."""

    def __init__(self, connection: Connection, name: str) -> None:
        self.name = name
        tables = [f"{name}.{table}" for (table,) in connection.execute(KINDS, (name, "r"))]
        sequences = [f"{name}.{sequence}" for (sequence,) in connection.execute(KINDS, (name, "S"))]
        self._rewind = " UNION ALL ".join(_rewinding(connection, sequence) for sequence in sequences)
        row = "SELECT '{0}', long FROM (SELECT pg_relation_size('{0}') > {1} AS long) AS size WHERE long OR EXISTS (SELECT FROM {0})"
        self._used = " UNION ALL ".join(row.format(table, PAGE) for table in tables)
        self._users: Others = set()
        self._shape = self._found(connection)
        self._rows = {table: _read(connection, table) for table, _ in connection.execute(self._used.encode()).fetchall()}

    def let_go(self, others: Others) -> None:
        """A test has ended. A connection that it closed may last a moment longer."""
        self._users = others

    def is_left(self, others: Others) -> bool:
        return self._users.isdisjoint(others)

    def made_as_new(self, connection: Connection) -> bool:
        """Take out what a test has left, if that is only rows."""
        if self._found(connection) != self._shape:
            return False
        used = dict(connection.execute(self._used.encode()).fetchall())
        with connection.transaction():
            connection.execute("SET LOCAL session_replication_role TO replica")  # rows go in any order: no key is looked after
            if long := [table for table, is_long in used.items() if is_long]:
                connection.execute(f"TRUNCATE {', '.join(long)} CASCADE".encode())
            for table in used.keys() - self._rows.keys() - {*long}:
                connection.execute(f"DELETE FROM {table}".encode())
            for table, rows in self._rows.items():
                if _read(connection, table) != rows:
                    connection.execute(f"DELETE FROM {table}".encode())
                    _write(connection, table, rows)
        connection.execute(self._rewind.encode())
        return True

    def _found(self, connection: Connection) -> str:
        [(shape,)] = connection.execute(SHAPE, {"schema": self.name}).fetchall()
        return str(shape)


def others(connection: Connection) -> Others:
    """Return the other connections to the server."""
    return set(connection.execute(OTHERS, (OURS,)))


def _rewinding(connection: Connection, sequence: str) -> str:
    [(last, is_called)] = connection.execute(f"SELECT last_value, is_called FROM {sequence}".encode()).fetchall()
    return f"SELECT setval('{sequence}', {last}, {is_called})"


def _read(connection: Connection, table: str) -> bytes:
    with connection.cursor().copy(f"COPY {table} TO STDOUT".encode()) as rows:
        return b"".join(rows)


def _write(connection: Connection, table: str, rows: bytes) -> None:
    with connection.cursor().copy(f"COPY {table} FROM STDIN".encode()) as copy:
        copy.write(rows)
