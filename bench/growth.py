"""PostgreSQL under more and more clients: our verbs beside a bare SKIP LOCKED queue, Procrastinate and pgmq, in one run.

Each client is a process with a connection to each contestant. Short blocks of all contestants alternate, so that other load of the machine
hits all alike. `python -m bench growth` prints the medians of the blocks; `SECONDS` and `ROUNDS` in the environment change their length.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from importlib.util import find_spec
from statistics import median
from time import monotonic
from typing import Any

import psycopg

import postroom
from bench import peers
from bench.report import Report
from bench.results import OURS, PER_SECOND
from bench.scale import choose
from postroom import mail, work
from postroom.store.interface import Store

CLIENTS = tuple(int(number) for number in os.environ.get("CLIENTS", "1,4,16,64").split(","))
BLOCK_SECONDS = float(os.environ.get("SECONDS", choose("0.7", "0.2")))
ROUNDS = int(os.environ.get("ROUNDS", "5"))
SCHEMA = "growth"
WAITING_JOBS = 100_000  # more than the fastest contestant takes in all rounds
Action = Callable[[], bool]
BARE = """
    CREATE TABLE IF NOT EXISTS bare_jobs (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, state text NOT NULL DEFAULT 'pending');
    CREATE INDEX IF NOT EXISTS bare_pending ON bare_jobs (id) WHERE state = 'pending'"""
BARE_TAKE = """
    UPDATE bare_jobs SET state = 'taken' WHERE id = (
      SELECT id FROM bare_jobs WHERE state = 'pending' ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED) RETURNING id"""


def run(report: Report, url: str) -> None:
    """Measure all contestants with each number of clients."""
    _prepare(url)
    names = [name for name in CONTESTANTS if (package := name.split()[0]) not in peers.SCRIPTS or find_spec(package) is not None]
    for peer in peers.SCRIPTS.keys() - set(names):
        report.leave_out(peer)
    with _workers(url, max(CLIENTS)) as workers:
        rates: dict[tuple[str, int], list[float]] = {(name, clients): [] for name in names for clients in CLIENTS}
        loads = []
        for _ in range(ROUNDS):
            for clients in CLIENTS:
                for name in names:
                    rates[name, clients].append(_measure_block(workers[:clients], name))
            loads.append(os.getloadavg()[0])
    for (operation, subject), name in RECORDED.items():
        for clients in CLIENTS if name in names else ():
            report.record("PostgreSQL", operation, subject, PER_SECOND, rates[name, clients], clients=clients)
    found = {key: median(values) for key, values in rates.items()}
    report.section(f"PostgreSQL, {' / '.join(map(str, CLIENTS))} clients (operations a second; load {min(loads):.0f} to {max(loads):.0f})")
    for name in names:
        by_clients = " / ".join(f"{found[name, clients]:.0f}" for clients in CLIENTS)
        report.row(f"{name} (growth {found[name, CLIENTS[-1]] / found[name, CLIENTS[0]]:.2f} x)", by_clients)
    if 16 in CLIENTS and CLIENTS[0] == 1:
        _report_bounds(report, found)


def _report_bounds(report: Report, found: dict[tuple[str, int], float]) -> None:
    growth = {name: found[name, 16] / found[name, 1] for name, clients in found if clients == 16}
    report.row("take + done: growth from 1 to 16 clients", f"{growth['work']:.2f} x", "at least 1.8", met=growth["work"] >= 1.8)
    share = growth["work"] / growth["bare"]
    report.row("the same / growth of the bare queue", f"{share:.0%}", "at least 80 %", met=share >= 0.8)
    for ours, theirs, what in (
        ("work", "procrastinate", "take + done"),
        ("mail put", "pgmq put", "enqueue"),
        ("mail take", "pgmq", "dequeue + ack"),
    ):
        if (theirs, 16) in found:
            ratio = found[ours, 16] / found[theirs, 16]
            report.row(f"{what} / {theirs}, 16 clients", f"{ratio:.2f} x", "ahead", met=ratio >= 1)


@contextmanager
def _workers(url: str, count: int) -> Iterator[list[subprocess.Popen[str]]]:
    argv = [sys.executable, "-m", "bench.growth", url]
    workers = [subprocess.Popen([*argv, str(n)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for n in range(count)]
    try:
        for worker in workers:
            _read_line(worker)
        yield workers
    finally:
        for worker in workers:
            assert worker.stdin is not None
            worker.stdin.close()
            worker.wait(30)


def _measure_block(workers: list[subprocess.Popen[str]], name: str) -> float:
    for worker in workers:
        assert worker.stdin is not None
        worker.stdin.write(f"{name}\n")
        worker.stdin.flush()
    return sum(float(_read_line(worker)) for worker in workers)


def _read_line(worker: subprocess.Popen[str]) -> str:
    assert worker.stdout is not None
    return worker.stdout.readline()


def place_of(url: str) -> str:
    return f"{url}{'&' if '?' in url else '?'}schema={SCHEMA}"


def _prepare(url: str) -> None:
    postroom.init(place_of(url))
    with psycopg.connect(url, autocommit=True) as connection:
        for statement in BARE.split(";"):
            connection.execute(statement.encode())
        connection.execute("INSERT INTO bare_jobs (state) SELECT 'pending' FROM generate_series(1, %s)", (WAITING_JOBS,))
        for peer in peers.SCRIPTS:
            if find_spec(peer) is not None:
                peers.prepare(connection, peer, WAITING_JOBS)
        connection.execute(f"SET search_path TO {SCHEMA}".encode())
        connection.execute(
            "INSERT INTO threads (thread_id, run_id, task_id, subject, created_by, assigned_to, status, created_at, updated_at)"
            " SELECT 'thr_' || lpad(n::text, 16, '0'), '', '', 'job', 'leader', 'w', 'pending', '2026-01-01T00:00:00.'"
            " || lpad(n::text, 6, '0') || 'Z', '2026-01-01T00:00:00.000000Z' FROM generate_series(1, %s) n",
            (WAITING_JOBS,),
        )
        connection.execute("VACUUM ANALYZE")


# The rest runs in a client's process, which has one store and one bare connection for all contestants.


@cache
def _open_store(url: str) -> Store:
    return postroom.open(place_of(url))


@cache
def _connect(url: str) -> psycopg.Connection[Any]:
    return psycopg.connect(url, autocommit=True)


def _work(url: str, number: int) -> Action:
    store = _open_store(url)

    def take_and_finish() -> bool:
        claim = work.take(store, agent="w")
        if claim is None:
            return False
        work.done(store, claim.thread.thread_id, agent="w", summary="ok", lease_token=claim.lease.lease_token)
        return True

    return take_and_finish


def _mail_put(url: str, number: int) -> Action:
    store = _open_store(url)
    return lambda: mail.enqueue(store, {"from": f"s{number}", "to": f"box{number}", "payload": "{}"}).queued


def _mail_take(url: str, number: int) -> Action:
    store, session = _open_store(url), f"box{number}"

    def take_and_ack() -> bool:
        delivery = mail.dequeue(store, session)
        if delivery is None:  # filled in one transaction, which is not counted
            mail.enqueue_all(store, [{"from": f"s{n}", "to": session, "payload": "{}"} for n in range(200)])
            return False
        mail.ack(store, session, delivery.message.msg_id, delivery_token=delivery.delivery_token)
        return True

    return take_and_ack


def _bare(url: str, number: int) -> Action:
    connection = _connect(url)

    def once() -> bool:
        row = connection.execute(BARE_TAKE).fetchone()
        if row is None:
            return False
        connection.execute("UPDATE bare_jobs SET state = 'done' WHERE id = %s", row)
        return True

    return once


def _peer(make: Callable[[psycopg.Connection[Any]], Action]) -> Callable[[str, int], Action]:
    return lambda url, number: make(_connect(url))


def _pgmq_put(connection: psycopg.Connection[Any]) -> Action:
    return lambda: connection.execute("SELECT pgmq.send('bench', '{}'::jsonb)").fetchone() is not None


def _bare_put(connection: psycopg.Connection[Any]) -> Action:
    return lambda: connection.execute("INSERT INTO bare_jobs (state) VALUES ('pending')").rowcount == 1


CONTESTANTS: dict[str, Callable[[str, int], Action]] = {
    "work": _work,
    "bare": _bare,
    "bare put": _peer(_bare_put),
    "procrastinate": _peer(peers.make_procrastinate),
    "pgmq": _peer(peers.make_pgmq),
    "mail put": _mail_put,
    "mail take": _mail_take,
    "pgmq put": _peer(_pgmq_put),
}
BARE_QUEUE = "a bare SKIP LOCKED queue"
RECORDED = {  # by operation and subject: the contestant
    ("thread: take + done", OURS): "work",
    ("thread: take + done", BARE_QUEUE): "bare",
    ("thread: take + done", "Procrastinate"): "procrastinate",
    ("thread: take + done", "pgmq"): "pgmq",
    ("mail: enqueue", OURS): "mail put",
    ("mail: enqueue", BARE_QUEUE): "bare put",
    ("mail: enqueue", "pgmq"): "pgmq put",
    ("mail: dequeue + ack", OURS): "mail take",
    ("mail: dequeue + ack", BARE_QUEUE): "bare",
    ("mail: dequeue + ack", "pgmq"): "pgmq",
}


def _client(url: str, number: int) -> None:
    """Do what the lines of standard input name, each for one block, and print the operations a second."""
    actions: dict[str, Action] = {}
    print("READY", flush=True)
    for line in sys.stdin:
        name = line.strip()
        action = actions.get(name) or actions.setdefault(name, CONTESTANTS[name](url, number))
        began, done = monotonic(), 0
        while done == 0 or monotonic() - began < BLOCK_SECONDS:  # at least one, also while the disk stalls
            done += action()
        print(done / (monotonic() - began), flush=True)


if __name__ == "__main__":
    _client(sys.argv[1], int(sys.argv[2]))
