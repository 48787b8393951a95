"""Listing threads, and showing one."""

from __future__ import annotations

import pytest

from postroom import work
from postroom.core.errors import InvalidInput, NotFound
from postroom.core.states import STATUSES
from postroom.store.interface import Store
from tests.conftest import Clock
from tests.contract.thread_data import as_shown, asking, ended, everything, held, latest, sent

pytestmark = pytest.mark.travels("http")


def listed(store: Store, **how: object) -> list[str]:
    return [thread.thread_id for thread in work.list_threads(store, **how).threads]  # type: ignore[arg-type]


def test_all_threads_are_listed_latest_activity_first(store: Store, clock: Clock) -> None:
    ids = []
    for _ in range(4):
        ids.append(sent(store))
        clock.advance(1)
    work.reply(store, ids[1], sender="leader", summary="More")
    assert listed(store) == [ids[1], ids[3], ids[2], ids[0]]


def test_the_order_holds_across_statuses(store: Store, clock: Clock) -> None:
    made = []
    for make in (sent, ended, sent, ended):
        made.append(make(store))
        clock.advance(1)
    assert listed(store) == made[::-1]


def test_a_list_tells_who_holds_a_thread_until_when_and_whether_the_lease_ran_out(store: Store, clock: Clock) -> None:
    lasting, short, pending = held(store).lease, held(store, agent="dead", lease_seconds=10).lease, sent(store)
    clock.advance(11)
    page = work.list_threads(store)
    shown = {thread["thread_id"]: (thread["held_by"], thread["lease_expires_at"], thread["lapsed"]) for thread in page.to_json()["threads"]}
    assert shown == {
        lasting.thread_id: ("builder", lasting.expires_at, False),
        short.thread_id: ("dead", short.expires_at, True),
        pending: (None, None, False),
    }
    assert "lse_" not in str(page.to_json())


def test_threads_are_found_by_their_task(store: Store) -> None:
    def opened(task_id: str, run_id: str = "") -> str:
        return work.send(store, sender="leader", to="builder", subject="S", task_id=task_id, run_id=run_id).thread.thread_id

    first, other, _ = opened("t1", "r1"), opened("t1", "r2"), opened("")
    assert set(listed(store, task_id="t1")) == {first, other}
    assert (listed(store, task_id="t1", run_id="r1"), listed(store, task_id="t2")) == ([first], [])
    assert (listed(store, task_id="t1", agent="leader", run_id="r2"), listed(store, task_id="t1", agent="nobody")) == ([other], [])
    with pytest.raises(InvalidInput):
        listed(store, task_id="")


def test_an_empty_store_lists_nothing(store: Store) -> None:
    assert listed(store) == []


@pytest.mark.parametrize("status", STATUSES)
def test_each_status_can_be_chosen(store: Store, status: str) -> None:
    ids = {"pending": sent(store), "claimed": held(store).thread.thread_id, "blocked": asking(store).thread.thread_id}
    ids["in_progress"] = held(store).thread.thread_id
    work.update(store, ids["in_progress"], agent="builder", summary="On")
    ids |= {how: ended(store, how) for how in ("done", "failed", "cancelled")}
    assert listed(store, statuses=[status]) == [ids[status]]


def test_several_statuses_are_listed_together(store: Store) -> None:
    both = {sent(store), ended(store)}
    held(store)
    assert set(listed(store, statuses=["pending", "done"])) == both


def test_a_status_said_twice_lists_each_thread_once(store: Store) -> None:
    assert listed(store, statuses=["pending", "pending"]) == [] == listed(store)
    thread_id = sent(store)
    assert listed(store, statuses=["pending", "pending"]) == [thread_id]


def test_threads_can_be_chosen_by_their_creator(store: Store) -> None:
    mine = sent(store, sender="leader", to="builder")
    sent(store, sender="other", to="leader")
    assert listed(store, created_by="leader") == [mine]


def test_threads_can_be_chosen_by_whom_they_are_assigned_to(store: Store) -> None:
    mine = sent(store, sender="leader", to="builder")
    sent(store, sender="builder", to="leader")
    assert listed(store, assigned_to="builder") == [mine]


def test_creator_and_assignee_can_be_combined(store: Store) -> None:
    both = sent(store, sender="leader", to="builder")
    sent(store, sender="leader", to="other")
    sent(store, sender="other", to="builder")
    assert listed(store, created_by="leader", assigned_to="builder") == [both]


