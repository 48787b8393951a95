"""The ways to wake an agent: a budget per hour, backoff after failures, switched off after several, and ready again when registered."""

from __future__ import annotations

from typing import Any

import pytest

from postroom import mail, people
from postroom.core.errors import InvalidInput
from postroom.mail.drafts import PROTOCOL_VERSION
from postroom.people.agents.wake_routes import MAX_FAILURES, MAX_RINGS_PER_HOUR, OFFER_SECONDS, select_free_items
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
    (route,) = people.list_routes(store, agent="ada").routes
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
    assert people.list_routes(store, agent="ada").routes == ()


OTHER: dict[str, Any] = {"agent": "ada", "route": "hook", "session": "s-2"}


def test_one_session_is_rung_for_a_message_and_another_one_if_that_does_not_help(store: Store, clock: Clock) -> None:
    for route, program in ((ROUTE, "codex"), (OTHER, "claude")):
        people.register_route(store, **route, program=program)
    assert people.begin_ring(store, ("rep_1",), **ROUTE) == 0
    seconds = people.begin_ring(store, ("rep_1",), **OTHER)
    assert 0 < seconds <= OFFER_SECONDS
    assert people.begin_ring(store, ("rep_2",), **OTHER) == 0
    assert people.begin_ring(store, ("rep_1",), **ROUTE) == 0
    clock.advance(OFFER_SECONDS + 1)
    assert people.begin_ring(store, ("rep_1",), **OTHER) == 0


def test_words_in_the_context_of_a_session_count_as_a_ring(store: Store) -> None:
    for route, program in ((ROUTE, "codex"), (OTHER, "claude")):
        people.register_route(store, **route, program=program)
    people.note_injected(store, ("rep_1",), **ROUTE)
    assert people.begin_ring(store, ("rep_1",), **OTHER) > 0


@pytest.mark.parametrize("end", ["removed", "failed"])
def test_a_session_that_is_gone_or_could_not_be_rung_holds_no_message(store: Store, end: str) -> None:
    for route, program in ((ROUTE, "codex"), (OTHER, "claude")):
        people.register_route(store, **route, program=program)
    assert people.begin_ring(store, ("rep_1",), **ROUTE) == 0
    if end == "removed":
        people.remove_route(store, **ROUTE)
    else:
        people.end_ring(store, **ROUTE, failure="no daemon")
    assert people.begin_ring(store, ("rep_1",), **OTHER) == 0


def test_a_session_is_rung_for_what_no_other_was_rung_for(store: Store) -> None:
    for route, program in ((ROUTE, "codex"), (OTHER, "claude")):
        people.register_route(store, **route, program=program)
    assert people.begin_ring(store, ("rep_1",), **ROUTE) == 0
    assert select_free_items(store, ("rep_1", "rep_2"), **OTHER) == ("rep_2",)
    assert select_free_items(store, ("rep_1", "rep_2"), **ROUTE) == ("rep_1", "rep_2")


def test_mail_shows_by_which_way_it_was_offered_and_that_it_arrived(store: Store) -> None:
    message = {"from": "bo", "to": "ada", "payload": "hello", "protocol_version": PROTOCOL_VERSION}
    msg_id = mail.enqueue(store, message).msg_id
    people.register_route(store, **ROUTE, program="codex")
    assert people.begin_ring(store, (msg_id,), **ROUTE) == 0
    people.note_injected(store, (msg_id,), **ROUTE)
    steps = [step.to_json() for step in mail.show(store, msg_id).steps]
    assert [step["step"] for step in steps] == ["stored", "announced", "injected"]
    assert [(step["way"], step["program"]) for step in steps[1:]] == [("queue", "codex"), ("queue", "codex")]
