"""A crowd at one mailbox: nothing is lost or delivered twice, and the messages of a pair come in the order in which they were sent."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from contextlib import closing
from pathlib import Path

import pytest

import postroom
from postroom import mail
from postroom.core.records.mail import MailboxCounts, MailReceipt
from tests.faults.inspection import assert_no_lock
from tests.faults.mail_children import BOX, MailProcesses, assert_sound

LONGER_THAN_THE_TEST = 3600
EVERYBODY = "everybody"  # a sender's name that all producers use, beside their own


@pytest.fixture
def rounds(engine: str) -> int:
    """How often each producer sends one message of each of its three senders."""
    return 14 if engine == "sqlite" else 4


def crowd(place: str, folder: Path, *, each: int, rounds: int, nacks: float = 0) -> list[list[str]]:
    """Let as many producers as consumers at one mailbox; all that they said, in order."""
    closed = folder / "closed"
    with MailProcesses(place, folder) as nursery:
        consumers = [nursery.start("consumer", f"consumer-{number}", closed, nacks) for number in range(each)]
        producers = [nursery.start("producer", f"p{number}", f"p{number}-a,{EVERYBODY},p{number}-b", rounds) for number in range(each)]
        ended = [nursery.bury(child) for child in producers]
        closed.touch()
        ended += [nursery.bury(child) for child in consumers]
        said = nursery.said()
    assert [line for line in said if line[0] == "failed"] == []
    assert ended == [0] * (2 * each)
    return said


def sent_by(each: int, rounds: int) -> dict[tuple[str, str], list[str]]:
    """Every id, in the order in which it was sent, by producer and sender."""
    return {
        (f"p{number}", sender): [f"p{number}/{sender}/{nth}" for nth in range(rounds)]
        for number in range(each)
        for sender in (f"p{number}-a", EVERYBODY, f"p{number}-b")
    }


def by_line(ids: Iterable[str]) -> dict[tuple[str, str], list[str]]:
    """The ids in their order, by producer and sender."""
    lines: dict[tuple[str, str], list[str]] = defaultdict(list)
    for msg_id in ids:
        name, sender, _ = msg_id.split("/")
        lines[name, sender].append(msg_id)
    return dict(lines)


def receipts(place: str, ids: Iterable[str]) -> dict[str, MailReceipt]:
    with closing(postroom.open(place)) as store:
        return {msg_id: mail.show(store, msg_id) for msg_id in ids}


def counts(place: str) -> MailboxCounts:
    with closing(postroom.open(place)) as store:
        (found,) = mail.sessions(store).sessions
    return found


def times(receipt: MailReceipt, step: str) -> list[str]:
    return [made.at for made in receipt.steps if made.step == step]


def test_sixteen_producers_and_sixteen_consumers_lose_nothing_and_get_nothing_twice(place: str, tmp_path: Path, rounds: int) -> None:
    with closing(postroom.open(place)) as store:
        mail.set_policy(store, BOX, inflight_timeout_secs=LONGER_THAN_THE_TEST)
    said = crowd(place, tmp_path, each=16, rounds=rounds)
    expected = sent_by(16, rounds)
    ids = [msg_id for line in expected.values() for msg_id in line]
    got = {line[1]: line[3] for line in said if line[0] == "got"}
    assert Counter(line[0] for line in said) == {"accepted": len(ids), "got": len(ids), "acked": len(ids)}
    assert by_line(line[1] for line in said if line[0] == "accepted") == expected
    # Each is taken after the one before it was acked, and says so before it is acked itself: the order of the lines is theirs.
    assert by_line(line[1] for line in said if line[0] == "got") == expected
    found = receipts(place, ids)
    assert {receipt.state for receipt in found.values()} == {"acked"}
    assert {tuple(step.step for step in receipt.steps) for receipt in found.values()} == {("stored", "offered", "acked")}
    assert {msg_id: receipt.steps[1].facts["receiver"] for msg_id, receipt in found.items()} == got
    assert by_line(sorted(ids, key=lambda msg_id: times(found[msg_id], "acked"))) == expected
    assert counts(place) == MailboxCounts(BOX, 0, 0, 0, len(ids), 0, 0)
    assert_sound(place)
    assert_no_lock(place)


def test_a_crowd_that_often_nacks_delivers_each_again_before_the_next_of_its_pair(place: str, tmp_path: Path, rounds: int) -> None:
    with closing(postroom.open(place)) as store:
        mail.set_policy(store, BOX, inflight_timeout_secs=LONGER_THAN_THE_TEST, base_backoff_secs=0, max_retries=2)
    said = crowd(place, tmp_path, each=4, rounds=2 * rounds, nacks=0.4)
    expected = sent_by(4, 2 * rounds)
    ids = [msg_id for line in expected.values() for msg_id in line]
    got = [(line[1], int(line[2])) for line in said if line[0] == "got"]
    ended = {line[1]: (line[0], int(line[2])) for line in said if line[0] in ("acked", "dead_letter")}
    nacked = [(line[1], int(line[2])) for line in said if line[0] == "nacked"]
    assert set(ended) == set(ids)
    assert len(set(got)) == len(got), "the same attempt was delivered twice"
    assert sorted(got) == sorted(nacked + [(msg_id, attempt) for msg_id, (_, attempt) in ended.items()])
    assert {attempt for state, attempt in ended.values() if state == "dead_letter"} <= {2}
    in_order = [(msg_id, attempt) for msg_id, attempt in got if attempt == 0]
    assert by_line(msg_id for msg_id, _ in in_order) == expected
    assert one_after_another(got)
    states = Counter(state for state, _ in ended.values())
    assert states["acked"] > 0
    assert states["dead_letter"] > 0
    assert counts(place) == MailboxCounts(BOX, 0, 0, 0, states["acked"], states["dead_letter"], 0)
    with closing(postroom.open(place)) as store:
        dead = {entry.to_json()["msg_id"] for entry in mail.peek_dead_letter(store, BOX, limit=1000).entries}
    assert dead == {msg_id for msg_id, (state, _) in ended.items() if state == "dead_letter"}
    assert_sound(place)
    assert_no_lock(place)


def one_after_another(got: list[tuple[str, int]]) -> bool:
    """Whether all attempts at one message came before any at the next of its pair, and in their order."""
    pairs: dict[str, list[tuple[str, int]]] = defaultdict(list)
    for msg_id, attempt in got:
        pairs[msg_id.split("/")[1]].append((msg_id, attempt))
    for deliveries in pairs.values():
        messages = list(dict.fromkeys(msg_id for msg_id, _ in deliveries))
        if deliveries != sorted(deliveries, key=lambda delivery: (messages.index(delivery[0]), delivery[1])):
            return False
    return True
