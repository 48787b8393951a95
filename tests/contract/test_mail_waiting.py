"""Waiting for mail: a sleeper wakes for a message, for a retry, for a delivery nobody finished, for a head that ended."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from postroom import mail
from postroom.core import clock as time
from postroom.core.errors import InvalidInput
from postroom.core.records.mail import Delivery
from postroom.store.interface import Store
from tests.conftest import Clock, open_with
from tests.contract.blocking_store import LONG, BlockingStore
from tests.contract.mail_data import BOX, everything, held, message, post, state_of, taken

pytestmark = pytest.mark.travels("http", "unix", "ws")
SHORT = 0.05
ROOT = Path(__file__).parents[2]
Make = Callable[..., BlockingStore]


@pytest.fixture
def live(connect: Callable[[], Store]) -> Store:
    """A store with the time of day: waiting is the one thing that a test's clock cannot do."""
    return connect()


@pytest.fixture
def sleeper(connect: Callable[[], Store]) -> Iterator[Make]:
    """Another connection to the same store, for whoever sleeps."""
    opened: list[BlockingStore] = []

    def make(*acts: Callable[[], object]) -> BlockingStore:
        opened.append(BlockingStore(connect(), *acts))
        return opened[-1]

    yield make
    for one in opened:
        one.close()


def waited(store: Store, session: str = BOX, **how: Any) -> Delivery:
    delivery = mail.wait(store, session, **{"timeout_seconds": LONG, **how})
    assert delivery is not None
    return delivery


# Messages that end a wait


def test_what_is_there_already_is_taken_without_sleeping(live: Store, sleeper: Make) -> None:
    msg_id, waiter = post(live), sleeper()
    delivery = waited(waiter, receiver="worker 1")
    assert (delivery.message.msg_id, waiter.sleeps) == (msg_id, [])
    assert mail.show(live, msg_id).steps[-1].facts["receiver"] == "worker 1"
    assert mail.ack(live, BOX, msg_id, delivery_token=delivery.delivery_token).changed


@pytest.mark.parametrize("timeout", [0, LONG])
def test_a_message_wakes_its_waiter(live: Store, sleeper: Make, timeout: float) -> None:
    waiter = sleeper(lambda: post(live, "wake up"))
    assert waited(waiter, timeout_seconds=timeout).message.payload == "wake up"
    assert waiter.sleeps


def test_a_message_to_an_alias_wakes_the_sessions_waiter(live: Store, sleeper: Make) -> None:
    mail.set_alias(live, "nick", BOX)
    assert waited(sleeper(lambda: post(live, "wake up", to="nick"))).message.payload == "wake up"


def test_what_is_for_others_does_not_end_the_wait(live: Store, sleeper: Make) -> None:
    waiter = sleeper(lambda: (post(live, "not yours", to="other"), post(live, "yours")))
    assert waited(waiter).message.payload == "yours"
    assert mail.peek(live, "other").messages[0].state == "pending"


def test_a_dead_letter_that_is_retried_wakes_a_waiter(live: Store, sleeper: Make) -> None:
    mail.set_policy(live, BOX, max_retries=0)
    scene = held(live)
    mail.nack(live, BOX, scene.msg_id)
    delivery = waited(sleeper(lambda: mail.retry_dead_letter(live, BOX)))
    assert (delivery.message.msg_id, delivery.message.attempt) == (scene.msg_id, 0)


# Due messages, without a notification


def test_a_waiter_wakes_when_a_retry_falls_due(live: Store, sleeper: Make) -> None:
    mail.set_policy(live, BOX, base_backoff_secs=0.3)
    scene = held(live)
    mail.nack(live, BOX, scene.msg_id)
    delivery = waited(sleeper())
    assert (delivery.message.msg_id, delivery.message.attempt) == (scene.msg_id, 1)


