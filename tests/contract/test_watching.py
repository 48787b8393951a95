"""Watching: sleep until something happens, and be told what."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from postroom import work
from postroom.core.errors import InvalidInput
from postroom.core.records.work import WatchResult
from postroom.store.interface import Store
from tests.contract.blocking_store import LONG, BlockingStore
from tests.contract.thread_data import asking, ended, events, held, latest, sent

pytestmark = pytest.mark.travels("http", "unix", "ws")
SHORT = 0.05


def seen(activity: WatchResult) -> list[str]:
    return [event.event_type for event in activity.events]


def test_without_a_cursor_a_watch_starts_now(store: Store) -> None:
    sent(store)
    activity = work.watch(store, timeout_seconds=SHORT)
    assert (activity.woke, activity.events, activity.next_event_id) == (False, (), latest(store))


def test_a_watch_wakes_for_what_happens_meanwhile(store: Store, connect: Callable[[], Store]) -> None:
    with BlockingStore(connect(), lambda: sent(store)) as sleeper:
        activity = work.watch(sleeper, timeout_seconds=LONG)
    assert (activity.woke, seen(activity), activity.next_event_id) == (True, ["thread.created"], latest(store))
    assert list(activity.events) == events(store)


def test_a_cursor_is_exclusive_and_nothing_between_two_watches_is_missed(store: Store) -> None:
    sent(store)
    first = work.watch(store, after_event=0, timeout_seconds=LONG)
    held(store)
    second = work.watch(store, after_event=first.next_event_id, timeout_seconds=LONG)
    third = work.watch(store, after_event=second.next_event_id, timeout_seconds=SHORT)
    assert (seen(first), seen(second), third.woke) == (["thread.created"], ["thread.created", "thread.claimed"], False)


def test_a_watch_passes_over_any_number_of_events_that_do_not_concern_it(store: Store) -> None:
    for _ in range(600):
        sent(store, to="other")
    sent(store, to="builder")
    activity = work.watch(store, agent="builder", after_event=0, timeout_seconds=LONG)
    assert (len(activity.events), activity.next_event_id) == (1, latest(store))


def test_an_agent_hears_of_threads_that_it_created(store: Store) -> None:
    cursor = work.send(store, sender="leader", to="builder", subject="Build").next_event_id
    work.claim(store, sent(store, sender="other"), agent="builder")
    mine = work.list_threads(store, created_by="leader").threads[0].thread_id
    work.claim(store, mine, agent="builder")
    activity = work.watch(store, agent="leader", after_event=cursor, timeout_seconds=LONG)
    assert [(event.event_type, event.thread_id) for event in activity.events] == [("thread.claimed", mine)]


def test_an_agent_hears_of_threads_that_are_assigned_to_it(store: Store) -> None:
    sent(store, to="builder")
    sent(store, to="other")
    activity = work.watch(store, agent="builder", after_event=0, timeout_seconds=LONG)
    assert seen(activity) == ["thread.created"]


def test_an_agent_hears_of_messages_to_it_in_the_threads_of_others(store: Store) -> None:
    thread_id = held(store).thread.thread_id
    cursor = latest(store)
    work.update(store, thread_id, agent="builder", status="blocked", summary="May I?", to="user")
    assert seen(work.watch(store, agent="user", after_event=cursor, timeout_seconds=LONG)) == ["thread.updated"]


def test_an_agent_does_not_hear_of_its_own_acts(store: Store) -> None:
    asking(store)
    cursor = latest(store)
    thread_id = work.list_threads(store).threads[0].thread_id
    work.update(store, thread_id, agent="builder", summary="On")
    assert not work.watch(store, agent="builder", after_event=cursor, timeout_seconds=SHORT).woke


CHANGES: dict[str, tuple[str, Callable[[Store], object]]] = {
    "pending": ("thread.created", sent),
    "blocked": ("thread.updated", asking),
    "done": ("thread.done", lambda store: ended(store, "done")),
    "failed": ("thread.failed", lambda store: ended(store, "failed")),
    "cancelled": ("thread.cancelled", lambda store: ended(store, "cancelled")),
}


@pytest.mark.parametrize("status", CHANGES)
def test_a_watch_can_be_for_statuses(store: Store, status: str) -> None:
    event_type, change = CHANGES[status]
    change(store)
    assert seen(work.watch(store, statuses=[status], after_event=0, timeout_seconds=LONG)) == [event_type]
    others = [other for other in CHANGES if other not in (status, "pending")]
    assert not work.watch(store, statuses=others, after_event=0, timeout_seconds=SHORT).woke


def test_a_watch_can_be_for_a_run(store: Store) -> None:
    sent(store)
    in_run = work.send(store, sender="leader", to="builder", subject="S", run_id="r1").thread.thread_id
    activity = work.watch(store, run_id="r1", after_event=0, timeout_seconds=LONG)
    assert [event.thread_id for event in activity.events] == [in_run]
    assert not work.watch(store, run_id="r2", after_event=0, timeout_seconds=SHORT).woke


def test_a_watch_that_times_out_has_moved_past_what_does_not_concern_it(store: Store) -> None:
    sent(store, to="other")
    activity = work.watch(store, agent="builder", after_event=0, timeout_seconds=SHORT)
    assert (activity.woke, activity.next_event_id) == (False, latest(store))


@pytest.mark.parametrize(
    "how",
    [
        {"statuses": ["sleeping"]},
        {"statuses": []},
        {"after_event": -1},
        {"after_event": 10**6},
        {"timeout_seconds": -1},
        {"timeout_seconds": float("nan")},
        {"agent": ""},
    ],
)
@pytest.mark.input_check
def test_a_malformed_watch_is_refused(store: Store, how: dict[str, object]) -> None:
    sent(store)
    with pytest.raises(InvalidInput):
        work.watch(store, **{"timeout_seconds": SHORT, **how})  # type: ignore[arg-type]
