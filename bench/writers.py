"""Many processes writing one file: how long the unlucky wait, and whether anybody starves."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from time import monotonic, perf_counter

import postroom
from bench.report import Report, milliseconds, percentile, times
from postroom import work

SECONDS = 4.0


def run(report: Report) -> None:
    report.section("Processes writing one file at once (library `send`), beside one alone")
    with TemporaryDirectory() as folder:
        alone = median(_contend(folder, 1)[0])
    report.row("one process: median of a write", milliseconds(alone))
    for processes in (4, 8):
        with TemporaryDirectory() as folder:
            shares = _contend(folder, processes)
        waits = [wait for share in shares for wait in share]
        worst = percentile(waits, 0.99) / alone
        fairness = min(map(len, shares)) / (sum(map(len, shares)) / processes)
        report.row(f"{processes} processes: p99 of a write / median of one alone", times(worst), "under 20", met=worst < 20)
        report.row(f"{processes} processes: the least lucky's part of a fair share", f"{fairness:.2f}", "over 0.5", met=fairness > 0.5)


def _contend(folder: str, processes: int) -> list[list[float]]:
    place = str(Path(folder) / "coord.db")
    postroom.init(place)
    writers = [
        subprocess.Popen([sys.executable, "-m", "bench.writers", place], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        for _ in range(processes)
    ]
    for writer in writers:
        assert writer.stdout is not None
        writer.stdout.readline()
    for writer in writers:
        assert writer.stdin is not None
        writer.stdin.write("go\n")
        writer.stdin.flush()
    return [[float(word) for word in writer.communicate()[0].split()] for writer in writers]


def _write(place: str) -> None:
    store = postroom.open(place)
    print("READY", flush=True)
    sys.stdin.readline()
    waits = []
    end = monotonic() + SECONDS
    while monotonic() < end:
        start = perf_counter()
        work.send(store, sender="a", to="b", subject="contended")
        waits.append(perf_counter() - start)
    print(*waits)


if __name__ == "__main__":
    _write(sys.argv[1])
