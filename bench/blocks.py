"""Measurement in blocks: many calls of one candidate in a row, then of the next, and the ratio of each pair of neighbouring blocks.

Single calls in turns between databases make every queue slower and hide the difference. A foreign load of the machine hits the blocks of
one round alike, so the median of the ratios is steadier than the ratio of the medians.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from math import inf
from statistics import median
from time import perf_counter

from bench.ratios import pair_ratios

REPEATS = 5
Action = Callable[[], object]


class Blocks:
    """The seconds of a call in each block, by candidate."""

    def __init__(self, seconds: dict[str, list[float]]) -> None:
        self._seconds = seconds

    def seconds(self, name: str) -> list[float]:
        """Return the seconds of a call in each block of a candidate."""
        return self._seconds[name]

    def rates(self, name: str) -> list[float]:
        """Return the calls a second in each block of a candidate."""
        return [1 / seconds for seconds in self._seconds[name]]

    def median(self, name: str) -> float:
        """Return the seconds of a call of a candidate, in its median block."""
        return median(self._seconds[name])

    def rate(self, name: str) -> float:
        """Return the calls a second of a candidate, in its median block."""
        return 1 / median(self._seconds[name])

    def ratio(self, ours: str, other: str) -> float:
        """Return how many calls of `ours` run in the time of one call of `other`: above 1, `ours` is faster."""
        return median(pair_ratios(self._seconds[other], self._seconds[ours]))


def measure_blocks(rounds: int, calls: int, actions: dict[str, Action], *, most_seconds: float = inf) -> Blocks:
    """Run `calls` calls of each action in a row, `rounds` times in turns, after one round of warming up.

    A block ends early once it has taken `most_seconds`, so that a slow candidate does not decide how long the benchmark takes.
    """
    seconds: dict[str, list[float]] = {name: [] for name in actions}
    for turn in range(rounds + 1):
        for name, action in actions.items():
            spent = time_block(action, calls, most_seconds)
            if turn:
                seconds[name].append(spent)
    return Blocks(seconds)


def time_block(action: Action, calls: int, most_seconds: float) -> float:
    """Return the seconds of a call in one block, which has at least one call."""
    done, start = 0, perf_counter()
    while done == 0 or (done < calls and perf_counter() - start < most_seconds):
        action()
        done += 1
    return (perf_counter() - start) / done


def interleave(rounds: int, in_a_row: int = 1, **actions: Action) -> Blocks:
    """Measure single calls in turns, so that a busy moment of the machine hits all alike. Each of five blocks is the median of its rounds.

    More than one in a row where each has a server process of its own, which costs time only to wake.
    """
    calls: dict[str, list[float]] = {name: [] for name in actions}
    for _ in range(rounds):
        for name, action in [item for item in actions.items() for _ in range(in_a_row)]:
            start = perf_counter()
            action()
            calls[name].append(perf_counter() - start)
    return Blocks({name: split_medians(seconds) for name, seconds in calls.items()})


def split_medians(values: Sequence[float], repeats: int = REPEATS) -> list[float]:
    """Return the median of each of `repeats` parts of a series, in its order."""
    bounds = [len(values) * part // repeats for part in range(repeats + 1)]
    return [median(values[start:end]) for start, end in pairwise(bounds)]
