"""Flat cost on PostgreSQL: every statement has an index for each table that grows, with the generic plan that the store uses."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, LiteralString

import psycopg
import pytest

from postroom.store.catalogue import Catalogue
from postroom.store.postgres import statements
from postroom.store.postgres.connection_url import parse_url
from postroom.store.postgres.connections.pipelined_connection import parse_statement
from postroom.store.postgres.driver import open_connection

NAMES = [
    name for name in Catalogue.__annotations__ if str(getattr(statements, name)).lstrip().startswith(("SELECT", "WITH", "UPDATE", "DELETE"))
]
SMALL_TABLES = {"meta", "mail_aliases", "workspaces"}  # one row, or as many as people gave names
INDEXES = """
    SELECT indexrelid::regclass::text FROM pg_index JOIN pg_class ON pg_class.oid = indexrelid
    WHERE relnamespace = current_schema()::regnamespace AND NOT indisunique"""
SINGLE_KEYS = """
    SELECT indrelid::regclass::text, attname::text FROM pg_index JOIN pg_attribute ON attrelid = indrelid AND attnum = indkey[0]
    WHERE indisprimary AND indnkeyatts = 1
      AND (SELECT relnamespace FROM pg_class WHERE oid = indrelid) = current_schema()::regnamespace"""
SERVE_LARGE_TABLES = {"threads_assigned": "idx_threads_status_assigned", "entries_search": "idx_entries_words"}
FILL = """
    INSERT INTO threads (thread_id, run_id, task_id, subject, created_by, assigned_to, status, created_at, updated_at)
    SELECT 'thr_' || n, '', '', 'S', 'lead', 'w' || n % 50, 'pending', '2026', '2026-' || n FROM generate_series(1, 5000) AS n;
    INSERT INTO entries (seq, id, section, kind, ts, active_ts, workspace_id, workspace_label, agent, docs_json, comments, door, stored_at,
      is_open, replies, extra_json, words)
    SELECT n, 'e' || n, 'inbox', 'push', n, n, 'ws', 'Desk', 'atlas', '[]', 'Rates', 'cli', '2026', 0, 0, '{}', 'word' || n
    FROM generate_series(1, 5000) AS n;
    ANALYZE"""


@pytest.fixture
def connection(postgres_place: str) -> Iterator[psycopg.Connection[Any]]:
    """A planner that reads a table as a whole only if it has no other way."""
    with open_connection(parse_url(postgres_place)) as connection:
        connection.execute("SET enable_seqscan TO off")
        yield connection


def test_no_statement_reads_a_growing_table_as_a_whole(connection: psycopg.Connection[Any]) -> None:
    scanned = {name: scanned_tables(connection, name) - SMALL_TABLES for name in NAMES}
    assert {name: tables for name, tables in scanned.items() if tables} == {}


def test_no_statement_reads_a_table_as_a_whole_that_has_rows_and_statistics(postgres_place: str) -> None:
    """A planner that may choose: where a condition is known only when the statement runs, it guesses how many rows fulfil it."""
    with open_connection(parse_url(postgres_place)) as connection:
        connection.execute("SET plan_cache_mode TO force_generic_plan")
        for statement in FILLING:
            connection.execute(statement)
        scanned = {name: (scanned_tables(connection, name) & FILLED_TABLES) for name in NAMES}
    found = [f"{name}: {', '.join(sorted(tables))}" for name, tables in scanned.items() if tables]
    assert not found, "; ".join(found)


FILLED_TABLES = {
    "threads",
    "messages",
    "leases",
    "events",
    "tasks",
    "jobs",
    "mailboxes",
    "deliveries",
    "entries",
    "asks",
    "reads",
    "replies",
}
FILLED_ROWS = 100_000  # of each. Half of the threads are held, with leases that have not run out
STAMP, FUTURE = "'2026-11-01T00:00:00.000000Z'", "'2999-01-01T00:00:00.000000Z'"
FUTURE_MICROSECONDS = "32472144000000000"
EACH = f"FROM generate_series(1, {FILLED_ROWS}) n"
FILLING: tuple[LiteralString, ...] = (
    f"""
    INSERT INTO threads
      SELECT 'thr_' || n, 'run_' || n / 100, '', '', 'leader', 'w' || n % 10, CASE n % 2 WHEN 0 THEN 'pending' ELSE 'in_progress' END,
        'normal', 'msg_' || n, {STAMP}, {STAMP} {EACH}""",
    f"""
    INSERT INTO messages
        (message_id, thread_id, from_agent, to_agent, kind, summary, body, payload_json, created_at, event_id, door)
      SELECT 'msg_' || n, 'thr_' || n, 'leader', 'w1', 'task', '', '', '{{}}', {STAMP}, n, 'library' {EACH}""",
    f"""
    INSERT INTO events
        (event_id, run_id, task_id, thread_id, source, event_type, message_id, summary, payload_json, created_at)
      SELECT n, '', '', 'thr_' || n, 'leader', 'thread.created', 'msg_' || n, '', '{{}}', {STAMP} {EACH}""",
    f"""
    INSERT INTO leases (thread_id, agent_id, lease_token, claimed_at, expires_at, lease_seconds, priority, waiting)
      SELECT 'thr_' || n, 'w0', 'lse_' || n, {STAMP}, {FUTURE}, 900, 'normal', 0 {EACH} WHERE n % 2 = 1""",
    f"""
    INSERT INTO jobs
        (job_id, agent, status, sheet, version, state_json, created_at, updated_at, event_id, lease_token, lease_seconds, lease_expires_at)
      SELECT 'job_' || n, 'w' || n % 10, 'running', 0, 0, '{{}}', {STAMP}, {STAMP}, n, 'jlt_' || n, 900, {FUTURE} {EACH}""",
    f"""
    INSERT INTO tasks
        (task_id, kind, source_job_id, source_agent, target_agent, description, context_json, status, is_open, priority, urgency, attempt,
         depth, created_at, due_at, event_id, door)
      SELECT 'tsk_' || n, 'task', '', 'leader', 'w' || n % 10, '', '{{}}', 'pending', 1, 'normal', 2, 0,
        0, {STAMP}, {FUTURE}, n, 'library' {EACH}""",
    f"INSERT INTO mailboxes (session, next_due) SELECT 'w' || n, {FUTURE_MICROSECONDS} {EACH} WHERE n % 10 = 0",
    f"""
    INSERT INTO deliveries
        (msg_id, session, sender, created_at, attempt, state, head, rank, stored_at, since, door, payload, due_at, move_at)
      SELECT 'm' || n, 'w' || n % 1000 * 10, 's' || n % 7, 0, 0, CASE n % 2 WHEN 0 THEN 'pending' ELSE 'in_flight' END,
        1, 0, 0, 0, 'library', '',
        {FUTURE_MICROSECONDS}, CASE n % 2 WHEN 0 THEN NULL ELSE {FUTURE_MICROSECONDS} END {EACH}""",
    f"""
    INSERT INTO entries
        (seq, id, section, kind, ts, workspace_id, workspace_label, agent, docs_json, comments, door, stored_at, is_open, replies,
         extra_json, words, root_id, read_at)
      SELECT n, 'e' || n, 'inbox', 'ask', n, 'ws' || n % 50, '', 'w' || n % 50, '[]', '', 'library', {STAMP},
        CASE n % 100 WHEN 0 THEN 1 ELSE 0 END, 0, '{{}}', '', 'e' || n, CASE n % 100 WHEN 0 THEN NULL ELSE {STAMP} END {EACH}""",
    f"""
    INSERT INTO asks (entry_id, agent, asked_event, addressee, choices_json, state, on_silence, due_at, matter_id)
      SELECT 'e' || n, 'w' || n % 50, n, 'user', '[]', CASE n % 100 WHEN 0 THEN 'open' ELSE 'answered' END, 'wait', {FUTURE_MICROSECONDS},
        'e' || n {EACH}""",
    f"INSERT INTO reads (agent_id, thread_id, read_event_id, latest_event_id) SELECT 'w' || n % 50, 'thr_' || n, 0, n {EACH}",
    f"""
    INSERT INTO replies (reply_id, entry_id, agent, person, body, door, created_at, via)
      SELECT 'r' || n, 'e' || n, 'w' || n % 50, 'user', '', 'library', {STAMP}, 'mailbox' {EACH}""",
    "ANALYZE",
)


def test_a_row_that_is_named_by_its_key_is_found_by_it(connection: psycopg.Connection[Any]) -> None:
    """Also in a new store, whose tables have no statistics: a session keeps such a plan while its tables grow."""
    keys = dict(connection.execute(SINGLE_KEYS).fetchall())
    found = {name: filtered_by_key(connection, name, keys) for name in NAMES}
    assert {name: tables for name, tables in found.items() if tables} == {}


def filtered_by_key(connection: psycopg.Connection[Any], name: str, keys: dict[str, str]) -> set[str]:
    """Return the tables of which a plan reads rows by another index, and compares their keys with a value afterwards."""
    nodes = explain(connection, getattr(statements, name), f"{name}_by_key")
    return {
        node["Relation Name"]
        for node in nodes
        if re.search(rf"\({keys.get(node.get('Relation Name', ''), '-')} = \$", node.get("Filter", ""))
    }


def scanned_tables(connection: psycopg.Connection[Any], name: str) -> set[str]:
    """Return the tables that the plan of a statement reads as a whole."""
    return {node["Relation Name"] for node in explain(connection, getattr(statements, name), name) if node["Node Type"] == "Seq Scan"}


def explain(connection: psycopg.Connection[Any], statement: str, prepared: str) -> list[dict[str, Any]]:
    """Return the nodes of the generic plan of a statement."""
    [(text, names)] = parse_statement(str(statement))
    connection.execute(f"PREPARE {prepared} AS ".encode() + text)
    values = f"({', '.join(['NULL'] * len(names))})" if names else ""
    [(plans,)] = connection.execute(f"EXPLAIN (FORMAT JSON) EXECUTE {prepared}{values}".encode()).fetchall()
    found = plans if isinstance(plans, list) else json.loads(plans)
    return list(walk(found[0]["Plan"]))


def walk(node: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield node
    for child in node.get("Plans", ()):
        yield from walk(child)


def test_every_index_that_is_no_key_serves_a_statement(connection: psycopg.Connection[Any]) -> None:
    """An index that no plan uses costs every write of its table, and keeps updates from being HOT."""
    used: set[str | None] = set()
    for number, choice in enumerate(("enable_sort", "enable_bitmapscan")):
        connection.execute(f"SET {choice} TO off".encode())
        for name in NAMES:
            used.update(node.get("Index Name") for node in explain(connection, getattr(statements, name), f"{name}_{number}"))
    indexes = {name for (name,) in connection.execute(INDEXES).fetchall()}
    assert indexes - used <= set(SERVE_LARGE_TABLES.values())


def test_an_index_for_large_tables_serves_its_statement_once_there_are_rows_and_statistics(connection: psycopg.Connection[Any]) -> None:
    connection.execute(FILL)
    for name, index in SERVE_LARGE_TABLES.items():
        assert index in {node.get("Index Name") for node in explain(connection, getattr(statements, name), name)}


def test_tables_of_queues_have_room_for_updates_and_are_vacuumed_early(connection: psycopg.Connection[Any]) -> None:
    rows = connection.execute(
        "SELECT relname, reloptions FROM pg_class WHERE relnamespace = current_schema()::regnamespace AND relkind = 'r'"
    )
    options = {name: dict(option.split("=") for option in found or ()) for name, found in rows.fetchall()}
    assert {name for name, found in options.items() if "fillfactor" in found} == {"meta", "mailboxes", "agents", "cursors", "threads"}
    for table in ("threads", "leases", "deliveries", "reads", "tasks", "idempotency_keys", "mailboxes"):
        assert float(options[table]["autovacuum_vacuum_scale_factor"]) <= 0.1
