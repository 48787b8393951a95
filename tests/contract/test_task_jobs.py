"""Leases of jobs: what becomes of the tasks and results of a job whose process died, and who may go on with it."""

from __future__ import annotations

import pytest

from postroom.core.errors import LeaseLost
from postroom.store.interface import Store
from postroom.tasks import jobs
from postroom.tasks.settling import MAX_ROWS_PER_BATCH
from tests.conftest import Clock
from tests.contract.task_data import ANN, BOB, answered, asked, conductor_with_agents, everything, ids

pytestmark = pytest.mark.travels("http")


def test_a_job_that_is_started_again_goes_on_and_its_old_process_is_refused(store: Store) -> None:
    conductor = conductor_with_agents(store)
    dead = conductor.start_job(BOB, job_id="j1", state={"step": 1})
    task = asked(conductor)
    conductor.begin_sheet("j1", lease_token=dead.lease_token)
    alive = conductor.start_job(BOB, job_id="j1", state={"step": 0})
    assert (alive.resumed, dead.resumed, alive.lease_token == dead.lease_token) == (True, False, False)
    with conductor.checkpoint("j1", lease_token=alive.lease_token) as state:
        assert state.data == {"step": 1}
    assert ids(conductor.begin_sheet("j1", lease_token=alive.lease_token).tasks) == [task.task_id]
    assert conductor.get(task.task_id).attempt == 1  # a process that died counts
    before = everything(store)
    for act in (conductor.begin_sheet, conductor.renew_job, conductor.end_job, conductor.load_checkpoint):
        with pytest.raises(LeaseLost):
            act("j1", lease_token=dead.lease_token)
    assert everything(store) == before


def test_tasks_and_results_of_a_job_whose_process_died_go_to_the_agents_next_job(store: Store, clock: Clock) -> None:
    conductor = conductor_with_agents(store)
    conductor.start_job(BOB, job_id="dead")
    task = asked(conductor)
    result = answered(conductor, source=BOB, target=ANN, source_job_id="dead")
    conductor.begin_sheet("dead", lease_seconds=3600)
    later = answered(conductor, source=BOB, target=ANN, source_job_id="dead")
    clock.advance(900)
    job = conductor.start_job(BOB)
    assert [one.status for one in conductor.jobs(BOB)] == ["running", "lapsed"]
    assert ids(conductor.begin_sheet(job.job_id).tasks) == [task.task_id, result.task_id, later.task_id]
    assert conductor.get(task.task_id).attempt == 1


def test_a_job_that_was_only_slow_goes_on_until_another_process_takes_it(store: Store, clock: Clock) -> None:
    conductor = conductor_with_agents(store)
    job = conductor.start_job(BOB)
    clock.advance(5000)
    task = asked(conductor)
    assert ids(conductor.begin_sheet(job.job_id, lease_token=job.lease_token).tasks) == [task.task_id]
    assert conductor.jobs(BOB)[0].status == "running"


@pytest.mark.parametrize("renewal", ["begin_sheet", "renew_job", "checkpoint"])
def test_a_sheet_a_checkpoint_and_a_heartbeat_renew_the_lease_of_a_job(store: Store, clock: Clock, renewal: str) -> None:
    conductor = conductor_with_agents(store)
    job = conductor.start_job(BOB, lease_seconds=60)
    result = answered(conductor, source=BOB, target=ANN, source_job_id=job.job_id)
    for _ in range(3):
        clock.advance(50)
        if renewal == "checkpoint":
            with conductor.checkpoint(job.job_id):
                pass
        else:
            getattr(conductor, renewal)(job.job_id)
    conductor.get(result.task_id)  # settles
    assert (conductor.jobs(BOB)[0].status, conductor.get(result.task_id).target_job_id) == ("running", job.job_id)


def test_a_heartbeat_renews_what_the_job_accepted(store: Store, clock: Clock) -> None:
    conductor = conductor_with_agents(store)
    job = conductor.start_job(BOB, lease_seconds=60)
    task = asked(conductor)
    conductor.begin_sheet(job.job_id, lease_seconds=60)
    for _ in range(3):
        clock.advance(50)
        conductor.renew_job(job.job_id, lease_token=job.lease_token)
    assert (conductor.get(task.task_id).status, conductor.get(task.task_id).attempt) == ("accepted", 0)


def test_a_job_with_more_tasks_than_a_batch_ends_whole(store: Store) -> None:
    conductor = conductor_with_agents(store)
    job = conductor.start_job(BOB)
    made = [asked(conductor, "x").task_id for _ in range(MAX_ROWS_PER_BATCH + 5)]
    conductor.begin_sheet(job.job_id, budget=1_000_000)
    assert conductor.end_job(job.job_id).status == "ended"
    assert [conductor.get(task_id).target_job_id for task_id in made] == [None] * len(made)
    assert ids(conductor.pending(conductor.start_job(BOB).job_id)) == made


def test_a_task_is_accepted_however_many_results_wait_unread(store: Store) -> None:
    conductor = conductor_with_agents(store)
    for _ in range(3):
        answered(conductor, source=BOB, target=ANN)
    task = asked(conductor, priority="low")
    accepted = conductor.accept_next(BOB)
    assert accepted is not None
    assert accepted.task.task_id == task.task_id
    assert (conductor.acknowledge_all(agent=BOB), conductor.waiting(BOB).tasks) == (3, ())


def test_a_job_that_accepted_more_tasks_than_a_page_keeps_none_back(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jobs, "MAX_ROWS", 2)
    conductor = conductor_with_agents(store)
    job = conductor.start_job(BOB)
    made = [asked(conductor, "x").task_id for _ in range(5)]
    sheet = conductor.begin_sheet(job.job_id)
    with conductor.checkpoint(job.job_id) as state:
        assert len(state.inbox.tasks) == 5
    done = conductor.answer_sheet(job.job_id, f"@complete {made[4]}: fine", sheet.token)
    assert [task.task_id for task in done.completed] == made[4:]
    assert ids(conductor.waiting(BOB)) == made[:4]
