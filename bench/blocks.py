"""Measurement in blocks: many calls of one candidate in a row, then of the next, and the ratio of each pair of neighbouring blocks.

Single calls in turns between databases make every queue slower and hide the difference. A foreign load of the machine hits the blocks of
one round alike, so the median of the ratios is steadier than the ratio of the medians.
"""

from __future__ import annotations

from collections.abc import Callable
from statistics import median
from time import perf_counter

Action = Callable[[], object]


class Blocks:
    """The seconds of a call in each block, by candidate."""

    def __init__(self, seconds: dict[str, list[float]]) -> None:
        self._seconds = seconds

    def rate(self, name: str) -> float:
        """Return the calls a second of a candidate, in its median block."""
        return 1 / median(self._seconds[name])

    def ratio(self, ours: str, other: str) -> float:
        """Return how many calls of `ours` run in the time of one call of `other`: above 1, `ours` is faster."""
        return median(theirs / mine for mine, theirs in zip(self._seconds[ours], self._seconds[other], strict=True))


def measure_blocks(rounds: int, calls: int, actions: dict[str, Action]) -> Blocks:
    """Run `calls` calls of each action in a row, `rounds` times in turns, after one round of warming up."""
    return measure_runs(rounds, calls, {name: _repeat(action, calls) for name, action in actions.items()})


def measure_runs(rounds: int, calls: int, runs: dict[str, Action]) -> Blocks:
    """As `measure_blocks`, where each run makes `calls` calls by itself."""
    seconds: dict[str, list[float]] = {name: [] for name in runs}
    for turn in range(rounds + 1):
        for name, run in runs.items():
            start = perf_counter()
            run()
            if turn:
                seconds[name].append((perf_counter() - start) / calls)
    return Blocks(seconds)


def _repeat(action: Action, calls: int) -> Action:
    def run_in_a_row() -> None:
        for _ in range(calls):
            action()

    return run_in_a_row
