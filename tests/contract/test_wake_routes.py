"""The routes of an agent: a budget per hour, backoff after failures, switched off after several, ready again when registered.

A message goes from one route to the next until the agent has it.
"""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

import pytest

from postroom import mail, people
from postroom.core.errors import InvalidInput
from postroom.core.records.agent_sessions import RingPermit
from postroom.mail.drafts import PROTOCOL_VERSION
from postroom.people.agents.route_order import HEAD_START_SECONDS, UNHEARD_SECONDS, UNREAD_SECONDS
from postroom.people.agents.wake_routes import MAX_FAILURES, MAX_RINGS_PER_HOUR
from postroom.store.interface import Store
from tests.conftest import Clock

ROUTE: dict[str, Any] = {"agent": "ada", "route": "queue", "session": "s-1"}
HIGHER: dict[str, Any] = {"agent": "ada", "route": "input", "session": "s-2"}
HIGHEST: dict[str, Any] = {"agent": "ada", "route": "resident", "session": "resident"}
PROGRAMS = {"queue": "codex", "input": "qwen", "resident": "gemini"}


def _mail(store: Store, text: str = "hello") -> str:
    return mail.enqueue(store, {"from": "bo", "to": "ada", "payload": text, "protocol_version": PROTOCOL_VERSION}).msg_id


def _register(store: Store, *routes: dict[str, Any], **process: Any) -> None:
    for route in routes:
        people.register_route(store, **route, program=PROGRAMS[route["route"]], **process)


def _ring(store: Store, route: dict[str, Any], *item_ids: str) -> tuple[str, ...]:
    return people.begin_ring(store, item_ids, **route).item_ids


def test_a_way_is_rung_as_often_as_its_budget_allows_and_again_in_the_next_hour(store: Store, clock: Clock) -> None:
    people.register_route(store, **ROUTE, program="codex")
    mail_id = _mail(store)
    assert [_ring(store, ROUTE, mail_id) for _ in range(MAX_RINGS_PER_HOUR)] == [(mail_id,)] * MAX_RINGS_PER_HOUR
    permit = people.begin_ring(store, (mail_id,), **ROUTE)
    assert permit.item_ids == ()
    assert 0 < permit.seconds <= 3600
    clock.advance(permit.seconds + 1)
    assert _ring(store, ROUTE, mail_id) == (mail_id,)


def test_a_way_that_fails_backs_off_then_is_off_until_its_session_registers_again(store: Store, clock: Clock) -> None:
    people.register_route(store, **ROUTE, program="codex")
    pauses = []
    for _ in range(MAX_FAILURES - 1):
        people.end_ring(store, **ROUTE, failure="no daemon")
        pauses.append(people.begin_ring(store, (), **ROUTE).seconds)
        clock.advance(pauses[-1] + 1)
    assert pauses[1] > pauses[0] > 0
    people.end_ring(store, **ROUTE, failure="no daemon")
    (route,) = people.list_routes(store, agent="ada").routes
    assert (route.state, route.reason, route.failures) == ("off", "no daemon", MAX_FAILURES)
    clock.advance(7200)
    assert people.begin_ring(store, (), **ROUTE).seconds > 0
    people.register_route(store, **ROUTE, program="codex")
    assert people.begin_ring(store, (), **ROUTE).seconds == 0


def test_a_success_ends_the_backoff(store: Store) -> None:
    people.register_route(store, **ROUTE, program="codex")
    people.end_ring(store, **ROUTE, failure="no daemon")
    people.end_ring(store, **ROUTE)
    assert people.begin_ring(store, (), **ROUTE).seconds == 0


def test_an_unknown_way_is_refused(store: Store) -> None:
    with pytest.raises(InvalidInput):
        people.register_route(store, agent="ada", route="pigeon", session="s-1", program="codex")
    people.remove_route(store, **ROUTE)
    assert people.list_routes(store, agent="ada").routes == ()


def test_a_message_goes_to_the_next_session_when_its_words_did_not_reach_the_first(store: Store, clock: Clock) -> None:
    _register(store, ROUTE, HIGHER, HIGHEST)
    mail_id = _mail(store)
    assert _ring(store, ROUTE, mail_id) == (mail_id,)
    clock.advance(HEAD_START_SECONDS * 2 + 0.1)
    permit = people.begin_ring(store, (mail_id,), **HIGHER)
    assert permit.item_ids == ()
    assert 0 < permit.seconds <= UNHEARD_SECONDS
    clock.advance(permit.seconds)
    assert _ring(store, HIGHER, mail_id) == (mail_id,)
    assert _ring(store, HIGHEST, mail_id) == ()
    clock.advance(UNHEARD_SECONDS)
    assert _ring(store, HIGHEST, mail_id) == (mail_id,)


