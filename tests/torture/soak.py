"""`python -m tests.torture.soak [--minutes 5] [--plot FILE]`: mixed load without disturbance, and what it costs over time.

All actors of the torture work at a bounded rate, through a server and beside it. Every second, memory, open files, threads and processes of
the server, memory and files of the actors, and the sizes of the files are measured, and the latency of the calls that ended. A store that
keeps everything grows with what it is given: so sizes are divided by the operations that were accepted. All other lines are to be flat.
The run fails if one of them grows steadily (`trend`), if the calls become slower, or if a promise is broken.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import quantiles
from time import monotonic, monotonic_ns, sleep

from postroom.store.sqlite.open_database import MAX_IDLE_WAL_BYTES
from tests.torture import checker
from tests.torture.history import Operation, read_history
from tests.torture.plot import draw_panels
from tests.torture.run import STOP_PATIENCE_SECONDS, drain
from tests.torture.snapshot import take_snapshot
from tests.torture.stage import SQLITE, TortureStage
from tests.torture.trend import fit_trend

PACE_SECONDS = 0.15
WARM_UP_SHARE = 0.25  # caches fill and pools grow in the first part of a run
MAX_GROWTH = {"memory": 0.10, "files": 0.10, "processes": 0.25, "size": 0.15, "latency": 0.5}  # by these shares, over the rest of the run
# The log grows in steps, whenever a reader holds a checkpoint up. Above this size, it shrinks again when it starts anew.
SETTLED_BYTES = {"size of the log, bytes": MAX_IDLE_WAL_BYTES}
WAITING = ("work.take", "work.watch", "mail.dequeue", "tasks.accept", "people.wait_answer")  # they wait on purpose
Values = dict[str, list[float]]


@dataclass
class Measurements:
    """Series over the same times, in seconds since the start. The first word of a name says which limit holds for it."""

    times: list[float] = field(default_factory=list)
    series: Values = field(default_factory=dict)

    def add(self, time: float, values: dict[str, float]) -> None:
        self.times.append(time)
        for name, value in values.items():
            self.series.setdefault(name, []).append(value)

    def find_trends(self) -> list[str]:
        """Return what grows steadily, in words."""
        first = int(len(self.times) * WARM_UP_SHARE)
        found = []
        for name, values in self.series.items():
            settled = SETTLED_BYTES.get(name, 0)
            trend = fit_trend(self.times[first:], [max(value, settled) for value in values[first:]])
            if trend.is_linear(MAX_GROWTH[name.split()[0].rstrip(",:")]):
                found.append(f"{name} grows by {trend.growth:.0%} in {self.times[-1] - self.times[first]:.0f} s (t = {trend.t_value:.0f})")
        return found


def measure_process(process_id: int) -> tuple[float, float, float]:
    """Return the private memory of a process in MiB, its open files, and its threads."""
    status = dict(line.split(":", 1) for line in Path(f"/proc/{process_id}/status").read_text().splitlines())
    memory = int(status["RssAnon"].split()[0]) / 1024
    return memory, len(list(Path(f"/proc/{process_id}/fd").iterdir())), int(status["Threads"])


def measure(stage: TortureStage) -> dict[str, float]:
    assert stage.server is not None
    server = measure_process(stage.server.pid)
    actors = [measure_process(process_id) for process_id in stage.actors.values()]
    return {
        "memory of the server, MiB": server[0],
        "memory of all actors, MiB": sum(actor[0] for actor in actors),
        "files of the server": server[1],
        "files of all actors": sum(actor[1] for actor in actors),
        "processes: threads of the server": server[2],
        "size of the store, bytes": _size_of(stage.folder / "coord.db"),
        "size of the log, bytes": _size_of(stage.folder / "coord.db-wal"),
        "size of the queue, bytes": sum(_size_of(stage.queue / name) for name in ("events.db", "events.jsonl")),
    }


def _size_of(path: Path) -> float:
    return path.stat().st_size if path.exists() else 0


def soak(stage: TortureStage, seconds: float, report: Callable[[str], None] = print) -> Measurements:
    """Let all actors work for some seconds and measure once a second. Return the series, with latencies and sizes per operation."""
    stage.start_server()
    stage.start_cast()
    started, epoch, measured = monotonic(), monotonic_ns(), Measurements()
    while (elapsed := monotonic() - started) < seconds:
        measured.add(elapsed, measure(stage))
        sleep(max(0.0, 1 - (monotonic() - started) % 1))
        if len(measured.times) % 30 == 0:
            report(f"{elapsed:.0f} s: " + ", ".join(f"{name} {values[-1]:,.0f}" for name, values in measured.series.items()))
    add_latencies(measured, read_history(stage.history), epoch)
    return measured


def add_latencies(measured: Measurements, history: Sequence[Operation], epoch: int) -> None:
    """Add the latency of the calls that ended in each second, and divide the sizes of what keeps everything by what it was given."""
    ended = [operation for operation in history if operation.ok and operation.name not in WAITING]
    by_second: dict[int, list[float]] = {}
    for operation in ended:
        by_second.setdefault(int((operation.end - epoch) / 1e9), []).append((operation.end - operation.start) / 1e6)
    medians, tails, accepted, total = [], [], [], 0
    for time in measured.times:
        latencies = by_second.get(int(time), [])
        total += len(latencies)
        cut = quantiles(latencies, n=20) if len(latencies) > 1 else [0.0] * 19
        medians.append(cut[9])
        tails.append(cut[18])
        accepted.append(max(total, 1))
    measured.series |= {"latency, median, ms": medians, "latency, 95 %, ms": tails}
    for name in ("size of the store, bytes", "size of the queue, bytes"):
        sizes = measured.series.pop(name)
        measured.series[name.replace("bytes", "bytes an operation")] = [size / count for size, count in zip(sizes, accepted)]


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.torture.soak")
    parser.add_argument("--minutes", type=float, default=5)
    parser.add_argument("--plot", type=Path, default=Path("soak.svg"))
    args = parser.parse_args(argv)
    folder = Path(tempfile.mkdtemp(prefix="postroom-soak-"))
    stage = TortureStage(SQLITE, folder / SQLITE, seed=1, pace_seconds=PACE_SECONDS)
    try:
        measured = soak(stage, args.minutes * 60)
        wedged = stage.stop_actors(STOP_PATIENCE_SECONDS) + drain(stage)
        history = read_history(stage.history)
        violations = checker.check(history, take_snapshot(stage.location, stage.queue, stage.mirror))
    finally:
        stage.close()
        shutil.rmtree(folder)
    title = f"{args.minutes:g} minutes of mixed load: {checker.count_accepted(history):,} accepted operations"
    draw_panels(args.plot, title, measured.times, {name: {"": values} for name, values in measured.series.items()})
    trends = measured.find_trends()
    print(f"{title}; {args.plot} shows them.")
    for line in [*trends, *(violation.describe() for violation in violations), *(f"{name} did not end" for name in wedged)]:
        print(line)
    return 1 if trends or violations or wedged else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
