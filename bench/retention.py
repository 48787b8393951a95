"""Pruning beside writers: how much longer their writes take, and how many threads a second go."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from time import monotonic, perf_counter, sleep

import postroom
from bench import retention_steps
from bench.report import Report, milliseconds, percentile, times
from bench.results import OURS, PER_SECOND, SECONDS
from bench.scale import REPEATS, choose
from postroom import work
from postroom._fastpath.sqlite import Connection, connect
from postroom.core import clock
from postroom.core.errors import Interrupted
from postroom.maintenance.pruning import prune
from postroom.store.interface import Store
from postroom.store.sqlite.engine import SqliteStore

THREADS = int(os.environ.get("THREADS", choose("200000", "60000")))
BLOCK_SECONDS = float(os.environ.get("SECONDS", choose("6", "2")))
ROUNDS = int(os.environ.get("ROUNDS", choose(REPEATS, 3)))
WRITERS = 4
TEMPLATE_THREADS = 500
EVERY_SECONDS = 0.02  # between two writes of a writer that does not hurry
DAY_SECONDS = 86_400
GROUP = "retention"


def run(report: Report) -> None:
    """Measure writers that hurry and writers that do not, without and beside pruning, in turns; then pruning alone."""
    report.section(f"Pruning a store of {THREADS:,} ended threads beside {WRITERS} writers")
    with TemporaryDirectory() as folder:
        place = str(Path(folder) / "coord.db")
        fill(place, THREADS)
        report.row("the store", f"{os.path.getsize(place) >> 20} MiB")
        with processes("bench.retention", "write", place, WRITERS) as writers, processes("bench.retention", "prune", place, 1) as (pruner,):
            for label, pause in (("as fast as they can", 0.0), (f"{1 / EVERY_SECONDS:.0f} a second each", EVERY_SECONDS)):
                _beside(report, label, pause, writers, pruner)
            rate = _prune(pruner, BLOCK_SECONDS)
            report.row("nobody writes: threads removed a second", f"{rate:,.0f}")
            report.record(GROUP, "threads removed, nobody writes", OURS, PER_SECOND, [rate])
    retention_steps.run(report)


def _beside(report: Report, label: str, pause: float, writers: list[subprocess.Popen[str]], pruner: subprocess.Popen[str]) -> None:
    """Let the writers work, in turns without and beside a prune, and report the percentiles of both."""
    waits: dict[bool, list[list[float]]] = {False: [], True: []}
    rates = []
    for _ in range(ROUNDS):
        for pruning in (False, True):
            for writer in writers:
                tell(writer, f"{BLOCK_SECONDS} {pause}")
            if pruning:
                rates.append(_prune(pruner, BLOCK_SECONDS))
            waits[pruning].append([float(word) for writer in writers for word in answer(writer).split()])
    for share, name in ((0.5, "median"), (0.99, "p99")):
        without, beside = ([percentile(block, share) for block in waits[pruning]] for pruning in (False, True))
        ratio = median([after / before for before, after in zip(without, beside)])
        bound = {"bound": "at most 2 x", "met": ratio <= 2} if name == "p99" else {}
        measured = f"{milliseconds(median(without))} → {milliseconds(median(beside))}"
        report.row(f"writers {label}, {name} of a write ({times(ratio)})", measured, **bound)  # type: ignore[arg-type]
        report.record(GROUP, f"{name} of a write, {label}", OURS, SECONDS, beside, clients=WRITERS)
        report.record(GROUP, f"{name} of a write, {label}", "without pruning", SECONDS, without, clients=WRITERS)
    written = [sum(map(len, waits[pruning])) / BLOCK_SECONDS / ROUNDS for pruning in (False, True)]
    report.row(f"writers {label}: writes a second", f"{written[0]:,.0f} → {written[1]:,.0f}")
    report.row(f"writers {label}: threads removed a second", f"{median(rates):,.0f}")
    report.record(GROUP, f"threads removed, {label}", OURS, PER_SECOND, rates, clients=WRITERS)


def fill(place: str, threads: int) -> None:
    """Make a store with threads that ended long ago: some by verbs, and the rest as copies of their rows with other ids."""
    postroom.init(place)
    then = clock.now() - 200 * DAY_SECONDS * clock.MICROSECONDS_PER_SECOND
    with closing(SqliteStore(place, now=iter(range(then, then + 10**12, 1000)).__next__)) as store:
        for number in range(TEMPLATE_THREADS):
            work_on_thread(store, number)
    connection = connect(place, isolation_level=None)
    connection.execute("PRAGMA journal_mode=OFF").fetchall()
    connection.execute("PRAGMA synchronous=OFF")
    connection.execute("PRAGMA cache_size=-400000")  # KiB
    connection.execute("BEGIN")
    events = connection.execute("SELECT max(event_id) FROM events").fetchone()[0]
    for block in range(1, threads // TEMPLATE_THREADS):
        _copy_rows(connection, block, events)
    newest = connection.execute("SELECT max(event_id) FROM events").fetchone()[0]
    connection.execute("UPDATE cursors SET event_id = ? WHERE name <> 'events.removed'", (newest,))
    connection.execute("COMMIT")
    connection.execute("PRAGMA journal_mode=WAL").fetchall()
    connection.close()


def work_on_thread(store: Store, number: int) -> None:
    """Give a thread to one of eight agents, which ends it: four events and three messages."""
    agent = f"builder-{number % 8}"
    thread_id = work.send(store, sender=f"leader-{number % 3}", to=agent, subject=f"Part {number}", body="Build it. " * 20).thread.thread_id
    work.claim(store, thread_id, agent=agent)
    work.update(store, thread_id, agent=agent, summary="Half of it is there", body="Tests next. " * 10)
    work.done(store, thread_id, agent=agent, summary="Done", body="All of it. " * 10)


def _copy_rows(connection: Connection, block: int, events: int) -> None:
    """Copy the rows of the template's threads with the ids and the times of another moment."""

    def moved(column: str) -> str:
        return f"substr({column}, 1, 4) || '{block:09d}' || substr({column}, 14)"

    def later(column: str) -> str:
        return f"strftime('%Y-%m-%dT%H:%M:%f000Z', {column}, '+{block * TEMPLATE_THREADS // 100} seconds')"

    shifted = {"thread_id": moved, "message_id": moved, "latest_message_id": moved, "created_at": later, "updated_at": later}
    shifted |= dict.fromkeys(("event_id", "read_event_id", "latest_event_id"), lambda column: f"{column} + {block * events}")
    for table in ("threads", "events", "messages", "leases", "reads"):
        columns = [row[1] for row in connection.execute(f"PRAGMA table_info({table})")]
        values = ", ".join(shifted[column](column) if column in shifted else column for column in columns)
        which = "event_id <= :events" if table == "events" else "thread_id >= 'thr_1'"  # copies begin with 0
        order = "event_id" if table == "events" else "thread_id"
        connection.execute(f"INSERT INTO {table} SELECT {values} FROM {table} WHERE {which} ORDER BY {order}", {"events": events})


