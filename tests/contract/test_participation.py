"""Which agents take part in a thread, and the lists of what they see."""

from __future__ import annotations

from postroom import work
from postroom.store.interface import Store
from postroom.tasks import Conductor
from postroom.work import participation
from tests.conftest import Clock
from tests.contract import task_data, thread_data
from tests.contract.task_data import ANN, BOB

LEADER, BUILDER = "leader", "builder"


def takes_part(store: Store, thread_id: str, agent: str) -> bool:
    with store.read() as tx:
        found = tx.fetch_one(tx.sql.thread_find, thread_id=thread_id)
        assert found is not None
        return participation.takes_part(tx, found.thread, found.lease, agent)


def seen_by(store: Store, viewer: str, **filters: str) -> list[str]:
    return [thread.thread_id for thread in work.list_threads(store, visible_to=viewer, **filters).threads]  # type: ignore[arg-type]


def test_creator_and_assignee_take_part_and_others_do_not(store: Store) -> None:
    thread = thread_data.sent(store)
    assert [takes_part(store, thread, name) for name in (LEADER, BUILDER, "stranger")] == [True, True, False]


def test_an_agent_that_was_addressed_takes_part(store: Store) -> None:
    thread = thread_data.sent(store)
    work.send(store, sender=LEADER, thread_id=thread, to="reviewer", summary="Look at it, too")
    assert takes_part(store, thread, "reviewer")
    assert seen_by(store, "reviewer") == [thread]


def test_an_agent_that_spoke_takes_part(store: Store) -> None:
    thread = thread_data.sent(store)
    work.send(store, sender="helper", thread_id=thread, summary="I know the code")
    assert takes_part(store, thread, "helper")
    assert seen_by(store, "helper") == [thread]


def test_an_agent_whose_thread_was_taken_over_still_takes_part(store: Store, clock: Clock) -> None:
    thread = thread_data.held(store, lease_seconds=60).thread.thread_id
    clock.advance(61)
    work.claim(store, thread, agent="second", lease_seconds=60)
    clock.advance(61)
    work.claim(store, thread, agent="third")
    assert [takes_part(store, thread, name) for name in (BUILDER, "second", "third")] == [True, True, True]
    assert [seen_by(store, name) for name in (BUILDER, "second", "third")] == [[thread]] * 3


def test_an_agent_that_only_read_a_thread_takes_no_part(store: Store) -> None:
    thread = thread_data.sent(store)
    work.mark_read(store, thread, agent="reader", event_id=thread_data.latest(store))
    assert not takes_part(store, thread, "reader")
    assert seen_by(store, "reader") == []


def test_a_list_for_an_agent_is_filtered_before_it_is_cut(store: Store) -> None:
    own = work.send(store, sender=LEADER, to="reviewer", subject="Mine").thread.thread_id
    for number in range(5):
        thread_data.sent(store, f"Newer {number}")
    page = work.list_threads(store, visible_to="reviewer", limit=1)
    assert ([thread.thread_id for thread in page.threads], page.more) == ([own], False)


def test_filters_of_a_list_hold_for_what_the_agent_sees(store: Store) -> None:
    given, got = (work.send(store, sender=a, to=b, subject="S", run_id="r").thread.thread_id for a, b in (("x", "y"), ("y", "x")))
    work.send(store, sender="x", to="z", subject="S", run_id="r")
    visited = work.send(store, sender="z", to="z2", subject="S", run_id="r2").thread.thread_id
    work.send(store, sender="y", thread_id=visited, summary="Me too")
    assert set(seen_by(store, "y")) == {given, got, visited}
    assert set(seen_by(store, "y", run_id="r")) == {given, got}
    assert set(seen_by(store, "y", agent="x")) == {given, got}
    assert seen_by(store, "y", created_by="x") == [given]
    assert seen_by(store, "y", assigned_to="x") == [got]
    assert seen_by(store, "y", created_by="z") == [visited]
    assert seen_by(store, "y", created_by="x", assigned_to="z") == []


def test_tasks_are_listed_for_who_gave_and_who_got_them(store: Store) -> None:
    conductor = task_data.conductor_with_agents(store)
    conductor.register("stranger")
    task = task_data.asked(conductor).task_id
    listed = {name: [one.task_id for one in Conductor(store).tasks(visible_to=name)] for name in (ANN, BOB, "stranger")}
    assert listed == {ANN: [task], BOB: [task], "stranger": []}
    assert [one.task_id for one in conductor.tasks(BOB, "pending", visible_to=ANN)] == [task]
    assert not conductor.tasks(ANN, visible_to=BOB)
