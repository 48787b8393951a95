"""Export of a store as JSON Lines, and import of such a file. The tables and columns are those of `store/copying.py`.

The first line names the format and the schema. Every other line is one row: {"table": …, "row": {column: value}}. A table comes after
the tables that it refers to, so that a file can be read from its first line to its last.
"""

from __future__ import annotations

import json

from postroom.core.errors import InvalidInput, InvalidState
from postroom.store.copying import BATCH_ROWS, OWN_ROW_COLUMNS, TABLES, read_table_pages, settle_copied_rows
from postroom.store.tables import SCHEMA_VERSION

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import Any

    from postroom.store.interface import Store
    from postroom.store.tables import Table

FORMAT, FORMAT_VERSION = "postroom-export", 1
_TABLE_BY_NAME = {table.name: table for table in TABLES}


def export_lines(store: Store) -> Iterator[str]:
    """Yield the lines of an export, of one moment. The store may stay in use."""
    yield json.dumps({"format": FORMAT, "version": FORMAT_VERSION, "schema": SCHEMA_VERSION}) + "\n"
    with store.read() as view:
        for table in TABLES:
            for page in read_table_pages(view, table):
                for row in page:
                    yield json.dumps({"table": table.name, "row": dict(zip(table.columns, row))}, ensure_ascii=False) + "\n"


def import_lines(store: Store, lines: Iterable[str]) -> dict[str, int]:
    """Store the rows of an export in a new store, in batches, and return the number of rows of each table.

    Refuses a store that was used, and a line that is not a row of this schema, with its number. What was stored before such a line stays,
    and the import can be run again.
    """
    numbered = enumerate(lines, start=1)
    _check_header(next(numbered, (1, ""))[1])
    _refuse_used_store(store)
    counts = {table.name: 0 for table in TABLES}
    batch: list[tuple[Table, dict[str, Any]]] = []
    for number, line in numbered:
        batch.append(_parse_row(number, line))
        counts[batch[-1][0].name] += 1
        if len(batch) == BATCH_ROWS:
            _store_rows(store, batch)
            batch = []
    _store_rows(store, batch)
    settle_copied_rows(store)
    return counts


def _check_header(line: str) -> None:
    try:
        header = json.loads(line)
        known = (header["format"], header["version"], header["schema"]) == (FORMAT, FORMAT_VERSION, SCHEMA_VERSION)
    except (ValueError, KeyError, TypeError):
        raise InvalidInput("the first line does not say that this is an export", field="file", hint="See `inbox store export`.") from None
    if not known:
        hint = "Import it with the version that wrote it, then upgrade that store with `inbox init`."
        raise InvalidInput(f"the export has schema {header['schema']}, and this program {SCHEMA_VERSION}", field="file", hint=hint)


def _parse_row(number: int, line: str) -> tuple[Table, dict[str, Any]]:
    try:
        parsed = json.loads(line)
        table, row = _TABLE_BY_NAME[parsed["table"]], parsed["row"]
        if set(row) != set(table.columns):
            raise ValueError
    except (ValueError, KeyError, TypeError):
        raise InvalidInput(f"line {number} is not a row of a table", field="file", hint="The file is damaged. Export again.") from None
    return table, row


def _store_rows(store: Store, batch: list[tuple[Table, dict[str, Any]]]) -> None:
    with store.write() as tx:
        for table, row in batch:
            tx.execute(table.upsert_statement(), **row)


def _refuse_used_store(store: Store) -> None:
    with store.read() as tx:
        for table, _, _, word in OWN_ROW_COLUMNS:
            if tx.fetch_one(f"SELECT 1 FROM {table} LIMIT 1") is not None:
                raise InvalidState(f"the store has {word} already", hint="Import into a new store: inbox init --db PATH")