def test_a_waiter_is_told_of_a_retry_that_becomes_due_while_it_sleeps(live: Store, sleeper: Make) -> None:
    mail.set_policy(live, BOX, base_backoff_secs=0.05)
    scene = held(live)
    waiter = sleeper(lambda: mail.nack(live, BOX, scene.msg_id))
    assert waited(waiter).message.attempt == 1


def test_a_waiter_wakes_when_a_delivery_times_out(live: Store, sleeper: Make) -> None:
    mail.set_policy(live, BOX, base_backoff_secs=0.05, inflight_timeout_secs=0.3)
    scene = held(live)
    delivery = waited(sleeper())
    assert (delivery.message.msg_id, delivery.message.attempt) == (scene.msg_id, 1)
    assert delivery.delivery_token != scene.token


def test_a_waiter_wakes_when_the_head_before_its_message_expires(live: Store, sleeper: Make, place: str) -> None:
    mail.set_policy(live, BOX, inflight_timeout_secs=10_000)
    clock = Clock()
    clock.advance(-1000)
    with open_with(place, clock) as long_ago:
        post(long_ago, "old")
        taken(long_ago)
    post(live, "young")
    age = (time.now() - clock.instant) / time.MICROSECONDS_PER_SECOND
    mail.set_policy(live, BOX, ttl_secs=age + 0.5)
    assert waited(sleeper()).message.payload == "young"


ENDS: dict[str, Callable[[Store, str], object]] = {
    "is acked": lambda store, msg_id: mail.ack(store, BOX, msg_id),
    "dies": lambda store, msg_id: mail.nack(store, BOX, msg_id),
    "is purged": lambda store, msg_id: (mail.purge(store, BOX), post(store, "second")),
}


@pytest.mark.parametrize("end", ENDS.values(), ids=ENDS.keys())
def test_a_waiter_wakes_when_the_head_before_its_message_ends(live: Store, sleeper: Make, end: Callable[[Store, str], object]) -> None:
    mail.set_policy(live, BOX, max_retries=0)
    scene = held(live)
    post(live, "second")
    assert waited(sleeper(lambda: end(live, scene.msg_id))).message.payload == "second"


def test_a_waiter_wakes_for_the_next_when_a_last_delivery_times_out(live: Store, sleeper: Make) -> None:
    mail.set_policy(live, BOX, max_retries=0, inflight_timeout_secs=0.3)
    scene = held(live)
    post(live, "second")
    assert waited(sleeper()).message.payload == "second"
    assert state_of(live, scene.msg_id) == "dead_letter"


# Waits without a message


def test_when_the_time_is_over_there_is_none_and_nothing_was_changed(live: Store) -> None:
    post(live, to="other")
    before = everything(live)
    assert mail.wait(live, BOX, timeout_seconds=SHORT) is None
    assert everything(live) == before


def test_a_waiter_never_takes_what_is_in_flight(live: Store) -> None:
    scene = held(live)
    post(live, "behind it")
    assert mail.wait(live, BOX, timeout_seconds=SHORT) is None
    assert mail.ack(live, BOX, scene.msg_id, delivery_token=scene.token).changed


def test_a_waiter_does_not_take_what_waits_for_its_retry(live: Store) -> None:
    scene = held(live)
    mail.nack(live, BOX, scene.msg_id)
    assert mail.wait(live, BOX, timeout_seconds=SHORT) is None
    assert state_of(live, scene.msg_id) == "nacked"


def test_a_waiter_does_not_take_a_delivery_that_is_extended_meanwhile(live: Store, sleeper: Make) -> None:
    mail.set_policy(live, BOX, inflight_timeout_secs=10, base_backoff_secs=0)
    scene = held(live)
    mail.extend(live, BOX, scene.msg_id, seconds=0.5)
    waiter = sleeper(lambda: mail.extend(live, BOX, scene.msg_id, seconds=900, delivery_token=scene.token))
    assert mail.wait(waiter, BOX, timeout_seconds=1) is None
    assert mail.ack(live, BOX, scene.msg_id, delivery_token=scene.token).changed


