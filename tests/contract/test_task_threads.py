"""A task answered through a work thread, and waiting for a task to end: real time, and real writers meanwhile."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator

import pytest

import postroom
from postroom import tasks, work
from postroom.core.errors import Conflict, InvalidInput, InvalidState, NotFound
from postroom.core.records.work import Attachment
from postroom.store.interface import Store
from postroom.tasks import Conductor
from tests.conftest import Clock
from tests.contract.blocking_store import LONG, BlockingStore, eventually
from tests.contract.task_data import (
    ANN,
    BOB,
    CID,
    ENDED,
    OPEN,
    answered,
    asked,
    brought,
    conductor_with_agents,
    everything,
    ids,
    result_of,
    results_of,
    status_of,
    steps,
)

pytestmark = pytest.mark.travels("http")

ENDS: dict[str, Callable[[Store, str], object]] = {
    "done": lambda s, t: work.done(s, t, agent=BOB, summary="All of it"),
    "failed": lambda s, t: work.fail(s, t, agent=BOB, summary="The disk is full"),
    "cancelled": lambda s, t: work.cancel(s, t, agent=ANN, reason="Not wanted"),
}
each_end = pytest.mark.parametrize("end", ENDS.values(), ids=ENDS.keys())


def opened(store: Store, description: str = "Review module X\nand all of its tests") -> tuple[Conductor, str, str]:
    """A task with a thread, which its target has claimed."""
    conductor = conductor_with_agents(store)
    task = asked(conductor, description)
    thread_id = conductor.open_thread(task.task_id, agent=BOB)
    work.claim(store, thread_id, agent=BOB)
    return conductor, task.task_id, thread_id


# Threads


def test_a_thread_is_opened_from_who_asked_to_who_is_asked(store: Store) -> None:
    conductor = conductor_with_agents(store)
    task = asked(conductor, "Review module X\nand all of its tests")
    thread_id = conductor.open_thread(task.task_id, agent=BOB)
    thread = work.show(store, thread_id).thread
    assert (thread.created_by, thread.assigned_to, thread.subject, thread.status) == (ANN, BOB, "Review module X", "pending")
    assert conductor.get(task.task_id).thread_id == thread_id
    assert "and all of its tests" in json.dumps(work.show(store, thread_id).to_json())
    claimed = work.take(store, agent=BOB)
    assert claimed is not None
    assert claimed.thread.thread_id == thread_id


@pytest.mark.parametrize(("door", "verified"), [("cli", False), ("http", True)])
def test_the_thread_of_a_task_is_as_verified_as_the_task(store: Store, door: str, verified: bool) -> None:
    """The door by which the thread is opened confirms nothing about the sender of the task."""
    conductor_with_agents(store)
    task = asked(Conductor(store.with_door(door)))
    thread_id = Conductor(store.with_door("http" if door == "cli" else "cli")).open_thread(task.task_id, agent=BOB)
    (message,) = work.show(store, thread_id).messages
    assert (message.from_agent, message.door, message.verified) == (ANN, door, verified)


def test_a_task_has_one_thread_however_often_it_is_opened(store: Store) -> None:
    conductor = conductor_with_agents(store)
    task = asked(conductor)
    thread_id = conductor.open_thread(task.task_id, agent=BOB)
    try:
        assert conductor.open_thread(task.task_id, agent=BOB) == thread_id
    except Conflict:
        pass  # to refuse the second is as good an answer
    assert [thread.thread_id for thread in work.list_threads(store).threads] == [thread_id]


def test_a_finished_thread_completes_its_task_with_what_it_brought(store: Store) -> None:
    conductor, task_id, thread_id = opened(store)
    work.done(store, thread_id, agent=BOB, summary="All of it", body="In detail", artifacts=[Attachment("a.log"), Attachment("b.log")])
    conductor.settle()
    task = conductor.get(task_id)
    assert task.status == "completed"
    assert task.artifacts is not None
    assert set(task.artifacts) == {"summary", "body", "thread_id", "files"}
    assert (task.artifacts["summary"], task.artifacts["body"], task.artifacts["thread_id"]) == ("All of it", "In detail", thread_id)
    assert len(task.artifacts["files"]) == 2
    assert all(name in json.dumps(task.artifacts["files"]) for name in ("a.log", "b.log"))
    assert steps(store, task_id)[-1] == "Completed"
    assert result_of(conductor, task_id).artifacts == task.artifacts


@pytest.mark.parametrize(("end", "why"), [("failed", "The disk is full"), ("cancelled", "Not wanted")])
def test_a_thread_that_came_to_nothing_fails_its_task_and_says_why(store: Store, end: str, why: str) -> None:
    conductor, task_id, thread_id = opened(store)
    ENDS[end](store, thread_id)
    conductor.settle()
    task = conductor.get(task_id)
    assert task.status == "failed"
    assert why in (task.reason or "")
    assert end != "cancelled" or task.reason_code == "cancelled"
    assert result_of(conductor, task_id).reason == task.reason


LOOKS: dict[str, Callable[[Conductor, str], object]] = {
    "get": lambda c, t: c.get(t),
    "tasks": lambda c, t: c.tasks(),
    "wait": lambda c, t: c.wait(t),
    "submit": lambda c, t: c.submit(CID, ANN, "something else"),
    "start_job": lambda c, t: c.start_job(CID),
}


@pytest.mark.parametrize("look", LOOKS.values(), ids=LOOKS.keys())
@each_end
def test_every_verb_settles_first(store: Store, look: Callable[[Conductor, str], object], end: Callable[[Store, str], object]) -> None:
    conductor, task_id, thread_id = opened(store)
    end(store, thread_id)
    look(conductor, task_id)
    assert steps(store, task_id)[-1] in ("Completed", "Failed")  # read from the log, past the conductor


def test_whoever_acts_after_the_thread_ended_finds_the_task_ended(store: Store) -> None:
    conductor, task_id, thread_id = opened(store)
    ENDS["done"](store, thread_id)
    with pytest.raises(Conflict, match="completed"):
        conductor.fail(task_id, "no", agent=BOB)
    with pytest.raises(Conflict, match="completed"):
        conductor.cancel(task_id, agent=ANN)
    assert len(results_of(conductor, task_id)) == 1


def test_a_sheet_shows_the_result_of_a_thread_without_anybody_settling(store: Store) -> None:
    conductor, task_id, thread_id = opened(store)
    conductor.start_job(ANN, job_id="a1")
    ENDS["done"](store, thread_id)
    sheet = conductor.begin_sheet("a1")
    assert [task.answers for task in sheet.tasks] == [task_id]
    assert "All of it" in sheet.text


def test_settling_again_changes_nothing(store: Store) -> None:
    conductor, _, thread_id = opened(store)
    ENDS["done"](store, thread_id)
    conductor.settle()
    before = everything(store)
    conductor.settle()
    Conductor(store).settle()
    assert everything(store) == before


@each_end
@pytest.mark.parametrize("how", ["completed", "cancelled", "overdue"])
def test_a_thread_that_ends_after_its_task_changes_nothing(
    store: Store, clock: Clock, how: str, end: Callable[[Store, str], object]
) -> None:
    conductor = conductor_with_agents(store)
    task = asked(conductor, deadline_seconds=60)
    thread_id = conductor.open_thread(task.task_id, agent=BOB)
    work.claim(store, thread_id, agent=BOB, lease_seconds=1000)
    if how == "completed":
        conductor.complete(task.task_id, agent=BOB, artifacts={"by": "hand"})
    elif how == "cancelled":
        conductor.cancel(task.task_id, agent=ANN)
    else:
        clock.advance(60)
    told = conductor.get(task.task_id)
    if work.show(store, thread_id).thread.status == "claimed":  # a task's end may well end its thread
        end(store, thread_id)
    conductor.settle()
    assert conductor.get(task.task_id) == told
    assert len(results_of(conductor, task.task_id)) == 1


@pytest.mark.parametrize(("moment", "status"), [(10, "completed"), (100, "failed")])
def test_of_a_thread_and_a_deadline_the_earlier_wins_however_late_one_looks(store: Store, clock: Clock, moment: int, status: str) -> None:
    conductor = conductor_with_agents(store)
    task = asked(conductor, deadline_seconds=60)
    thread_id = conductor.open_thread(task.task_id, agent=BOB)
    work.claim(store, thread_id, agent=BOB)
    clock.advance(moment)
    ENDS["done"](store, thread_id)
    clock.advance(1000)
    assert status_of(conductor, task.task_id) == status


def test_a_thread_that_only_makes_progress_leaves_its_task_open(store: Store) -> None:
    conductor, task_id, thread_id = opened(store)
    work.update(store, thread_id, agent=BOB, summary="Half of it")
    work.update(store, thread_id, agent=BOB, status="blocked", summary="Which colour?")
    work.reply(store, thread_id, sender=ANN, summary="Blue")
    conductor.settle()
    assert status_of(conductor, task_id) in ("pending", "accepted")


@pytest.mark.parametrize("how", ["the sheet ends", "the sheet dies", "the job ends", "much time passes"])
def test_a_task_that_a_thread_works_on_is_given_to_nobody_else(store: Store, clock: Clock, how: str) -> None:
    conductor = conductor_with_agents(store)
    conductor.start_job(BOB, job_id="b1")
    task = asked(conductor)
    sheet = conductor.begin_sheet("b1", lease_seconds=60)
    thread_id = conductor.open_thread(task.task_id, agent=BOB)
    work.claim(store, thread_id, agent=BOB, lease_seconds=100_000)
    if how == "the sheet ends":
        conductor.end_sheet("b1", sheet.token)
    elif how == "the sheet dies":
        clock.advance(60)
    elif how == "the job ends":
        conductor.end_job("b1")
        conductor.start_job(BOB, job_id="b2")
    else:
        clock.advance(50_000)
    assert conductor.begin_sheet("b2" if how == "the job ends" else "b1").text == ""
    work.done(store, thread_id, agent=BOB, summary="All of it")
    assert (status_of(conductor, task.task_id), conductor.get(task.task_id).attempt) == ("completed", 0)


def test_threads_that_belong_to_no_task_are_let_be(store: Store) -> None:
    conductor = conductor_with_agents(store)
    task = asked(conductor)
    stranger = work.send(store, sender=ANN, to=BOB, subject="Something else", task_id=task.task_id).thread.thread_id
    work.claim(store, stranger, agent=BOB)
    ENDS["done"](store, stranger)
    conductor.settle()
    assert status_of(conductor, task.task_id) == "pending"


@pytest.mark.parametrize("agent", [ANN, CID])
def test_a_thread_is_opened_only_by_who_is_asked(store: Store, agent: str) -> None:
    conductor = conductor_with_agents(store)
    task = asked(conductor)
    with pytest.raises(InvalidInput):
        conductor.open_thread(task.task_id, agent=agent)
    assert work.list_threads(store).threads == ()


@pytest.mark.parametrize("state", ENDED)
def test_a_task_that_has_ended_opens_no_thread(store: Store, clock: Clock, state: str) -> None:
    conductor = conductor_with_agents(store)
    task_id = brought(conductor, clock, state).task_id
    with pytest.raises(Conflict):
        conductor.open_thread(task_id, agent=BOB)
    assert work.list_threads(store).threads == ()


def test_neither_a_result_nor_an_unknown_id_opens_a_thread(store: Store) -> None:
    conductor = conductor_with_agents(store)
    with pytest.raises(InvalidInput):
        conductor.open_thread(answered(conductor).task_id, agent=ANN)
    with pytest.raises(NotFound):
        conductor.open_thread("00000000-0000-4000-8000-000000000000", agent=BOB)
    assert work.list_threads(store).threads == ()


@pytest.mark.parametrize("description", ["\n\nlate start\nmore", "x" * 1000, "tab\tand bell\a\nmore", "line\u2028separator"])
def test_any_description_has_a_first_line_for_a_subject(store: Store, description: str) -> None:
    conductor, task_id, thread_id = opened(store, description)
    subject = work.show(store, thread_id).thread.subject
    assert subject.strip()
    assert "\n" not in subject
    ENDS["done"](store, thread_id)
    assert status_of(conductor, task_id) == "completed"


# Waiting


@pytest.fixture
def live(place: str) -> Iterator[Store]:
    """A store with the time of day: waiting is the one thing that a test's clock cannot do."""
    store = postroom.open(place)
    yield store
    store.close()


