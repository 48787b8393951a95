"""The tables of a store as its database describes them, whatever our declarations say."""

from __future__ import annotations

from postroom.store.interface import Store

_SQLITE = """
    SELECT t.name, c.name, lower(c.type) FROM sqlite_master t JOIN pragma_table_info(t.name) c
    WHERE t.type = 'table' ORDER BY t.name, c.cid"""
_POSTGRES = """
    SELECT table_name, column_name, data_type FROM information_schema.columns
    WHERE table_schema = current_schema() ORDER BY table_name, ordinal_position"""

# Tables that the database keeps for itself. A copy makes them anew.
OWN_TABLES = {"meta", "idempotency_keys", "sqlite_sequence", "entry_words"}
OWN_COLUMNS = {("artifacts", "position")}


def columns_of(store: Store) -> dict[str, dict[str, str]]:
    """Every table, with its columns and their types."""
    tables: dict[str, dict[str, str]] = {}
    with store.read() as tx:
        for table, column, kind in tx.fetch_all(_POSTGRES if "://" in store.location else _SQLITE):
            is_own = table in OWN_TABLES or table.startswith("entry_words_") or (table, column) in OWN_COLUMNS
            if not is_own:
                tables.setdefault(table, {})[column] = kind
    return tables
