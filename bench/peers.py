"""Other queues on PostgreSQL: claim a job, then finish it, with each one's own SQL. `bench.growth` runs them beside ours."""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import psycopg

TABLES = {"procrastinate": "procrastinate_jobs", "pgmq": "pgmq.meta"}
SCRIPTS = {"procrastinate": "sql/schema.sql", "pgmq": "sql/pgmq.sql"}


def prepare(connection: psycopg.Connection[Any], peer: str, jobs: int) -> None:
    """A database of its own schema's making, with jobs waiting."""
    spec = find_spec(peer)
    assert spec is not None
    assert spec.origin is not None
    if connection.execute("SELECT to_regclass(%s)", (TABLES[peer],)).fetchone() == (None,):
        connection.execute((Path(spec.origin).parent / SCRIPTS[peer]).read_bytes())
    if peer == "procrastinate":
        connection.execute("TRUNCATE procrastinate_jobs CASCADE")
        insert = "INSERT INTO procrastinate_jobs (queue_name, task_name, args) SELECT 'q', 't', '{}' FROM generate_series(1, %s)"
        connection.execute(insert, (jobs,))
    else:
        connection.execute("SELECT pgmq.create('bench')")
        connection.execute("SELECT pgmq.purge_queue('bench')")
        connection.execute("SELECT pgmq.send('bench', '{}'::jsonb) FROM generate_series(1, %s)", (jobs,))


def make_procrastinate(connection: psycopg.Connection[Any]) -> Callable[[], bool]:
    worker = connection.execute("INSERT INTO procrastinate_workers DEFAULT VALUES RETURNING id").fetchone()
    assert worker is not None

    def once() -> bool:
        job = connection.execute("SELECT id FROM procrastinate_fetch_job_v2(NULL, %s)", worker).fetchone()
        if job is None or job[0] is None:
            return False
        connection.execute("SELECT procrastinate_finish_job_v1(%s, 'succeeded', false)", job)
        return True

    return once


def make_pgmq(connection: psycopg.Connection[Any]) -> Callable[[], bool]:
    def once() -> bool:
        job = connection.execute("SELECT msg_id FROM pgmq.read('bench', 30, 1)").fetchone()
        if job is None:
            return False
        connection.execute("SELECT pgmq.archive('bench', %s::bigint)", job)
        return True

    return once
