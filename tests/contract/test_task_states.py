"""The life of a task: every verb in every state, leases and deadlines that run out unseen, and results that come home once."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from postroom.core import clock as time
from postroom.core.errors import Conflict, InvalidInput, LeaseLost, NotFound, Refusal
from postroom.store.interface import Store
from postroom.tasks import Conductor
from tests.conftest import Clock
from tests.contract.task_data import (
    ANN,
    BOB,
    CID,
    CODES,
    ENDED,
    OPEN,
    STATES,
    answered,
    asked,
    at,
    brought,
    conductor_with_agents,
    everything,
    held,
    ids,
    lapsed,
    result_of,
    results_of,
    status_in,
    status_of,
    steps,
)

pytestmark = pytest.mark.travels("http")

Act = Callable[[Conductor, str], Any]
VERBS: dict[str, Act] = {
    "accept": lambda c, t: c.accept(t, agent=BOB),
    "complete": lambda c, t: c.complete(t, agent=BOB, artifacts={"x": 1}),
    "fail": lambda c, t: c.fail(t, "no", agent=BOB),
    "cancel": lambda c, t: c.cancel(t, agent=ANN, reason="no"),
    "acknowledge": lambda c, t: c.acknowledge(t, agent=BOB),
}
each_verb = pytest.mark.parametrize("act", VERBS.values(), ids=VERBS.keys())
ENDING = {"complete": "completed", "fail": "failed", "cancel": "failed"}


def outcome(state: str, verb: str) -> str | tuple[type[Refusal], ...]:
    """The status then, or the refusal."""
    if verb == "acknowledge":
        return (InvalidInput,)
    if state in ENDED or (state, verb) == ("accepted", "accept"):
        return (Conflict,)
    return ENDING.get(verb, "accepted")


CELLS = [pytest.param(state, verb, id=f"{verb} of {state}") for state in STATES for verb in VERBS]


@pytest.mark.parametrize(("state", "verb"), CELLS)
def test_each_verb_in_each_state_does_what_the_table_says(store: Store, clock: Clock, state: str, verb: str) -> None:
    conductor = conductor_with_agents(store)
    task_id = brought(conductor, clock, state).task_id
    assert status_of(conductor, task_id) == status_in(state)
    before = everything(store)
    expected = outcome(state, verb)
    if isinstance(expected, tuple):
        with pytest.raises(expected):
            VERBS[verb](conductor, task_id)
        assert everything(store) == before
        return
    told = VERBS[verb](conductor, task_id)
    task = told.task if verb == "accept" else told
    assert (task.task_id, task.status) == (task_id, expected)
    assert conductor.get(task_id) == task
    assert len(results_of(conductor, task_id)) == (0 if verb == "accept" else 1)


@pytest.mark.parametrize("verb", ["accept", *ENDING])
@pytest.mark.parametrize("state", ENDED)
def test_the_first_end_wins_and_the_second_is_told_which_it_was(store: Store, clock: Clock, state: str, verb: str) -> None:
    conductor = conductor_with_agents(store)
    scene = brought(conductor, clock, state)
    with pytest.raises(Conflict) as refused:
        VERBS[verb](conductor, scene.task_id)
    assert refused.value.code == "conflict"
    assert status_in(state) in str(refused.value)
    assert len(results_of(conductor, scene.task_id)) == 1


@each_verb
def test_an_id_never_given_is_not_found(store: Store, act: Act) -> None:
    conductor = conductor_with_agents(store)
    asked(conductor)
    before = everything(store)
    with pytest.raises(NotFound):
        act(conductor, "00000000-0000-4000-8000-000000000000")
    assert everything(store) == before


STRANGERS: dict[str, Act] = {
    "accept by another": lambda c, t: c.accept(t, agent=CID),
    "accept by the source": lambda c, t: c.accept(t, agent=ANN),
    "complete by another": lambda c, t: c.complete(t, agent=CID),
    "complete by the source": lambda c, t: c.complete(t, agent=ANN),
    "fail by another": lambda c, t: c.fail(t, "no", agent=CID),
    "cancel by the target": lambda c, t: c.cancel(t, agent=BOB),
    "cancel by another": lambda c, t: c.cancel(t, agent=CID),
}


@pytest.mark.parametrize("state", OPEN)
@pytest.mark.parametrize("act", STRANGERS.values(), ids=STRANGERS.keys())
def test_whose_task_it_is_not_cannot_move_it(store: Store, clock: Clock, act: Act, state: str) -> None:
    conductor = conductor_with_agents(store)
    task_id = brought(conductor, clock, state).task_id
    before = everything(store)
    with pytest.raises(InvalidInput):
        act(conductor, task_id)
    assert everything(store) == before


# Records of an ended task


def test_a_completed_task_has_its_artifacts_and_its_times(store: Store, clock: Clock) -> None:
    conductor = conductor_with_agents(store)
    scene = held(conductor)
    clock.advance(5)
    artifacts = {"review": "ünï\n## fine", "files": [{"path": "a"}, None, 1.5]}
    told = conductor.complete(scene.task_id, agent=BOB, artifacts=artifacts, lease_token=scene.token)
    assert (told.artifacts, told.reason, told.reason_code) == (artifacts, None, None)
    assert (told.accepted_at, told.ended_at) == (at(clock, -5), at(clock))
    assert steps(store, scene.task_id) == ["Submitted", "Routed", "Accepted", "Completed"]


def test_a_failed_task_has_its_reason(store: Store, clock: Clock) -> None:
    conductor = conductor_with_agents(store)
    task = asked(conductor)
    told = conductor.fail(task.task_id, "it broke\nbadly", agent=BOB)
    assert (told.status, told.reason, told.artifacts, told.ended_at) == ("failed", "it broke\nbadly", None, at(clock))
    assert steps(store, task.task_id) == ["Submitted", "Routed", "Failed"]


def test_a_cancelled_task_has_failed_with_a_code_and_the_reason(store: Store) -> None:
    conductor = conductor_with_agents(store)
    task = asked(conductor)
    told = conductor.cancel(task.task_id, agent=ANN, reason="not wanted")
    assert (told.status, told.reason_code) == ("failed", "cancelled")
    assert told.reason is not None
    assert "not wanted" in told.reason


def test_a_failure_must_say_why(store: Store) -> None:
    conductor = conductor_with_agents(store)
    task = asked(conductor)
    with pytest.raises(InvalidInput):
        conductor.fail(task.task_id, "  ", agent=BOB)
    assert status_of(conductor, task.task_id) == "pending"


BAD_ARTIFACTS: dict[str, Any] = {
    "a list": [1],
    "text": "fine",
    "no JSON": {"x": object()},
    "no number": {"x": float("inf")},
    "NUL": {"x": "\0"},
    "half a character": {"x": "\ud800"},
    "more than 10 MiB": {"x": "y" * (10 << 20)},
}


@pytest.mark.parametrize("artifacts", BAD_ARTIFACTS.values(), ids=BAD_ARTIFACTS.keys())
@pytest.mark.input_check
def test_artifacts_that_are_no_json_object_or_too_big_are_refused(store: Store, artifacts: Any) -> None:
    conductor = conductor_with_agents(store)
    scene = held(conductor)
    before = everything(store)
    with pytest.raises(InvalidInput) as refused:
        conductor.complete(scene.task_id, agent=BOB, artifacts=artifacts)
    assert len(str(refused.value)) < 500
    assert everything(store) == before


# Leases


def test_a_lease_that_runs_out_gives_the_task_back_and_counts_the_attempt(store: Store, clock: Clock) -> None:
    conductor = conductor_with_agents(store)
    conductor.start_job(BOB, job_id="j1")
    scene = held(conductor, lease_seconds=60)
    clock.instant += 60 * time.MICROSECONDS_PER_SECOND - 1
    assert (status_of(conductor, scene.task_id), ids(conductor.pending("j1"))) == ("accepted", [])
    clock.instant += 1
    told = conductor.get(scene.task_id)
    assert (told.status, told.attempt, told.accepted_at, told.ended_at) == ("pending", 1, None, None)
    assert ids(conductor.pending("j1")) == [scene.task_id]
    assert steps(store, scene.task_id) == ["Submitted", "Routed", "Accepted", "Returned"]


def test_a_lease_lasts_900_seconds_unless_asked_otherwise(store: Store, clock: Clock) -> None:
    conductor = conductor_with_agents(store)
    task = asked(conductor)
    conductor.accept(task.task_id, agent=BOB)
    clock.advance(899)
    assert status_of(conductor, task.task_id) == "accepted"
    clock.advance(1)
    assert status_of(conductor, task.task_id) == "pending"


def test_the_third_lease_that_runs_out_is_the_last_and_the_source_is_told(store: Store, clock: Clock) -> None:
    conductor = conductor_with_agents(store)
    task = asked(conductor)
    for attempt in range(3):
        assert conductor.accept(task.task_id, agent=BOB, lease_seconds=10).task.attempt == attempt
        clock.advance(10)
    clock.advance(1000)  # and nobody looks for long
    told = conductor.get(task.task_id)
    assert (told.status, told.attempt, told.reason_code, told.ended_at) == ("failed", 3, "attempts_exhausted", at(clock, -1000))
    assert told.reason
    result = result_of(conductor, task.task_id)
    assert (result.status, result.reason_code, result.target_agent) == ("pending", "attempts_exhausted", ANN)
    assert steps(store, task.task_id)[-1] == "Failed"


AFTERWARDS = ["accepted again", "lapsed again", "completed by another"]


@pytest.mark.parametrize("state", AFTERWARDS)
@pytest.mark.parametrize("verb", ["complete", "fail"])
def test_who_was_replaced_cannot_speak_for_the_task(store: Store, clock: Clock, verb: str, state: str) -> None:
    conductor = conductor_with_agents(store)
    task = asked(conductor)
    old = lapsed(conductor, clock, task.task_id)
    new = conductor.accept(task.task_id, agent=BOB, lease_seconds=60).lease_token
    assert new != old
    if state == "completed by another":
        conductor.complete(task.task_id, agent=BOB, lease_token=new)
    elif state == "lapsed again":
        clock.advance(60)
    before = everything(store)
    act = partial(conductor.complete, task.task_id) if verb == "complete" else partial(conductor.fail, task.task_id, "no")
    with pytest.raises(Conflict if state == "completed by another" else LeaseLost):
        act(agent=BOB, lease_token=old)
    assert everything(store) == before


def test_who_is_late_and_was_not_replaced_may_still_bring_the_result(store: Store, clock: Clock) -> None:
    conductor = conductor_with_agents(store)
    task = asked(conductor)
    token = lapsed(conductor, clock, task.task_id)
    assert status_of(conductor, task.task_id) == "pending"
    told = conductor.complete(task.task_id, agent=BOB, artifacts={"late": True}, lease_token=token)
    assert (told.status, told.artifacts) == ("completed", {"late": True})


@pytest.mark.parametrize("token", ["", "invented"])
@pytest.mark.parametrize("state", OPEN)
def test_a_token_that_was_never_given_out_is_refused(store: Store, clock: Clock, state: str, token: str) -> None:
    conductor = conductor_with_agents(store)
    scene = brought(conductor, clock, state)
    with pytest.raises(LeaseLost):
        conductor.complete(scene.task_id, agent=BOB, lease_token=token)
    assert status_of(conductor, scene.task_id) == status_in(state)


def test_two_accepts_have_two_tokens_and_the_second_counts(store: Store, clock: Clock) -> None:
    conductor = conductor_with_agents(store)
    task = asked(conductor)
    tokens = [lapsed(conductor, clock, task.task_id), conductor.accept(task.task_id, agent=BOB).lease_token]
    assert len(set(tokens)) == 2
    assert conductor.complete(task.task_id, agent=BOB, lease_token=tokens[1]).status == "completed"


@pytest.mark.parametrize("seconds", [0, -1, float("nan"), float("inf"), "soon"])
def test_a_lease_of_no_sensible_length_is_refused(store: Store, seconds: Any) -> None:
    conductor = conductor_with_agents(store)
    task = asked(conductor)
    with pytest.raises(InvalidInput):
        conductor.accept(task.task_id, agent=BOB, lease_seconds=seconds)
    assert status_of(conductor, task.task_id) == "pending"


# Deadlines


@pytest.mark.parametrize("state", ["pending", "accepted", "returned", "routed"])
def test_a_deadline_that_passes_fails_the_task_as_of_then(store: Store, clock: Clock, state: str) -> None:
    conductor = conductor_with_agents(store)
    if state == "routed":
        conductor.start_job(BOB)
    task = asked(conductor, deadline_seconds=60)
    if state in ("accepted", "returned"):
        conductor.accept(task.task_id, agent=BOB, lease_seconds=900 if state == "accepted" else 10)
    clock.instant += 60 * time.MICROSECONDS_PER_SECOND - 1
    assert status_of(conductor, task.task_id) == status_in("pending" if state == "routed" else state)
    clock.instant += 1 + 1000 * time.MICROSECONDS_PER_SECOND
    told = conductor.get(task.task_id)
    assert (told.status, told.reason_code, told.ended_at) == ("failed", "deadline", task.deadline)
    assert result_of(conductor, task.task_id).reason_code == "deadline"
    assert steps(store, task.task_id)[-1] == "Failed"


def test_what_falls_due_falls_due_in_its_order_however_late_one_looks(store: Store, clock: Clock) -> None:
    conductor = conductor_with_agents(store)
    late, early = (asked(conductor, deadline_seconds=seconds) for seconds in (25, 5))
    for task in (late, early):
        conductor.accept(task.task_id, agent=BOB, lease_seconds=10)
    clock.advance(1000)
    assert [(told.attempt, told.ended_at) for told in map(conductor.get, ids([late, early]))] == [(1, late.deadline), (0, early.deadline)]
    assert steps(store, late.task_id) == ["Submitted", "Routed", "Accepted", "Returned", "Failed"]


@pytest.mark.parametrize("ending", ["completed", "failed", "cancelled"])
def test_a_deadline_has_nothing_to_say_of_what_has_ended(store: Store, clock: Clock, ending: str) -> None:
    conductor = conductor_with_agents(store)
    task = asked(conductor, deadline_seconds=5)
    VERBS[{"completed": "complete", "failed": "fail", "cancelled": "cancel"}[ending]](conductor, task.task_id)
    before = everything(store)
    clock.advance(100)
    assert everything(store) == before


@pytest.mark.parametrize("verb", ["accept", *ENDING])
def test_whoever_comes_after_the_deadline_is_told_so(store: Store, clock: Clock, verb: str) -> None:
    conductor = conductor_with_agents(store)
    task = asked(conductor, deadline_seconds=5)
    clock.advance(5)
    with pytest.raises(Conflict):
        VERBS[verb](conductor, task.task_id)
    assert conductor.get(task.task_id).reason_code == "deadline"


# Results


@pytest.mark.parametrize("state", ENDED)
def test_every_end_comes_home_once_as_a_result(store: Store, clock: Clock, state: str) -> None:
    conductor = conductor_with_agents(store)
    conductor.start_job(ANN, job_id="a1")
    task = conductor.get(brought(conductor, clock, state).task_id)
    clock.advance(1_000_000)
    result = result_of(conductor, task.task_id)
    assert (result.kind, result.status, result.answers) == ("result", "pending", task.task_id)
    assert (result.source_agent, result.target_agent) == (BOB, ANN)
    assert (result.artifacts, result.reason, result.reason_code) == (task.artifacts, task.reason, task.reason_code)
    assert task.reason_code == CODES.get(state, task.reason_code)
    assert ids(conductor.pending("a1")) == [result.task_id]
    assert result.description == task.description


def test_a_result_is_acknowledged_by_whom_it_is_for(store: Store, clock: Clock) -> None:
    conductor = conductor_with_agents(store)
    conductor.start_job(ANN, job_id="a1")
    result = answered(conductor)
    told = conductor.acknowledge(result.task_id, agent=ANN)
    assert (told.status, told.ended_at, told.artifacts) == ("completed", at(clock), result.artifacts)
    assert conductor.get(result.task_id) == told
    assert not conductor.pending("a1")
    assert results_of(conductor, result.task_id) == []


@pytest.mark.parametrize("agent", [BOB, CID])
def test_a_result_is_not_acknowledged_by_others(store: Store, agent: str) -> None:
    conductor = conductor_with_agents(store)
    result = answered(conductor)
    before = everything(store)
    with pytest.raises(InvalidInput):
        conductor.acknowledge(result.task_id, agent=agent)
    assert everything(store) == before


@pytest.mark.parametrize("seen", [False, True])
@pytest.mark.parametrize("agent", [ANN, BOB])
@pytest.mark.parametrize("verb", ["complete", "fail", "cancel"])
def test_a_result_is_never_answered_by_anyone(store: Store, verb: str, agent: str, seen: bool) -> None:
    conductor = conductor_with_agents(store)
    result = answered(conductor)
    if seen:
        conductor.acknowledge(result.task_id, agent=ANN)
    before = everything(store)
    answer: dict[str, Callable[[], object]] = {
        "complete": lambda: conductor.complete(result.task_id, agent=agent),
        "fail": lambda: conductor.fail(result.task_id, "no", agent=agent),
        "cancel": lambda: conductor.cancel(result.task_id, agent=agent),
    }
    with pytest.raises(InvalidInput):
        answer[verb]()
    assert everything(store) == before


def test_a_result_acknowledged_twice_is_acknowledged_once(store: Store) -> None:
    conductor = conductor_with_agents(store)
    result = answered(conductor)
    conductor.acknowledge(result.task_id, agent=ANN)
    before = everything(store)
    assert conductor.acknowledge(result.task_id, agent=ANN).status == "completed"  # as the ack of a message said twice
    assert everything(store) == before


def test_a_result_waits_for_ever(store: Store, clock: Clock) -> None:
    conductor = conductor_with_agents(store)
    result = answered(conductor, deadline_seconds=60)
    clock.advance(100_000_000)
    assert status_of(conductor, result.task_id) == "pending"


def test_a_result_does_not_count_as_a_task_that_its_job_accepted(store: Store) -> None:
    conductor = conductor_with_agents(store)
    conductor.start_job(ANN, job_id="a1")
    for _ in range(10):  # asking again and again is no cycle
        task = asked(conductor, source_job_id="a1")
        assert task.depth == 0
        conductor.complete(task.task_id, agent=BOB)
        conductor.begin_sheet("a1")


def test_a_chain_of_two_brings_each_result_to_whom_it_belongs(store: Store) -> None:
    conductor = conductor_with_agents(store)
    jobs = {name: conductor.start_job(name).job_id for name in (ANN, BOB, CID)}
    outer = asked(conductor, source_job_id=jobs[ANN])
    conductor.begin_sheet(jobs[BOB])
    inner = conductor.submit(BOB, CID, "a part of it", source_job_id=jobs[BOB])
    assert inner.parent == outer.task_id
    conductor.complete(inner.task_id, agent=CID, artifacts={"part": 1})
    assert [task.answers for task in conductor.pending(jobs[BOB])] == [inner.task_id]
    assert not conductor.pending(jobs[ANN])
    conductor.complete(outer.task_id, agent=BOB, artifacts={"whole": 2})
    assert [task.answers for task in conductor.pending(jobs[ANN])] == [outer.task_id]
