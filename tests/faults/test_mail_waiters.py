"""Many who wait at one mailbox: a message wakes one, and who stops or dies is nobody's burden."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

import postroom
from postroom import mail
from postroom.core.records.mail import MailboxCounts
from postroom.store.interface import Store
from tests.contract.blocking_store import eventually
from tests.faults.inspection import assert_no_lock
from tests.faults.mail_children import BOX, KILLED, MailProcesses, assert_sound, message

WAITERS = 20


@pytest.fixture
def opened(place: str) -> Iterator[Store]:
    """The store with the real time, as the waiters have it."""
    with closing(postroom.open(place)) as store:
        mail.set_policy(store, BOX, inflight_timeout_secs=3600)
        yield store


@pytest.fixture
def nursery(place: str, tmp_path: Path) -> Iterator[MailProcesses]:
    with MailProcesses(place, tmp_path) as started:
        yield started
        assert started.said("failed") == []
    assert_no_lock(place)
    assert_sound(place)


def sleeping(nursery: MailProcesses, number: int) -> list[int]:
    """That many waiters, all of them asleep."""
    before = len(nursery.said("asleep"))
    children = [nursery.start("waiter", f"waiter-{before + nth}") for nth in range(number)]
    assert eventually(lambda: len(nursery.said("asleep")) == before + number), nursery.said("failed")
    return children


def got(nursery: MailProcesses) -> list[str]:
    return [line[1] for line in nursery.said("got")]


@pytest.mark.parametrize("senders", [1, WAITERS], ids=["one sender", "many senders"])
def test_of_twenty_waiters_one_gets_the_message_and_each_of_the_others_one_of_the_next(
    opened: Store, nursery: MailProcesses, senders: int
) -> None:
    waiters = sleeping(nursery, WAITERS)
    mail.enqueue(opened, message("0", sender="sender-0"))
    assert eventually(lambda: bool(nursery.said("got")))
    assert [line[1] for line in nursery.said("got")] == ["0"]
    for nth in range(1, WAITERS):
        mail.enqueue(opened, message(str(nth), sender=f"sender-{nth % senders}"))
    assert [nursery.bury(child) for child in waiters] == [0] * WAITERS
    said = nursery.said("got")
    assert sorted(line[2] for line in said) == sorted(f"waiter-{nth}" for nth in range(WAITERS))
    ids = [str(nth) for nth in range(WAITERS)]
    assert (got(nursery) if senders == 1 else sorted(got(nursery), key=int)) == ids
    for _, msg_id, name in said:
        offered = [step.facts["receiver"] for step in mail.show(opened, msg_id).steps if step.step == "offered"]
        assert offered == [name]
    assert mail.sessions(opened).sessions == (MailboxCounts(BOX, 0, 0, 0, WAITERS, 0, 0),)


def test_a_waiter_gets_what_a_producer_sends_that_was_stopped_inside_its_transaction_and_goes_on(
    opened: Store, nursery: MailProcesses
) -> None:
    (waiter,) = sleeping(nursery, 1)
    producer = nursery.start("stopping_producer", "late")
    nursery.stopped(producer)
    assert got(nursery) == []
    os.kill(producer, signal.SIGCONT)
    assert [nursery.bury(child) for child in (producer, waiter)] == [0, 0]
    assert got(nursery) == ["late"]


def test_a_waiter_gets_the_next_message_when_a_stopped_producer_dies_in_its_transaction(opened: Store, nursery: MailProcesses) -> None:
    (waiter,) = sleeping(nursery, 1)
    producer = nursery.start("stopping_producer", "never")
    nursery.stopped(producer)
    assert nursery.end(producer) == KILLED
    mail.enqueue(opened, message("next"))
    assert nursery.bury(waiter) == 0
    assert got(nursery) == ["next"]
    assert mail.enqueue(opened, message("never")).queued


def test_a_waiter_that_is_stopped_while_it_sleeps_keeps_nobody_waiting_and_gets_the_next(opened: Store, nursery: MailProcesses) -> None:
    stopped, other = sleeping(nursery, 2)
    os.kill(stopped, signal.SIGSTOP)
    nursery.stopped(stopped)
    mail.enqueue(opened, message("first"))
    assert nursery.bury(other) == 0
    assert got(nursery) == ["first"]
    mail.enqueue(opened, message("second"))
    os.kill(stopped, signal.SIGCONT)
    assert nursery.bury(stopped) == 0
    assert got(nursery) == ["first", "second"]


def test_waiters_that_are_killed_in_their_sleep_hold_nothing(opened: Store, nursery: MailProcesses) -> None:
    *dead, survivor = sleeping(nursery, WAITERS)
    assert [nursery.end(child) for child in dead] == [KILLED] * (WAITERS - 1)
    mail.enqueue(opened, message("first"))
    assert nursery.bury(survivor) == 0
    assert got(nursery) == ["first"]
    assert mail.enqueue(opened, message("second")).queued
    late = mail.dequeue(opened, BOX)
    assert late is not None
    assert (late.message.msg_id, late.message.attempt) == ("second", 0)
    mail.ack(opened, BOX, "second")
    assert mail.sessions(opened).sessions == (MailboxCounts(BOX, 0, 0, 0, 2, 0, 0),)


def test_waiters_that_are_killed_as_the_messages_come_lose_none(opened: Store, nursery: MailProcesses) -> None:
    waiters = sleeping(nursery, WAITERS)
    ids = [str(nth) for nth in range(WAITERS)]
    for nth, child in enumerate(waiters):
        mail.enqueue(opened, message(ids[nth], sender=f"sender-{nth}"))
        if nth % 2:
            nursery.end(child)
    heirs = [nursery.start("waiter", f"heir-{nth}") for nth in range(WAITERS)]
    settled = {"pending": 0}

    def all_taken() -> bool:
        (counts,) = mail.sessions(opened).sessions
        settled.update(pending=counts.pending, in_flight=counts.in_flight, acked=counts.acked)
        return counts.pending == 0 and counts.acked + counts.in_flight == WAITERS

    assert eventually(all_taken), settled
    for child in [*waiters[::2], *heirs]:
        nursery.end(child)
    states = {msg_id: mail.show(opened, msg_id).state for msg_id in ids}
    assert set(states.values()) <= {"acked", "in_flight"}
    for msg_id, state in states.items():
        if state == "in_flight":  # whoever took it died before it could say so; anybody may speak for it
            assert mail.ack(opened, BOX, msg_id).changed
    assert mail.sessions(opened).sessions == (MailboxCounts(BOX, 0, 0, 0, WAITERS, 0, 0),)
