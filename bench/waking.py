"""From a commit to the waiter that wanted it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from time import perf_counter, perf_counter_ns, sleep

import postroom
from bench.blocks import split_medians
from bench.commands import INBOX
from bench.report import Report, milliseconds, percentile, times
from bench.results import OURS, SECONDS
from bench.scale import choose
from bench.waiters import waiting_processes
from postroom import work
from postroom.store.interface import Store

WAKES = choose(200, 50)


def run(report: Report) -> None:
    report.section("Waking: commit -> a waiter in another process")
    with TemporaryDirectory() as folder:
        place = str(Path(folder) / "coord.db")
        postroom.init(place)
        store = postroom.open(place)
        thread = work.send(store, sender="leader", to="w", subject="wake").thread.thread_id
        work.claim(store, thread, agent="w")
        waits = time_wakes(["echo", place], lambda: work.update(store, thread, agent="w", summary="ring"))
        report.row("library: the waiter has the row, median", milliseconds(median(waits)), "under 0.3 ms", met=median(waits) < 0.0003)
        report.row("library: the same, p99", milliseconds(percentile(waits, 0.99)))
        fifo = str(Path(folder) / "fifo")
        os.mkfifo(fifo)
        with open(fifo, "r+b", buffering=0) as pipe:
            pipe_waits = time_wakes(["pipe", fifo], lambda: pipe.write(b"x"), from_start=True)
        report.row("a byte through a pipe, median (lower limit)", milliseconds(median(pipe_waits)))
        for subject, values in ((OURS, waits), ("a byte through a pipe", pipe_waits)):
            report.record("waking", "SQLite: commit until a waiter in another process has the row", subject, SECONDS, split_medians(values))
        ends = _process(store, place)
        report.record("waking", "commit until `inbox wait-reply` has ended", OURS, SECONDS, split_medians(ends))
        report.row("`inbox wait-reply`: the process has ended, median", milliseconds(median(ends)), "within 5 ms", met=median(ends) < 0.005)
        _crowd(report, store, place)


def time_wakes(
    waiter_argv: list[str], ring: Callable[[], object], *, wakes: int = WAKES, pause_seconds: float = 0.005, from_start: bool = False
) -> list[float]:
    """Return the seconds from the end (or the start) of each `ring` until the waiter, a process of this module, has seen it.

    A waiter may see it before `ring` has returned. Such a wait counts as a microsecond.
    """
    argv = [sys.executable, "-m", "bench.waking", *waiter_argv]
    waiter = subprocess.Popen(argv, stdout=subprocess.PIPE, text=True)
    assert waiter.stdout is not None
    waiter.stdout.readline()
    waits = []
    for _ in range(wakes):
        sleep(pause_seconds)  # so that the waiter is asleep again
        started = perf_counter_ns()
        ring()
        counted_from = started if from_start else perf_counter_ns()
        waits.append(max(int(waiter.stdout.readline()) - counted_from, 1000) / 1e9)
    waiter.kill()
    waiter.wait()
    return waits


def _process(store: Store, place: str) -> list[float]:
    ends = []
    for _ in range(choose(30, 5)):
        thread = work.send(store, sender="leader", to="w", subject="ask").thread.thread_id
        work.claim(store, thread, agent="w")
        asked = work.update(store, thread, agent="w", status="blocked", summary="which?")
        argv = [INBOX, "wait-reply", "--db", place, "--thread", thread, "--after-event", str(asked.next_event_id), "--json"]
        waiter = subprocess.Popen(argv, stdout=subprocess.DEVNULL)
        sleep(0.15)  # it is waiting by then
        work.reply(store, thread, sender="leader", summary="this")
        committed = perf_counter()
        waiter.wait()
        ends.append(perf_counter() - committed)
    return ends


def _crowd(report: Report, store: Store, place: str) -> None:
    quiet = _writes(store)
    with waiting_processes(place, 100):
        slower = _writes(store) / quiet
    report.row("100 writes a second: median beside 100 waiters / without", times(slower), "under 1.5", met=slower < 1.5)


def _writes(store: Store) -> float:
    """The median of a write, at 100 writes a second for two seconds."""
    spent = []
    for turn in range(200):
        start = perf_counter()
        work.send(store, sender="leader", to="nobody", subject=f"noise {turn}")
        spent.append(perf_counter() - start)
        sleep(max(0.01 - spent[-1], 0))
    return median(spent)


def _echo(place: str) -> None:
    """Say when each event was seen."""
    store = postroom.open(place)
    cursor = work.watch(store, after_event=0).next_event_id
    print("READY", flush=True)
    while True:
        heard = work.watch(store, after_event=cursor)
        print(perf_counter_ns(), flush=True)
        cursor = heard.next_event_id


def _listen(url: str) -> None:
    """Say when each notification of PostgreSQL was received."""
    import psycopg

    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("LISTEN bench")
        print("READY", flush=True)
        for _ in connection.notifies():
            print(perf_counter_ns(), flush=True)


def _pipe(path: str) -> None:
    """Say when each byte came through a named pipe."""
    with open(path, "rb", buffering=0) as pipe:
        print("READY", flush=True)
        while pipe.read(1):
            print(perf_counter_ns(), flush=True)


if __name__ == "__main__":
    {"echo": _echo, "listen": _listen, "pipe": _pipe}[sys.argv[1]](sys.argv[2])
