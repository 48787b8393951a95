"""Rows of the table, and the statistics they are made of."""

from __future__ import annotations

import os
import platform
import sqlite3
import sys
from collections.abc import Callable
from statistics import median
from time import perf_counter


class Report:
    """Collects rows and prints them as they come."""

    def __init__(self) -> None:
        self.missed = 0

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


def percentile(values: list[float], share: float) -> float:
    ordered = sorted(values)
    return ordered[min(int(len(ordered) * share), len(ordered) - 1)]


def interleaved(rounds: int, in_a_row: int = 1, **actions: Callable[[], object]) -> dict[str, float]:
    """The median seconds of each action, taken in turns, so that a busy moment of the machine hits all alike.

    More than one in a row where each has a server process of its own, which costs time only to wake.
    """
    times: dict[str, list[float]] = {name: [] for name in actions}
    for _ in range(rounds):
        for name, action in [item for item in actions.items() for _ in range(in_a_row)]:
            start = perf_counter()
            action()
            times[name].append(perf_counter() - start)
    return {name: median(values) for name, values in times.items()}


def load() -> str:
    """Return how busy the machine is, for a heading: numbers of a busy machine are worth less."""
    return f"load average {os.getloadavg()[0]:.1f}"


def milliseconds(seconds: float) -> str:
    return f"{seconds * 1000:.2f} ms"


def times(ratio: float) -> str:
    return f"{ratio:.2f} x"
