"""SIGKILL of producers and consumers at any moment: every accepted message is somewhere, none is stuck, and nothing is wedged."""

from __future__ import annotations

import random
import threading
from collections import Counter, defaultdict
from contextlib import closing
from itertools import count, pairwise
from pathlib import Path

import pytest

import postroom
from postroom import mail
from postroom.core.errors import NotFound
from postroom.core.records.mail import MailReceipt
from postroom.store.interface import Store
from tests.conftest import Clock, open_with
from tests.contract.blocking_store import eventually
from tests.faults.inspection import assert_no_lock
from tests.faults.mail_children import BOX, KILLED, VERBS, MailProcesses, assert_sound, everything, message

ALIVE = ("pending", "in_flight", "nacked")
KILLS = {"sqlite": 50, "postgres": 40}  # of each seed
MORE_SEEDS = (3, 4, 5, 6)


class Pool:
    """Three producers and three consumers that never end; whoever is killed is replaced."""

    def __init__(self, nursery: MailProcesses, seed: int) -> None:
        self._nursery = nursery
        self._moments = random.Random(seed)
        self._names = (f"{number}" for number in count())
        self._children = {role: self._start(role) for role in ("producer-a", "producer-b", "producer-c", "consumer", "second", "third")}

    def _start(self, role: str) -> int:
        name = f"{role}.{next(self._names)}"
        if role.startswith("producer"):
            return self._nursery.start("endless_producer", name, role)
        return self._nursery.start("endless_consumer", name)

    def kill_one(self) -> None:
        before = self._nursery.reports.stat().st_size
        assert eventually(lambda: self._nursery.reports.stat().st_size > before)  # however slow the machine, work is done between kills
        threading.Event().wait(self._moments.uniform(0, 0.02))
        role = self._moments.choice(sorted(self._children))
        assert self._nursery.end(self._children[role]) == KILLED, self._nursery.said("failed")
        self._children[role] = self._start(role)

    def kill_all(self) -> None:
        for child in self._children.values():
            assert self._nursery.end(child) == KILLED, self._nursery.said("failed")


def killed(place: str, folder: Path, *, kills: int, seed: int) -> list[list[str]]:
    """Kill that many at random, and then all; what they said."""
    with MailProcesses(place, folder) as nursery:
        pool = Pool(nursery, seed)
        assert eventually(lambda: bool(nursery.said("acked") and nursery.said("nacked")))  # all is in full swing
        for _ in range(kills):
            pool.kill_one()
        pool.kill_all()
        return nursery.said()


def last_words(store: Store, said: list[list[str]]) -> list[str]:
    """The ids that were stored by producers who died before they could say so: at most the next one of each."""
    numbers = {line[1]: -1 for line in said if line[0] == "begun"}
    numbers |= {name: int(number) for line in said if line[0] == "accepted" for name, number in [line[1].split("/")]}
    return [msg_id for name, number in numbers.items() if known(store, msg_id := f"{name}/{number + 1}")]


def known(store: Store, msg_id: str) -> bool:
    try:
        mail.show(store, msg_id)
    except NotFound:
        return False
    return True


def counted(store: Store) -> Counter[str]:
    (counts,) = mail.sessions(store).sessions
    states = (*ALIVE, "acked", "dead_letter", "expired")
    return Counter({state: getattr(counts, state) for state in states if getattr(counts, state)})


def drained(store: Store) -> list[str]:
    """Take and ack until nothing is left."""
    taken: list[str] = []
    while (got := mail.wait(store, BOX, timeout_seconds=0.01)) is not None:
        taken.append(got.message.msg_id)
        mail.ack(store, BOX, taken[-1], delivery_token=got.delivery_token)
    return taken


