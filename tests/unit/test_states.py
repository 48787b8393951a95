"""The machine that threads follow, as a table."""

from __future__ import annotations

from postroom.core.states import ALLOWED_TRANSITIONS, STATUSES, TERMINAL_STATUSES


def test_every_status_has_its_row() -> None:
    assert set(ALLOWED_TRANSITIONS) == set(STATUSES)
    assert {status for moves in ALLOWED_TRANSITIONS.values() for status in moves} <= set(STATUSES)


def test_only_a_retry_leaves_a_terminal_status() -> None:
    assert {status: ALLOWED_TRANSITIONS[status] for status in TERMINAL_STATUSES} == {
        "done": frozenset(),
        "failed": {"pending"},
        "cancelled": {"pending"},
    }


def test_every_status_can_be_reached_and_left_to_an_end() -> None:
    reached, frontier = {"pending"}, ["pending"]
    while frontier:
        for status in ALLOWED_TRANSITIONS[frontier.pop()] - reached:
            reached.add(status)
            frontier.append(status)
    assert reached == set(STATUSES)
    assert all(ALLOWED_TRANSITIONS[status] & TERMINAL_STATUSES for status in set(STATUSES) - TERMINAL_STATUSES)
