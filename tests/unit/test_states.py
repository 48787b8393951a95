"""The machine that threads follow, as a table."""

from __future__ import annotations

from postroom.core.states import MOVES, STATUSES, TERMINAL


def test_every_status_has_its_row() -> None:
    assert set(MOVES) == set(STATUSES)
    assert {status for moves in MOVES.values() for status in moves} <= set(STATUSES)


def test_nothing_leaves_a_terminal_status() -> None:
    assert all(not MOVES[status] for status in TERMINAL)


def test_every_status_can_be_reached_and_left_to_an_end() -> None:
    reached, frontier = {"pending"}, ["pending"]
    while frontier:
        for status in MOVES[frontier.pop()] - reached:
            reached.add(status)
            frontier.append(status)
    assert reached == set(STATUSES)
    assert all(MOVES[status] & TERMINAL for status in set(STATUSES) - TERMINAL)