Make = Callable[..., BlockingStore]


@pytest.fixture
def sleeper(place: str) -> Iterator[Make]:
    """Another connection to the same store, for whoever sleeps."""
    made: list[BlockingStore] = []

    def make(*acts: Callable[[], object]) -> BlockingStore:
        made.append(BlockingStore(postroom.open(place), *acts))
        return made[-1]

    yield make
    for one in made:
        one.close()


@pytest.mark.parametrize("state", ENDED)
def test_a_wait_for_what_has_ended_is_over_at_once(store: Store, clock: Clock, state: str) -> None:
    conductor = conductor_with_agents(store)
    task_id = brought(conductor, clock, state).task_id
    assert conductor.wait(task_id, timeout_seconds=LONG) == conductor.get(task_id)


def test_a_wait_ends_with_its_time_whatever_state_the_task_is_in(store: Store, clock: Clock) -> None:
    conductor = conductor_with_agents(store)
    for state in OPEN:
        assert conductor.wait(brought(conductor, clock, state).task_id, timeout_seconds=0.01) is None


def test_a_waiter_is_woken_when_its_task_ends(live: Store, sleeper: Make) -> None:
    conductor = conductor_with_agents(live)
    task = asked(conductor)
    asleep = sleeper(lambda: conductor.complete(task.task_id, agent=BOB, artifacts={"x": 1}))
    told = Conductor(asleep).wait(task.task_id, timeout_seconds=LONG)
    assert told is not None
    assert (told.status, told.artifacts) == ("completed", {"x": 1})


