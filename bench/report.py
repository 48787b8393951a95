"""Rows of the printed table, and the measurements behind them."""

from __future__ import annotations

import os
import platform
import sqlite3
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from time import monotonic

from bench.results import Measurement, SectionResult, read_date


class Report:
    """Prints rows as they come, and collects the measurements for the results file."""

    def __init__(self) -> None:
        self.missed = 0
        self._running = SectionResult()

    def machine(self) -> None:
        cores = os.cpu_count()
        print(
            f"{platform.system()} {platform.machine()}, {cores} cores, Python {platform.python_version()}, SQLite {sqlite3.sqlite_version}"
        )
        print(f"\n{'what':74} {'measured':>16}  {'bound':>12}")

    def section(self, title: str) -> None:
        print(f"\n{title}")

    def row(self, what: str, measured: str, bound: str = "", *, met: bool | None = None) -> None:
        mark = "" if met is None else "  ok" if met else "  MISSED"
        self.missed += met is False
        print(f"  {what:72} {measured:>16}  {bound:>12}{mark}")
        sys.stdout.flush()

    def record(
        self, group: str, operation: str, subject: str, unit: str, values: Iterable[float], *, size: int = 0, clients: int = 1
    ) -> None:
        """Keep the values of the repeats for docs/benchmarks.md."""
        self._running.measurements.append(Measurement(group, operation, subject, unit, tuple(values), size, clients))

    def leave_out(self, peer: str) -> None:
        """Say that a peer is not measured because this machine does not have it."""
        self._running.missing.append(peer)
        self.row(f"{peer}: not installed, left out", "-")

    @contextmanager
    def collect(self) -> Iterator[SectionResult]:
        """Collect the measurements of one section of the benchmark, with the load before and after it."""
        self._running = result = SectionResult(date=read_date(), load_before=os.getloadavg()[0])
        start = monotonic()
        yield result
        result.duration_seconds, result.load_after = monotonic() - start, os.getloadavg()[0]


def percentile(values: list[float], share: float) -> float:
    ordered = sorted(values)
    return ordered[min(int(len(ordered) * share), len(ordered) - 1)]


def load() -> str:
    """Return how busy the machine is, for a heading: numbers of a busy machine are worth less."""
    return f"load average {os.getloadavg()[0]:.1f}"


def milliseconds(seconds: float) -> str:
    return f"{seconds * 1000:.2f} ms"


def times(ratio: float) -> str:
    return f"{ratio:.2f} x"
