"""The ways to wake an agent: a budget per hour, backoff after failures, switched off after several, and ready again when registered."""

from __future__ import annotations

from typing import Any

import pytest

from postroom import people
from postroom.core.errors import InvalidInput
from postroom.people.agents.wake_routes import MAX_FAILURES, MAX_RINGS_PER_HOUR
from postroom.store.interface import Store
from tests.conftest import Clock

ROUTE: dict[str, Any] = {"agent": "ada", "route": "queue", "session": "s-1"}


def test_a_way_is_rung_as_often_as_its_budget_allows_and_again_in_the_next_hour(store: Store, clock: Clock) -> None:
    people.register_route(store, **ROUTE, program="codex")
    assert [people.begin_ring(store, ("rep_1",), **ROUTE) for _ in range(MAX_RINGS_PER_HOUR)] == [0.0] * MAX_RINGS_PER_HOUR
    seconds = people.begin_ring(store, ("rep_1",), **ROUTE)
    assert 0 < seconds <= 3600
    clock.advance(seconds + 1)
    assert people.begin_ring(store, ("rep_1",), **ROUTE) == 0


def test_a_way_that_fails_backs_off_then_is_off_until_its_session_registers_again(store: Store, clock: Clock) -> None:
    people.register_route(store, **ROUTE, program="codex")
    pauses = []
    for _ in range(MAX_FAILURES - 1):
        people.end_ring(store, **ROUTE, failure="no daemon")
        pauses.append(people.begin_ring(store, (), **ROUTE))
        clock.advance(pauses[-1] + 1)
    assert pauses[1] > pauses[0] > 0
    people.end_ring(store, **ROUTE, failure="no daemon")
    (route,) = people.list_routes(store, agent="ada")
    assert (route.state, route.reason, route.failures) == ("off", "no daemon", MAX_FAILURES)
    clock.advance(7200)
    assert people.begin_ring(store, (), **ROUTE) > 0
    people.register_route(store, **ROUTE, program="codex")
    assert people.begin_ring(store, (), **ROUTE) == 0


def test_a_success_ends_the_backoff(store: Store) -> None:
    people.register_route(store, **ROUTE, program="codex")
    people.end_ring(store, **ROUTE, failure="no daemon")
    people.end_ring(store, **ROUTE)
    assert people.begin_ring(store, (), **ROUTE) == 0


def test_an_unknown_way_is_refused(store: Store) -> None:
    with pytest.raises(InvalidInput):
        people.register_route(store, agent="ada", route="pigeon", session="s-1", program="codex")
    people.remove_route(store, **ROUTE)
    assert people.list_routes(store, agent="ada") == ()
