"""Checkpoints save a job's state and its inbox together, or neither."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from postroom.core import limits
from postroom.core.errors import Conflict, InvalidInput, NotFound, Refusal
from postroom.store.interface import Store
from postroom.tasks import A2ATask, Conductor
from postroom.tasks.job_verbs import TaskState
from tests.conftest import Clock, open_with
from tests.contract.task_data import (
    ANN,
    BOB,
    JOB,
    answered,
    asked,
    at,
    at_work,
    everything,
    ids,
    result_of,
    status_of,
    steps,
    waiting,
)

pytestmark = pytest.mark.travels("http")


def saved(conductor: Conductor, job_id: str = JOB) -> dict[str, Any]:
    """The state of a job, as whoever comes next finds it."""
    with conductor.checkpoint(job_id) as state:
        return dict(state.data)


def change(conductor: Conductor, act: Callable[[TaskState], object]) -> None:
    """A whole checkpoint."""
    with conductor.checkpoint(JOB) as state:
        act(state)


# Checkpoints


def test_a_checkpoint_saves_a_jobs_state(store: Store, place: str, clock: Clock) -> None:
    conductor = at_work(store, state={"step": 1, "notes": ["ünï"]})
    with conductor.checkpoint(JOB) as state:
        assert state.data == {"step": 1, "notes": ["ünï"]}
        state.data["step"] = 2
        state.data["notes"].append("more")
    store.close()
    with open_with(place, clock) as opened:
        assert saved(Conductor(opened)) == {"step": 2, "notes": ["ünï", "more"]}


def test_a_job_without_a_state_has_an_empty_one(store: Store) -> None:
    assert saved(at_work(store)) == {}


def test_a_checkpoint_has_the_jobs_tasks_and_results_that_are_not_over(store: Store) -> None:
    conductor = at_work(store)
    accepted, over = asked(conductor), asked(conductor)
    conductor.begin_sheet(JOB)
    conductor.complete(over.task_id, agent=BOB)
    pending = asked(conductor)
    result = answered(conductor, source=BOB, target=ANN)
    with conductor.checkpoint(JOB) as state:
        assert (state.inbox.job_id, state.inbox.agent_name) == (JOB, BOB)
        assert {task_id: (task.kind, task.status.value) for task_id, task in state.inbox.tasks.items()} == {
            pending.task_id: ("task", "pending"),
            accepted.task_id: ("task", "accepted"),
            result.task_id: ("result", "pending"),
        }


def test_a_checkpoint_saves_the_inbox_with_the_state(store: Store, clock: Clock) -> None:
    conductor = at_work(store)
    taken, done, failed, left = (asked(conductor, name) for name in ("taken", "done", "failed", "left"))
    with conductor.checkpoint(JOB) as state:
        assert state.inbox.mark_accepted(taken.task_id)
        assert state.inbox.complete_task(done.task_id, artifacts={"x": [1]})
        assert state.inbox.fail_task(failed.task_id, "it broke")
        state.data["step"] = 2
        assert status_of(Conductor(store), done.task_id) == "pending"  # not yet
    told = [conductor.get(task.task_id) for task in (taken, done, failed, left)]
    assert [task.status.value for task in told] == ["accepted", "completed", "failed", "pending"]
    assert (told[1].artifacts, told[2].reason, told[1].ended_at) == ({"x": [1]}, "it broke", at(clock))
    assert [steps(store, task.task_id)[-1] for task in told] == ["Accepted", "Completed", "Failed", "Routed"]
    assert (result_of(conductor, done.task_id).artifacts, result_of(conductor, failed.task_id).reason) == ({"x": [1]}, "it broke")
    assert saved(conductor) == {"step": 2}


def test_what_a_checkpoint_accepted_is_leased_like_anything_else(store: Store, clock: Clock) -> None:
    conductor = at_work(store)
    task = asked(conductor)
    with conductor.checkpoint(JOB) as state:
        state.inbox.mark_accepted(task.task_id)
    clock.advance(86_400)
    assert (status_of(conductor, task.task_id), conductor.get(task.task_id).attempt) == ("pending", 1)
    assert ids(conductor.pending(JOB)) == [task.task_id]


def test_a_checkpoint_that_fails_inside_saves_neither(store: Store) -> None:
    conductor = at_work(store, state={"step": 1})
    task = asked(conductor)
    before = everything(store)

    def work_and_break(state: TaskState) -> None:
        state.data["step"] = 2
        state.inbox.complete_task(task.task_id)
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        change(conductor, work_and_break)
    assert everything(store) == before
    assert saved(conductor) == {"step": 1}


@pytest.mark.parametrize("value", [object(), float("nan"), {1, 2}, "\ud800"], ids=["an object", "nan", "a set", "half a character"])
def test_a_state_that_is_no_json_saves_neither(store: Store, value: Any) -> None:
    conductor = at_work(store, state={"step": 1})
    task = asked(conductor)
    before = everything(store)

    def work(state: TaskState) -> None:
        state.data["step"] = value
        state.inbox.complete_task(task.task_id)

    with pytest.raises(InvalidInput):
        change(conductor, work)
    assert everything(store) == before
    assert saved(conductor) == {"step": 1}


@pytest.mark.parametrize("meanwhile", ["completed", "cancelled", "accepted", "lapsed"])
def test_a_checkpoint_that_somebody_overtook_saves_neither(store: Store, clock: Clock, meanwhile: str) -> None:
    conductor = at_work(store, state={"step": 1})
    task, other = asked(conductor), asked(conductor)
    if meanwhile == "lapsed":
        conductor.accept(task.task_id, agent=BOB, lease_seconds=10, job_id=JOB)
    entered = conductor.checkpoint(JOB)
    state = entered.__enter__()
    if meanwhile == "completed":
        conductor.complete(task.task_id, agent=BOB, artifacts={"by": "another"})
    elif meanwhile == "cancelled":
        conductor.cancel(task.task_id, agent=ANN)
    elif meanwhile == "accepted":
        conductor.accept(task.task_id, agent=BOB)
    else:
        clock.advance(10)
        conductor.accept(task.task_id, agent=BOB)
    before = everything(store)
    state.data["step"] = 2
    assert state.inbox.complete_task(task.task_id, artifacts={"by": "the checkpoint"})
    assert state.inbox.complete_task(other.task_id)
    with pytest.raises(Conflict):
        entered.__exit__(None, None, None)
    assert everything(store) == before
    assert saved(conductor) == {"step": 1}


def test_a_checkpoint_is_overtaken_also_in_what_it_did_not_touch(store: Store) -> None:
    conductor = at_work(store, state={"step": 1})
    other = asked(conductor)
    conductor.begin_sheet(JOB)  # accepts it
    mine = asked(conductor)

    def work(state: TaskState) -> None:
        conductor.cancel(other.task_id, agent=ANN)
        state.data["step"] = 2
        state.inbox.complete_task(mine.task_id)

    with pytest.raises(Conflict):
        change(conductor, work)
    assert (status_of(conductor, mine.task_id), saved(conductor)) == ("pending", {"step": 1})


def test_of_two_checkpoints_the_first_wins_and_the_second_is_told(store: Store) -> None:
    conductor = at_work(store, state={"step": 1})

    def overtaken(slow: TaskState) -> None:
        slow.data["step"] = "slow"
        change(conductor, lambda fast: fast.data.update(step="fast"))

    with pytest.raises(Conflict):
        change(conductor, overtaken)
    assert saved(conductor) == {"step": "fast"}


def test_a_task_that_arrives_during_a_checkpoint_neither_stops_it_nor_is_lost(store: Store) -> None:
    conductor = at_work(store)
    task = asked(conductor, "old")
    with conductor.checkpoint(JOB) as state:
        asked(conductor, "new")
        state.inbox.complete_task(task.task_id)
        state.data["step"] = 2
    assert (waiting(conductor, JOB), saved(conductor)) == (["new"], {"step": 2})


def test_a_task_submitted_into_a_checkpoints_inbox_is_kept_with_it(store: Store) -> None:
    conductor = at_work(store)
    change(conductor, lambda state: state.inbox.submit_task("a1", ANN, "from inside", {"x": 1}))
    (task,) = conductor.pending(JOB)
    assert (task.source_agent, task.source_job_id, task.description, task.context) == (ANN, "a1", "from inside", {"x": 1})
    assert steps(store, task.task_id) == ["Submitted", "Routed"]
    conductor.complete(task.task_id, agent=BOB)
    assert result_of(conductor, task.task_id).target_agent == ANN


def added(task_id: str = "x", **fields: Any) -> Callable[[TaskState], None]:
    """Put a task into the inbox as a program may that builds it by itself."""
    given = {"source_job_id": "", "source_agent": ANN, "description": "d", **fields}
    return lambda state: state.inbox.put_task(A2ATask(task_id=task_id, **given))


def nested(levels: int) -> Any:
    return [] if levels == 1 else [nested(levels - 1)]


@pytest.mark.parametrize(
    "fields",
    [
        {"deadline": "2030-01-01T00:00zz"},  # whoever waits for a task reads the next deadline of any task
        {"deadline": ""},
        {"task_id": ""},
        {"task_id": "two\nlines"},
        {"task_id": "x" * 1000},
        {"source_job_id": "x" * 1000},
        {"description": ""},
        {"description": "x" * (limits.MAX_DESCRIPTION_CHARS + 1)},
        {"context": {"x": "y" * limits.MAX_TASK_CONTEXT_BYTES}},
        {"context": {"x": nested(limits.MAX_JSON_LEVELS)}},
        {"kind": "result", "answers": "another task", "outcome": "completed"},
        {"status": "failed", "reason": "x" * (limits.MAX_REASON_CHARS + 1)},
        {"status": "failed", "reason": "no", "reason_code": "x" * 1000},
        {"status": "completed", "artifacts": {"x": "y" * limits.MAX_TASK_ARTIFACTS_BYTES}},
    ],
    ids="-".join,
)
def test_a_task_that_a_checkpoint_adds_is_checked_as_one_that_is_given(store: Store, fields: dict[str, Any]) -> None:
    conductor = at_work(store)
    before = everything(store)
    with pytest.raises(InvalidInput):
        change(conductor, added(**fields))
    assert everything(store) == before


def test_a_task_that_a_checkpoint_ends_is_checked_as_one_that_is_ended(store: Store) -> None:
    conductor = at_work(store)
    task = asked(conductor)
    ends: list[dict[str, Any]] = [
        {"status": "failed", "reason": "x" * (limits.MAX_REASON_CHARS + 1)},
        {"status": "completed", "artifacts": {"x": "y" * limits.MAX_TASK_ARTIFACTS_BYTES}},
    ]
    before = everything(store)
    for end in ends:
        with pytest.raises(InvalidInput):
            change(conductor, lambda state, end=end: state.inbox.put_task(A2ATask(**{**task.model_dump(), **end})))  # type: ignore[misc]
    assert everything(store) == before


def test_the_store_decides_when_a_task_of_a_checkpoint_was_made_and_what_it_belongs_to(store: Store, clock: Clock) -> None:
    conductor = at_work(store)
    other = asked(conductor, target="cid")
    claims: dict[str, Any] = {
        "parent": other.task_id,
        "depth": -5,
        "created_at": "long ago",
        "traceparent": "none",
        "door": "web",
        "attempt": 7,
    }
    change(conductor, added(**claims, thread_id="T1", outcome="completed", answers=other.task_id))
    (task,) = conductor.pending(JOB)
    assert (task.parent, task.depth, task.created_at, task.traceparent, task.attempt) == (None, 0, at(clock), None, 0)
    assert (task.thread_id, task.outcome, task.answers, task.door) == (None, None, None, other.door)


def test_a_checkpoint_does_not_add_a_task_whose_id_is_used(store: Store) -> None:
    conductor = at_work(store)
    other = asked(conductor, target="cid")
    before = everything(store)
    with pytest.raises(Conflict):
        change(conductor, added(other.task_id))
    assert everything(store) == before


def test_results_in_a_checkpoint_cannot_be_answered(store: Store) -> None:
    conductor = at_work(store, ANN)
    result = answered(conductor)
    with conductor.checkpoint(JOB) as state:
        assert not state.inbox.complete_task(result.task_id)
        assert not state.inbox.fail_task(result.task_id, "no")
    assert status_of(conductor, result.task_id) == "pending"


@pytest.mark.parametrize("ended", [False, True])
def test_a_job_that_does_not_run_has_no_checkpoint(store: Store, ended: bool) -> None:
    conductor = at_work(store)
    if ended:
        conductor.end_job(JOB)
    with pytest.raises(Refusal if ended else NotFound), conductor.checkpoint(JOB if ended else "nowhere"):
        pytest.fail("it began")
