"""Time moves messages without a verb: retries, deliveries that time out, and the end of life."""

from __future__ import annotations

from typing import Any

import pytest

from postroom import mail
from postroom.core import clock as time
from postroom.core.errors import DeliveryLost, InvalidInput, InvalidState
from postroom.store.interface import Store
from tests.conftest import Clock
from tests.contract.mail_data import (
    BOX,
    LIVE,
    at,
    attempt_of,
    brought,
    dead,
    drained,
    everything,
    held,
    killed,
    post,
    state_of,
    taken,
)

pytestmark = pytest.mark.travels("http", "unix", "ws")
TERMINAL = ("acked", "dead_letter", "expired")


# Retries


def test_a_message_is_retried_after_5_10_and_20_seconds_and_then_is_dead(store: Store, clock: Clock) -> None:
    msg_id = post(store)
    for attempt, delay in enumerate([5, 10, 20]):
        assert taken(store).message.attempt == attempt
        told = mail.nack(store, BOX, msg_id, f"failure {attempt}")
        assert (told.state, told.changed, told.retry_at) == ("nacked", True, at(clock, delay))
        clock.instant += delay * time.MICROSECONDS_PER_SECOND - 1
        assert (state_of(store, msg_id), attempt_of(store, msg_id), mail.dequeue(store, BOX)) == ("nacked", attempt, None)
        clock.instant += 1
        assert (state_of(store, msg_id), attempt_of(store, msg_id)) == ("pending", attempt + 1)
    assert taken(store).message.attempt == 3
    told = mail.nack(store, BOX, msg_id, "failure 3")
    assert (told.state, told.changed, told.retry_at) == ("dead_letter", True, None)
    entry = mail.peek_dead_letter(store, BOX).entries[0].to_json()
    assert (entry["attempts"], entry["reason"]) == (3, "max_retries exhausted: failure 3")
    assert entry["failed_at"] == clock.instant // time.MICROSECONDS_PER_SECOND
    clock.advance(10_000)
    assert mail.dequeue(store, BOX) is None


def test_a_dead_letter_without_a_last_reason_says_only_why_it_is_dead(store: Store, clock: Clock) -> None:
    post(store)
    killed(store, clock, reason="")
    assert mail.peek_dead_letter(store, BOX).entries[0].to_json()["reason"] == "max_retries exhausted"


def test_with_no_retries_the_first_nack_is_the_last(store: Store) -> None:
    mail.set_policy(store, BOX, max_retries=0)
    scene = held(store)
    assert mail.nack(store, BOX, scene.msg_id).state == "dead_letter"
    assert mail.peek_dead_letter(store, BOX).entries[0].to_json()["attempts"] == 0


def test_with_no_backoff_a_retry_is_due_at_once(store: Store, clock: Clock) -> None:
    mail.set_policy(store, BOX, base_backoff_secs=0)
    scene = held(store)
    told = mail.nack(store, BOX, scene.msg_id)
    assert (told.state, told.retry_at) == ("nacked", at(clock))
    assert taken(store).message.attempt == 1


def test_a_backoff_beyond_the_end_of_time_still_keeps_the_message(store: Store, clock: Clock) -> None:
    mail.set_policy(store, BOX, base_backoff_secs=0, max_retries=1000)
    msg_id = post(store)
    for attempt in range(70):
        assert taken(store).message.attempt == attempt
        mail.nack(store, BOX, msg_id)
    mail.set_policy(store, BOX, base_backoff_secs=31_536_000)
    taken(store)
    told = mail.nack(store, BOX, msg_id)
    assert told.retry_at is not None
    assert told.retry_at > at(clock, 31_536_000)
    clock.advance(31_536_000)
    assert (state_of(store, msg_id), mail.dequeue(store, BOX)) == ("nacked", None)
    assert mail.purge(store, BOX) == 1


# In flight for too long


def test_a_delivery_lasts_30_seconds_and_then_is_nacked_by_itself(store: Store, clock: Clock) -> None:
    post(store)
    delivery = taken(store)
    assert delivery.in_flight_until == at(clock, 30)
    clock.instant += 30 * time.MICROSECONDS_PER_SECOND - 1
    assert state_of(store, delivery.message.msg_id) == "in_flight"
    clock.instant += 1
    assert state_of(store, delivery.message.msg_id) == "nacked"
    nacked = mail.show(store, delivery.message.msg_id).steps[-1]
    assert (nacked.step, nacked.at, nacked.facts["by"], nacked.facts["retry_at"]) == ("nacked", at(clock), "timeout", at(clock, 5))
    assert nacked.facts["reason"] == "not acknowledged within 30 s"


def test_an_ack_in_the_last_moment_counts_and_a_moment_later_does_not(store: Store, clock: Clock) -> None:
    in_time, late = held(store), held(store, "other")
    clock.instant += 30 * time.MICROSECONDS_PER_SECOND - 1
    assert mail.ack(store, BOX, in_time.msg_id, delivery_token=in_time.token).changed
    clock.instant += 1
    with pytest.raises(InvalidState):
        mail.ack(store, "other", late.msg_id)
    with pytest.raises(DeliveryLost):
        mail.ack(store, "other", late.msg_id, delivery_token=late.token)


def test_four_deliveries_that_nobody_acknowledges_make_a_dead_letter(store: Store, clock: Clock) -> None:
    post(store)
    for delay in (5, 10, 20):
        taken(store)
        clock.advance(30 + delay)
    scene = taken(store).message
    assert scene.attempt == 3
    clock.advance(30)
    assert dead(store) == [scene.msg_id]
    assert mail.peek_dead_letter(store, BOX).entries[0].to_json()["reason"] == "max_retries exhausted: not acknowledged within 30 s"


