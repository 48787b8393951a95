"""Identities."""

from __future__ import annotations

from postroom.core import clock, ids


def test_ids_made_in_one_instant_differ() -> None:
    now = clock.now()
    assert len({ids.new_id("thr", now) for _ in range(2000)}) == 2000


def test_ids_sort_by_the_time_they_were_made() -> None:
    now = clock.now()
    made = [ids.new_id("msg", now + second * clock.MICROSECONDS_PER_SECOND) for second in range(100)]
    assert made == sorted(made)


def test_an_id_says_what_it_names() -> None:
    assert ids.new_id("lse", clock.now()).startswith("lse_")