def test_a_waiter_sleeps_on_when_another_task_ends(live: Store, sleeper: Make) -> None:
    conductor = conductor_with_agents(live)
    task, other = asked(conductor), asked(conductor)
    asleep = sleeper(lambda: conductor.complete(other.task_id, agent=BOB))
    assert Conductor(asleep).wait(task.task_id, timeout_seconds=0.3) is None


@each_end
def test_a_waiter_is_woken_when_the_thread_of_its_task_ends(live: Store, sleeper: Make, end: Callable[[Store, str], object]) -> None:
    _, task_id, thread_id = opened(live)
    told = Conductor(sleeper(lambda: end(live, thread_id))).wait(task_id, timeout_seconds=LONG)
    assert told is not None
    assert told.status in ("completed", "failed")
    assert len(results_of(Conductor(live), task_id)) == 1


def test_a_waiter_wakes_by_itself_at_the_deadline(live: Store, sleeper: Make) -> None:
    task = asked(conductor_with_agents(live), deadline_seconds=0.2)
    asleep = sleeper()
    told = Conductor(asleep).wait(task.task_id, timeout_seconds=LONG)
    assert told is not None
    assert all(seconds is not None and seconds <= 0.2 for seconds in asleep.sleeps)  # as they were planned
    assert (told.status, told.reason_code, told.ended_at) == ("failed", "deadline", task.deadline)


