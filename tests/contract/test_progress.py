"""Progress: what the holder reports, from the first step to the end; and cancelling, which is anyone's."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from postroom import tasks, work
from postroom.core.errors import InvalidInput, InvalidState, LeaseHeld, NotFound
from postroom.core.records.work import Attachment, PostedMessage
from postroom.core.states import STATUSES
from postroom.store.interface import Store
from tests.conftest import Clock
from tests.contract.thread_data import asking, ended, everything, held, last_message, lease_of, sent, status_of, thread_of

pytestmark = pytest.mark.travels("http")

Ending = Callable[..., PostedMessage]
each_ending = pytest.mark.parametrize(("end", "status"), [(work.done, "done"), (work.fail, "failed")], ids=["done", "fail"])


def test_an_update_reports_progress_to_the_creator(store: Store) -> None:
    thread_id = held(store).thread.thread_id
    work.update(store, thread_id, agent="builder", summary="Routes are in", body="Three of five")
    message = last_message(store, thread_id)
    assert (message.kind, message.from_agent, message.to_agent) == ("progress", "builder", "leader")
    assert (message.summary, message.body) == ("Routes are in", "Three of five")


def test_an_update_puts_the_thread_in_progress(store: Store) -> None:
    thread_id = held(store).thread.thread_id
    posted = work.update(store, thread_id, agent="builder", summary="Started")
    assert posted.thread.status == "in_progress"
    assert thread_of(store, thread_id) == posted.thread


def test_a_blocked_update_asks_the_creator(store: Store) -> None:
    asked = asking(store)
    message = last_message(store, asked.thread.thread_id)
    assert (asked.thread.status, message.kind, message.to_agent) == ("blocked", "question", "leader")


def test_a_question_can_be_asked_of_somebody_else(store: Store) -> None:
    thread_id = held(store).thread.thread_id
    posted = work.update(store, thread_id, agent="builder", status="blocked", summary="May I?", to="user")
    assert (posted.message.to_agent, posted.thread.assigned_to) == ("user", "builder")


def test_the_asker_still_holds_the_thread(store: Store) -> None:
    asked = asking(store)
    with pytest.raises(LeaseHeld):
        work.claim(store, asked.thread.thread_id, agent="other")


@pytest.mark.parametrize("payload", ["{}", '{"question": ""}', '{"question": "  "}', '{"question": 7}', '{"Question": "Which?"}'])
def test_a_blocked_update_that_says_nothing_is_refused(store: Store, payload: str) -> None:
    thread_id = held(store).thread.thread_id
    before = everything(store)
    with pytest.raises(InvalidInput):
        work.update(store, thread_id, agent="builder", status="blocked", summary=" ", payload_json=payload)
    assert everything(store) == before


@pytest.mark.parametrize(
    "said", [{"summary": "Which?"}, {"body": "Which?"}, {"payload_json": '{"question": "Which?"}'}], ids=["summary", "body", "payload"]
)
def test_a_question_may_stand_in_the_summary_the_body_or_the_payload(store: Store, said: dict[str, str]) -> None:
    thread_id = held(store).thread.thread_id
    work.update(store, thread_id, agent="builder", status="blocked", **said)  # type: ignore[arg-type]
    message = last_message(store, thread_id)
    assert "Which?" in (message.summary, message.body)
    assert message.payload_json == said.get("payload_json", "{}")


@pytest.mark.parametrize("status", [*sorted(set(STATUSES) - {"in_progress", "blocked"}), "sleeping", ""])
@pytest.mark.input_check
def test_an_update_knows_only_in_progress_and_blocked(store: Store, status: str) -> None:
    thread_id = held(store).thread.thread_id
    before = everything(store)
    with pytest.raises(InvalidInput):
        work.update(store, thread_id, agent="builder", status=status, summary="Hm")
    assert everything(store) == before


def test_a_worker_goes_from_blocked_to_in_progress_and_back(store: Store) -> None:
    thread_id = asking(store).thread.thread_id
    assert work.update(store, thread_id, agent="builder", summary="On").thread.status == "in_progress"
    assert work.update(store, thread_id, agent="builder", status="blocked", summary="And now?").thread.status == "blocked"


@pytest.mark.parametrize("verb", [work.update, work.done, work.fail, tasks.done_and_take])
@pytest.mark.parametrize("payload", ["{", "[]", "NaN", '{"a": Infinity}'])
@pytest.mark.input_check
def test_a_payload_that_is_no_json_object_is_refused(store: Store, verb: Callable[..., object], payload: str) -> None:
    thread_id = held(store).thread.thread_id
    before = everything(store)
    with pytest.raises(InvalidInput):
        verb(store, thread_id, agent="builder", summary="On", payload_json=payload)
    assert everything(store) == before


@pytest.mark.parametrize("verb", [work.update, work.done, work.fail])
def test_a_report_keeps_its_body_payload_and_artifacts(store: Store, verb: Callable[..., PostedMessage]) -> None:
    thread_id = held(store).thread.thread_id
    said = verb(store, thread_id, agent="builder", summary="S", body="B", payload_json='{"p":1}', artifacts=[Attachment("x.log", "log")])
    kept = last_message(store, thread_id)
    assert kept == said.message
    assert (kept.summary, kept.body, kept.payload_json, kept.artifacts[0].path) == ("S", "B", '{"p":1}', "x.log")


# The end


@each_ending
def test_an_ending_sends_its_result_to_the_creator(store: Store, end: Ending, status: str) -> None:
    thread_id = held(store).thread.thread_id
    end(store, thread_id, agent="builder", summary="That was it")
    message = last_message(store, thread_id)
    assert status_of(store, thread_id) == status
    assert (message.kind, message.from_agent, message.to_agent, message.summary) == ("result", "builder", "leader", "That was it")


@each_ending
@pytest.mark.parametrize("state", ["claimed", "in_progress", "blocked"])
def test_a_thread_can_end_from_whatever_its_holder_reported(store: Store, end: Ending, status: str, state: str) -> None:
    thread_id = held(store).thread.thread_id
    if state != "claimed":
        work.update(store, thread_id, agent="builder", status=state, summary="Hm")
    assert end(store, thread_id, agent="builder").thread.status == status


@each_ending
def test_an_ending_lets_the_lease_go(store: Store, end: Ending, status: str) -> None:
    thread_id = held(store).thread.thread_id
    end(store, thread_id, agent="builder")
    assert not lease_of(store, thread_id).is_held
    assert work.show_agent(store, "builder").holds == ()


@pytest.mark.parametrize("agent", ["leader", "builder", "stranger"])
@pytest.mark.parametrize("state", ["pending", "claimed", "in_progress", "blocked"])
def test_anyone_may_cancel_whatever_is_not_over(store: Store, agent: str, state: str) -> None:
    thread_id = sent(store)
    if state != "pending":
        work.claim(store, thread_id, agent="builder")
    if state in ("in_progress", "blocked"):
        work.update(store, thread_id, agent="builder", status=state, summary="Hm")
    posted = work.cancel(store, thread_id, agent=agent, reason="Not wanted")
    assert thread_of(store, thread_id).status == posted.thread.status == "cancelled"


def test_a_cancellation_tells_the_worker_why_in_a_control_message(store: Store) -> None:
    thread_id = held(store).thread.thread_id
    work.cancel(store, thread_id, agent="leader", reason="Not wanted")
    message = last_message(store, thread_id)
    assert (message.kind, message.from_agent, message.to_agent, message.summary) == ("control", "leader", "builder", "Not wanted")


def test_a_cancellation_by_the_worker_is_told_to_the_creator(store: Store) -> None:
    assert work.cancel(store, held(store).thread.thread_id, agent="builder").message.to_agent == "leader"


def test_a_cancelled_worker_is_refused(store: Store) -> None:
    claimed = held(store)
    work.cancel(store, claimed.thread.thread_id, agent="leader")
    with pytest.raises(InvalidState):
        work.done(store, claimed.thread.thread_id, agent="builder", lease_token=claimed.lease.lease_token)
    assert not lease_of(store, claimed.thread.thread_id).is_held


@pytest.mark.parametrize("how", ["done", "failed", "cancelled"])
def test_what_has_ended_cannot_be_cancelled(store: Store, how: str) -> None:
    thread_id = ended(store, how)
    before = everything(store)
    with pytest.raises(InvalidState):
        work.cancel(store, thread_id, agent="leader")
    assert everything(store) == before


def test_what_is_not_there_cannot_be_cancelled(store: Store) -> None:
    with pytest.raises(NotFound):
        work.cancel(store, "thr_nowhere", agent="leader")


# Finishing one and taking the next


def test_done_and_take_finishes_one_and_claims_the_next(store: Store, clock: Clock) -> None:
    first = held(store).thread.thread_id
    second = sent(store)
    posted, claimed = tasks.done_and_take(store, first, agent="builder", summary="Done", lease_seconds=60)
    assert claimed is not None
    assert (posted.thread.status, claimed.thread.thread_id, claimed.lease.lease_seconds) == ("done", second, 60)
    assert (status_of(store, first), status_of(store, second)) == ("done", "claimed")


def test_done_and_take_finishes_also_when_there_is_nothing_next(store: Store) -> None:
    first = held(store).thread.thread_id
    posted, claimed = tasks.done_and_take(store, first, agent="builder")
    assert (posted.thread.status, claimed) == ("done", None)


def test_done_and_take_does_not_take_what_it_just_finished_though_its_lease_ran_out(store: Store, clock: Clock) -> None:
    first = held(store).thread.thread_id
    clock.advance(10_000)
    assert tasks.done_and_take(store, first, agent="builder")[1] is None
    assert status_of(store, first) == "done"


def test_done_and_take_that_is_refused_takes_nothing(store: Store) -> None:
    other = held(store, agent="other").thread.thread_id
    waiting = sent(store)
    with pytest.raises(LeaseHeld):
        tasks.done_and_take(store, other, agent="builder")
    assert status_of(store, waiting) == "pending"


@pytest.mark.parametrize("end", [work.done, work.fail])
def test_an_ending_that_says_nothing_is_pointed_out(store: Store, end: Callable[..., PostedMessage]) -> None:
    assert "says nothing" in end(store, held(store).thread.thread_id, agent="builder").note
    assert end(store, held(store).thread.thread_id, agent="builder", body="All of it").note == ""
