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
    assert [candidate.thread.thread_id for candidate in work.fetch(store, agent="builder", unread=True)] == [thread_id]


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