def test_a_waiter_wakes_by_itself_when_the_last_lease_runs_out(live: Store, sleeper: Make) -> None:
    conductor, asleep = conductor_with_agents(live), sleeper()
    task = asked(conductor)
    for _ in range(2):
        conductor.accept(task.task_id, agent=BOB, lease_seconds=0.001)
        assert eventually(lambda: status_of(conductor, task.task_id) == "pending")
    conductor.accept(task.task_id, agent=BOB, lease_seconds=0.2)
    told = Conductor(asleep).wait(task.task_id, timeout_seconds=LONG)
    assert told is not None
    assert (told.status, told.reason_code) == ("failed", "attempts_exhausted")
    assert all(seconds is not None and seconds <= 0.2 for seconds in asleep.sleeps)


def test_a_wait_for_nothing_there_or_for_no_sensible_time_is_refused(store: Store) -> None:
    conductor = conductor_with_agents(store)
    task = asked(conductor)
    with pytest.raises(NotFound):
        conductor.wait("00000000-0000-4000-8000-000000000000")
    for seconds in (-1, float("nan")):
        with pytest.raises(InvalidInput):
            conductor.wait(task.task_id, timeout_seconds=seconds)
    assert ids(conductor.tasks()) == [task.task_id]


# Trying again


@pytest.mark.parametrize("end", ["failed", "cancelled"])
def test_a_thread_of_a_task_is_not_retried_because_its_giver_has_the_result(store: Store, end: str) -> None:
    conductor, task_id, thread_id = opened(store)
    ENDS[end](store, thread_id)
    for _ in range(2):  # before the task is settled, and after
        with pytest.raises(InvalidState, match=task_id) as refused:
            work.retry_thread(store, thread_id, agent=ANN)
        assert "inbox task" in refused.value.hint
        assert status_of(conductor, task_id) == "failed"
    assert work.show(store, thread_id).thread.status == end
    assert "inbox task submit --from ann --to bob" in refused.value.hint
    assert len(results_of(conductor, task_id)) == 1


def test_a_thread_from_which_its_task_was_taken_back_is_not_retried(store: Store) -> None:
    conductor, task_id, thread_id = opened(store)
    work.release(store, thread_id, agent=BOB)
    assert conductor.accept_next(BOB) is not None
    with pytest.raises(InvalidState, match=task_id):
        work.retry_thread(store, thread_id, agent=ANN)
    assert tasks.take(store, agent=BOB) is None


def test_a_thread_with_a_task_id_of_another_program_is_retried(store: Store) -> None:
    thread_id = work.send(store, sender=ANN, to=BOB, subject="S", task_id="JIRA-7").thread.thread_id
    work.cancel(store, thread_id, agent=ANN)
    assert work.retry_thread(store, thread_id, agent=ANN).thread.status == "pending"
