"""Candidates: what an agent could work on, and taking the best of it."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from typing import Any

import pytest

from postroom import work
from postroom.core.clock import MICROSECONDS_PER_SECOND
from postroom.core.errors import InvalidInput, NotFound
from postroom.store.interface import Store
from postroom.work import candidates
from postroom.work.candidates import MAX_COMPARED_THREADS
from tests.conftest import Clock
from tests.contract.thread_data import as_shown, asking, ended, everything, held, latest, lease_of, sent, status_of

pytestmark = pytest.mark.travels("http")


def fetched(store: Store, agent: str = "builder", **how: object) -> list[str]:
    return [candidate.thread.thread_id for candidate in work.fetch(store, agent=agent, **how).candidates]  # type: ignore[arg-type]


def taken(store: Store, agent: str = "builder") -> str | None:
    claimed = work.take(store, agent=agent)
    return None if claimed is None else claimed.thread.thread_id


def test_fetch_lists_what_waits_for_the_agent_and_nothing_of_others(store: Store) -> None:
    mine = sent(store, to="builder")
    sent(store, to="other")
    assert fetched(store) == [mine]


def test_fetch_changes_nothing(store: Store, clock: Clock) -> None:
    held(store, lease_seconds=1)
    sent(store)
    clock.advance(5)
    before = everything(store)
    work.fetch(store, agent="builder")
    work.fetch(store, agent="builder", unread=True)
    assert everything(store) == before


def test_fetch_finds_nothing_when_there_is_nothing(store: Store) -> None:
    assert fetched(store) == []
    assert fetched(store, unread=True) == []


def test_fetch_leaves_out_what_is_held_and_what_has_ended(store: Store) -> None:
    held(store)
    ended(store)
    assert fetched(store) == []


def test_fetch_lists_anyones_lapsed_threads_and_says_so(store: Store, clock: Clock) -> None:
    thread_id = held(store, agent="other", lease_seconds=60).thread.thread_id
    clock.advance(60)
    (candidate,) = work.fetch(store, agent="builder").candidates
    assert (candidate.thread.thread_id, candidate.lapsed, candidate.held_by) == (thread_id, True, "other")
    assert candidate.to_json()["lapsed"] is True


def test_what_waits_for_its_first_worker_is_not_lapsed(store: Store) -> None:
    sent(store)
    assert [candidate.lapsed for candidate in work.fetch(store, agent="builder").candidates] == [False]


def test_fetch_orders_by_priority_then_age(store: Store, clock: Clock) -> None:
    ids = {}
    for name, priority in [("l1", "low"), ("n1", "normal"), ("h1", "high"), ("n2", "normal"), ("h2", "high")]:
        ids[name] = sent(store, priority=priority)
        clock.advance(1)
    assert fetched(store) == [ids[name] for name in ("h1", "h2", "n1", "n2", "l1")]


def test_fetch_with_a_limit_gives_the_best(store: Store, clock: Clock) -> None:
    sent(store, priority="low")
    clock.advance(1)
    best = sent(store, priority="high")
    assert fetched(store, limit=1) == [best]


def test_fetch_with_a_limit_gives_the_best_also_of_what_lapsed(store: Store, clock: Clock) -> None:
    for priority in ("low", "high"):
        thread_id = sent(store, to="other", priority=priority)
        work.claim(store, thread_id, agent="other", lease_seconds=60)
        clock.advance(1)
    clock.advance(60)
    assert fetched(store, limit=1) == [thread_id]


@pytest.mark.parametrize("statuses", [["blocked"], ["pending", "blocked"], ["done"], ["claimed", "in_progress"]])
def test_fetch_by_status_lists_the_agents_threads_of_those(store: Store, statuses: list[str]) -> None:
    ids = {"pending": sent(store), "claimed": held(store).thread.thread_id, "blocked": asking(store).thread.thread_id, "done": ended(store)}
    ids["in_progress"] = held(store).thread.thread_id
    work.update(store, ids["in_progress"], agent="builder", summary="On")
    assert sorted(fetched(store, statuses=statuses)) == sorted(ids[status] for status in statuses)


def test_fetch_by_status_finds_what_lapsed_behind_any_number_of_other_statuses(store: Store, clock: Clock) -> None:
    for _ in range(30):
        held(store, agent="other", lease_seconds=60)
    wanted = asking(store, agent="other", lease_seconds=120).thread.thread_id
    clock.advance(120)
    assert fetched(store, statuses=["blocked"], limit=5) == [wanted]


@pytest.mark.parametrize("how", [{"statuses": ["sleeping"]}, {"statuses": []}, {"limit": 0}, {"limit": -1}, {"agent": ""}])
def test_a_malformed_fetch_is_refused(store: Store, how: dict[str, object]) -> None:
    with pytest.raises(InvalidInput):
        fetched(store, **{"agent": "builder", **how})  # type: ignore[arg-type]


# Taking


def test_take_claims_what_fetch_lists_first(store: Store, clock: Clock) -> None:
    for priority in ("low", "normal", "high", "normal", "high", "low"):
        sent(store, priority=priority)
        clock.advance(1)
    expected = fetched(store)
    assert [taken(store) for _ in expected] == expected


def test_take_is_a_claim(store: Store) -> None:
    thread_id = sent(store)
    claimed = work.take(store, agent="builder", lease_seconds=60)
    assert claimed is not None
    assert (claimed.thread.status, claimed.thread.assigned_to, claimed.lease.lease_seconds) == ("claimed", "builder", 60)
    assert lease_of(store, thread_id) == as_shown(store, claimed.lease)


def test_take_finds_nothing_when_there_is_nothing_and_changes_nothing(store: Store) -> None:
    sent(store, to="other")
    held(store)
    before = everything(store)
    assert work.take(store, agent="builder") is None
    assert everything(store) == before


def test_take_gets_what_a_dead_worker_held(store: Store, clock: Clock) -> None:
    thread_id = held(store, agent="dead", lease_seconds=60).thread.thread_id
    clock.advance(59)
    assert taken(store) is None
    clock.advance(1)
    assert taken(store) == thread_id


def test_take_weighs_what_lapsed_and_what_waits_alike(store: Store, clock: Clock) -> None:
    lapsed = {}
    for priority in ("low", "high"):
        lapsed[priority] = sent(store, to="dead", priority=priority)
        work.claim(store, lapsed[priority], agent="dead", lease_seconds=1)
    clock.advance(1)
    waiting = sent(store, priority="normal")
    assert [taken(store) for _ in range(3)] == [lapsed["high"], waiting, lapsed["low"]]


def test_take_prefers_the_older_of_one_priority_lapsed_or_not(store: Store, clock: Clock) -> None:
    waiting = sent(store)
    clock.advance(1)
    lapsed = held(store, agent="dead", lease_seconds=1).thread.thread_id
    clock.advance(1)
    assert [taken(store), taken(store)] == [waiting, lapsed]


def test_take_honours_priority_among_any_number_of_lapsed_threads(store: Store, clock: Clock) -> None:
    for _ in range(50):
        held(store, agent="dead", lease_seconds=1)
    clock.advance(0.5)
    urgent = sent(store, to="dead", priority="high")
    work.claim(store, urgent, agent="dead", lease_seconds=1)
    clock.advance(1)
    assert taken(store) == urgent


def test_a_lapsed_thread_whose_question_is_open_is_not_taken_but_can_be_claimed(store: Store, clock: Clock) -> None:
    thread_id = asking(store, lease_seconds=60).thread.thread_id
    clock.advance(60)
    assert taken(store, "other") is None
    assert work.claim(store, thread_id, agent="other").thread.status == "claimed"


def test_a_lapsed_thread_whose_question_was_answered_is_taken(store: Store, clock: Clock) -> None:
    thread_id = asking(store, lease_seconds=60).thread.thread_id
    work.reply(store, thread_id, sender="leader", summary="Blue")
    clock.advance(60)
    assert taken(store, "other") == thread_id


def test_any_number_of_open_questions_does_not_hide_what_can_be_taken(store: Store, clock: Clock) -> None:
    for _ in range(50):
        asking(store, agent="dead", lease_seconds=1)
    stranded = held(store, agent="dead", lease_seconds=2).thread.thread_id
    clock.advance(2)
    assert taken(store) == stranded


def test_take_sees_what_was_released_to_the_agent(store: Store) -> None:
    thread_id = held(store, agent="other").thread.thread_id
    work.release(store, thread_id, agent="other", to="builder")
    assert taken(store) == thread_id


def test_a_changed_priority_changes_the_order(store: Store, clock: Clock) -> None:
    sent(store)
    clock.advance(1)
    second = sent(store)
    work.send(store, sender="leader", thread_id=second, summary="Hurry", priority="high")
    assert taken(store) == second


# Unread messages


def test_unread_lists_threads_with_something_said_to_the_agent(store: Store) -> None:
    thread_id = sent(store)
    assert fetched(store, unread=True) == [thread_id]
    assert fetched(store, "leader", unread=True) == []


def test_what_was_read_is_not_unread(store: Store) -> None:
    thread_id = sent(store)
    work.mark_read(store, thread_id, agent="builder", event_id=latest(store))
    assert fetched(store, unread=True) == []


def test_what_is_said_after_reading_is_unread(store: Store) -> None:
    thread_id = sent(store)
    work.mark_read(store, thread_id, agent="builder", event_id=latest(store))
    work.send(store, sender="leader", thread_id=thread_id, summary="More")
    assert fetched(store, unread=True) == [thread_id]


def test_reading_a_part_leaves_the_rest_unread(store: Store) -> None:
    first = work.send(store, sender="leader", to="builder", subject="Build")
    work.send(store, sender="leader", thread_id=first.thread.thread_id, summary="More")
    work.mark_read(store, first.thread.thread_id, agent="builder", event_id=first.next_event_id)
    assert fetched(store, unread=True) == [first.thread.thread_id]


def test_reading_never_goes_back(store: Store) -> None:
    thread_id = sent(store)
    work.mark_read(store, thread_id, agent="builder", event_id=latest(store))
    work.mark_read(store, thread_id, agent="builder", event_id=0)
    assert fetched(store, unread=True) == []


def test_each_agent_has_a_read_cursor_of_its_own(store: Store) -> None:
    thread_id = asking(store).thread.thread_id
    work.mark_read(store, thread_id, agent="builder", event_id=latest(store))
    assert fetched(store, "leader", unread=True) == [thread_id]


def test_unread_lists_what_was_said_in_threads_that_another_holds_or_that_ended(store: Store) -> None:
    asked, over = asking(store).thread.thread_id, ended(store)
    assert sorted(fetched(store, "leader", unread=True)) == sorted([asked, over])


def test_unread_can_be_limited_and_chosen_by_status(store: Store) -> None:
    asked, over = asking(store).thread.thread_id, ended(store)
    assert fetched(store, "leader", unread=True, statuses=["done"]) == [over]
    assert fetched(store, "leader", unread=True, limit=1) == [asked]


def test_marking_what_is_not_there_as_read_is_refused(store: Store) -> None:
    with pytest.raises(NotFound):
        work.mark_read(store, "thr_nowhere", agent="builder", event_id=0)


def test_nobody_can_read_what_has_not_happened_yet(store: Store) -> None:
    thread_id = sent(store)
    with pytest.raises(InvalidInput):
        work.mark_read(store, thread_id, agent="builder", event_id=latest(store) + 100)
    assert fetched(store, unread=True) == [thread_id]


def test_taking_does_not_pretend_that_the_task_was_read(store: Store) -> None:
    thread_id = sent(store)
    work.take(store, agent="builder")
    assert fetched(store, unread=True) == [thread_id]
    assert status_of(store, thread_id) == "claimed"


def test_a_lease_that_runs_out_while_somebody_looks_is_not_overlooked(connect: Callable[..., Store], clock: Clock) -> None:
    """Whenever it happens: there is something to take, or it is said when to look again."""
    held(connect(clock), lease_seconds=10)
    for steps in range(8):
        asked = count()
        store = connect(lambda: clock() + (20 * MICROSECONDS_PER_SECOND if next(asked) >= steps else 0))  # noqa: B023 # used at once
        found, due = work.next_available(store, agent="bo")
        assert found or due is not None, steps
        asked = count()
        assert candidates.seconds_until_takeable(store, agent="bo") is not None, steps


def _read_all(store: Store, **how: Any) -> tuple[list[str], int]:
    """The ids on all pages, one after another, and the number of pages."""
    ids: list[str] = []
    pages, after = 0, None
    while True:
        page = work.fetch(store, agent="builder", after=after, **how)
        ids += [candidate.thread.thread_id for candidate in page.candidates]
        pages += 1
        assert page.more == (page.after is not None)
        if not page.more:
            return ids, pages
        after = page.after


def test_a_list_that_is_cut_says_so_and_goes_on_behind_its_cursor(store: Store, clock: Clock) -> None:
    threads = []
    for priority in ("low", "high", "normal", "high", "low", "normal"):
        threads.append(work.send(store, sender="leader", to="builder", subject="x", priority=priority).thread.thread_id)
        clock.advance(1)
    lapsed = work.send(store, sender="leader", to="other", subject="x", priority="normal").thread.thread_id
    work.claim(store, lapsed, agent="other", lease_seconds=1)
    clock.advance(2)
    by_urgency = [threads[1], threads[3], threads[2], threads[5], lapsed, threads[0], threads[4]]
    assert not work.fetch(store, agent="builder", limit=7).more
    assert _read_all(store, limit=3) == (by_urgency, 3)
    assert _read_all(store, limit=2, statuses=("pending",)) == ([each for each in by_urgency if each != lapsed], 3)
    assert _read_all(store, limit=4, unread=True) == (threads, 2)
    assert _read_all(store, limit=1, statuses=("claimed", "blocked")) == ([lapsed], 1)


@pytest.mark.parametrize(
    ("after", "unread"), [("high/", False), ("urgent/2026/x", False), ("high/2026/x", True), ("", False), ("-1", True)]
)
def test_what_no_listing_gave_as_a_cursor_is_refused(store: Store, after: str, unread: bool) -> None:
    with pytest.raises(InvalidInput, match="after"):
        work.fetch(store, agent="builder", after=after, unread=unread)


def test_a_rare_status_among_many_unread_threads_is_found_page_by_page(store: Store) -> None:
    work.send_all(store, [{"to": "builder", "subject": str(number)} for number in range(MAX_COMPARED_THREADS)], sender="leader")
    late = work.send_all(store, [{"to": "builder", "subject": str(number)} for number in range(2)], sender="leader")
    for posted in late:
        work.cancel(store, posted.thread.thread_id, agent="leader")
    first = work.fetch(store, agent="builder", unread=True, statuses=("cancelled",), limit=1)
    assert (first.candidates, first.more) == ((), True)
    found, after = [], first.after
    while after is not None:
        page = work.fetch(store, agent="builder", unread=True, statuses=("cancelled",), limit=1, after=after)
        found += [candidate.thread.thread_id for candidate in page.candidates]
        assert page.more == (page.after is not None)
        after = page.after
    assert found == [posted.thread.thread_id for posted in late]
