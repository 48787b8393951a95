"""Routing of tasks: cards and skills, jobs that start and end, order, depth, and what is refused."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest

from postroom.core.errors import Conflict, InvalidInput, NotFound
from postroom.store.interface import Store
from postroom.tasks import Conductor
from tests.conftest import Clock, open_with
from tests.contract.task_data import (
    ANN,
    BOB,
    CID,
    answered,
    asked,
    at,
    conductor_with_agents,
    everything,
    facts,
    happened,
    held,
    ids,
    lapsed,
    result_of,
    steps,
    waiting,
)

pytestmark = pytest.mark.travels("http")

# Agents and their skills


def test_a_card_is_kept_as_it_was_registered(store: Store) -> None:
    conductor = Conductor(store)
    told = conductor.register("build-er.2", description="Builds things", skills=["Python", "SQL"])
    assert (told.name, told.description, tuple(told.skills)) == ("build-er.2", "Builds things", ("Python", "SQL"))
    assert conductor.card("build-er.2") == told


def test_registering_again_replaces_the_card(store: Store) -> None:
    conductor = Conductor(store)
    conductor.register(BOB, description="old", skills=["python"])
    conductor.register(BOB, description="new", skills=["sql"])
    assert conductor.card(BOB).description == "new"
    assert not conductor.find("python")
    assert [card.name for card in conductor.find("sql")] == [BOB]


def test_an_agent_is_found_by_a_whole_skill_in_any_case_and_by_name(store: Store) -> None:
    conductor = Conductor(store)
    conductor.register("zoe", skills=["Python"])
    conductor.register("abe", skills=["sql", "PYTHON"])
    conductor.register("max", skills=["python3", "pytho"])
    assert [card.name for card in conductor.find("pYthon")] == ["abe", "zoe"]
    assert not conductor.find("py%")
    assert not conductor.find("nothing")


def test_skills_of_every_alphabet_are_found_in_any_case(store: Store) -> None:
    conductor = Conductor(store)
    conductor.register("zoe", skills=["Übersetzen"])
    assert [card.name for card in conductor.find("übersetzen")] == ["zoe"]


@pytest.mark.parametrize("name", ["", " ", "two\nlines", "x" * 201, "nul\0"])
def test_a_name_that_is_none_is_refused(store: Store, name: str) -> None:
    with pytest.raises(InvalidInput):
        Conductor(store).register(name)


def test_the_card_of_nobody_is_not_found_and_the_nearest_name_is_suggested(store: Store) -> None:
    conductor = conductor_with_agents(store, "builder", "reviewer")
    with pytest.raises(NotFound) as refused:
        conductor.card("bulder")
    assert "builder" in refused.value.hint


# Jobs


def test_a_job_runs_from_its_start_to_its_end(store: Store, clock: Clock) -> None:
    conductor = conductor_with_agents(store)
    job = conductor.start_job(BOB, job_id="j1")
    assert (job.job_id, job.agent, job.status, job.created_at) == ("j1", BOB, "running", at(clock))
    assert [(one.job_id, one.status) for one in conductor.jobs(BOB)] == [("j1", "running")]
    assert not conductor.jobs(ANN)
    conductor.end_job("j1")
    assert "running" not in [one.status for one in conductor.jobs(BOB)]


def test_jobs_without_an_id_get_one_each(store: Store) -> None:
    conductor = conductor_with_agents(store)
    found = {conductor.start_job(agent).job_id for agent in (BOB, BOB, ANN)}
    assert len(found) == 3
    assert {job.job_id for job in conductor.jobs()} == found


def test_a_job_of_another_agent_or_one_that_has_ended_cannot_be_started_again(store: Store) -> None:
    conductor = conductor_with_agents(store)
    conductor.start_job(BOB, job_id="j1")
    conductor.end_job(conductor.start_job(BOB, job_id="over").job_id)
    before = everything(store)
    for agent, job_id in ((ANN, "j1"), (BOB, "over")):
        with pytest.raises(Conflict):
            conductor.start_job(agent, job_id=job_id)
    assert everything(store) == before


def test_a_job_of_somebody_unknown_does_not_start_and_the_nearest_name_is_suggested(store: Store) -> None:
    conductor = conductor_with_agents(store, "builder")
    with pytest.raises(NotFound) as refused:
        conductor.start_job("buildr")
    assert "builder" in refused.value.hint
    assert not conductor.jobs()


def test_a_job_never_started_is_not_found(store: Store) -> None:
    conductor = conductor_with_agents(store)
    for verb in (conductor.end_job, conductor.pending, conductor.begin_sheet):
        with pytest.raises(NotFound):
            verb("nowhere")


# Submitting and routing


def test_a_task_is_what_was_asked(store: Store, clock: Clock) -> None:
    conductor = conductor_with_agents(store)
    job = conductor.start_job(ANN).job_id
    context = {"files": ["a.py"], "ünï": {"deep": [1, 2.5, None, True]}}
    task = conductor.submit(ANN, BOB, "Look\n\n## at this", source_job_id=job, context=context, priority="high", deadline_seconds=60)
    assert UUID(task.task_id).version == 4
    assert (task.source_agent, task.source_job_id, task.target_agent, task.target_job_id) == (ANN, job, BOB, None)
    assert (task.kind, task.status, task.priority, task.attempt, task.depth) == ("task", "pending", "high", 0, 0)
    assert (task.description, task.context) == ("Look\n\n## at this", context)
    assert (task.created_at, task.deadline, task.accepted_at, task.ended_at) == (at(clock), at(clock, 60), None, None)
    assert (task.artifacts, task.reason, task.reason_code, task.answers, task.thread_id) == (None, None, None, None, None)
    assert conductor.get(task.task_id) == task


def test_a_task_for_an_agent_with_a_job_is_in_its_inbox_at_once(store: Store) -> None:
    conductor = conductor_with_agents(store)
    conductor.start_job(BOB, job_id="j1")
    task = asked(conductor)
    assert conductor.pending("j1")[0] == conductor.get(task.task_id) == task
    assert steps(store, task.task_id) == ["Submitted", "Routed"]


def test_a_pending_task_belongs_to_the_agent_until_one_of_its_jobs_accepts_it(store: Store) -> None:
    conductor = conductor_with_agents(store)
    for job_id in ("j1", "j2"):
        conductor.start_job(BOB, job_id=job_id)
    task = asked(conductor)
    assert [ids(conductor.pending(job_id)) for job_id in ("j1", "j2")] == [[task.task_id]] * 2
    conductor.begin_sheet("j2")
    assert [ids(conductor.pending(job_id)) for job_id in ("j1", "j2")] == [[], []]
    assert conductor.get(task.task_id).target_job_id == "j2"


def test_a_task_for_an_agent_that_is_not_running_waits_until_its_job_starts(store: Store, place: str, clock: Clock) -> None:
    task = asked(conductor_with_agents(store))
    assert task.target_job_id is None
    store.close()
    clock.advance(1_000_000)
    with open_with(place, clock) as opened:
        conductor = Conductor(opened)
        conductor.start_job(CID)
        job = conductor.start_job(BOB)
        assert ids(conductor.pending(job.job_id)) == [task.task_id]
        assert ids(conductor.begin_sheet(job.job_id).tasks) == [task.task_id]
        assert steps(opened, task.task_id) == ["Submitted", "Routed", "Accepted"]


def test_what_a_job_accepted_waits_again_when_the_job_ends_and_no_attempt_is_counted(store: Store) -> None:
    conductor = conductor_with_agents(store)
    conductor.start_job(BOB, job_id="j1")
    task, done = asked(conductor), asked(conductor)
    conductor.begin_sheet("j1")
    conductor.complete(done.task_id, agent=BOB)
    conductor.end_job("j1")
    told = conductor.get(task.task_id)
    assert (told.status, told.attempt, told.accepted_at, told.target_job_id) == ("pending", 0, None, None)
    conductor.start_job(BOB, job_id="j2")
    assert ids(conductor.pending("j2")) == [task.task_id]
    assert steps(store, task.task_id) == ["Submitted", "Routed", "Accepted", "Returned"]
    assert conductor.get(done.task_id).status == "completed"


def test_what_was_accepted_outside_a_job_is_not_given_back_when_a_job_ends(store: Store) -> None:
    conductor = conductor_with_agents(store)
    job = conductor.start_job(BOB)
    scene = held(conductor)
    conductor.end_job(job.job_id)
    assert conductor.get(scene.task_id).status == "accepted"


def test_a_job_of_another_agent_accepts_nothing(store: Store) -> None:
    conductor = conductor_with_agents(store)
    conductor.start_job(ANN, job_id="a1")
    task = asked(conductor)
    with pytest.raises(InvalidInput):
        conductor.accept(task.task_id, agent=BOB, job_id="a1")
    assert conductor.get(task.task_id).status == "pending"


def test_what_was_accepted_outside_any_job_is_in_the_jobs_inbox_when_its_lease_runs_out(store: Store, clock: Clock) -> None:
    conductor = conductor_with_agents(store)
    task = asked(conductor)
    conductor.accept(task.task_id, agent=BOB, lease_seconds=10)
    conductor.start_job(BOB, job_id="j1")
    clock.advance(10)
    assert ids(conductor.pending("j1")) == [task.task_id]


def test_what_was_given_back_while_no_job_ran_waits_for_the_next(store: Store, clock: Clock) -> None:
    conductor = conductor_with_agents(store)
    task = asked(conductor)
    lapsed(conductor, clock, task.task_id)
    conductor.start_job(BOB, job_id="j1")
    assert ids(conductor.pending("j1")) == [task.task_id]


def test_a_result_is_in_the_inbox_of_the_job_that_asked_or_of_its_agents_next(store: Store) -> None:
    conductor = conductor_with_agents(store)
    conductor.start_job(ANN, job_id="a1")
    other = conductor.start_job(ANN).job_id
    here = answered(conductor, source_job_id="a1")
    assert (ids(conductor.pending("a1")), ids(conductor.pending(other))) == ([here.task_id], [])
    late = asked(conductor, source_job_id="a1")
    for job_id in (other, "a1"):
        conductor.end_job(job_id)
    conductor.complete(late.task_id, agent=BOB)
    conductor.start_job(ANN, job_id="a2")
    assert ids(conductor.pending("a2")) == [here.task_id, result_of(conductor, late.task_id).task_id]


# Order


def test_pending_tasks_are_the_urgent_ones_first_and_then_the_oldest(store: Store, clock: Clock) -> None:
    conductor = conductor_with_agents(store)
    conductor.start_job(BOB, job_id="j1")
    for number, priority in enumerate(["low", "normal", "urgent", "high", "normal", "urgent", "low"]):
        asked(conductor, f"{priority} {number}", priority=priority)
        clock.advance(number % 2)  # some in one instant
    assert waiting(conductor, "j1") == ["urgent 2", "urgent 5", "high 3", "normal 1", "normal 4", "low 0", "low 6"]


def test_the_order_of_arrival_outlives_a_wait_for_a_job_and_a_lease_that_ran_out(store: Store, clock: Clock) -> None:
    conductor = conductor_with_agents(store)
    first = asked(conductor, "first")
    for name in ("second", "third"):
        asked(conductor, name)
    lapsed(conductor, clock, first.task_id)
    conductor.start_job(BOB, job_id="j1")
    asked(conductor, "fourth")
    assert waiting(conductor, "j1") == ["first", "second", "third", "fourth"]


def test_tasks_are_listed_newest_first_by_agent_and_status(store: Store) -> None:
    conductor = conductor_with_agents(store)
    made = [asked(conductor), asked(conductor, target=CID), asked(conductor), asked(conductor)]
    conductor.accept(made[2].task_id, agent=BOB)
    assert ids(conductor.tasks()) == [task.task_id for task in reversed(made)]
    assert ids(conductor.tasks(agent=BOB)) == [made[3].task_id, made[2].task_id, made[0].task_id]
    assert ids(conductor.tasks(agent=BOB, status="pending")) == [made[3].task_id, made[0].task_id]
    assert ids(conductor.tasks(status="accepted")) == [made[2].task_id]
    assert ids(conductor.tasks(limit=2)) == [made[3].task_id, made[2].task_id]


@pytest.mark.parametrize("asking", [{"status": "lost"}, {"limit": 0}, {"limit": -1}])
def test_a_listing_that_makes_no_sense_is_refused(store: Store, asking: dict[str, Any]) -> None:
    conductor = conductor_with_agents(store)
    with pytest.raises(InvalidInput):
        conductor.tasks(**asking)


# Refusals


def circle() -> dict[str, Any]:
    context: dict[str, Any] = {}
    context["itself"] = context
    return context


REFUSED: dict[str, tuple[tuple[str, str, Any], dict[str, Any]]] = {
    "to oneself": ((ANN, ANN, "x"), {}),
    "no description": ((ANN, BOB, ""), {}),
    "a blank description": ((ANN, BOB, " \n\t"), {}),
    "a description that is no text": ((ANN, BOB, 7), {}),
    "a description with NUL": ((ANN, BOB, "a\0b"), {}),
    "a description with half a character": ((ANN, BOB, "a\ud800b"), {}),
    "too long a description": ((ANN, BOB, "x" * 100_001), {}),
    "an empty source": (("", BOB, "x"), {}),
    "an empty target": ((ANN, "", "x"), {}),
    "a list for a context": ((ANN, BOB, "x"), {"context": [1]}),
    "a context that is no JSON": ((ANN, BOB, "x"), {"context": {"x": object()}}),
    "a context with a number that JSON has not": ((ANN, BOB, "x"), {"context": {"x": float("nan")}}),
    "a context that holds itself": ((ANN, BOB, "x"), {"context": circle()}),
    "a context with NUL": ((ANN, BOB, "x"), {"context": {"x": "\0"}}),
    "too big a context": ((ANN, BOB, "x"), {"context": {"x": "y" * (1 << 20)}}),
    "a context of 10 MB": ((ANN, BOB, "x"), {"context": {"x": ["y" * 1000] * 10_000}}),
    "an unknown priority": ((ANN, BOB, "x"), {"priority": "most"}),
    "no time at all": ((ANN, BOB, "x"), {"deadline_seconds": 0}),
    "a time that is over": ((ANN, BOB, "x"), {"deadline_seconds": -1}),
    "a time that is no number": ((ANN, BOB, "x"), {"deadline_seconds": float("nan")}),
    "a time without end": ((ANN, BOB, "x"), {"deadline_seconds": float("inf")}),
}


@pytest.mark.parametrize(("who", "how"), REFUSED.values(), ids=REFUSED.keys())
@pytest.mark.input_check
def test_a_task_that_cannot_be_asked_like_this_is_refused_and_nothing_is_kept(
    store: Store, who: tuple[str, str, Any], how: dict[str, Any]
) -> None:
    conductor = conductor_with_agents(store)
    conductor.start_job(BOB)
    before = everything(store)
    with pytest.raises(InvalidInput) as refused:
        conductor.submit(*who, **how)
    assert len(str(refused.value)) < 500
    assert everything(store) == before


def test_the_longest_description_and_a_big_context_are_taken(store: Store) -> None:
    conductor = conductor_with_agents(store)
    context = {"x": "y" * ((1 << 20) - 100)}
    task = conductor.submit(ANN, BOB, "x" * 100_000, context=context)
    assert conductor.get(task.task_id).context == context


@pytest.mark.parametrize(("source", "target", "meant"), [("an", BOB, ANN), (ANN, "bobb", BOB), (ANN, "Bob", BOB)])
def test_an_unknown_agent_is_refused_with_the_name_that_was_meant(store: Store, source: str, target: str, meant: str) -> None:
    conductor = conductor_with_agents(store)
    before = everything(store)
    with pytest.raises(NotFound) as refused:
        conductor.submit(source, target, "x")
    assert meant in refused.value.hint
    assert everything(store) == before


def test_a_task_of_a_parent_that_is_not_there_is_refused(store: Store) -> None:
    conductor = conductor_with_agents(store)
    before = everything(store)
    with pytest.raises(NotFound):
        conductor.submit(ANN, BOB, "x", parent="no such task")
    assert everything(store) == before


def test_an_id_never_given_is_not_found(store: Store) -> None:
    with pytest.raises(NotFound):
        conductor_with_agents(store).get("00000000-0000-4000-8000-000000000000")


# Depth


def test_a_chain_of_delegation_ends_at_its_depth(store: Store) -> None:
    conductor = conductor_with_agents(store)
    task = asked(conductor)
    for depth in range(1, 9):
        source, target = (BOB, ANN) if depth % 2 else (ANN, BOB)
        child = conductor.submit(source, target, "more", parent=task.task_id)
        assert (child.depth, child.parent) == (depth, task.task_id)
        task = child
    before = everything(store)
    with pytest.raises(InvalidInput, match="delegated too deep"):
        conductor.submit(BOB, ANN, "too much", parent=task.task_id)
    assert everything(store) == before


def test_what_a_job_delegates_descends_from_the_newest_task_that_it_accepted(store: Store) -> None:
    conductor = conductor_with_agents(store)
    conductor.start_job(BOB, job_id="j1")
    assert conductor.submit(BOB, CID, "by itself", source_job_id="j1").parent is None
    first, second, third = (asked(conductor, name) for name in ("first", "second", "third"))
    for task in (first, second):
        conductor.accept(task.task_id, agent=BOB, job_id="j1")
    child = conductor.submit(BOB, CID, "more", source_job_id="j1")
    assert (child.parent, child.depth) == (second.task_id, 1)
    chosen = conductor.submit(BOB, CID, "more", source_job_id="j1", parent=third.task_id)
    assert (chosen.parent, chosen.depth) == (third.task_id, 1)
    assert conductor.submit(BOB, CID, "of no job").parent is None


def test_jobs_that_pass_a_task_to_and_fro_are_stopped_without_naming_a_parent(store: Store) -> None:
    conductor = conductor_with_agents(store)
    jobs = {name: conductor.start_job(name).job_id for name in (ANN, BOB)}
    task, (source, target) = asked(conductor), (BOB, ANN)
    for depth in range(1, 9):
        conductor.begin_sheet(jobs[source])
        task = conductor.submit(source, target, "your turn", source_job_id=jobs[source])
        assert task.depth == depth
        source, target = target, source
    conductor.begin_sheet(jobs[source])
    with pytest.raises(InvalidInput, match="delegated too deep"):
        conductor.submit(source, target, "your turn", source_job_id=jobs[source])


# Events


def test_each_event_says_whose_task_it_is_and_how_it_stands(store: Store, clock: Clock) -> None:
    conductor = conductor_with_agents(store)
    conductor.start_job(ANN, job_id="a1")
    conductor.start_job(BOB, job_id="b1")
    task = asked(conductor, source_job_id="a1")
    conductor.accept(task.task_id, agent=BOB, job_id="b1")
    clock.advance(3)
    conductor.complete(task.task_id, agent=BOB)
    found = happened(store, task.task_id)
    assert [event.event_type.removeprefix("task.A2ATask") for event in found] == ["Submitted", "Routed", "Accepted", "Completed"]
    assert [facts(event)["status"] for event in found] == ["pending", "pending", "accepted", "completed"]
    for event in found:
        said = facts(event)
        assert (said["kind"], said["source_agent"], said["target_agent"], said["source_job_id"]) == ("task", ANN, BOB, "a1")
        assert event.thread_id == ""
    assert [facts(event)["target_job_id"] for event in found] == [None, None, "b1", "b1"]
    assert (found[0].created_at, found[-1].created_at) == (at(clock, -3), at(clock))


def test_a_result_announces_itself_to_whoever_watches(store: Store) -> None:
    conductor = conductor_with_agents(store)
    conductor.start_job(ANN, job_id="a1")
    task = asked(conductor)
    conductor.fail(task.task_id, "it broke", agent=BOB)
    found = happened(store, result_of(conductor, task.task_id).task_id)
    assert found
    assert {(facts(event)["kind"], facts(event)["target_agent"]) for event in found} == {("result", ANN)}
