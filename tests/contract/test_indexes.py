"""Flat cost: every hot statement is served by an index, whatever the size of the tables."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing

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

Plans = Callable[[list[str]], dict[str, list[str]]]


@pytest.fixture
def plans(sqlite_place: str) -> Iterator[Plans]:
    """The plan of each of some statements."""
    with closing(SqliteStore(sqlite_place)) as store:
        yield lambda names: {name: _plan(store, getattr(statements, name)) for name in names}


def test_no_read_scans_a_table_or_sorts_it(plans: Plans) -> None:
    found = plans(SELECTS)
    scanning = {name: plan for name, plan in found.items() if any(_scans(step) for step in plan)}
    assert {name: plan for name, plan in scanning.items() if name not in SMALL_TABLES} == {}
    sorting = {name: plan for name, plan in found.items() if any("TEMP B-TREE FOR ORDER BY" in step for step in plan)}
    assert {name: plan for name, plan in sorting.items() if name not in ("artifacts_between", "artifacts_of_message")} == {}


def test_every_write_finds_its_row_by_its_key(plans: Plans) -> None:
    found = plans(WRITES)
    assert {name: plan for name, plan in found.items() if not all(_finds_by_key(step) for step in plan)} == {}


def _scans(step: str) -> bool:
    return step.startswith("SCAN") and not _harmless(step) and "USING" not in step


def _finds_by_key(step: str) -> bool:
    return _harmless(step) or ("SEARCH" in step and "USING" in step)


def _harmless(step: str) -> bool:
    """A list of a few words, what a limited subquery, or a step of a recursive one, already found, or the head line of a subquery."""
    return "VIRTUAL TABLE" in step or step.startswith(("SCAN CONSTANT ROW", "SCAN pending_", "SCAN lapsed_", "SCAN page", *_SUBQUERIES))


def _plan(store: SqliteStore, statement: str) -> list[str]:
    binds = {word.strip(",();"): 1 for word in statement.replace("(", " ").replace(")", " ").split() if word.startswith(":")}
    names = {name.lstrip(":"): value for name, value in binds.items()}
    return [row[3] for row in store.connection.execute(f"EXPLAIN QUERY PLAN {statement}", names)]
