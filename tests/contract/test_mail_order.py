"""Order: strict for each sender's messages to one session; between senders by `created_at`. Section 7, and the design's row.

Also the order of what happens by itself, when nobody looks for long.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from postroom import mail
from postroom.core import clock as time
from postroom.store.interface import Store
from tests.conftest import Clock
from tests.contract.mail_data import BOX, at, drained, held, killed, message, post, state_of, steps_of, taken, waiting

pytestmark = pytest.mark.travels("http", "unix", "ws")


def test_a_senders_messages_come_in_the_order_in_which_they_were_sent(store: Store) -> None:
    for number in range(20):
        post(store, str(number))
    assert drained(store) == [str(number) for number in range(20)]


def test_a_senders_own_dates_do_not_change_its_order(store: Store) -> None:
    for number, created_at in enumerate([500, 100, 300, 100, 0]):
        post(store, str(number), created_at=created_at)
    assert drained(store) == ["0", "1", "2", "3", "4"]


def test_ids_do_not_change_the_order(store: Store) -> None:
    for msg_id in ("z", "a", "m"):
        post(store, msg_id, msg_id=msg_id)
    assert drained(store) == ["z", "a", "m"]


def test_senders_are_interleaved_by_created_at(store: Store) -> None:
    dates = {"ann": [10, 40, 70], "bob": [20, 30, 80], "cid": [50, 60]}
    for sender in ("cid", "bob", "ann"):
        for created_at in dates[sender]:
            post(store, str(created_at), sender=sender, created_at=created_at)
    assert drained(store) == ["10", "20", "30", "40", "50", "60", "70", "80"]


def test_of_the_same_second_the_one_that_came_first_is_first(store: Store) -> None:
    for number, sender in enumerate(["bob", "ann", "cid", "ann", "bob"]):
        post(store, str(number), sender=sender, created_at=100)
    assert drained(store) == ["0", "1", "2", "3", "4"]


def test_what_a_sender_dated_before_its_earlier_ones_still_waits_its_turn(store: Store) -> None:
    post(store, "first", created_at=100)
    post(store, "dated back", created_at=10)
    post(store, "another's", sender="bob", created_at=50)
    assert [summary.created_at for summary in mail.peek(store, BOX).messages] == [50, 100, 10]
    assert drained(store) == ["another's", "first", "dated back"]


def test_a_date_back_does_not_overtake_others_once_its_elders_are_gone(store: Store) -> None:
    post(store, "first", created_at=100)
    post(store, "dated back", created_at=10)
    assert taken(store).message.payload == "first"
    mail.ack(store, BOX, mail.peek(store, BOX).messages[0].msg_id)
    post(store, "another's", sender="bob", created_at=50)
    assert drained(store) == ["another's", "dated back"]


def test_a_date_in_the_future_counts_as_the_time_it_was_stored(store: Store, clock: Clock) -> None:
    now = clock.instant // time.MICROSECONDS_PER_SECOND
    post(store, "from the future", created_at=now + 1_000_000)
    clock.advance(10)
    post(store, "later", sender="bob")
    post(store, "dated back", sender="cid", created_at=now - 10)
    post(store, "from the future too", sender="dan", created_at=253_402_300_799)
    assert drained(store) == ["dated back", "from the future", "later", "from the future too"]


def test_a_date_in_the_future_is_given_back_as_it_was(store: Store, clock: Clock) -> None:
    post(store, created_at=253_402_300_799)
    assert mail.peek(store, BOX).messages[0].created_at == 253_402_300_799
    assert taken(store).message.created_at == 253_402_300_799


def test_a_clock_that_goes_backwards_changes_no_senders_order(store: Store, clock: Clock) -> None:
    for number in range(10):
        post(store, str(number))
        clock.advance(-600)
    assert drained(store) == [str(number) for number in range(10)]


def test_a_clock_that_goes_backwards_loses_nothing(store: Store, clock: Clock) -> None:
    ids = [post(store, sender=sender) for sender in ("ann", "bob", "cid", "dan")]
    flying, failed = taken(store), taken(store)
    mail.nack(store, BOX, failed.message.msg_id)
    clock.advance(-3600)
    assert sorted(waiting(store)) == sorted([*ids])
    assert len(drained(store)) == 3  # the backoff of `failed` ended with the jump, and so did the delivery of `flying`
    clock.advance(5)
    again = taken(store).message
    assert (again.msg_id, again.attempt) == (flying.message.msg_id, 1)


# The head of a pair


def test_while_one_is_in_flight_the_pairs_next_waits(store: Store) -> None:
    post(store, "first")
    post(store, "second")
    assert taken(store).message.payload == "first"
    assert mail.dequeue(store, BOX) is None


def test_while_one_waits_for_its_retry_the_pairs_next_waits(store: Store, clock: Clock) -> None:
    first = post(store, "first")
    post(store, "second")
    taken(store)
    mail.nack(store, BOX, first)
    assert mail.dequeue(store, BOX) is None
    clock.advance(5)
    assert taken(store).message.payload == "first"
    assert mail.dequeue(store, BOX) is None


def test_a_stuck_pair_holds_up_nobody_else(store: Store) -> None:
    first = post(store, "stuck")
    post(store, "behind it")
    post(store, "other sender", sender="bob")
    post(store, "other session", to="other")
    taken(store)
    mail.nack(store, BOX, first)
    assert (drained(store), drained(store, "other")) == (["other sender"], ["other session"])


def test_several_senders_may_be_in_flight_at_once(store: Store) -> None:
    for number in range(2):
        for sender in ("ann", "bob", "cid"):
            post(store, f"{sender} {number}", sender=sender)
    first = [taken(store).message for _ in range(3)]
    assert [one.payload for one in first] == ["ann 0", "bob 0", "cid 0"]
    assert mail.dequeue(store, BOX) is None
    mail.ack(store, BOX, first[1].msg_id)
    assert taken(store).message.payload == "bob 1"


def test_a_poison_message_is_bounded_by_its_retries(store: Store, clock: Clock) -> None:
    start = clock.instant
    poison = post(store, "poison")
    post(store, "good")
    killed(store, clock)
    assert clock.instant == start + 35 * time.MICROSECONDS_PER_SECOND
    assert (state_of(store, poison), drained(store)) == ("dead_letter", ["good"])


def test_a_poison_message_that_kills_its_receivers_is_bounded_too(store: Store, clock: Clock) -> None:
    post(store, "poison")
    post(store, "good")
    for _ in range(4):
        assert taken(store).message.payload == "poison"
        clock.advance(30 + 20)
    assert drained(store) == ["good"]


def _ack(store: Store, clock: Clock) -> None:
    mail.ack(store, BOX, taken(store).message.msg_id)


def _die(store: Store, clock: Clock) -> None:
    killed(store, clock)


def _die_unheard(store: Store, clock: Clock) -> None:
    mail.set_policy(store, BOX, max_retries=0)
    taken(store)
    clock.advance(30)


def _expire_pending(store: Store, clock: Clock) -> None:
    mail.set_policy(store, BOX, ttl_secs=20)
    clock.advance(10)  # the second was stored ten seconds after the first


def _expire_in_flight(store: Store, clock: Clock) -> None:
    taken(store)
    _expire_pending(store, clock)


def _expire_nacked(store: Store, clock: Clock) -> None:
    mail.nack(store, BOX, taken(store).message.msg_id)
    mail.set_policy(store, BOX, ttl_secs=14)
    clock.advance(4)


ENDS = [_ack, _die, _die_unheard, _expire_pending, _expire_in_flight, _expire_nacked]


@pytest.mark.parametrize("end", ENDS, ids=lambda end: end.__name__.strip("_"))
def test_when_a_head_ends_the_pairs_next_is_offered_at_once(store: Store, clock: Clock, end: Callable[[Store, Clock], None]) -> None:
    post(store, "first")
    clock.advance(10)
    post(store, "second")
    end(store, clock)
    assert taken(store).message.payload == "second"


@pytest.mark.parametrize("flying", [False, True])
@pytest.mark.parametrize("olds", [2, 3])
def test_when_several_of_a_pair_expire_together_the_next_is_not_stranded(store: Store, clock: Clock, olds: int, flying: bool) -> None:
    mail.set_policy(store, BOX, ttl_secs=20)
    for _ in range(olds):
        post(store, "old")
    if flying:
        taken(store)
    clock.advance(10)
    post(store, "young")
    clock.advance(10)
    assert drained(store) == ["young"]


@pytest.mark.parametrize("flying", [False, True])
def test_after_a_purge_what_comes_next_is_offered_at_once(store: Store, flying: bool) -> None:
    post(store, "first")
    post(store, "second")
    if flying:
        taken(store)
    assert mail.purge(store, BOX) == 2
    assert mail.enqueue(store, message("third")).pending == 1
    assert drained(store) == ["third"]


# Dead letters that are tried again


def test_a_retried_dead_letter_joins_the_tail_of_its_pair(store: Store, clock: Clock) -> None:
    first = post(store, "first", created_at=10)
    for number, payload in enumerate(["second", "third"]):
        post(store, payload, created_at=20 + number)
    killed(store, clock)
    assert mail.retry_dead_letter(store, BOX, msg_id=first) == 1
    assert drained(store) == ["second", "third", "first"]


def test_a_retried_dead_letter_waits_for_what_is_in_flight(store: Store, clock: Clock) -> None:
    post(store, "first")
    post(store, "second")
    killed(store, clock)
    flying = taken(store)
    mail.retry_dead_letter(store, BOX)
    assert mail.dequeue(store, BOX) is None
    mail.ack(store, BOX, flying.message.msg_id)
    assert drained(store) == ["first"]


def test_what_comes_after_a_retried_dead_letter_comes_after_it(store: Store, clock: Clock) -> None:
    post(store, "first")
    killed(store, clock)
    mail.retry_dead_letter(store, BOX)
    post(store, "second", created_at=1)
    assert drained(store) == ["first", "second"]


def test_dead_letters_retried_together_keep_their_order(store: Store, clock: Clock) -> None:
    for number in range(3):
        post(store, str(number))
        killed(store, clock)
    assert mail.retry_dead_letter(store, BOX) == 3
    assert drained(store) == ["0", "1", "2"]


# Listings


def test_peek_shows_the_order_of_delivery(store: Store) -> None:
    dates = [("ann", 50), ("bob", 40), ("ann", 10), ("cid", 45), ("bob", 90)]
    for number, (sender, created_at) in enumerate(dates):
        post(store, str(number), sender=sender, created_at=created_at, msg_id=f"m:{number}")
    expected = waiting(store)
    assert expected == ["m:1", "m:3", "m:0", "m:2", "m:4"]
    assert [f"m:{payload}" for payload in drained(store)] == expected


# When nobody looks for long


def test_what_fell_due_long_ago_happened_when_it_fell_due(store: Store, clock: Clock) -> None:
    post(store)
    start = clock.instant
    msg_id = taken(store).message.msg_id
    clock.advance(100)
    told = mail.show(store, msg_id)
    assert [(step.step, step.at) for step in told.steps] == [
        ("stored", time.format_stamp(start)),
        ("offered", time.format_stamp(start)),
        ("nacked", time.format_stamp(start + 30 * time.MICROSECONDS_PER_SECOND)),
        ("retried", time.format_stamp(start + 35 * time.MICROSECONDS_PER_SECOND)),
    ]
    delivery = taken(store)
    assert (told.state, delivery.message.attempt, delivery.in_flight_until) == ("pending", 1, at(clock, 30))


@pytest.mark.parametrize(
    ("ttl", "steps"),
    [
        (20, ["stored", "offered", "expired"]),
        (33, ["stored", "offered", "nacked", "expired"]),
        (40, ["stored", "offered", "nacked", "retried", "expired"]),
    ],
)
def test_life_ends_in_the_middle_of_what_fell_due(store: Store, clock: Clock, ttl: int, steps: list[str]) -> None:
    mail.set_policy(store, BOX, ttl_secs=ttl)
    scene, expiry = held(store), at(clock, ttl)
    clock.advance(10_000)
    last = mail.show(store, scene.msg_id).steps[-1]
    assert (steps_of(store, scene.msg_id), last.at) == (steps, expiry)


def test_a_last_delivery_that_timed_out_long_ago_was_dead_then(store: Store, clock: Clock) -> None:
    mail.set_policy(store, BOX, max_retries=0)
    scene, due = held(store), clock.instant + 30 * time.MICROSECONDS_PER_SECOND
    clock.advance(10_000)
    assert mail.peek_dead_letter(store, BOX).entries[0].to_json()["failed_at"] == due // time.MICROSECONDS_PER_SECOND
    assert [(step.step, step.at) for step in mail.show(store, scene.msg_id).steps[2:]] == [
        ("nacked", time.format_stamp(due)),
        ("dead_letter", time.format_stamp(due)),
    ]
