"""docs/benchmarks.md is a function of the results of a run."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

import pytest

from bench.report import Report
from bench.results import CORE_SHARE, OURS, PER_SECOND, SECONDS, Measurement, Results, SectionResult, load_results
from docs.benchmark_groups import GROUPS
from docs.make_benchmarks import compute_ratio, draw_plots, render_page, write_page

MAIL = "mail on SQLite"


def _make_results(*measurements: Measurement, missing: tuple[str, ...] = ()) -> Results:
    section = SectionResult(list(measurements), list(missing), "2026-11-18 12:00 UTC", 31.4, 7.25, 9.5)
    return Results({"cores": "2", "SQLite": "3.40.1"}, {"mail": section}, "Test runs went on beside it.")


def _measure(subject: str, *values: float, operation: str = "enqueue", size: int = 100, clients: int = 1) -> Measurement:
    return Measurement(MAIL, operation, subject, PER_SECOND, values, size, clients)


def test_a_row_has_the_median_ratio_and_its_spread() -> None:
    results = _make_results(_measure(OURS, 50, 60, 45, 50, 56), _measure("persist-queue", 100, 100, 100, 100, 100))
    assert "| enqueue | 100 | 50 / s | 100 / s; **0.50 x** (0.50 to 0.56) |" in render_page(results)


def test_a_program_that_is_ahead_is_named_with_its_reason() -> None:
    ahead = _make_results(
        _measure(OURS, 50, 50, 50, 50, 50),
        _measure("litequeue", 100, 100, 100, 100, 100),
        _measure(OURS, 80, 80, 80, 80, 80, operation="dequeue + ack", size=10_000),
        _measure("litequeue", 20, 20, 20, 20, 20, operation="dequeue + ack", size=10_000),
    )
    reason = next(group for group in GROUPS if group.key == MAIL).reasons["litequeue"]
    page = render_page(ahead)
    assert "**litequeue** (mail on SQLite) is ahead at enqueue (0.50 x). Postroom is ahead at dequeue + ack (4.00 x)." in page
    assert f"Why: {reason}" in page


def test_no_program_is_named_that_is_not_ahead() -> None:
    behind = _make_results(
        _measure(OURS, *[200] * 5), _measure("litequeue", *[100] * 5), _measure("the same statements by hand", *[400] * 5)
    )
    page = render_page(behind)
    assert "Nowhere in this run." in page
    assert "0.50 x (0.50 to 0.50)" in page  # of the floor, and not bold
    assert "**0.50 x**" not in page


def test_less_is_better_where_the_unit_is_time_or_a_share() -> None:
    fast, slow = (Measurement("waking", "wake", name, SECONDS, (value,) * 5) for name, value in ((OURS, 0.001), ("other", 0.004)))
    assert compute_ratio(fast, slow) == (4, 4, 4)
    idle, busy = (Measurement("waiters", "idle", name, CORE_SHARE, (value,) * 5) for name, value in ((OURS, 0.0), ("other", 0.01)))
    assert compute_ratio(idle, busy).median == 10_000


def test_the_page_says_the_machine_the_load_and_what_is_missing() -> None:
    page = render_page(_make_results(_measure(OURS, *[1] * 5), missing=("NATS JetStream",)))
    assert "cores 2, SQLite 3.40.1.\n\nTest runs went on beside it." in page
    assert "| mail | 2026-11-18 12:00 UTC | 31 s | 7.2 to 9.5 |" in page
    assert "does not have it: NATS JetStream." in page


def test_growth_is_the_time_beside_the_smallest_store() -> None:
    sizes = [Measurement("size", "mail: peek", OURS, SECONDS, (value,) * 5, size) for size, value in ((100, 0.001), (1_000_000, 0.0012))]
    page = render_page(_make_results(*sizes))
    assert "| operation | 100 | 1,000,000 |" in page
    assert "| mail: peek | 1 ms | 1.2 ms; 1.20 x (1.20 to 1.20) |" in page


def test_equal_results_make_equal_pages_and_a_changed_value_another(tmp_path: Path) -> None:
    results = _make_results(_measure(OURS, 5, 6, 7, 8, 9, size=10_000), _measure("huey", 9, 8, 7, 6, 5, size=10_000))
    results.save(tmp_path / "bench" / "results.json")
    assert load_results(tmp_path / "bench" / "results.json") == results
    write_page(load_results(tmp_path / "bench" / "results.json"), tmp_path)
    assert (tmp_path / "benchmarks.md").read_text() == render_page(results)
    changed = _make_results(_measure(OURS, 5, 6, 8, 8, 9, size=10_000), _measure("huey", 9, 8, 7, 6, 5, size=10_000))
    assert render_page(changed) != render_page(results)
    assert draw_plots(changed) != draw_plots(results)


def test_every_plot_of_the_page_is_drawn_and_is_xml() -> None:
    measured = [
        _measure(name, 5, 6, 7, 8, 9, operation=operation, size=size, clients=clients)
        for name in (OURS, "huey & Söhne")
        for operation, size, clients in (("enqueue", 100, 1), ("enqueue", 1_000_000, 1), ("both", 10_000, 1), ("both", 10_000, 16))
    ]
    plots = draw_plots(_make_results(*measured))
    for drawing in plots.values():
        assert ElementTree.fromstring(drawing).tag.endswith("svg")
        assert "prefers-color-scheme: dark" in drawing
    assert plots["benchmarks-sizes.svg"].count("<polyline") == 2
    assert plots["benchmarks-clients.svg"].count("<polyline") == 2


def test_a_report_collects_what_a_section_records() -> None:
    report = Report()
    with report.collect() as collected:
        report.record(MAIL, "enqueue", OURS, PER_SECOND, [1, 2, 3, 4, 5], size=100)
        report.leave_out("huey")
    with report.collect() as empty:
        pass
    assert collected.measurements == [_measure(OURS, 1, 2, 3, 4, 5)]
    assert (collected.missing, empty.measurements) == (["huey"], [])


@pytest.mark.parametrize("group", GROUPS, ids=lambda group: group.key)
def test_every_part_of_the_page_is_rendered_without_results(group: object) -> None:
    assert f"## {group.title}\n\nNot measured in this run." in render_page(_make_results())  # type: ignore[attr-defined]