def test_an_idle_waiter_sleeps_until_something_can_happen(live: Store, sleeper: Make) -> None:
    held(live)
    waiter = sleeper(lambda: post(live, sender="bob"))
    waited(waiter)
    assert len(waiter.sleeps) < 5  # it looked when it was woken, and not in a loop


@pytest.mark.parametrize("how", [{"timeout_seconds": -1}, {"timeout_seconds": float("nan")}, {"receiver": "a\nb"}])
def test_a_malformed_wait_is_refused(live: Store, how: dict[str, Any]) -> None:
    msg_id = post(live)
    with pytest.raises(InvalidInput):
        mail.wait(live, BOX, **how)
    assert state_of(live, msg_id) == "pending"


# Several, and in other processes

WAITER = """
import sys, postroom
from postroom import mail
from tests.contract.blocking_store import BlockingStore
store = BlockingStore(postroom.open(sys.argv[1]), lambda: print("ASLEEP", flush=True))
delivery = mail.wait(store, "box", timeout_seconds=float(sys.argv[2]))
print(delivery and delivery.message.payload, flush=True)
store.close()
"""
SENDER = """
import sys, postroom
from postroom import mail
mail.enqueue(postroom.open(sys.argv[1]), {"from": "ann", "to": "box", "payload": "from another process"})
"""


def waiting_process(place: str, seconds: float = 30) -> subprocess.Popen[str]:
    """A process that has looked and is about to sleep."""
    child = subprocess.Popen([sys.executable, "-c", WAITER, place, str(seconds)], stdout=subprocess.PIPE, text=True, cwd=ROOT)
    assert child.stdout is not None
    assert child.stdout.readline() == "ASLEEP\n"
    return child


@pytest.mark.needs_the_store("a process of its own opens the file; test_verbs.py has the like for servers")
def test_a_message_wakes_a_waiter_in_another_process(live: Store, place: str) -> None:
    child = waiting_process(place)
    post(live, "wake up")
    assert child.communicate(timeout=LONG)[0] == "wake up\n"


@pytest.mark.needs_the_store("a process of its own opens the file; test_verbs.py has the like for servers")
def test_a_message_from_another_process_wakes_a_waiter(place: str, sleeper: Make) -> None:
    waiter = sleeper(lambda: subprocess.run([sys.executable, "-c", SENDER, place], check=True, cwd=ROOT))
    assert waited(waiter).message.payload == "from another process"


@pytest.mark.needs_the_store("a process of its own opens the file; test_verbs.py has the like for servers")
def test_one_message_wakes_many_and_goes_to_one(live: Store, place: str) -> None:
    children = [waiting_process(place, 2) for _ in range(3)]
    post(live, "for one of you")
    answers = sorted(child.communicate(timeout=LONG)[0] for child in children)
    assert answers == ["None\n", "None\n", "for one of you\n"]


def test_many_waiters_share_many_messages_and_none_comes_twice(live: Store, connect: Callable[[], Store]) -> None:
    got: list[str] = []

    def receive() -> None:
        with closing(connect()) as store:
            while (delivery := mail.wait(store, BOX, timeout_seconds=LONG)) is not None:
                if delivery.message.payload != "stop":
                    got.append(delivery.message.payload)  # before it is acked: then the next of its sender may be another's at once
                mail.ack(store, BOX, delivery.message.msg_id, delivery_token=delivery.delivery_token)
                if delivery.message.payload == "stop":
                    return

    receivers = [threading.Thread(target=receive) for _ in range(3)]
    for receiver in receivers:
        receiver.start()
    for number in range(30):
        mail.enqueue(live, message(str(number), sender=f"sender {number % 5}"))
    for number in range(3):
        post(live, "stop", sender=f"stopper {number}", created_at=time.now() // time.MICROSECONDS_PER_SECOND + 10)
    for receiver in receivers:
        receiver.join(LONG)
    assert sorted(got, key=int) == [str(number) for number in range(30)]
    for sender in range(5):
        assert sorted(mine := [int(one) for one in got if int(one) % 5 == sender]) == mine
