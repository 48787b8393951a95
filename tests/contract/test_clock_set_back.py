"""A clock that is set back: what an agent held before becomes available, and a small correction changes nothing.

Events that were written while the clock was wrong make pruning remove less, never more.
"""

from __future__ import annotations

import pytest

from postroom import mail, work
from postroom.core import clock as time
from postroom.core.errors import LeaseHeld
from postroom.maintenance import leftovers
from postroom.maintenance.pruning import prune
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


def newest_event(store: Store) -> int:
    with store.read() as tx:
        return tx.fetch_one(tx.sql.event_latest) or 0


def sent_at(store: Store, clock: Clock, instant: int, number: int = 1) -> int:
    """The newest event, after some threads were sent while the clock showed another instant."""
    clock.instant, right = instant, clock.instant
    for _ in range(number):
        sent(store)
    clock.instant = right
    return newest_event(store)


def pruned_upto(store: Store) -> int:
    return prune(store, older_than_seconds=DAY).next_event_id


@pytest.mark.parametrize("wrong", [0, YEAR], ids=["early", "late"])
def test_a_wrong_clock_after_young_events_removes_none_of_them(store: Store, clock: Clock, wrong: int) -> None:
    """As of a machine that begins in 1970 and gets the right time later."""
    old = sent_at(store, clock, clock.instant, 4)
    clock.advance(2 * DAY)
    sent_at(store, clock, clock.instant, 2)
    sent_at(store, clock, wrong and clock.instant + wrong * time.MICROSECONDS_PER_SECOND, 40)
    sent_at(store, clock, clock.instant, 2)
    upto = pruned_upto(store)
    assert upto == pruned_upto(store) == old
    assert len(work.watch(store, after_event=upto, timeout_seconds=1).events) == 44


@pytest.mark.parametrize("wrong", [0, YEAR], ids=["early", "late"])
def test_a_wrong_clock_after_old_events_removes_what_is_old(store: Store, clock: Clock, wrong: int) -> None:
    old = sent_at(store, clock, clock.instant, 4)
    clock.advance(2 * DAY)
    sent_at(store, clock, wrong and clock.instant + wrong * time.MICROSECONDS_PER_SECOND, 40)
    last = sent_at(store, clock, clock.instant, 2)
    assert [pruned_upto(store) for _ in range(3)] == [old] * 3
    clock.advance(2 * DAY)
    assert [pruned_upto(store) for _ in range(3)] == [last - 1] * 3  # the newest stays


def test_events_are_read_in_pages_to_find_the_old_ones(store: Store, clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leftovers, "EVENTS_PER_PAGE", 3)
    old = sent_at(store, clock, clock.instant, 10)
    clock.advance(2 * DAY)
    sent_at(store, clock, 0, 10)
    sent_at(store, clock, clock.instant, 10)
    sent_at(store, clock, clock.instant - int(1.5 * DAY * time.MICROSECONDS_PER_SECOND), 10)
    sent_at(store, clock, clock.instant, 10)
    assert [pruned_upto(store) for _ in range(3)] == [old] * 3
