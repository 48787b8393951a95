"""Waiting: a sleeper is woken by what it waits for, and by nothing else. Real time, and real writers meanwhile."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from postroom import work
from postroom.core.errors import InvalidInput, InvalidState, LeaseHeld, LeaseLost, NotFound
from postroom.store.interface import Store
from tests.contract.blocking_store import LONG, BlockingStore, eventually
from tests.contract.thread_data import asking, ended, everything, held, latest, lease_of, sent, status_of

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


# wait_reply


def test_a_reply_wakes_its_waiter(live: Store, sleeper: Make) -> None:
    asked = asking(live)
    thread_id = asked.thread.thread_id
    reply = work.wait_reply(
        sleeper(lambda: work.reply(live, thread_id, sender="leader", summary="Blue", body="Like the sky")),
        thread_id,
        agent="builder",
        timeout_seconds=LONG,
    )
    assert reply.woke
    assert reply.message == work.show(live, thread_id).messages[-1]
    assert reply.message is not None
    assert (reply.message.summary, reply.next_event_id) == ("Blue", reply.message.event_id)


def test_a_reply_that_came_first_is_found_without_sleeping(live: Store, sleeper: Make) -> None:
    thread_id = asking(live).thread.thread_id
    work.reply(live, thread_id, sender="leader", summary="Blue")
    waiter = sleeper()
    reply = work.wait_reply(waiter, thread_id, timeout_seconds=LONG)
    assert (reply.woke, waiter.sleeps) == (True, [])


def test_a_wait_that_times_out_says_so_and_keeps_its_cursor(live: Store) -> None:
    asked = asking(live)
    reply = work.wait_reply(live, asked.thread.thread_id, agent="builder", timeout_seconds=SHORT)
    assert (reply.woke, reply.message, reply.next_event_id) == (False, None, asked.next_event_id)


def test_without_a_cursor_a_wait_starts_after_the_latest_question(live: Store) -> None:
    thread_id = asking(live, question="First?").thread.thread_id
    work.reply(live, thread_id, sender="leader", summary="An old answer")
    asked = work.update(live, thread_id, agent="builder", status="blocked", summary="Second?")
    reply = work.wait_reply(live, thread_id, timeout_seconds=SHORT)
    assert (reply.woke, reply.next_event_id) == (False, asked.next_event_id)


def test_a_cursor_is_exclusive_and_goes_from_one_reply_to_the_next(live: Store) -> None:
    asked = asking(live)
    thread_id = asked.thread.thread_id
    for summary in ("One", "Two"):
        work.reply(live, thread_id, sender="leader", summary=summary)
    cursor, found = asked.next_event_id, []
    for _ in range(2):
        reply = work.wait_reply(live, thread_id, after_event=cursor, timeout_seconds=LONG)
        assert reply.message is not None
        found.append(reply.message.summary)
        cursor = reply.next_event_id
    assert found == ["One", "Two"]
    assert not work.wait_reply(live, thread_id, after_event=cursor, timeout_seconds=SHORT).woke


def test_a_wait_can_start_after_a_message(live: Store) -> None:
    thread_id = asking(live).thread.thread_id
    first = work.reply(live, thread_id, sender="leader", summary="One")
    work.reply(live, thread_id, sender="leader", summary="Two")
    reply = work.wait_reply(live, thread_id, after_message=first.message.message_id, timeout_seconds=LONG)
    assert reply.message is not None
    assert reply.message.summary == "Two"


def test_what_is_no_reply_does_not_end_the_wait(live: Store, sleeper: Make) -> None:
    thread_id, elsewhere = asking(live).thread.thread_id, asking(live).thread.thread_id
    waiter = sleeper(
        lambda: work.reply(live, elsewhere, sender="leader", summary="Not for you"),
        lambda: work.reply(live, thread_id, sender="leader", kind="progress", summary="Thinking"),
        lambda: work.reply(live, thread_id, sender="leader", summary="Blue"),
    )
    reply = work.wait_reply(waiter, thread_id, timeout_seconds=LONG)
    assert reply.message is not None
    assert reply.message.summary == "Blue"


def test_the_kinds_waited_for_can_be_chosen(live: Store) -> None:
    thread_id = asking(live).thread.thread_id
    work.reply(live, thread_id, sender="leader", summary="Blue")
    work.reply(live, thread_id, sender="leader", kind="progress", summary="Thinking")
    reply = work.wait_reply(live, thread_id, kinds=["progress"], timeout_seconds=LONG)
    assert reply.message is not None
    assert reply.message.kind == "progress"


def test_a_creator_waits_for_the_result(live: Store, sleeper: Make) -> None:
    thread_id = held(live).thread.thread_id
    waiter = sleeper(lambda: work.done(live, thread_id, agent="builder", summary="Built"))
    reply = work.wait_reply(waiter, thread_id, agent="leader", kinds=["result"], timeout_seconds=LONG)
    assert reply.message is not None
    assert reply.message.summary == "Built"


def test_a_waiting_worker_is_told_of_a_cancellation(live: Store, sleeper: Make) -> None:
    asked = asking(live)
    thread_id = asked.thread.thread_id
    token = work.renew(live, thread_id, agent="builder").lease.lease_token
    waiter = sleeper(lambda: work.cancel(live, thread_id, agent="leader", reason="Not wanted"))
    reply = work.wait_reply(waiter, thread_id, agent="builder", lease_token=token, timeout_seconds=LONG)
    assert reply.message is not None
    assert (reply.message.kind, reply.message.summary) == ("control", "Not wanted")


def test_a_worker_is_told_of_a_cancellation_that_came_before_it_waits(live: Store) -> None:
    asked = asking(live)
    token = work.renew(live, asked.thread.thread_id, agent="builder").lease.lease_token
    work.cancel(live, asked.thread.thread_id, agent="leader", reason="Not wanted")
    reply = work.wait_reply(live, asked.thread.thread_id, agent="builder", lease_token=token, timeout_seconds=LONG)
    assert reply.message is not None
    assert reply.message.kind == "control"


def test_a_thread_that_ended_without_such_a_reply_is_not_waited_for(live: Store, sleeper: Make) -> None:
    with pytest.raises(InvalidState):
        work.wait_reply(live, ended(live), kinds=["answer"])
    asked = asking(live).thread.thread_id
    with pytest.raises(InvalidState):
        work.wait_reply(sleeper(lambda: work.cancel(live, asked, agent="leader")), asked, kinds=["answer"])


def test_a_waiting_holder_renews_its_lease_for_as_long_as_it_waits(live: Store, sleeper: Make) -> None:
    claimed = held(live, lease_seconds=0.6)
    thread_id = claimed.thread.thread_id
    seen: set[str] = set()

    def renewed() -> bool:
        seen.add(lease_of(live, thread_id).expires_at)
        return len(seen) > 4

    def watch_and_answer() -> None:
        eventually(renewed)
        work.reply(live, thread_id, sender="leader", summary="Blue")

    reply = work.wait_reply(sleeper(watch_and_answer), thread_id, agent="builder", timeout_seconds=LONG)
    assert reply.woke
    assert len(seen) > 4
    assert work.holds_lease(live, thread_id, agent="builder", lease_token=claimed.lease.lease_token)
    assert not work.holds_lease(live, thread_id, agent="other", lease_token=claimed.lease.lease_token)


def test_somebody_else_who_waits_does_not_renew(live: Store) -> None:
    asked = asking(live)
    before = lease_of(live, asked.thread.thread_id)
    work.wait_reply(live, asked.thread.thread_id, agent="leader", timeout_seconds=SHORT)
    work.wait_reply(live, asked.thread.thread_id, timeout_seconds=SHORT)
    assert lease_of(live, asked.thread.thread_id) == before


def test_waiting_writes_no_event_and_leaves_the_thread_as_it_is(live: Store) -> None:
    asked = asking(live)
    work.wait_reply(live, asked.thread.thread_id, agent="builder", timeout_seconds=SHORT)
    assert (latest(live), status_of(live, asked.thread.thread_id)) == (asked.next_event_id, "blocked")


def test_a_holder_whose_thread_is_taken_over_while_it_waits_is_told(live: Store, sleeper: Make) -> None:
    thread_id = asking(live).thread.thread_id
    waiter = sleeper(lambda: work.claim(live, thread_id, agent="builder", takeover=True))
    with pytest.raises(LeaseLost):
        work.wait_reply(waiter, thread_id, agent="builder", timeout_seconds=LONG)
    assert work.show(live, thread_id).lease is not None


def test_a_holder_that_was_replaced_before_it_waits_is_told(live: Store) -> None:
    old = held(live)
    work.claim(live, old.thread.thread_id, agent="builder", takeover=True)
    with pytest.raises(LeaseLost):
        work.wait_reply(live, old.thread.thread_id, agent="builder", lease_token=old.lease.lease_token, timeout_seconds=LONG)


@pytest.mark.parametrize(
    "how",
    [
        {"kinds": ["gossip"]},
        {"kinds": []},
        {"timeout_seconds": -1},
        {"timeout_seconds": float("nan")},
        {"after_event": -1},
        {"after_event": 10**6},
        {"after_event": 1, "after_message": "msg_x"},
    ],
)
@pytest.mark.input_check
def test_a_malformed_wait_is_refused(live: Store, how: dict[str, object]) -> None:
    thread_id = asking(live).thread.thread_id
    before = everything(live)
    with pytest.raises(InvalidInput):
        work.wait_reply(live, thread_id, **{"timeout_seconds": SHORT, **how})  # type: ignore[arg-type]
    assert everything(live) == before


def test_a_wait_for_what_is_not_there_is_refused(live: Store) -> None:
    thread_id, elsewhere = sent(live), work.send(live, sender="leader", to="builder", subject="Other")
    with pytest.raises(NotFound):
        work.wait_reply(live, "thr_nowhere", timeout_seconds=SHORT)
    for message_id in ("msg_nowhere", elsewhere.message.message_id):
        with pytest.raises(NotFound):
            work.wait_reply(live, thread_id, after_message=message_id, timeout_seconds=SHORT)


# In other processes

WAITER = """
import sys, postroom
from postroom import work
from tests.contract.blocking_store import BlockingStore
store = BlockingStore(postroom.open(sys.argv[1]), lambda: print("ASLEEP", flush=True))
print(eval(sys.argv[2]), flush=True)
store.close()
"""


def waiting_process(place: str, expression: str) -> subprocess.Popen[str]:
    """A process that has looked and is about to sleep."""
    child = subprocess.Popen([sys.executable, "-c", WAITER, place, expression], stdout=subprocess.PIPE, text=True, cwd=ROOT)
    assert child.stdout is not None
    assert child.stdout.readline() == "ASLEEP\n"
    return child


@pytest.mark.needs_the_store("a process of its own opens the file; test_verbs.py has the like for servers")
def test_a_reply_wakes_a_waiter_in_another_process(live: Store, place: str) -> None:
    thread_id = asking(live).thread.thread_id
    child = waiting_process(place, f"work.wait_reply(store, {thread_id!r}, agent='builder', timeout_seconds=30).message.summary")
    work.reply(live, thread_id, sender="leader", summary="Blue")
    assert child.communicate(timeout=LONG)[0] == "Blue\n"


@pytest.mark.needs_the_store("a process of its own opens the file; test_verbs.py has the like for servers")
def test_one_thread_wakes_many_takers_and_goes_to_one(live: Store, place: str) -> None:
    children = [waiting_process(place, "work.wait_take(store, agent='builder', timeout_seconds=1.5)") for _ in range(3)]
    thread_id = sent(live)
    answers = [child.communicate(timeout=LONG)[0] for child in children]
    assert sorted(thread_id in answer for answer in answers) == [False, False, True]
    assert answers.count("None\n") == 2


# wait_take


def test_what_waits_already_is_taken_without_sleeping(live: Store, sleeper: Make) -> None:
    thread_id, waiter = sent(live), sleeper()
    claimed = work.wait_take(waiter, agent="builder", timeout_seconds=LONG)
    assert claimed is not None
    assert (claimed.thread.thread_id, waiter.sleeps) == (thread_id, [])


@pytest.mark.parametrize("how", ["sent", "released"])
def test_a_taker_wakes_for_what_is_sent_or_given_back(live: Store, sleeper: Make, how: str) -> None:
    thread_id = held(live, agent="other").thread.thread_id if how == "released" else "thr_new"

    def act() -> None:
        if how == "released":
            work.release(live, thread_id, agent="other", to="builder")
        else:
            work.send(live, sender="leader", to="builder", subject="Build", thread_id=thread_id)

    claimed = work.wait_take(sleeper(act), agent="builder", lease_seconds=60, timeout_seconds=LONG)
    assert claimed is not None
    assert (claimed.thread.thread_id, claimed.lease.lease_seconds) == (thread_id, 60)


def test_a_taker_wakes_for_the_answer_to_a_thread_that_was_given_back_until_then(live: Store, sleeper: Make) -> None:
    thread_id = asking(live).thread.thread_id
    work.release(live, thread_id, agent="builder", until_answered=True)
    answer = lambda: work.reply(live, thread_id, sender="leader", summary="Blue")  # noqa: E731
    claimed = work.wait_take(sleeper(answer), agent="builder", timeout_seconds=LONG)
    assert claimed is not None
    assert claimed.thread.thread_id == thread_id


def test_a_taker_wakes_when_a_lease_runs_out_though_nobody_rings(live: Store, sleeper: Make) -> None:
    thread_id = held(live, agent="dead", lease_seconds=0.3).thread.thread_id
    waiter = sleeper()
    claimed = work.wait_take(waiter, agent="builder", timeout_seconds=LONG)
    assert claimed is not None
    assert (claimed.thread.thread_id, claimed.lease.agent_id) == (thread_id, "builder")
    assert waiter.sleeps
    assert all(seconds is not None and seconds <= 0.3 for seconds in waiter.sleeps)  # it slept no longer than the lease lasts


def test_a_taker_does_not_take_a_lease_that_is_renewed_meanwhile(live: Store, sleeper: Make) -> None:
    thread_id = held(live, agent="alive", lease_seconds=0.3).thread.thread_id
    waiter = sleeper(lambda: work.renew(live, thread_id, agent="alive", lease_seconds=900))
    assert work.wait_take(waiter, agent="builder", timeout_seconds=1) is None
    with pytest.raises(LeaseHeld):
        work.claim(live, thread_id, agent="builder")


def test_a_taker_that_times_out_takes_nothing(live: Store) -> None:
    sent(live, to="other")
    before = everything(live)
    assert work.wait_take(live, agent="builder", timeout_seconds=SHORT) is None
    assert everything(live) == before


@pytest.mark.parametrize("how", [{"lease_seconds": 0}, {"lease_seconds": -1}, {"timeout_seconds": -1}, {"agent": ""}])
def test_a_malformed_wait_to_take_is_refused(live: Store, how: dict[str, object]) -> None:
    with pytest.raises(InvalidInput):
        work.wait_take(live, **{"agent": "builder", "timeout_seconds": SHORT, **how})  # type: ignore[arg-type]


def test_a_reply_that_was_waited_for_is_read(live: Store) -> None:
    asked = asking(live).thread.thread_id
    work.reply(live, asked, sender="leader", summary="This one")
    assert asked in unread(live, "builder")
    work.wait_reply(live, asked, agent="builder", timeout_seconds=LONG)
    assert asked not in unread(live, "builder")


def test_a_reply_is_left_unread_for_a_caller_that_marks_it_later(live: Store) -> None:
    asked = asking(live).thread.thread_id
    work.reply(live, asked, sender="leader", summary="This one")
    work.wait_reply(live, asked, agent="builder", timeout_seconds=LONG, mark=False)
    assert asked in unread(live, "builder")


def unread(store: Store, agent: str) -> list[str]:
    return [candidate.thread.thread_id for candidate in work.fetch(store, agent=agent, unread=True).candidates]