def test_an_agents_threads_are_those_it_created_and_those_assigned_to_it_once_each(store: Store) -> None:
    mine = {
        sent(store, sender="leader", to="builder"),
        sent(store, sender="builder", to="leader"),
        sent(store, sender="builder", to="builder"),
    }
    sent(store, sender="leader", to="other")
    found = listed(store, agent="builder")
    assert set(found) == mine
    assert len(found) == 3


def test_a_thread_follows_its_new_owner(store: Store) -> None:
    thread_id = sent(store, to="builder")
    work.claim(store, thread_id, agent="other")
    assert listed(store, assigned_to="other") == [thread_id]
    assert listed(store, assigned_to="builder") == []


def test_a_limit_gives_the_latest_and_says_that_there_are_more(store: Store, clock: Clock) -> None:
    ids = []
    for _ in range(3):
        ids.append(sent(store))
        clock.advance(1)
    assert listed(store, limit=2) == [ids[2], ids[1]]
    assert work.list_threads(store, limit=2).more is True
    assert work.list_threads(store, limit=3).more is False


def listed_in_pages(store: Store, **how: object) -> list[str]:
    """List all threads in pages of two, by the cursor of each page."""
    found: list[str] = []
    after: str | None = None
    while True:
        page = work.list_threads(store, limit=2, after=after, **how)  # type: ignore[arg-type]
        found += [thread.thread_id for thread in page.threads]
        assert page.more == (page.after is not None)
        if page.after is None:
            return found
        after = page.after


@pytest.mark.parametrize(
    "how",
    [
        {},
        {"statuses": ["done", "pending"]},
        {"agent": "builder"},
        {"created_by": "leader"},
        {"assigned_to": "builder"},
        {"created_by": "leader", "assigned_to": "builder"},
        {"run_id": "r"},
        {"task_id": "t"},
        {"run_id": "r", "agent": "builder"},
        {"visible_to": "builder"},
        {"visible_to": "guest"},
    ],
    ids=str,
)
def test_pages_list_every_thread_once_also_those_of_one_instant(store: Store, clock: Clock, how: dict[str, object]) -> None:
    ids = ["b-2", "B-1", "a_3", "é", "Z", "thr_1", "c c"]  # a collation would sort these in another order than their bytes
    for number, thread_id in enumerate(ids):
        work.send(store, sender="leader", to="builder", subject="S", thread_id=thread_id, run_id="r", task_id="t")
        if number % 2:
            work.send(store, sender="leader", to="guest", thread_id=thread_id, summary="See this")
    for thread_id in ids[:2]:
        work.claim(store, thread_id, agent="builder")
        work.done(store, thread_id, agent="builder", summary="Done")
    clock.advance(1)
    sent(store, "Another one")
    whole = listed(store, limit=100, **how)
    assert listed_in_pages(store, **how) == whole
    assert len(whole) >= 3


def test_a_thread_that_is_opened_between_two_pages_shifts_none(store: Store, clock: Clock) -> None:
    ids = []
    for _ in range(4):
        ids.append(sent(store))
        clock.advance(1)
    first = work.list_threads(store, limit=2)
    sent(store, "Newer")
    second = work.list_threads(store, limit=2, after=first.after)
    assert [thread.thread_id for thread in (*first.threads, *second.threads)] == ids[::-1]
    assert (second.more, second.after) == (False, None)


@pytest.mark.parametrize(
    "after", ["", "x", "2026-11-15", "/thr_1", "2026-11-15T21:12:00.123456Z", "2026-11-15T21:12:00.123456Z/", 7, "a\0b"]
)
def test_what_is_no_cursor_of_a_list_is_refused(store: Store, after: object) -> None:
    with pytest.raises(InvalidInput) as refused:
        listed(store, after=after)
    assert refused.value.facts["field"] == "after"


@pytest.mark.parametrize(
    "how", [{"statuses": ["sleeping"]}, {"statuses": []}, {"limit": 0}, {"limit": -3}, {"agent": "a", "created_by": "b"}]
)
def test_a_malformed_list_is_refused(store: Store, how: dict[str, object]) -> None:
    with pytest.raises(InvalidInput):
        listed(store, **how)


