"""The trace of mail and of tasks is stored with them, and goes on: to the command, the thread, the parts of a task and its result."""

from __future__ import annotations

import pytest

from postroom import mail, tasks, work
from postroom.core.records.mail import MailMessage
from postroom.core.tracing import use_traceparent
from postroom.store.interface import Store
from tests.conftest import Clock
from tests.contract.mail_data import BOX, message
from tests.contract.task_data import ANN, BOB, CID, asked, conductor_with_agents, result_of

pytestmark = pytest.mark.travels("http")

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
GIVEN, LATER = f"00-{TRACE}-00f067aa0ba902b7-01", f"00-{TRACE}-b9c7c989f97918e1-01"
OTHER = f"00-{'a' * 32}-{'b' * 16}-01"


def received(store: Store) -> MailMessage:
    delivery = mail.dequeue(store, BOX)
    assert delivery is not None
    return delivery.message


def test_mail_carries_the_trace_in_which_it_was_sent(store: Store) -> None:
    with use_traceparent(GIVEN):
        mail.enqueue(store, message("traced"))
    with use_traceparent(OTHER):  # of the receiver
        got = received(store)
    assert (got.traceparent, got.to_json()["traceparent"]) == (GIVEN, GIVEN)


def test_mail_outside_of_a_trace_has_none(store: Store) -> None:
    mail.enqueue(store, message("untraced"))
    got = received(store)
    assert (got.traceparent, "traceparent" in got.to_json()) == (None, False)


def test_a_sender_may_name_the_trace_of_its_mail_itself(store: Store) -> None:
    with use_traceparent(OTHER):
        mail.enqueue(store, {**message("named"), "traceparent": GIVEN, "colour": "blue"})
    got = received(store)
    assert (got.traceparent, got.to_json()["colour"]) == (GIVEN, "blue")


@pytest.mark.parametrize("given", ["nonsense", 7, None, ["00"], f"00-{'0' * 32}-00f067aa0ba902b7-01"])
def test_a_field_that_is_no_trace_is_kept_and_not_followed(store: Store, given: object) -> None:
    mail.enqueue(store, {**message("odd"), "traceparent": given})
    got = received(store)
    assert (got.traceparent, got.to_json()["traceparent"]) == (None, given)


def test_a_repeat_in_another_trace_is_a_repeat(store: Store) -> None:
    with use_traceparent(GIVEN):
        assert mail.enqueue(store, message("once", msg_id="m1")).queued
    with use_traceparent(OTHER):
        assert not mail.enqueue(store, message("once", msg_id="m1")).queued


def test_a_task_carries_the_trace_in_which_it_was_given(store: Store) -> None:
    conductor = conductor_with_agents(store)
    with use_traceparent(GIVEN):
        task = asked(conductor)
    shown = tasks.show_task(store, task.task_id).task
    assert (task.traceparent, conductor.get(task.task_id).traceparent, shown.to_json()["traceparent"]) == (GIVEN, GIVEN, GIVEN)
    assert "traceparent" not in tasks.show_task(store, asked(conductor).task_id).task.to_json()


def test_the_thread_of_a_task_begins_in_its_trace_and_not_in_that_of_its_taker(store: Store) -> None:
    conductor = conductor_with_agents(store)
    with use_traceparent(GIVEN):
        traced = asked(conductor)
    untraced = asked(conductor)
    with use_traceparent(OTHER):
        threads = [conductor.open_thread(task.task_id, agent=BOB) for task in (traced, untraced)]
    assert [work.show(store, thread_id).messages[0].traceparent for thread_id in threads] == [GIVEN, None]


def test_a_result_goes_home_in_the_trace_of_its_task(store: Store) -> None:
    conductor = conductor_with_agents(store)
    with use_traceparent(GIVEN):
        first, second = asked(conductor), asked(conductor)
    with use_traceparent(LATER):  # a later span of the same trace
        conductor.complete(first.task_id, agent=BOB, lease_token=conductor.accept(first.task_id, agent=BOB).lease_token)
    with use_traceparent(OTHER):
        conductor.complete(second.task_id, agent=BOB, lease_token=conductor.accept(second.task_id, agent=BOB).lease_token)
    assert [result_of(conductor, task.task_id).traceparent for task in (first, second)] == [LATER, GIVEN]


def test_a_result_that_somebody_else_settles_stays_in_the_trace(store: Store, clock: Clock) -> None:
    conductor = conductor_with_agents(store)
    with use_traceparent(GIVEN):
        task = asked(conductor, deadline_seconds=5)
    clock.advance(5)
    with use_traceparent(OTHER):
        conductor.waiting(CID)  # whoever looks next settles the deadline
    assert result_of(conductor, task.task_id).traceparent == GIVEN


def test_a_part_of_a_task_belongs_to_its_trace(store: Store) -> None:
    conductor = conductor_with_agents(store)
    with use_traceparent(GIVEN):
        task = asked(conductor)
    part = asked(conductor, source=BOB, target=CID, parent=task.task_id)
    assert part.traceparent == GIVEN
    with use_traceparent(LATER):
        assert asked(conductor, source=BOB, target=ANN, parent=task.task_id).traceparent == LATER
