"""Flat cost: every hot statement is served by an index, whatever the size of the tables."""

from __future__ import annotations

import pytest

from postroom.store.catalogue import Catalogue
from postroom.store.sqlite import statements
from postroom.store.sqlite.engine import SqliteStore

# As many rows as names, or as passes, and asked for by people.
SMALL_TABLES = {"workspaces_all", "agents_all", "mailboxes_all", "aliases_all", "alias_of"}
# The steps of a subquery follow its head line, and are checked as well.
_SUBQUERIES = ("SCALAR SUBQUERY", "CORRELATED SCALAR SUBQUERY", "LIST SUBQUERY", "COMPOUND QUERY", "LEFT-MOST SUBQUERY", "UNION USING TEMP")
NAMES = list(Catalogue.__annotations__)
SELECTS = [name for name in NAMES if str(getattr(statements, name)).lstrip().startswith(("SELECT", "WITH"))]
WRITES = [name for name in NAMES if str(getattr(statements, name)).lstrip().startswith(("UPDATE", "DELETE"))]


@pytest.mark.parametrize("name", SELECTS)
def test_no_read_scans_a_table_or_sorts_it(name: str, sqlite_place: str) -> None:
    store = SqliteStore(sqlite_place)
    plan = _plan(store, getattr(statements, name))
    scans = [step for step in plan if step.startswith("SCAN") and not _harmless(step)]
    assert name in SMALL_TABLES or not [step for step in scans if "USING" not in step], plan
    assert not [step for step in plan if "TEMP B-TREE FOR ORDER BY" in step] or name in ("artifacts_between", "artifacts_of_message"), plan


@pytest.mark.parametrize("name", WRITES)
def test_every_write_finds_its_row_by_its_key(name: str, sqlite_place: str) -> None:
    store = SqliteStore(sqlite_place)
    assert all("SEARCH" in step and "USING" in step for step in _plan(store, getattr(statements, name)) if not _harmless(step))


def _harmless(step: str) -> bool:
    """A list of a few words, what a limited subquery, or a step of a recursive one, already found, or the head line of a subquery."""
    return "VIRTUAL TABLE" in step or step.startswith(("SCAN CONSTANT ROW", "SCAN pending_", "SCAN lapsed_", "SCAN page", *_SUBQUERIES))


def _plan(store: SqliteStore, statement: str) -> list[str]:
    binds = {word.strip(",();"): 1 for word in statement.replace("(", " ").replace(")", " ").split() if word.startswith(":")}
    names = {name.lstrip(":"): value for name, value in binds.items()}
    return [row[3] for row in store.connection.execute(f"EXPLAIN QUERY PLAN {statement}", names)]
