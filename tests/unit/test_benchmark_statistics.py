"""The statistics of bench/: spreads, intervals, and the comparison of two commits. Fed with numbers; nothing is timed."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import pytest

from bench.blocks import Blocks, measure_blocks, split_medians
from bench.changes import FASTER, SAME, SLOWER, UNRESOLVED, format_change, is_narrow, judge
from bench.ratios import confidence_interval, pair_ratios, summarise


def _measure_machine(seed: int, rounds: int, slowdown: float) -> tuple[list[float], list[float]]:
    """Return the block times of two commits on a busy machine: a load that both meet, noise of each, and stalls now and then."""
    chance = Random(seed)
    base: list[float] = []
    head: list[float] = []
    for _ in range(rounds):
        load = 1 + 3 * chance.random()
        for series, factor in ((base, 1.0), (head, slowdown)):
            stall = 1 + (chance.random() < 0.1) * 4 * chance.random()
            series.append(0.0003 * factor * load * stall * chance.lognormvariate(0, 0.06))
    return base, head


def test_a_ratio_belongs_to_one_round() -> None:
    # The second round was ten times slower for both, which the ratio of the medians would mix up.
    assert pair_ratios([2, 20, 2], [4, 40, 4]) == [0.5, 0.5, 0.5]
    assert Blocks({"ours": [2, 20, 2], "other": [4, 40, 4]}).ratio("ours", "other") == 2
    with pytest.raises(ValueError, match="shorter"):
        pair_ratios([1, 2], [1])


def test_a_spread_is_the_median_with_its_quartiles() -> None:
    assert summarise([3, 1, 2, 900, 4]) == (3, 2, 4)
    assert summarise([7]) == (7, 7, 7)


@pytest.mark.parametrize(
    ("count", "confidence", "low", "high"),
    [(5, 0.9, 1, 5), (10, 0.95, 2, 9), (20, 0.95, 6, 15), (20, 0.99, 4, 17), (60, 0.995, 19, 42)],
)
def test_the_interval_of_a_median_has_the_ranks_of_the_sign_test(count: int, confidence: float, low: int, high: int) -> None:
    values = list(range(1, count + 1))
    Random(1).shuffle(values)
    assert confidence_interval(values, confidence) == (low, high)


def test_with_few_values_the_interval_goes_from_end_to_end() -> None:
    assert confidence_interval([3, 1, 2], 0.99) == (1, 3)
    assert confidence_interval([7], 0.99) == (7, 7)


def test_a_series_is_split_into_five_medians_in_its_order() -> None:
    assert split_medians([1, 2, 9, 4, 5, 6, 70, 8, 9, 10, 1, 12, 13, 14, 15]) == [2, 5, 9, 10, 14]
    assert len(split_medians(list(range(33)))) == 5


def test_a_block_has_its_calls_or_ends_when_its_time_is_over() -> None:
    calls: list[str] = []
    actions: dict[str, Callable[[], object]] = {name: lambda name=name: calls.append(name) for name in ("a", "b")}  # type: ignore[misc]
    blocks = measure_blocks(2, 3, actions)
    assert calls == ["a"] * 3 + ["b"] * 3 + ["a"] * 3 + ["b"] * 3 + ["a"] * 3 + ["b"] * 3  # the first round warms up
    assert len(blocks.seconds("a")) == len(blocks.rates("b")) == 2
    calls.clear()
    measure_blocks(1, 1000, actions, most_seconds=0.0)
    assert calls == ["a", "b", "a", "b"]


@pytest.mark.parametrize("slowdown", [1.10, 1.12, 1.15])
def test_a_planted_slowdown_is_seen_on_a_busy_machine(slowdown: float) -> None:
    judged = [judge(*_measure_machine(seed, 80, slowdown)) for seed in range(40)]
    assert [change.verdict for change in judged].count(SLOWER) >= 39
    if slowdown >= 1.12:
        assert sum(change.is_marked for change in judged) >= 36


def test_a_planted_gain_is_seen_and_marked() -> None:
    judged = [judge(*_measure_machine(seed, 80, 1 / 1.15)) for seed in range(40)]
    assert [change.verdict for change in judged].count(FASTER) >= 39
    assert sum(change.is_marked for change in judged) >= 36


def test_equal_commits_are_not_called_different() -> None:
    verdicts = [judge(*_measure_machine(seed, 80, 1.0)).verdict for seed in range(200)]
    assert verdicts.count(SLOWER) + verdicts.count(FASTER) <= 4
    assert verdicts.count(SAME) >= 190


def test_noise_that_hides_ten_percent_is_said() -> None:
    chance = Random(3)
    base, head = ([chance.lognormvariate(0, 1.0) for _ in range(30)] for _ in range(2))
    assert judge(base, head).verdict == UNRESOLVED
    assert not is_narrow(judge(base, head))
    assert is_narrow(judge([1.0] * 15, [1.01] * 15))


def test_a_small_change_is_printed_without_a_mark_and_a_large_one_with_it() -> None:
    small, large = judge([1.0] * 20, [1.04] * 20), judge([1.0] * 20, [1.12] * 20)
    assert "+4 % (1.04 to 1.04) slower" in format_change("mail: enqueue", small, None)
    assert "at least 10 %" not in format_change("mail: enqueue", small, small)
    assert "at least 10 %" in format_change("mail: enqueue", small, large)
    assert "at least 10 %" in format_change("mail: enqueue", judge([1.12] * 20, [1.0] * 20), None)
