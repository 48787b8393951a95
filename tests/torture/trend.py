"""Linear trends: whether a series of measurements grows with time by more than its own noise."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt
from statistics import fmean, median

MIN_POINTS = 8
MIN_T_VALUE = 6.0  # of the slope. Neighbouring measurements depend on each other, so a textbook's 2 would find trends in noise


@dataclass(frozen=True)
class Trend:
    """The line through a series: its growth over the whole time, as a share of the level, and the slope over its standard error."""

    growth: float
    t_value: float

    def is_linear(self, min_growth: float) -> bool:
        """Return whether the series grows by at least this share, steadily."""
        return self.growth >= min_growth and self.t_value >= MIN_T_VALUE


def fit_trend(times: Sequence[float], values: Sequence[float]) -> Trend:
    """Fit a line by least squares. A series of fewer than `MIN_POINTS` has no trend."""
    if len(values) < MIN_POINTS or len(set(values)) == 1:
        return Trend(0.0, 0.0)
    middle, level = fmean(times), fmean(values)
    spread = sum((time - middle) ** 2 for time in times)
    slope = sum((time - middle) * (value - level) for time, value in zip(times, values)) / spread
    errors = [value - level - slope * (time - middle) for time, value in zip(times, values)]
    error = sqrt(sum(each**2 for each in errors) / (len(values) - 2) / spread)
    growth = slope * (times[-1] - times[0]) / max(abs(median(values)), 1e-9)
    return Trend(growth, slope / error if error else (float("inf") if slope > 0 else 0.0))
