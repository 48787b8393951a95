"""One catalogue of statements, the same on every engine, and a schema that grows by numbered files."""

from __future__ import annotations

import sqlite3
from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest

from postroom.store.catalogue import Catalogue
from postroom.store.migrations import read_scripts
from postroom.store.postgres import statements as postgres_statements
from postroom.store.sqlite import schema, statements
from postroom.store.tables import SCHEMA_VERSION

ENGINES = [statements, postgres_statements]


@pytest.mark.parametrize("module", ENGINES)
def test_an_engine_has_every_statement_and_no_other(module: ModuleType) -> None:
    parts = [vars(import_module(part)) for part in module.MODULES.values()]
    public = {name for part in parts for name, value in part.items() if isinstance(value, str) and name.islower() and name[0] != "_"}
    assert public == set(Catalogue.__annotations__)
    assert [name for name in Catalogue.__annotations__ if not isinstance(getattr(module, name), str)] == []


def test_a_statement_that_nobody_wrote_is_missed_at_once() -> None:
    with pytest.raises(AttributeError, match="thread_lose"):
        getattr(statements, "thread_" + "lose")


@pytest.mark.parametrize("module", ENGINES)
def test_statements_bind_by_name_alone(module: ModuleType) -> None:
    assert not [name for name in Catalogue.__annotations__ if "?" in getattr(module, name) or "%" in getattr(module, name)]


def test_the_newest_migration_is_the_version() -> None:
    assert [number for number, _ in read_scripts("postgres")] == list(range(1, SCHEMA_VERSION + 1))
    assert [number for number, _ in read_scripts("sqlite")] == list(range(1, SCHEMA_VERSION + 1))


def test_the_documents_tables_and_columns_are_there(tmp_path: Path) -> None:
    schema.init_database(str(tmp_path / "coord.db"))
    database = sqlite3.connect(tmp_path / "coord.db")
    for table, columns in DOCUMENT.items():
        found = [row[1] for row in database.execute(f"PRAGMA table_info({table})")]
        assert found[: len(columns)] == columns
    indexes = {row[0] for row in database.execute("SELECT name FROM sqlite_master WHERE type = 'index'")}
    assert {"idx_threads_status_assigned", "idx_messages_thread_created", "idx_events_thread_event"} <= indexes
    assert database.execute("PRAGMA journal_mode").fetchone() == ("wal",)


DOCUMENT = {
    "threads": [
        "thread_id", "run_id", "task_id", "subject", "created_by", "assigned_to", "status", "priority", "latest_message_id", "created_at",
        "updated_at",
    ],
    "messages": ["message_id", "thread_id", "from_agent", "to_agent", "kind", "summary", "body", "payload_json", "created_at"],
    "leases": ["thread_id", "agent_id", "lease_token", "claimed_at", "expires_at", "released_at"],
    "artifacts": ["artifact_id", "message_id", "path", "kind", "metadata_json", "created_at"],
    "events": [
        "event_id", "run_id", "task_id", "thread_id", "source", "event_type", "message_id", "summary", "payload_json", "created_at",
    ],
}  # fmt: skip
