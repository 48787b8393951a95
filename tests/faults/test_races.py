"""Races, staged with real processes that stand at a barrier: of any number of claimers one wins."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import pytest

from postroom import work
from postroom.store.interface import Store
from tests.contract.thread_data import events, held, sent, status_of, thread_of
from tests.faults.children import BarrierProcess
from tests.faults.inspection import assert_no_lock, assert_sound

# Each line that it is told is a Python expression to be run at once; it says what came of it.
RACER = """
store = postroom.open(sys.argv[1])
me = sys.argv[2]
say("READY")
for line in sys.stdin:
    try:
        say(eval(line))
    except Refusal as refusal:
        say(type(refusal).__name__)
"""


@contextmanager
def racers(place: str, names: list[str]) -> Iterator[list[BarrierProcess]]:
    with ExitStack() as stack:
        children = [stack.enter_context(BarrierProcess(RACER, place, name)) for name in names]
        for child in children:
            child.ready()
        yield children


def race(children: list[BarrierProcess], *expressions: str) -> list[str]:
    """Let all run at once, each its expression, or all the same."""
    for number, child in enumerate(children):
        child.tell(expressions[number % len(expressions)])
    return [child.line() for child in children]


@pytest.mark.parametrize("names", [[f"worker-{number}" for number in range(12)], ["worker"] * 12], ids=["different names", "one name"])
def test_of_twelve_processes_that_claim_one_thread_one_wins(store: Store, place: str, names: list[str]) -> None:
    with racers(place, names) as children:
        for _ in range(15):
            thread_id = sent(store, to="worker")
            answers = race(children, f"'won ' + work.claim(store, {thread_id!r}, agent=me).lease.lease_token")
            (won,) = [answer for answer in answers if answer.startswith("won ")]
            lease = work.show(store, thread_id).lease
            assert lease is not None
            assert (lease.lease_token, lease.agent_id) == (won[4:], names[answers.index(won)])
            assert Counter(answers)["LeaseHeld"] == 11
            assert [event.event_type for event in events(store) if event.thread_id == thread_id] == ["thread.created", "thread.claimed"]
    assert_sound(place)


def test_of_twelve_processes_that_claim_what_lapsed_one_wins(store: Store, place: str) -> None:
    with racers(place, [f"worker-{number}" for number in range(12)]) as children:
        for _ in range(10):
            thread_id = held(store, agent="dead", lease_seconds=0.000001).thread.thread_id
            answers = race(children, f"'won ' + work.claim(store, {thread_id!r}, agent=me).lease.agent_id")
            assert sorted(Counter(answers).values()) == [1, 11]
            assert "won " + thread_of(store, thread_id).assigned_to in answers


def test_eight_processes_take_forty_threads_each_exactly_once(store: Store, place: str) -> None:
    sent_ids = [sent(store, to="worker", priority=("low", "normal", "high")[number % 3]) for number in range(40)]
    every = "[c.thread.thread_id for c in iter(lambda: work.take(store, agent='worker'), None)]"
    with racers(place, ["worker"] * 8) as children:
        answers = race(children, every)
    taken = [thread_id for answer in answers for thread_id in eval(answer)]
    assert sorted(taken) == sorted(sent_ids)
    assert work.fetch(store, agent="worker").candidates == ()
    assert {thread.status for thread in work.list_threads(store).threads} == {"claimed"}
    assert_sound(place)


def test_eight_processes_that_finish_one_and_take_the_next_do_each_once(store: Store, place: str) -> None:
    sent_ids = [sent(store, to="worker") for _ in range(40)]
    program = (
        "(lambda f: f(f, work.take(store, agent='worker'), []))"
        "(lambda f, c, seen: seen if c is None else f(f, postroom.tasks.done_and_take(store, c.thread.thread_id, agent='worker',"
        " lease_token=c.lease.lease_token)[1], seen + [c.thread.thread_id]))"
    )
    with racers(place, ["worker"] * 8) as children:
        answers = race(children, program)
    assert sorted(thread_id for answer in answers for thread_id in eval(answer)) == sorted(sent_ids)
    assert {thread.status for thread in work.list_threads(store).threads} == {"done"}
    assert_sound(place)


@pytest.mark.parametrize("verb", ["done", "update", "renew", "fail", "release"])
def test_a_replaced_owner_never_writes_after_its_successor_has_claimed(store: Store, place: str, verb: str) -> None:
    """The old owner acts at the very moment at which another process takes the thread over: one order or the other."""
    with racers(place, ["worker", "worker"]) as children:
        for _ in range(15):
            old = held(store, agent="worker")
            thread_id, token = old.thread.thread_id, old.lease.lease_token
            act = f"work.{verb}(store, {thread_id!r}, agent=me, lease_token={token!r}) and 'wrote'"
            take = f"work.claim(store, {thread_id!r}, agent=me, takeover=True) and 'took'"
            answers = race(children, act, take)
            mine = [event.event_type for event in events(store) if event.thread_id == thread_id][2:]
            if answers == ["LeaseLost", "took"]:
                assert mine == ["thread.claimed"]
            elif answers == ["wrote", "took"]:
                assert mine[-1] == "thread.claimed"
            else:  # the thread had ended before anyone could take it over
                assert answers == ["wrote", "InvalidState"]
                assert verb in ("done", "fail")


def test_of_many_processes_that_end_one_thread_one_does(store: Store, place: str) -> None:
    with racers(place, ["worker"] * 6) as children:
        for _ in range(8):
            thread_id = held(store, agent="worker").thread.thread_id
            acts = [f"work.{verb}(store, {thread_id!r}, agent=me) and 'ended'" for verb in ("done", "fail", "cancel")]
            answers = race(children, *acts)
            assert sorted(answers) == ["InvalidState"] * 5 + ["ended"]
            assert len(work.show(store, thread_id).messages) == 2
            assert status_of(store, thread_id) == {0: "done", 1: "failed", 2: "cancelled"}[answers.index("ended") % 3]


def test_every_message_of_many_senders_is_kept_in_one_order(store: Store, place: str) -> None:
    thread_id = sent(store)
    say = f"[work.reply(store, {thread_id!r}, sender=me, kind='progress', summary=str(n)).next_event_id for n in range(20)]"
    with racers(place, [f"sender-{number}" for number in range(6)]) as children:
        answers = race(children, say)
    ids = [event_id for answer in answers for event_id in eval(answer)]
    messages = work.show(store, thread_id, limit=1000).messages[1:]
    assert sorted(ids) == [message.event_id for message in messages]
    for number in range(6):
        assert [message.summary for message in messages if message.from_agent == f"sender-{number}"] == [str(n) for n in range(20)]
    assert_sound(place)
    assert_no_lock(place)
