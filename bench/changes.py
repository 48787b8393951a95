"""Whether two series of paired measurements differ by more than their noise."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median
from typing import NamedTuple

from bench.ratios import confidence_interval, pair_ratios

CONFIDENCE = 0.995  # some thirty intervals are printed at once, so 0.95 would report one change that is none
MARKED_PERCENT = 10
NARROW = 1.06  # highest by lowest ratio of an interval that needs no more rounds
SLOWER, FASTER, SAME, UNRESOLVED = "slower", "faster", "same", "not resolved"


class Change(NamedTuple):
    """The time of the head divided by that of the base: the median of the pairs, its interval, and what follows from them."""

    ratio: float
    low: float
    high: float
    verdict: str

    @property
    def percent(self) -> int:
        """How many percent more time the head takes, as it is printed."""
        return round((self.ratio - 1) * 100)

    @property
    def is_marked(self) -> bool:
        """Whether the change is real and at least 10 % in either direction."""
        factor = max(self.ratio, 1 / self.ratio)
        return self.verdict in (SLOWER, FASTER) and round((factor - 1) * 100) >= MARKED_PERCENT


def judge(base: Sequence[float], head: Sequence[float], confidence: float = CONFIDENCE) -> Change:
    """Compare two series whose equal positions were measured directly after each other.

    The verdict is `slower` or `faster` if the interval of the median ratio excludes 1. It is `same` if the interval includes 1 and excludes
    a change of 10 %, and `not resolved` if it includes both: then the noise was too high to see such a change.
    """
    ratios = pair_ratios(head, base)
    low, high = confidence_interval(ratios, confidence)
    limit = 1 + MARKED_PERCENT / 100
    if low > 1:
        verdict = SLOWER
    elif high < 1:
        verdict = FASTER
    else:
        verdict = SAME if high < limit and low > 1 / limit else UNRESOLVED
    return Change(median(ratios), low, high, verdict)


def is_narrow(change: Change) -> bool:
    """Return whether more rounds are of no use: the interval is narrow beside the change that must be seen."""
    return change.high / change.low <= NARROW


def format_change(name: str, elapsed: Change, cpu: Change | None) -> str:
    """Return the line of one operation, with a mark if either time changed by 10 % or more."""
    marked = [change for change in (elapsed, cpu) if change is not None and change.is_marked]
    mark = "  <== at least 10 %" if marked else ""
    return f"  {name:44} {_format_cell(elapsed):>40} {_format_cell(cpu) if cpu else '-':>40}{mark}"


def _format_cell(change: Change) -> str:
    return f"{change.percent:+d} % ({change.low:.2f} to {change.high:.2f}) {change.verdict}"
