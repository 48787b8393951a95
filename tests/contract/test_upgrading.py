"""A store that an earlier version made is refused with what to do, and upgraded in place by `init`."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import psycopg
import pytest

import postroom
from postroom import mail, work
from postroom.core.errors import WrongVersion
from postroom.store.migrations import read_scripts
from postroom.store.sqlite.engine import APPLICATION_ID
from postroom.store.sqlite.schema import split_statements
from tests.postgres_server import Postgres

THREAD = (
    "INSERT INTO threads (thread_id, run_id, task_id, subject, created_by, assigned_to, status, created_at, updated_at)"
    " VALUES ('thr_old', '', '', 'From before', 'leader', 'builder', 'pending', '2026', '2026')"
)


@pytest.fixture
def first_version(engine: str, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[str]:
    """A store as version 1 made it, with a thread in it."""
    script = dict(read_scripts(engine))[1]
    if engine == "sqlite":
        with closing(sqlite3.connect(tmp_path / "old.db", isolation_level=None)) as file:
            file.execute("PRAGMA journal_mode=WAL")
            for statement in (*split_statements(script), f"PRAGMA application_id={APPLICATION_ID}", "PRAGMA user_version=1", THREAD):
                file.execute(statement)
        yield str(tmp_path / "old.db")
        return
    server: Postgres = request.getfixturevalue("postgres")
    with server.schema() as url, psycopg.connect(server.url, autocommit=True) as connection:
        name = url.rpartition("schema=")[2]
        connection.execute(f"CREATE SCHEMA {name}; SET search_path TO {name}".encode())
        connection.execute(script.encode())
        connection.execute(f"INSERT INTO meta (version) VALUES (1); {THREAD}".encode())
        yield url


def test_an_older_store_is_upgraded_with_all_it_holds(first_version: str) -> None:
    with pytest.raises(WrongVersion) as refused:
        postroom.open(first_version)
    assert "inbox init" in refused.value.hint
    assert postroom.init(first_version) is False
    store = postroom.open(first_version)
    assert work.claim(store, "thr_old", agent="builder").thread.subject == "From before"
    assert mail.enqueue(store, {"from": "lead", "to": "analyst", "payload": "new"}).queued
    assert postroom.init(first_version) is False
    store.close()