def test_an_extension_starts_the_time_in_flight_anew(store: Store, clock: Clock) -> None:
    scene = held(store)
    clock.advance(20)
    assert mail.extend(store, BOX, scene.msg_id, delivery_token=scene.token).in_flight_until == at(clock, 30)
    clock.advance(29)
    assert mail.extend(store, BOX, scene.msg_id, seconds=500).in_flight_until == at(clock, 500)
    clock.advance(499)
    assert state_of(store, scene.msg_id) == "in_flight"
    clock.advance(1)
    assert (state_of(store, scene.msg_id), attempt_of(store, scene.msg_id)) == ("nacked", 0)


def test_an_extension_may_also_be_shorter(store: Store, clock: Clock) -> None:
    scene = held(store)
    assert mail.extend(store, BOX, scene.msg_id, seconds=0.5).in_flight_until == at(clock, 0.5)
    clock.advance(0.5)
    assert state_of(store, scene.msg_id) == "nacked"


def test_an_extension_ends_with_the_messages_life(store: Store, clock: Clock) -> None:
    mail.set_policy(store, BOX, ttl_secs=50)
    scene = held(store)
    clock.advance(25)
    assert mail.extend(store, BOX, scene.msg_id, seconds=500).in_flight_until == at(clock, 25)
    clock.advance(25)
    assert state_of(store, scene.msg_id) == "expired"


@pytest.mark.parametrize("seconds", [0, -1, float("nan"), float("inf"), 1e12, "soon"])
def test_an_extension_of_no_sensible_length_is_refused(store: Store, seconds: Any) -> None:
    scene = held(store)
    before = everything(store)
    with pytest.raises(InvalidInput) as refused:
        mail.extend(store, BOX, scene.msg_id, seconds=seconds)
    assert refused.value.facts["field"] == "seconds"
    assert everything(store) == before


# The end of life


@pytest.mark.parametrize("state", LIVE)
def test_what_has_not_been_delivered_expires_when_its_time_is_over(store: Store, clock: Clock, state: str) -> None:
    mail.set_policy(store, BOX, ttl_secs=4)
    scene = brought(store, clock, state)
    clock.instant += 4 * time.MICROSECONDS_PER_SECOND - 1
    assert state_of(store, scene.msg_id) == state
    clock.instant += 1
    assert state_of(store, scene.msg_id) == "expired"
    assert (mail.dequeue(store, BOX), dead(store)) == (None, [])


@pytest.mark.parametrize("state", ["acked", "dead_letter"])
def test_what_has_ended_does_not_expire(store: Store, clock: Clock, state: str) -> None:
    scene = brought(store, clock, state)
    mail.set_policy(store, BOX, ttl_secs=1)
    clock.advance(1_000_000)
    assert state_of(store, scene.msg_id) == state


def test_nothing_expires_unless_asked_to(store: Store, clock: Clock) -> None:
    post(store)
    clock.advance(100_000_000)
    assert drained(store) == ["hello"]


def test_life_is_counted_from_when_it_was_stored_not_from_when_it_was_written(store: Store, clock: Clock) -> None:
    mail.set_policy(store, BOX, ttl_secs=60)
    msg_id = post(store, created_at=1)
    clock.advance(59)
    assert state_of(store, msg_id) == "pending"


@pytest.mark.parametrize("state", LIVE)
def test_a_new_length_of_life_holds_for_what_is_there(store: Store, clock: Clock, state: str) -> None:
    scene, start = brought(store, clock, state), clock.instant
    clock.advance(1)
    mail.set_policy(store, BOX, ttl_secs=3)
    assert state_of(store, scene.msg_id) == state
    clock.instant = start + 3 * time.MICROSECONDS_PER_SECOND
    assert state_of(store, scene.msg_id) == "expired"


def test_a_length_of_life_can_be_taken_back(store: Store, clock: Clock) -> None:
    mail.set_policy(store, BOX, ttl_secs=10)
    post(store)
    clock.advance(9)
    mail.set_policy(store, BOX, ttl_secs=0)
    clock.advance(1000)
    assert drained(store) == ["hello"]


def test_a_length_of_life_already_over_expires_what_is_there(store: Store, clock: Clock) -> None:
    old = post(store)
    clock.advance(100)
    young = post(store)
    mail.set_policy(store, BOX, ttl_secs=50)
    assert (state_of(store, old), state_of(store, young)) == ("expired", "pending")


@pytest.mark.parametrize("state", TERMINAL)
def test_a_state_at_the_end_of_the_machine_never_changes_by_itself(store: Store, clock: Clock, state: str) -> None:
    scene = brought(store, clock, state)
    told = mail.show(store, scene.msg_id)
    clock.advance(1_000_000)
    mail.sweep(store)
    assert mail.show(store, scene.msg_id) == told


def test_created_at_and_the_id_never_change(store: Store, clock: Clock) -> None:
    msg_id = post(store, created_at=1743999600)
    killed(store, clock)
    clock.advance(1000)
    assert mail.peek_dead_letter(store, BOX).entries[0].to_json()["created_at"] == 1743999600
    mail.retry_dead_letter(store, BOX)
    again = taken(store).message
    assert (again.msg_id, again.created_at, again.attempt) == (msg_id, 1743999600, 0)
