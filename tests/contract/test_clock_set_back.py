"""A clock that is set back: what an agent held before becomes available, and a small correction changes nothing."""

from __future__ import annotations

import pytest

from postroom import mail, work
from postroom.core.errors import LeaseHeld
from postroom.store.interface import Store
from tests.conftest import Clock
from tests.contract.mail_data import BOX, DAY, drained, post, taken
from tests.contract.thread_data import sent

YEAR = 365 * DAY
CORRECTION = 5  # seconds, by which a clock may be wrong for a while


def claimed_in_the_future(store: Store, clock: Clock, seconds: float) -> str:
    """The id of a thread that was claimed before the clock was set back."""
    thread_id = sent(store)
    clock.advance(seconds)
    work.claim(store, thread_id, agent="builder")
    clock.advance(-seconds)
    return thread_id


def test_a_lease_from_the_future_has_lapsed(store: Store, clock: Clock) -> None:
    thread_id = claimed_in_the_future(store, clock, YEAR)
    [candidate] = work.fetch(store, agent="tester").candidates
    assert (candidate.thread.thread_id, candidate.lapsed, candidate.held_by) == (thread_id, True, "builder")
    assert work.claim(store, thread_id, agent="tester").lease.agent_id == "tester"
    with pytest.raises(LeaseHeld):
        work.claim(store, thread_id, agent="another")


def test_work_from_the_future_is_taken(store: Store, clock: Clock) -> None:
    thread_id = claimed_in_the_future(store, clock, YEAR)
    assert work.next_available(store, agent="tester")[0]
    claim = work.take(store, agent="tester")
    assert claim is not None
    assert claim.thread.thread_id == thread_id
    assert work.take(store, agent="tester") is None


def test_the_holder_of_a_lease_from_the_future_goes_on(store: Store, clock: Clock) -> None:
    thread_id = claimed_in_the_future(store, clock, YEAR)
    work.update(store, thread_id, agent="builder", summary="Halfway")
    with pytest.raises(LeaseHeld):
        work.claim(store, thread_id, agent="tester")


def test_a_corrected_clock_ends_no_lease(store: Store, clock: Clock) -> None:
    thread_id = claimed_in_the_future(store, clock, CORRECTION)
    assert work.fetch(store, agent="tester").candidates == ()
    with pytest.raises(LeaseHeld):
        work.claim(store, thread_id, agent="tester")


def test_mail_that_was_delivered_in_the_future_is_delivered_again(store: Store, clock: Clock) -> None:
    post(store, "first")
    clock.advance(YEAR)
    taken(store)
    clock.advance(-YEAR)
    post(store, "second")
    assert mail.dequeue(store, BOX) is None  # the timeout of the first begins its backoff
    clock.advance(6)
    assert drained(store) == ["first", "second"]


def test_mail_that_was_nacked_in_the_future_is_retried(store: Store, clock: Clock) -> None:
    post(store, "first")
    clock.advance(YEAR)
    delivery = taken(store)
    mail.nack(store, BOX, delivery.message.msg_id, "later", delivery_token=delivery.delivery_token)
    clock.advance(-YEAR)
    assert drained(store) == ["first"]


def test_a_corrected_clock_times_out_no_delivery(store: Store, clock: Clock) -> None:
    post(store, "first")
    clock.advance(CORRECTION)
    delivery = taken(store)
    clock.advance(-CORRECTION)
    assert mail.dequeue(store, BOX) is None
    assert mail.ack(store, BOX, delivery.message.msg_id, delivery_token=delivery.delivery_token).changed
