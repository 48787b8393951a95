"""Flat cost of entries: those that were read long ago cost nothing when the unread, open and pinned ones are looked for.

The steps are those of SQLite's virtual machine, as in test_flat_cost.py. tests/contract/test_postgres_plans.py reads PostgreSQL's plans.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

import postroom
from postroom import people
from postroom.people import entries
from postroom.store.sqlite.engine import SqliteStore
from tests.contract.test_flat_cost import count_steps

SMALL, LARGE = 100, 5_000
FILL = """
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < :count)
INSERT INTO entries (seq, id, section, kind, ts, active_ts, workspace_id, workspace_label, agent, docs_json, comments, door, stored_at,
  is_open, replies, read_at, read_by, extra_json, words)
SELECT 1000 + i, 'e' || i, 'inbox', 'push', i, i, 'ws', 'Desk', 'atlas', '[]', 'Rates', 'cli', '2026-11-01T00:00:00.000000Z', 0, 0,
  '2026-11-01T00:00:00.000000Z', 'user', '{}', 'desk atlas rates' FROM n"""


def _count_waiting(store: SqliteStore) -> object:
    with store.read() as tx:
        return entries.count_waiting(tx)


CALLS: dict[str, Callable[[SqliteStore], object]] = {
    "counts": _count_waiting,
    "unread": partial(people.history, unread=True),
    "pinned": partial(people.history, pinned=True),
    "open": partial(people.history, open_only=True),
    "newest": partial(people.history, limit=5),
    "newest of the inbox": partial(people.history, limit=5, state="inbox"),
    "search of unread": partial(people.search, q="rates is:unread"),
    "search of open": partial(people.search, q="rates is:open"),
    "search of pinned": partial(people.search, q="rates is:pinned"),
}


@pytest.fixture(scope="module")
def stores(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[SqliteStore, SqliteStore]]:
    folder: Path = tmp_path_factory.mktemp("entries")
    opened = []
    for count in (SMALL, LARGE):
        path = str(folder / f"{count}.db")
        postroom.init(path)
        opened.append(SqliteStore(path))
        with opened[-1].write() as tx:
            tx.execute(FILL, count=count)
            tx.execute(tx.sql.words_settle)
    yield opened[0], opened[1]
    for store in opened:
        store.close()


@pytest.mark.parametrize("name", CALLS)
def test_entries_that_were_read_cost_nothing(stores: tuple[SqliteStore, SqliteStore], name: str) -> None:
    small, large = (count_steps(store, CALLS[name])[0] for store in stores)
    assert large <= small * 1.5 + 500
