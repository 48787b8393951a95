"""The soak sees a leak, and takes noise for none."""

from __future__ import annotations

from pathlib import Path
from random import Random
from xml.etree import ElementTree

import pytest

from tests.torture.plot import draw_panels
from tests.torture.soak import Measurements
from tests.torture.trend import fit_trend

TIMES = [float(second) for second in range(120)]


def series_with(growth_per_second: float, noise: float, seed: int) -> list[float]:
    random = Random(seed)
    return [100 + growth_per_second * time + random.gauss(0, noise) for time in TIMES]


@pytest.mark.parametrize("seed", range(20))
def test_a_steady_growth_is_found_and_noise_is_not(seed: int) -> None:
    assert fit_trend(TIMES, series_with(0.3, 2, seed)).is_linear(0.10)
    assert not fit_trend(TIMES, series_with(0.0, 20, seed)).is_linear(0.10)


def test_a_line_that_falls_or_stays_has_no_trend() -> None:
    assert not fit_trend(TIMES, [7.0] * len(TIMES)).is_linear(0.0001)
    assert not fit_trend(TIMES, series_with(-0.3, 1, 1)).is_linear(0.10)


@pytest.mark.parametrize("leaking", ["memory of the server, MiB", "files of the server", "size of the log, bytes", "latency, median, ms"])
def test_a_run_names_what_grows(leaking: str) -> None:
    measured = Measurements()
    for time in TIMES:
        flat = {"memory of all actors, MiB": 50.0, "processes: threads of the server": 9.0}
        measured.add(time, {**flat, leaking: (20 + time) * (1 << 20 if "bytes" in leaking else 1)})
    assert [line.split(" grows")[0] for line in measured.find_trends()] == [leaking]


def test_a_log_that_grows_in_steps_to_a_bound_is_no_leak() -> None:
    measured = Measurements()
    for time in TIMES:
        measured.add(time, {"size of the log, bytes": 4_300_000 + 300_000 * (time // 30)})
    assert measured.find_trends() == []


def test_the_plot_has_a_line_for_each_measurement(tmp_path: Path) -> None:
    draw_panels(tmp_path / "plot.svg", "A < B", TIMES, {"memory": {"": TIMES}, "files": {"": [0.0] * len(TIMES)}})
    drawn = ElementTree.parse(tmp_path / "plot.svg").getroot()
    assert len(drawn.findall(".//{http://www.w3.org/2000/svg}polyline")) == 2
