"""Ratios of paired repeats, with their spread and a confidence interval. Plain Python, and nothing is drawn at random."""

from __future__ import annotations

from collections.abc import Sequence
from math import comb
from statistics import quantiles
from typing import NamedTuple


class Spread(NamedTuple):
    """A median with its quartiles: half of the values lie between `low` and `high`."""

    median: float
    low: float
    high: float


def summarise(values: Sequence[float]) -> Spread:
    """Return the median and the quartiles. Not the extremes: one stall of the disk would decide them."""
    low, middle, high = quantiles(values, n=4, method="inclusive") if len(values) > 1 else [values[0]] * 3
    return Spread(middle, low, high)


def pair_ratios(numerators: Sequence[float], denominators: Sequence[float]) -> list[float]:
    """Return the ratio of each pair of repeats.

    The repeats of one round ran one after the other, so a foreign load slows both of them. The median of the ratios is steadier than the
    ratio of the medians.
    """
    return [numerator / denominator for numerator, denominator in zip(numerators, denominators, strict=True)]


def confidence_interval(values: Sequence[float], confidence: float) -> tuple[float, float]:
    """Return an interval that has the median of the population with at least this confidence.

    The sign test: each value is above the median with a probability of one half, whatever the distribution is. The interval goes from the
    k-th lowest to the k-th highest value, with the largest k that has the confidence. With too few values, it goes from the lowest to the
    highest and has less: seven are needed for 0.98, eight for 0.99.
    """
    ordered, count = sorted(values), len(values)
    outside, rank = 0.0, 0
    while rank < count // 2:
        outside += 2 * comb(count, rank) / 2**count
        if outside > 1 - confidence:
            break
        rank += 1
    rank = max(rank, 1)
    return ordered[rank - 1], ordered[count - rank]