@contextmanager
def processes(module: str, role: str, place: str, count: int) -> Iterator[list[subprocess.Popen[str]]]:
    """Start processes that do what `tell` says, and end them."""
    argv = [sys.executable, "-m", module, role, place]
    started = [subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for _ in range(count)]
    try:
        for process in started:
            answer(process)
        yield started
    finally:
        for process in started:
            assert process.stdin is not None
            process.stdin.close()
            process.wait(60)


def tell(process: subprocess.Popen[str], line: str) -> None:
    assert process.stdin is not None
    process.stdin.write(line + "\n")
    process.stdin.flush()


def answer(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline()


def _prune(pruner: subprocess.Popen[str], seconds: float) -> float:
    """Let the other process prune for so long, and return how many threads it removed a second."""
    tell(pruner, str(seconds))
    return float(answer(pruner)) / seconds


# The rest runs in the other processes.


def _write(store: Store, seconds: float, pause_seconds: float) -> str:
    waits, end = [], monotonic() + seconds
    while monotonic() < end:
        start = perf_counter()
        work.send(store, sender="a", to="b", subject="contended")
        waits.append(perf_counter() - start)
        sleep(pause_seconds)
    return " ".join(f"{wait:.6f}" for wait in waits)


def _prune_for(store: Store, seconds: float) -> str:
    before, end = _count_ended(store), monotonic() + seconds
    try:
        prune(store, older_than_seconds=90 * DAY_SECONDS, is_stopping=lambda: monotonic() > end)
    except Interrupted:
        pass
    return str(before - _count_ended(store))


def _count_ended(store: Store) -> int:
    with store.read() as tx:
        (count,) = tx.fetch_one("SELECT count(*) FROM threads WHERE status = 'done'")
    return int(count)


def _serve(role: str, place: str) -> None:
    with closing(postroom.open(place)) as store:
        print("READY", flush=True)
        for line in sys.stdin:
            numbers = [float(word) for word in line.split()]
            print((_write if role == "write" else _prune_for)(store, *numbers), flush=True)


if __name__ == "__main__":
    _serve(sys.argv[1], sys.argv[2])
