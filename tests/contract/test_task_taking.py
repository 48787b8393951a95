"""Taking work of both kinds: threads and tasks come by priority and age, and a task that is taken is worked on in a thread."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from postroom import tasks, work
from postroom.core.errors import Conflict, InvalidInput, LeaseHeld, NotFound
from postroom.store.interface import Store
from postroom.tasks import Conductor
from tests.conftest import Clock
from tests.contract.blocking_store import LONG, BlockingStore
from tests.contract.task_data import ANN, BOB, CID, asked, conductor_with_agents
from tests.contract.thread_data import latest

EVENTS_BETWEEN = 600  # more than a block of the event log


def _taken(store: Store) -> str | None:
    claim = tasks.take(store, agent=BOB)
    return None if claim is None else claim.thread.subject


def test_threads_and_tasks_are_taken_by_priority_and_then_by_age(store: Store, clock: Clock) -> None:
    conductor = conductor_with_agents(store)
    for subject, priority in (("thread normal", "normal"), ("thread high", "high"), ("thread low", "low")):
        work.send(store, sender=ANN, to=BOB, subject=subject, priority=priority)
        clock.advance(1)
    for description, priority in (("task low", "low"), ("task normal", "normal"), ("task urgent", "urgent"), ("task high", "high")):
        asked(conductor, description, priority=priority)
        clock.advance(1)
    taken = [_taken(store) for _ in range(8)]
    assert taken == ["task urgent", "thread high", "task high", "thread normal", "task normal", "thread low", "task low", None]


def test_a_task_that_is_taken_is_a_thread_with_its_text_context_and_priority(store: Store) -> None:
    conductor = conductor_with_agents(store)
    task = asked(conductor, "Review module X\nand its tests", context={"files": ["a.py"]}, priority="urgent")
    claim = tasks.take(store, agent=BOB, lease_seconds=60)
    assert claim is not None
    assert (claim.thread.status, claim.thread.priority, claim.thread.task_id, claim.lease.agent_id) == (
        "claimed",
        "high",
        task.task_id,
        BOB,
    )
    (message,) = [one for one in work.show(store, claim.thread.thread_id).messages if one.kind == "task"]
    assert (message.from_agent, message.body, json.loads(message.payload_json)) == (ANN, task.description, {"files": ["a.py"]})
    now = conductor.get(task.task_id)
    assert (now.status, now.thread_id) == ("accepted", claim.thread.thread_id)
    work.done(store, claim.thread.thread_id, agent=BOB, summary="Fine", lease_token=claim.lease.lease_token)
    assert conductor.get(task.task_id).artifacts["summary"] == "Fine"  # type: ignore[index]


def test_a_context_that_no_message_takes_stays_in_the_task(store: Store) -> None:
    conductor = conductor_with_agents(store)
    task = asked(conductor, "Big\r one", context={"text": "é" * 500_000 + "x" * 48_000})
    claim = tasks.take(store, agent=BOB)
    assert claim is not None
    assert conductor.get(task.task_id).context["text"].startswith("é")


def test_a_task_is_taken_by_its_id_once(store: Store) -> None:
    conductor = conductor_with_agents(store)
    first, second = asked(conductor, "One"), asked(conductor, "Two")
    claim = tasks.take_task(store, second.task_id, agent=BOB)
    assert (claim.thread.subject, claim.thread.status) == ("Two", "claimed")
    with pytest.raises(LeaseHeld):
        tasks.take_task(store, second.task_id, agent=BOB)
    with pytest.raises(InvalidInput):
        tasks.take_task(store, first.task_id, agent=CID)
    with pytest.raises(NotFound):
        tasks.take_task(store, "nope", agent=BOB)
    conductor.cancel(first.task_id, agent=ANN)
    with pytest.raises(Conflict):
        tasks.take_task(store, first.task_id, agent=BOB)


@pytest.mark.parametrize("how", ["cancelled", "overdue", "completed"])
def test_the_thread_of_a_task_ends_with_the_task(store: Store, clock: Clock, how: str) -> None:
    conductor = conductor_with_agents(store)
    task = asked(conductor, deadline_seconds=60)
    claim = tasks.take(store, agent=BOB, lease_seconds=1000)
    assert claim is not None
    if how == "cancelled":
        conductor.cancel(task.task_id, agent=ANN, reason="Not wanted")
    elif how == "completed":
        conductor.complete(task.task_id, agent=BOB)
    else:
        clock.advance(60)
        conductor.settle()
    shown = work.show(store, claim.thread.thread_id)
    assert shown.lease is not None
    assert (shown.thread.status, shown.lease.is_held) == ("cancelled", False)
    assert len(conductor.tasks(ANN)) == 1
    conductor.settle()
    assert len(conductor.tasks(ANN)) == 1


def test_what_a_lost_worker_had_taken_is_taken_again_when_its_lease_is_over(store: Store, clock: Clock) -> None:
    conductor = conductor_with_agents(store)
    task = asked(conductor)
    first = tasks.take(store, agent=BOB, lease_seconds=10)
    assert first is not None
    assert tasks.next_available(store, agent=BOB) == (False, 10.0)
    clock.advance(10)
    assert tasks.next_available(store, agent=BOB) == (True, None)
    second = tasks.take(store, agent=BOB)
    assert second is not None
    assert second.thread.thread_id == first.thread.thread_id
    with pytest.raises(Conflict):
        work.done(store, first.thread.thread_id, agent=BOB, lease_token=first.lease.lease_token)
    work.done(store, second.thread.thread_id, agent=BOB, summary="Done", lease_token=second.lease.lease_token)
    assert conductor.get(task.task_id).status == "completed"


def test_a_task_whose_lease_is_over_is_there_to_take(store: Store, clock: Clock) -> None:
    conductor = conductor_with_agents(store)
    task = asked(conductor)
    conductor.accept(task.task_id, agent=BOB, lease_seconds=10)
    assert tasks.take(store, agent=BOB) is None
    assert tasks.next_available(store, agent=BOB) == (False, 10.0)
    clock.advance(10)
    assert tasks.next_available(store, agent=BOB) == (True, None)


def test_a_waiting_taker_is_woken_by_a_task_and_by_a_thread(store: Store, connect: Callable[[], Store]) -> None:
    conductor = conductor_with_agents(connect())
    with BlockingStore(connect(), lambda: asked(conductor, "A task")) as sleeper:
        claim = tasks.wait_take(sleeper, agent=BOB, timeout_seconds=LONG)
    assert claim is not None
    assert claim.thread.subject == "A task"
    with BlockingStore(connect(), lambda: work.send(store, sender=ANN, to=BOB, subject="A thread")) as sleeper:
        claim = tasks.wait_take(sleeper, agent=BOB, timeout_seconds=LONG)
    assert claim is not None
    assert claim.thread.subject == "A thread"
    assert tasks.wait_take(connect(), agent=BOB, timeout_seconds=0.05) is None


def test_a_watch_wakes_for_tasks_that_the_agent_got_and_gave(store: Store, connect: Callable[[], Store]) -> None:
    conductor = conductor_with_agents(connect())
    with BlockingStore(connect(), lambda: asked(conductor)) as sleeper:
        got = work.watch(sleeper, agent=BOB, timeout_seconds=LONG)
    assert {event.event_type for event in got.events} == {"task.A2ATaskSubmitted"}
    task_id = conductor.tasks(BOB)[0].task_id
    with BlockingStore(connect(), lambda: conductor.complete(task_id, agent=BOB)) as sleeper:
        ended = work.watch(sleeper, agent=ANN, statuses=("done", "failed"), timeout_seconds=LONG)
    assert "task.A2ATaskCompleted" in {event.event_type for event in ended.events}
    cursor = latest(store)
    asked(Conductor(store), target=CID)
    assert work.watch(store, agent=BOB, after_event=cursor, timeout_seconds=0.05).woke is False
    assert work.watch(store, statuses=("pending",), after_event=cursor, timeout_seconds=LONG).woke is True
    assert work.watch(store, statuses=("blocked",), after_event=cursor, timeout_seconds=0.05).woke is False


def test_a_watch_from_an_old_cursor_finds_the_tasks_of_its_agent(store: Store) -> None:
    conductor = conductor_with_agents(store)
    first = asked(conductor, "Early")
    conductor.complete(first.task_id, agent=BOB)
    for number in range(EVENTS_BETWEEN // 2):  # each writes two events
        asked(conductor, str(number), source=BOB, target=CID)
    seen = work.watch(store, agent=ANN, statuses=("done",), after_event=0, timeout_seconds=LONG)
    assert ("task.A2ATaskCompleted", first.task_id) in [(event.event_type, event.message_id) for event in seen.events]
    assert seen.next_event_id < latest(store)
