"""What somebody might pick instead, on the same server: claim a job, then finish it, with each one's own SQL."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from time import perf_counter
from typing import Any

import psycopg

from bench.report import Report

JOBS = 300
TABLES = {"procrastinate": "procrastinate_jobs", "pgmq": "pgmq.meta"}
SCRIPTS = {"procrastinate": "sql/schema.sql", "pgmq": "sql/pgmq.sql"}


def run(report: Report, url: str) -> None:
    for peer in SCRIPTS:
        if find_spec(peer) is None:
            report.row(f"{peer}: not installed (make bench installs it)", "-")
            continue
        rates = [f"{_rate(url, peer, clients):.0f}" for clients in (1, 4, 16)]
        report.row(f"{peer}: claim + finish of a bare job, 1 / 4 / 16 clients, a second", " / ".join(rates))


def _rate(url: str, peer: str, clients: int) -> float:
    with psycopg.connect(url, autocommit=True) as connection:
        _prepare(connection, peer, clients * JOBS)
    argv = [sys.executable, "-m", "bench.peers", peer, url]
    workers = [subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for _ in range(clients)]
    for worker in workers:
        assert worker.stdout is not None
        worker.stdout.readline()
    start = perf_counter()
    done = sum(int(worker.communicate("go\n")[0]) for worker in workers)
    return done / (perf_counter() - start)


def _prepare(connection: psycopg.Connection[Any], peer: str, jobs: int) -> None:
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


def _work(peer: str, url: str) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        once = {"procrastinate": _procrastinate, "pgmq": _pgmq}[peer](connection)
        print("READY", flush=True)
        sys.stdin.readline()
        print(sum(once() for _ in range(JOBS)))


def _procrastinate(connection: psycopg.Connection[Any]) -> Callable[[], bool]:
    worker = connection.execute("INSERT INTO procrastinate_workers DEFAULT VALUES RETURNING id").fetchone()
    assert worker is not None

    def once() -> bool:
        job = connection.execute("SELECT id FROM procrastinate_fetch_job_v2(NULL, %s)", worker).fetchone()
        if job is None or job[0] is None:
            return False
        connection.execute("SELECT procrastinate_finish_job_v1(%s, 'succeeded', false)", job)
        return True

    return once


def _pgmq(connection: psycopg.Connection[Any]) -> Callable[[], bool]:
    def once() -> bool:
        job = connection.execute("SELECT msg_id FROM pgmq.read('bench', 30, 1)").fetchone()
        if job is None:
            return False
        connection.execute("SELECT pgmq.archive('bench', %s::bigint)", job)
        return True

    return once


if __name__ == "__main__":
    _work(sys.argv[1], sys.argv[2])