@pytest.mark.parametrize(
    ("engine", "seed"),
    [("sqlite", 1), ("sqlite", 2), ("postgres", 1), *(pytest.param("sqlite", seed, marks=pytest.mark.full) for seed in MORE_SEEDS)],
    indirect=["engine"],
    ids=str,
)
def test_whoever_is_killed_every_accepted_message_is_somewhere_and_none_is_stuck(
    place: str, tmp_path: Path, engine: str, seed: int
) -> None:
    with closing(postroom.open(place)) as opened:
        mail.set_policy(opened, BOX, inflight_timeout_secs=0.3, base_backoff_secs=0.01)
    said = killed(place, tmp_path, kills=KILLS[engine], seed=seed)
    assert [line for line in said if line[0] == "failed"] == []
    accepted = [line[1] for line in said if line[0] == "accepted"]
    acked = {line[1] for line in said if line[0] == "acked"}
    assert len(accepted) + len(acked) > KILLS[engine]
    clock = Clock()  # stands still from here on: nothing falls due while we count
    with open_with(place, clock) as store:
        mail.sweep(store)
        ids = accepted + last_words(store, said)
        found = {msg_id: mail.show(store, msg_id) for msg_id in ids}
        assert counted(store) == Counter(receipt.state for receipt in found.values())
        assert set(counted(store)) <= {*ALIVE, "acked", "dead_letter"}
        assert {msg_id for msg_id in acked if found[msg_id].state != "acked"} == set()
        assert mail.peek(store, BOX).total == sum(counted(store)[state] for state in ALIVE)
        clock.advance(3600)
        mail.sweep(store)  # what the dead had in their hands has timed out by now, and its retry is due
        waiting = counted(store)
        assert set(waiting) <= {"pending", "acked", "dead_letter"}
        left = drained(store)
        assert len(left) == waiting["pending"]
        assert_in_order(left)
        assert counted(store) == Counter(acked=waiting["acked"] + waiting["pending"], dead_letter=waiting["dead_letter"]) + Counter()
        assert len(mail.peek_dead_letter(store, BOX, limit=1000).entries) == waiting["dead_letter"]
        if engine == "sqlite":  # a server's transaction takes its time before it waits for its turn
            assert out_of_order({msg_id: mail.show(store, msg_id) for msg_id in ids}) == []
        assert mail.enqueue(store, message("afterwards")).queued
        assert drained(store) == ["afterwards"]
    assert_no_lock(place)
    assert_sound(place)


def sent_as(msg_id: str) -> tuple[str, tuple[int, int]]:
    """The sender of a message, and its place among those of that sender: who replaces another has a later number."""
    sender, born, number = msg_id.replace("/", ".").split(".")
    return f"{sender}-{int(number) % 4}", (int(born), int(number))


def assert_in_order(taken: list[str]) -> None:
    sent = [sent_as(msg_id) for msg_id in taken]
    for sender in {sender for sender, _ in sent}:
        places = [nth for each, nth in sent if each == sender]
        assert places == sorted(places)


def out_of_order(found: dict[str, MailReceipt]) -> list[tuple[str, str]]:
    """Messages that were offered before they were done with the one before them of the same sender. They come as they were sent."""
    pairs: dict[str, dict[tuple[int, int], list[str]]] = defaultdict(dict)
    for msg_id, receipt in found.items():
        sender, nth = sent_as(msg_id)
        pairs[sender][nth] = [step.at for step in receipt.steps if step.step == "offered"]
    wrong = []
    for pair in pairs.values():
        offered = [(nth, pair[nth]) for nth in sorted(pair) if pair[nth]]
        wrong += [(str(first), str(then)) for (first, early), (then, late) in pairwise(offered) if max(early) > min(late)]
    return wrong


def prepared(place: str, verb: str) -> str:
    """The id of a message that the verb can be done to."""
    with closing(postroom.open(place)) as store:
        mail.enqueue(store, message("first"))
        mail.enqueue(store, message("second"))
        if verb in ("ack", "nack", "extend"):
            mail.dequeue(store, BOX)
    return "first"


@pytest.mark.parametrize("verb", VERBS)
def test_a_process_killed_before_any_statement_of_a_verb_has_changed_nothing(place: str, tmp_path: Path, verb: str) -> None:
    msg_id = prepared(place, verb)
    before = everything(place)
    with MailProcesses(place, tmp_path) as nursery:
        for nth in range(1, 100):
            code = nursery.bury(nursery.start("victim", verb, msg_id, nth))
            if code == 0:
                break
            assert code == KILLED, nursery.said("failed")
            assert everything(place) == before, nth
        assert nth > 3
        assert everything(place) != before
    assert_no_lock(place)
    assert_sound(place)


@pytest.mark.parametrize("verb", VERBS)
def test_a_process_killed_as_soon_as_a_verb_has_returned_has_done_it(place: str, tmp_path: Path, verb: str) -> None:
    msg_id = prepared(place, verb)
    before = everything(place)
    with MailProcesses(place, tmp_path) as nursery:
        assert nursery.bury(nursery.start("victim", verb, msg_id, 0)) == KILLED
    assert everything(place) != before
    with closing(postroom.open(place)) as store:
        left = {
            "enqueue": (3, 0, 0, 0),
            "enqueue_first": (2, 0, 0, 0),
            "dequeue": (1, 1, 0, 0),
            "ack": (1, 0, 0, 1),
            "nack": (1, 0, 1, 0),
            "extend": (1, 1, 0, 0),
            "purge": (0, 0, 0, 0),
            "set_policy": (2, 0, 0, 0),
        }[verb]
        (counts,) = [counts for counts in mail.sessions(store).sessions if counts.session == BOX]
        assert (counts.pending, counts.in_flight, counts.nacked, counts.acked) == left
        assert mail.enqueue(store, message("afterwards")).queued
    assert_no_lock(place)
    assert_sound(place)