def test_the_receipt_of_an_answer_has_only_what_its_own_agent_was_told(store: Store) -> None:
    entry = people.ask(store, agent=ROUTE["agent"], question="Ship it?").id
    people.reply(store, entry, person="user", body="yes")
    people.note_injected(store, (entry,), agent="stranger", route="hook", session="elsewhere")
    people.note_injected(store, (entry,), **ROUTE)
    steps = [step for step in people.show_entry(store, entry).receipts if step.step == "reply_injected"]
    assert [step.by.split()[-1] for step in steps] == [ROUTE["session"]]


def test_a_session_with_the_words_in_its_context_has_longer_to_read(store: Store, clock: Clock) -> None:
    _register(store, ROUTE, HIGHER)
    mail_id = _mail(store)
    people.note_injected(store, (mail_id,), **ROUTE)
    clock.advance(UNREAD_SECONDS - 1)
    permit = people.begin_ring(store, (mail_id,), **HIGHER)
    assert permit.item_ids == ()
    clock.advance(permit.seconds)
    assert _ring(store, HIGHER, mail_id) == (mail_id,)


def test_lower_rungs_have_a_head_start(store: Store, clock: Clock) -> None:
    _register(store, ROUTE, HIGHER, HIGHEST)
    mail_id = _mail(store)
    permit = people.begin_ring(store, (mail_id,), **HIGHEST)
    assert permit.item_ids == ()
    assert permit.seconds == pytest.approx(2 * HEAD_START_SECONDS)
    assert people.begin_ring(store, (mail_id,), **HIGHER).seconds == pytest.approx(HEAD_START_SECONDS)
    clock.advance(HEAD_START_SECONDS)
    assert _ring(store, HIGHEST, mail_id) == ()
    assert _ring(store, HIGHER, mail_id) == (mail_id,)


@pytest.mark.parametrize("end", ["removed", "failed"])
def test_a_session_that_is_gone_or_could_not_be_rung_holds_no_message(store: Store, end: str) -> None:
    _register(store, ROUTE, HIGHER)
    mail_id = _mail(store)
    assert _ring(store, ROUTE, mail_id) == (mail_id,)
    if end == "removed":
        people.remove_route(store, **ROUTE)
    else:
        people.end_ring(store, **ROUTE, failure="no daemon")
    assert _ring(store, HIGHER, mail_id) == (mail_id,)


@pytest.mark.parametrize("is_rung", [False, True])
def test_a_session_whose_process_was_killed_holds_no_message(store: Store, is_rung: bool) -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as child:
        _register(store, ROUTE, host=os.uname().nodename, pid=child.pid)
        _register(store, HIGHER)
        mail_id = _mail(store)
        if is_rung:
            assert _ring(store, ROUTE, mail_id) == (mail_id,)
        assert _ring(store, HIGHER, mail_id) == ()
        child.kill()
    assert _ring(store, HIGHER, mail_id) == (mail_id,)


def test_a_session_is_rung_for_what_no_other_was_rung_for(store: Store, clock: Clock) -> None:
    _register(store, ROUTE, HIGHER)
    first, second = _mail(store), _mail(store, "more")
    assert _ring(store, ROUTE, first) == (first,)
    clock.advance(HEAD_START_SECONDS)
    assert _ring(store, HIGHER, first, second) == (second,)


def test_a_message_that_was_read_is_not_rung_for(store: Store) -> None:
    _register(store, ROUTE)
    first, second = _mail(store), _mail(store, "more")
    people.read_messages(store, agent="ada", limit=1)
    assert people.begin_ring(store, (first, second), **ROUTE).item_ids == (second,)
    handed = people.hand_over_messages(store, agent="ada")
    assert people.begin_ring(store, (first, second), **ROUTE) == RingPermit(())
    people.return_handover(store, handed.handover_id, agent="ada")
    assert _ring(store, ROUTE, first, second) == (second,)


def test_mail_shows_by_which_way_it_was_offered_and_that_it_arrived(store: Store) -> None:
    msg_id = _mail(store)
    people.register_route(store, **ROUTE, program="codex")
    assert _ring(store, ROUTE, msg_id) == (msg_id,)
    people.note_injected(store, (msg_id,), **ROUTE)
    steps = [step.to_json() for step in mail.show(store, msg_id).steps]
    assert [step["step"] for step in steps] == ["stored", "announced", "injected"]
    assert [(step["way"], step["program"]) for step in steps[1:]] == [("queue", "codex"), ("queue", "codex")]
