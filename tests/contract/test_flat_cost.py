"""Flat cost: with every combination of filters, a listing takes as many steps in a large store as in a small one.

The steps are those of SQLite's virtual machine, so that the numbers are the same on every machine and at every load. Each statement that
runs is also explained: none of them reads a whole table.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import pytest

import postroom
from postroom import work
from postroom.store.event_log import BLOCK_EVENTS
from postroom.store.sqlite import statements
from postroom.store.sqlite.engine import SqliteStore

SMALL, LARGE = 2_000, 16_000
STEPS_PER_CALL = 10
STAMP = "2026-11-01T00:00:00.000000Z"

# Nearly all threads are of one leader, one worker, one run, and done. Others are rare, and lie far apart.
NUMBERS = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < :count)"
FILL = (
    f"""
    INSERT INTO threads {NUMBERS}
    SELECT printf('t%07d', i), CASE WHEN i % 100 THEN 'big' ELSE 'run' || i END, 'task' || i, 'S',
      CASE WHEN i IN (5, :count - 7) THEN 'quiet' ELSE 'leader' END, CASE WHEN i IN (9, :count - 5) THEN 'quiet' ELSE 'busy' END,
      CASE WHEN i IN (3, 5, :count - 5) THEN 'failed' WHEN i % 10 = 1 THEN 'pending' ELSE 'done' END, 'normal', 'm' || i,
      strftime('%Y-%m-%dT%H:%M:%f000Z', '2026-01-01', '+' || i || ' seconds'),
      strftime('%Y-%m-%dT%H:%M:%f000Z', '2026-01-01', '+' || i || ' seconds') FROM n""",
    """
    INSERT INTO events (run_id, task_id, thread_id, source, event_type, payload_json, created_at)
    SELECT run_id, task_id, thread_id, 'system', 'thread.updated',
      json_object('status', status, 'assigned_to', assigned_to, 'created_by', created_by), created_at FROM threads WHERE :count""",
    f"""
    INSERT INTO reads (agent_id, thread_id, read_event_id, latest_event_id, guest) {NUMBERS}
    SELECT agent, printf('t%07d', i), CASE WHEN i % 5 THEN 0 ELSE i END, i, 0 FROM n, (SELECT 'leader' AS agent UNION SELECT 'busy')""",
)


def _fill(store: SqliteStore, count: int) -> None:
    with store.write() as tx:
        for statement in FILL:
            tx.execute(statement, count=count)
        until = count // BLOCK_EVENTS * BLOCK_EVENTS - 1
        tx.execute(statements.event_topics_insert, after=0, until=until)
        tx.execute(statements.cursor_move, name="work.events", event_id=until, seen=0)


@pytest.fixture(scope="module")
def stores(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[SqliteStore, SqliteStore]]:
    folder: Path = tmp_path_factory.mktemp("flat")
    opened = []
    for count in (SMALL, LARGE):
        path = str(folder / f"{count}.db")
        postroom.init(path)
        opened.append(SqliteStore(path))
        _fill(opened[-1], count)
    yield opened[0], opened[1]
    for store in opened:
        store.close()


def count_steps(store: SqliteStore, call: Callable[[SqliteStore], object]) -> tuple[int, set[str]]:
    """Return the steps of a call, and its statements."""
    steps = 0
    ran: set[str] = set()

    def count() -> int:
        nonlocal steps
        steps += STEPS_PER_CALL
        return 0

    call(store)  # prepares the statements
    store.connection.set_trace_callback(ran.add)
    store.connection.set_progress_handler(count, STEPS_PER_CALL)
    try:
        call(store)
    finally:
        store.connection.set_progress_handler(None, 0)
        store.connection.set_trace_callback(None)
    return steps, ran


def _given(**filters: Any) -> dict[str, Any]:
    return {name: value for name, value in filters.items() if value is not None}


def _calls() -> dict[str, Callable[[SqliteStore], object]]:
    """Every listing with every combination of filters that a command line, a route or a verb can have."""
    statuses = (None, ("failed",), ("pending", "done"))
    calls: dict[str, Callable[[SqliteStore], object]] = {}
    names = (None, "leader", "quiet")
    for created_by, assigned_to, status, viewer in product(names, (None, "busy", "quiet"), statuses, (None, "quiet", "busy")):
        given = _given(created_by=created_by, assigned_to=assigned_to, statuses=status, visible_to=viewer)
        calls[f"list {given}"] = partial(work.list_threads, limit=5, **given)
    for agent, run, task, status in product(names, (None, "big", "run200"), (None, "task200"), statuses):
        given = _given(agent=agent, run_id=run, task_id=task, statuses=status)
        calls[f"list {given}"] = partial(work.list_threads, limit=5, **given)
    for agent, status, unread in product(("leader", "busy", "quiet"), statuses, (False, True)):
        given = _given(agent=agent, statuses=status, unread=unread)
        calls[f"fetch {given}"] = partial(work.fetch, limit=5, **given)
    for agent, run, status in product(names, (None, "big", "run200"), statuses):
        given = _given(agent=agent, run_id=run, statuses=status)
        calls[f"watch {given}"] = partial(work.watch, after_event=0, timeout_seconds=0.0001, **given)
    return calls


def test_every_combination_of_filters_costs_the_same_in_a_large_store(stores: tuple[SqliteStore, SqliteStore]) -> None:
    small, large = stores
    grown = {}
    for name, call in _calls().items():
        before, after = (count_steps(store, call)[0] for store in (small, large))
        if after > before * 1.5 + 500:
            grown[name] = (before, after)
    assert grown == {}


def test_no_combination_of_filters_reads_a_whole_table(stores: tuple[SqliteStore, SqliteStore]) -> None:
    store = stores[0]
    ran = set().union(*(count_steps(store, call)[1] for call in _calls().values()))
    scans = {
        statement: plan
        for statement in ran
        if statement.lstrip().startswith(("SELECT", "WITH"))
        for plan in [[row[3] for row in store.connection.execute(f"EXPLAIN QUERY PLAN {statement}")]]
        if any(step.startswith("SCAN") and "USING" not in step and "VIRTUAL TABLE" not in step for step in plan)
    }
    assert scans == {}
