"""Taking work of both kinds: threads and tasks come by priority and age, and a task that is taken is worked on in a thread."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

import postroom
from postroom import tasks, work
from postroom.core.errors import Conflict, InvalidInput, InvalidState, LeaseHeld, NotFound
from postroom.core.records.work import Claim
from postroom.store.interface import Store
from postroom.tasks import Conductor
from tests.conftest import Clock
from tests.contract.blocking_store import LONG, BlockingStore
from tests.contract.task_data import ANN, BOB, CID, asked, conductor_with_agents
from tests.contract.thread_data import events, latest

pytestmark = pytest.mark.travels("http")

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


# A task whose worker is gone


def _lapse(store: Store, clock: Clock) -> Claim:
    """The claim of a worker that took a task, and whose lease has run out."""
    claim = tasks.take(store, agent=BOB, lease_seconds=10)
    assert claim is not None
    clock.advance(10)
    return claim


def _accept_next(conductor: Conductor) -> list[str]:
    accepted = conductor.accept_next(BOB)
    return [] if accepted is None else [accepted.task.task_id]


def _begin_sheet(conductor: Conductor) -> list[str]:
    conductor.start_job(BOB, job_id="b1")
    return [task.task_id for task in conductor.begin_sheet("b1").tasks]


def _accept_first(conductor: Conductor) -> list[str]:
    return [conductor.accept(conductor.tasks(BOB)[0].task_id, agent=BOB).task.task_id]


def _wait_accept(conductor: Conductor) -> list[str]:
    accepted = conductor.wait_accept(BOB, timeout_seconds=0.05)
    return [] if accepted is None else [accepted.task.task_id]


ASKS = {"accept_next": _accept_next, "begin_sheet": _begin_sheet, "accept": _accept_first, "wait_accept": _wait_accept}
each_ask = pytest.mark.parametrize("ask", ASKS.values(), ids=ASKS.keys())


@each_ask
def test_a_task_whose_thread_lapsed_goes_to_the_next_caller_that_asks(
    store: Store, clock: Clock, ask: Callable[[Conductor], list[str]]
) -> None:
    conductor = conductor_with_agents(store)
    task = asked(conductor)
    lost = _lapse(store, clock)
    assert conductor.get(task.task_id).status == "accepted"  # to look takes nothing from the holder
    assert ask(conductor) == [task.task_id]
    now = conductor.get(task.task_id)
    assert (now.status, now.attempt, now.thread_id) == ("accepted", 1, None)
    with pytest.raises(InvalidState):
        work.done(store, lost.thread.thread_id, agent=BOB, lease_token=lost.lease.lease_token)
    assert tasks.take(store, agent=BOB) is None
    assert "thread.lapsed" in [event.event_type for event in events(store)]


@each_ask
def test_a_task_whose_thread_was_released_goes_to_the_next_caller_uncounted(store: Store, ask: Callable[[Conductor], list[str]]) -> None:
    conductor = conductor_with_agents(store)
    task = asked(conductor)
    claim = tasks.take(store, agent=BOB)
    assert claim is not None
    work.release(store, claim.thread.thread_id, agent=BOB)
    assert ask(conductor) == [task.task_id]
    assert (conductor.get(task.task_id).attempt, work.show(store, claim.thread.thread_id).thread.status) == (0, "cancelled")


def test_the_holder_of_a_lapsed_task_continues_until_another_caller_asks(store: Store, clock: Clock) -> None:
    conductor = conductor_with_agents(store)
    task = asked(conductor)
    claim = _lapse(store, clock)
    assert conductor.waiting(BOB).tasks == ()
    work.update(store, claim.thread.thread_id, agent=BOB, summary="Half of it", lease_token=claim.lease.lease_token)
    assert conductor.accept_next(BOB) is None
    work.done(store, claim.thread.thread_id, agent=BOB, lease_token=claim.lease.lease_token)
    assert (conductor.get(task.task_id).status, conductor.get(task.task_id).attempt) == ("completed", 0)


@pytest.mark.parametrize("last", ["take", "take_task", *ASKS])
def test_a_task_that_three_workers_lost_fails(store: Store, clock: Clock, last: str) -> None:
    conductor = conductor_with_agents(store)
    task = asked(conductor)
    threads = {_lapse(store, clock).thread.thread_id for _ in range(3)}
    assert len(threads) == 1  # the next worker continues the thread, with its history
    if last == "take":
        assert tasks.take(store, agent=BOB) is None
    elif last == "take_task":
        with pytest.raises(Conflict):
            tasks.take_task(store, task.task_id, agent=BOB)
    elif last == "accept":
        with pytest.raises(Conflict):
            conductor.accept(task.task_id, agent=BOB)
    else:
        assert ASKS[last](conductor) == []
    ended = conductor.get(task.task_id)
    assert (ended.status, ended.reason_code, ended.attempt) == ("failed", "attempts_exhausted", 3)
    assert work.show(store, threads.pop()).thread.status == "cancelled"
    assert [result.reason_code for result in conductor.tasks(ANN)] == ["attempts_exhausted"]


def _done_and_take(store: Store, agent: str) -> Claim | None:
    """Take the next thread after one of the agent that is done."""
    held = work.claim(store, work.send(store, sender=ANN, to=agent, subject="Before").thread.thread_id, agent=agent)
    return tasks.done_and_take(store, held.thread.thread_id, agent=agent, summary="Done", lease_seconds=10)[1]


def _reassign(store: Store, thread_id: str) -> Claim | None:
    work.reassign(store, thread_id, agent=ANN, to=BOB)
    return work.take(store, agent=BOB, lease_seconds=10)


def _take_back(store: Store, thread_id: str) -> Claim | None:
    work.revoke_lease(store, thread_id, person="user")
    return work.take(store, agent=BOB, lease_seconds=10)


# How a lapsed thread is taken from its holder. Another agent may take it, too.
WAYS: dict[str, Callable[[Store, str], Claim | None]] = {
    "tasks.take": lambda store, thread_id: tasks.take(store, agent=BOB, lease_seconds=10),
    "work.take": lambda store, thread_id: work.take(store, agent=CID, lease_seconds=10),
    "tasks.done_and_take": lambda store, thread_id: _done_and_take(store, BOB),
    "tasks.done_and_take by another": lambda store, thread_id: _done_and_take(store, CID),
    "work.claim": lambda store, thread_id: work.claim(store, thread_id, agent=CID, lease_seconds=10),
    "takeover": lambda store, thread_id: work.claim(store, thread_id, agent=BOB, lease_seconds=10, takeover=True),
    "reassign": _reassign,
    "revoke_lease": _take_back,
}

NAMING_WAYS = ("work.claim", "takeover", "reassign", "revoke_lease")  # they name the thread, and are refused if it has ended


@pytest.mark.parametrize("name", WAYS)
def test_each_lapse_counts_once_in_whatever_way_the_thread_is_taken(store: Store, clock: Clock, name: str) -> None:
    way, conductor = WAYS[name], conductor_with_agents(store)
    task = asked(conductor)
    thread_id = _lapse(store, clock).thread.thread_id
    for attempt in (1, 2):
        claim = way(store, thread_id)
        assert claim is not None
        assert (claim.thread.thread_id, conductor.get(task.task_id).attempt) == (thread_id, attempt)
        work.claim(store, thread_id, agent=claim.lease.agent_id, takeover=True, lease_seconds=10)  # a live lease is no lapse
        clock.advance(10)
    if name in NAMING_WAYS:
        with pytest.raises(InvalidState, match="it is cancelled"):
            way(store, thread_id)
    else:
        assert way(store, thread_id) is None
    ended = conductor.get(task.task_id)
    assert (ended.status, ended.reason_code, ended.attempt) == ("failed", "attempts_exhausted", 3)
    assert ended.reason == "accepted 3 times, and never ended"
    assert (work.show(store, thread_id).thread.status, len(conductor.tasks(ANN))) == ("cancelled", 1)
    assert work.take(store, agent=CID) is None


def test_a_thread_that_only_has_the_id_of_a_task_counts_nothing(store: Store, clock: Clock) -> None:
    conductor = conductor_with_agents(store)
    task = asked(conductor, target=CID)
    thread_id = work.send(store, sender=ANN, to=BOB, subject="Other work", task_id=task.task_id).thread.thread_id
    for _ in range(5):
        work.claim(store, thread_id, agent=BOB, lease_seconds=10)
        clock.advance(10)
    assert (conductor.get(task.task_id).status, conductor.get(task.task_id).attempt) == ("pending", 0)


def test_done_and_take_takes_a_task_that_is_more_urgent_than_the_next_thread(store: Store, clock: Clock) -> None:
    conductor = conductor_with_agents(store)
    first = work.send(store, sender=ANN, to=BOB, subject="First").thread.thread_id
    work.claim(store, first, agent=BOB)
    work.send(store, sender=ANN, to=BOB, subject="A thread")
    clock.advance(1)
    asked(conductor, "A task", priority="high")
    finished, second = tasks.done_and_take(store, first, agent=BOB, summary="Done", lease_seconds=60)
    assert second is not None
    assert (finished.thread.status, second.thread.subject, second.lease.lease_seconds) == ("done", "A task", 60)
    _, third = tasks.done_and_take(store, second.thread.thread_id, agent=BOB, summary="Done", lease_token=second.lease.lease_token)
    assert third is not None
    assert third.thread.subject == "A thread"
    assert tasks.done_and_take(store, third.thread.thread_id, agent=BOB, summary="Done")[1] is None
    with pytest.raises(InvalidState):
        tasks.done_and_take(store, first, agent=BOB, summary="Again")


def test_a_lapsed_task_is_taken_again_by_its_id(store: Store, clock: Clock) -> None:
    conductor = conductor_with_agents(store)
    task = asked(conductor)
    lost = _lapse(store, clock)
    claim = tasks.take_task(store, task.task_id, agent=BOB)
    assert claim.thread.thread_id != lost.thread.thread_id
    assert conductor.get(task.task_id).attempt == 1
    with pytest.raises(InvalidState):
        work.done(store, lost.thread.thread_id, agent=BOB, lease_token=lost.lease.lease_token)


def test_a_task_stays_with_a_thread_that_was_given_to_another_agent_or_asks_a_question(store: Store, clock: Clock) -> None:
    conductor = conductor_with_agents(store)
    for _ in range(3):
        asked(conductor)
    given, blocked = tasks.take(store, agent=BOB), tasks.take(store, agent=BOB, lease_seconds=10)
    assert given is not None
    assert blocked is not None
    work.release(store, given.thread.thread_id, agent=BOB, to=CID)
    work.update(store, blocked.thread.thread_id, agent=BOB, status="blocked", summary="Which colour?")
    opened = conductor.open_thread(conductor.waiting(BOB)[0].task_id, agent=BOB)
    clock.advance(10)
    assert conductor.accept_next(BOB) is None
    assert {work.show(store, one).thread.status for one in (given.thread.thread_id, opened)} == {"pending"}
    work.reply(store, blocked.thread.thread_id, sender=ANN, summary="Blue")
    accepted = conductor.accept_next(BOB)
    assert accepted is not None
    assert accepted.task.task_id == blocked.thread.task_id


def test_a_waiting_accepter_wakes_by_itself_when_the_lease_of_a_thread_runs_out(place: str) -> None:
    with postroom.open(place) as live:
        conductor = conductor_with_agents(live)
        asked(conductor)
        assert tasks.take(live, agent=BOB, lease_seconds=0.2) is not None
        with BlockingStore(postroom.open(place)) as sleeper:
            accepted = Conductor(sleeper).wait_accept(BOB, timeout_seconds=LONG)
            assert accepted is not None
            assert all(seconds is not None and seconds <= 0.2 for seconds in sleeper.sleeps)
