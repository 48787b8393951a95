"""Pruning of a million ended threads while four writers work, from the first one to the last. Run it by name: `python -m bench million`."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from time import monotonic

import postroom
from bench.report import Report, milliseconds, percentile, times
from bench.results import OURS, SECONDS
from bench.retention import DAY_SECONDS, WRITERS, answer, fill, processes, tell
from bench.retention_steps import holds_of_batches
from bench.scale import choose
from postroom.core.errors import Interrupted
from postroom.maintenance.pruning import prune
from postroom.store.interface import Store

THREADS = int(os.environ.get("THREADS", choose("1000000", "20000")))
PRUNE_SECONDS = float(os.environ.get("PRUNE_SECONDS", choose("30", "4")))  # of a round, in which the writers work beside pruning
ALONE_SECONDS = float(os.environ.get("ALONE_SECONDS", choose("6", "2")))  # and in which they work without it
MAX_SECONDS = 20 * 60
GROUP = "retention"


def run(report: Report) -> None:
    """Fill a store, and let writers work without and beside pruning in turns, until everything is removed."""
    report.section(f"Pruning {THREADS:,} ended threads while {WRITERS} writers work as fast as they can")
    with TemporaryDirectory() as folder:
        place, began = str(Path(folder) / "coord.db"), monotonic()
        fill(place, THREADS)
        report.row("the store, and the time to make it", f"{os.path.getsize(place) >> 20} MiB, {monotonic() - began:.0f} s")
        with processes("bench.retention", "write", place, WRITERS) as writers, processes("bench.million", "", place, 1) as (pruner,):
            alone, beside, rounds = _take_turns(writers, pruner)
    _report(report, alone, beside, rounds)


def _take_turns(
    writers: list[subprocess.Popen[str]], pruner: subprocess.Popen[str]
) -> tuple[list[list[float]], list[list[float]], list[dict[str, float]]]:
    """Return the seconds of the writes of each round, without and beside pruning, and what the pruner says of each round."""
    alone: list[list[float]] = []
    beside: list[list[float]] = []
    rounds: list[dict[str, float]] = []
    began = monotonic()
    while not (rounds and rounds[-1]["finished"]) and monotonic() - began < MAX_SECONDS:
        alone.append(_write(writers, ALONE_SECONDS))
        for writer in writers:
            tell(writer, f"{PRUNE_SECONDS} 0")
        tell(pruner, str(PRUNE_SECONDS))
        rounds.append(json.loads(answer(pruner)))
        beside.append(_read_waits(writers))
        left, ratio = rounds[-1]["left"], percentile(beside[-1], 0.99) / percentile(alone[-1], 0.99)
        print(f"    {monotonic() - began:5.0f} s: {left:9,.0f} threads left, p99 {times(ratio)}", flush=True)
    return alone, beside, rounds


def _write(writers: list[subprocess.Popen[str]], seconds: float) -> list[float]:
    for writer in writers:
        tell(writer, f"{seconds} 0")
    return _read_waits(writers)


def _read_waits(writers: list[subprocess.Popen[str]]) -> list[float]:
    return [float(word) for writer in writers for word in answer(writer).split()]


def _report(report: Report, alone: list[list[float]], beside: list[list[float]], rounds: list[dict[str, float]]) -> None:
    report.row("all of them are removed", "yes" if rounds[-1]["finished"] else "no", "yes", met=bool(rounds[-1]["finished"]))
    seconds = sum(one["seconds"] for one in rounds)
    rate = (THREADS - rounds[-1]["left"]) / seconds
    report.row("threads removed a second, and all that belongs to them", f"{rate:,.0f}", "at least 800", met=rate >= 800)
    for share, name in ((0.5, "median"), (0.99, "p99")):
        before, after = ([percentile(block, share) for block in blocks] for blocks in (alone, beside))
        ratio = median([one / other for one, other in zip(after, before)])
        bound = {"bound": "at most 2 x", "met": ratio <= 2} if name == "p99" else {}
        measured = f"{milliseconds(median(before))} → {milliseconds(median(after))}"
        report.row(f"{name} of a write ({times(ratio)})", measured, **bound)  # type: ignore[arg-type]
        report.record(GROUP, f"{name} of a write, all are removed", OURS, SECONDS, after, size=THREADS, clients=WRITERS)
        report.record(GROUP, f"{name} of a write, all are removed", "without pruning", SECONDS, before, size=THREADS, clients=WRITERS)
    holds = f"{milliseconds(median(one['p99'] for one in rounds))}; {milliseconds(max(one['longest'] for one in rounds))}"
    report.row("a transaction of pruning holds the store for: p99; longest", holds)


# The rest runs in the pruner's process.


def _prune_for(store: Store, seconds: float) -> dict[str, float]:
    began = monotonic()
    finished = True
    with holds_of_batches() as holds:
        try:
            prune(store, older_than_seconds=90 * DAY_SECONDS, is_stopping=lambda: monotonic() > began + seconds)
        except Interrupted:
            finished = False
    taken, held = monotonic() - began, [hold for hold, _ in holds]
    with store.read() as tx:
        (left,) = tx.fetch_one("SELECT count(*) FROM threads WHERE status = 'done'")
    return {"finished": finished, "seconds": taken, "left": left, "p99": percentile(held or [0.0], 0.99), "longest": max(held, default=0.0)}


def _serve(place: str) -> None:
    with closing(postroom.open(place)) as store:
        print("READY", flush=True)
        for line in sys.stdin:
            print(json.dumps(_prune_for(store, float(line))), flush=True)


if __name__ == "__main__":
    _serve(sys.argv[2])