def test_a_thread_is_shown_with_all_that_was_said_in_order(store: Store) -> None:
    thread_id = asking(store, question="Which?").thread.thread_id
    work.reply(store, thread_id, sender="leader", summary="Blue")
    work.done(store, thread_id, agent="builder", summary="Painted")
    shown = work.show(store, thread_id)
    assert [(message.kind, message.summary) for message in shown.messages] == [
        ("task", "Add the login page"),
        ("question", "Which?"),
        ("answer", "Blue"),
        ("result", "Painted"),
    ]
    assert shown.thread.latest_message_id == shown.messages[-1].message_id


def test_a_thread_is_shown_with_what_was_said_in_it_alone(store: Store) -> None:
    first, _ = sent(store, "One"), sent(store, "Two")
    assert [message.summary for message in work.show(store, first).messages] == ["One"]


def test_a_thread_is_shown_with_who_holds_it(store: Store) -> None:
    claimed = held(store)
    assert work.show(store, claimed.thread.thread_id).lease == as_shown(store, claimed.lease)
    assert work.show(store, sent(store)).lease is None


def test_what_is_shown_comes_with_a_cursor_past_it(store: Store) -> None:
    thread_id = sent(store)
    assert work.show(store, thread_id).next_event_id == latest(store)


def test_showing_changes_nothing(store: Store) -> None:
    thread_id = sent(store)
    before = everything(store)
    work.show(store, thread_id)
    assert everything(store) == before
    assert [candidate.thread.thread_id for candidate in work.fetch(store, agent="builder", unread=True).candidates] == [thread_id]


def test_what_is_not_there_cannot_be_shown(store: Store) -> None:
    with pytest.raises(NotFound):
        work.show(store, "thr_nowhere")


def test_threads_are_found_by_their_run_and_what_else_is_asked_for(store: Store, clock: Clock) -> None:
    def opened(run_id: str, *, to: str = "builder") -> str:
        clock.advance(1)
        return work.send(store, sender="leader", to=to, subject="S", run_id=run_id).thread.thread_id

    first, second, other, unnamed = opened("r/1 %"), opened("r/1 %", to="ada"), opened("r2"), opened("")
    work.cancel(store, second, agent="leader")

    assert listed(store, run_id="r/1 %") == [second, first]
    assert (listed(store, run_id="r2"), listed(store, run_id=""), listed(store, run_id="r"), listed(store, run_id="R2")) == (
        [other],
        [unnamed],
        [],
        [],
    )
    assert listed(store, run_id="r/1 %", statuses=["pending"]) == [first]
    assert (listed(store, run_id="r/1 %", agent="ada"), listed(store, run_id="r/1 %", agent="leader")) == ([second], [second, first])
    assert listed(store, run_id="r/1 %", agent="nobody") == []
    page = work.list_threads(store, run_id="r/1 %", limit=1)
    assert ([thread.thread_id for thread in page.threads], page.more) == ([second], True)


@pytest.mark.parametrize("wanted", [{"run_id": "a\0b"}, {"run_id": "r", "created_by": "leader"}, {"run_id": "r", "assigned_to": "builder"}])
def test_a_run_that_cannot_be_asked_for_is_refused(store: Store, wanted: dict[str, str]) -> None:
    with pytest.raises(InvalidInput) as refused:
        work.list_threads(store, **wanted)  # type: ignore[arg-type]
    assert refused.value.facts["field"] == "run"


def test_the_threads_of_a_name_in_a_run_are_found_though_both_have_many_others(store: Store, clock: Clock) -> None:
    """No index has both, so both are searched in turns."""
    mine = []
    for _ in range(3):
        clock.advance(1)
        drafts = [{"to": to, "subject": "S", "run": run} for to, run in (("ada", "big"), *[("ada", "other"), ("busy", "big")] * 60)]
        mine.append(work.send_all(store, drafts, sender="leader")[0].thread.thread_id)
    found = work.list_threads(store, agent="ada", run_id="big", limit=2)
    assert [thread.thread_id for thread in found.threads] == [mine[2], mine[1]]
    rest = work.list_threads(store, agent="ada", run_id="big", limit=2, after=found.after)
    assert ([thread.thread_id for thread in rest.threads], rest.more) == ([mine[0]], False)
    assert len(work.list_threads(store, agent="leader", run_id="big", limit=1000).threads) == 183
    assert work.list_threads(store, agent="nobody", run_id="big").threads == ()
