"""A mailbox as its keeper sees it: peek, purge, dead letters, counts, receipts, policies, and the sweep."""

from __future__ import annotations

from typing import Any

import pytest

from postroom import mail
from postroom.core import clock as time
from postroom.core.errors import InvalidInput, InvalidState, NotFound
from postroom.core.records.mail import MailboxPolicy, SweepResult
from postroom.store.interface import Store
from tests.conftest import Clock, open_with
from tests.contract.mail_data import (
    BOX,
    DAY,
    LIVE,
    STATES,
    at,
    attempt_of,
    brought,
    counts,
    dead,
    drained,
    everything,
    held,
    killed,
    post,
    state_of,
    steps_of,
    taken,
    waiting,
)
from tests.contract.thread_data import events

pytestmark = pytest.mark.travels("http", "unix", "ws")
NOTHING = dict.fromkeys(STATES, 0)

# Peek


def test_peek_shows_the_documents_summary_of_what_is_not_over(store: Store, clock: Clock) -> None:
    flying, failed = held(store), post(store, sender="bob", created_at=7)
    mail.nack(store, BOX, taken(store).message.msg_id)
    pending = post(store, sender="cid", created_at=8)
    found = mail.peek(store, BOX)
    assert {one.msg_id: (one.sender, one.state, one.due_at) for one in found.messages} == {
        flying.msg_id: ("ann", "in_flight", at(clock, 30)),
        failed: ("bob", "nacked", at(clock, 5)),
        pending: ("cid", "pending", None),
    }
    assert found.total == 3
    plain = next(one.to_json() for one in found.messages if one.msg_id == failed)
    assert plain == {"msg_id": failed, "from": "bob", "created_at": 7, "attempt": 0, "state": "nacked", "due_at": at(clock, 5)}


@pytest.mark.parametrize(("state", "due"), [("pending", 4), ("in_flight", 4), ("nacked", 4)])
def test_what_is_due_next_may_be_the_end_of_its_life(store: Store, clock: Clock, state: str, due: float) -> None:
    mail.set_policy(store, BOX, ttl_secs=due)
    brought(store, clock, state)
    assert mail.peek(store, BOX).messages[0].due_at == at(clock, due)


@pytest.mark.parametrize("state", ["acked", "dead_letter", "expired", "purged", "forgotten"])
def test_peek_does_not_show_what_is_over(store: Store, clock: Clock, state: str) -> None:
    brought(store, clock, state)
    assert (mail.peek(store, BOX).messages, mail.peek(store, BOX).total) == ((), 0)


def test_peek_takes_nothing_and_says_how_many_there_are(store: Store) -> None:
    ids = [post(store) for _ in range(105)]
    assert [one.msg_id for one in mail.peek(store, BOX).messages] == ids[:100]
    assert [one.msg_id for one in mail.peek(store, BOX, limit=3).messages] == ids[:3]
    assert (mail.peek(store, BOX).total, mail.peek(store, BOX, limit=3).total) == (105, 105)
    assert len(drained(store)) == 105


@pytest.mark.parametrize("limit", [0, -1])
def test_a_limit_of_nothing_is_refused(store: Store, limit: int) -> None:
    for act in (lambda: mail.peek(store, BOX, limit=limit), lambda: mail.peek_dead_letter(store, BOX, limit=limit)):
        with pytest.raises(InvalidInput) as refused:
            act()
        assert refused.value.facts["field"] == "limit"


def test_a_session_never_heard_of_is_empty_and_stays_unheard_of(store: Store) -> None:
    before = everything(store)
    name = "never heard of"
    assert mail.dequeue(store, name) is None
    assert mail.wait(store, name, timeout_seconds=0.01) is None
    assert (mail.peek(store, name).messages, mail.peek(store, name).total) == ((), 0)
    assert (mail.purge(store, name), mail.purge_dead_letter(store, name), mail.retry_dead_letter(store, name)) == (0, 0, 0)
    assert mail.peek_dead_letter(store, name).entries == ()
    assert (mail.sessions(store).sessions, everything(store)) == ((), before)


# Purge


def test_a_purge_removes_what_is_not_over_and_nothing_else(store: Store, clock: Clock) -> None:
    ended = {brought(store, clock, state).msg_id: state for state in ("acked", "dead_letter")}
    live = [post(store, sender=sender) for sender in ("bob", "cid", "dan")]
    elsewhere = post(store, to="other")
    taken(store)
    mail.nack(store, BOX, taken(store).message.msg_id)
    assert mail.purge(store, BOX) == 3
    assert mail.purge(store, BOX) == 0
    assert (waiting(store), mail.dequeue(store, BOX)) == ([], None)
    assert {state_of(store, msg_id) for msg_id in live} == {"purged"}
    assert {msg_id: state_of(store, msg_id) for msg_id in ended} == ended
    assert state_of(store, elsewhere) == "pending"
    clock.advance(1000)
    assert mail.dequeue(store, BOX) is None


def test_of_a_purged_message_the_id_and_its_history_are_left(store: Store, clock: Clock) -> None:
    scene = held(store)
    mail.purge(store, BOX)
    told = mail.show(store, scene.msg_id)
    assert (told.state, told.message) == ("purged", None)
    assert (told.steps[-1].step, told.steps[-1].at) == ("purged", at(clock))


# Dead letters


def test_a_dead_letter_is_the_documents_entry(store: Store, clock: Clock) -> None:
    msg_id = post(store, "rm -rf /", created_at=7)
    killed(store, clock, reason="exit 1")
    assert [entry.to_json() for entry in mail.peek_dead_letter(store, BOX).entries] == [
        {
            "msg_id": msg_id,
            "from": "ann",
            "to": BOX,
            "payload": "rm -rf /",
            "created_at": 7,
            "attempt": 3,
            "reason": "max_retries exhausted: exit 1",
            "failed_at": clock.instant // time.MICROSECONDS_PER_SECOND,
            "attempts": 3,
        }
    ]


def three_dead(store: Store, clock: Clock, **more: Any) -> list[str]:
    ids = []
    for _ in range(3):
        post(store, **more)
        ids.append(killed(store, clock).msg_id)
        clock.advance(1)
    return ids


def test_dead_letters_are_shown_oldest_first(store: Store, clock: Clock) -> None:
    ids = three_dead(store, clock)
    assert dead(store) == ids
    assert [entry.to_json()["msg_id"] for entry in mail.peek_dead_letter(store, BOX, limit=2).entries] == ids[:2]
    assert mail.peek_dead_letter(store, "other").entries == ()


def test_dead_letters_are_kept_until_they_are_purged_by_hand(store: Store, clock: Clock) -> None:
    ids = three_dead(store, clock)
    mail.set_policy(store, BOX, ttl_secs=1)
    clock.advance(1000 * DAY)
    mail.sweep(store, keep_days=1)
    mail.purge(store, BOX)
    assert dead(store) == ids


def test_dead_letters_are_purged_one_by_one_or_all_together(store: Store, clock: Clock) -> None:
    ids = three_dead(store, clock)
    pending = post(store)
    assert mail.purge_dead_letter(store, BOX, msg_id=ids[1]) == 1
    assert dead(store) == [ids[0], ids[2]]
    assert mail.purge_dead_letter(store, BOX) == 2
    assert (dead(store), mail.purge_dead_letter(store, BOX)) == ([], 0)
    assert {state_of(store, msg_id) for msg_id in ids} == {"purged"}
    assert waiting(store) == [pending]


def test_dead_letters_are_retried_one_by_one_or_all_together(store: Store, clock: Clock) -> None:
    ids = three_dead(store, clock)
    assert mail.retry_dead_letter(store, BOX, msg_id=ids[1]) == 1
    assert (dead(store), waiting(store), attempt_of(store, ids[1])) == ([ids[0], ids[2]], [ids[1]], 0)
    assert mail.retry_dead_letter(store, BOX) == 2
    assert (dead(store), waiting(store), mail.retry_dead_letter(store, BOX)) == ([], [ids[1], ids[0], ids[2]], 0)


def test_a_retried_dead_letter_has_all_its_retries_again(store: Store, clock: Clock) -> None:
    msg_id = brought(store, clock, "dead_letter").msg_id
    mail.retry_dead_letter(store, BOX)
    assert taken(store).message.attempt == 0
    assert mail.nack(store, BOX, msg_id).retry_at == at(clock, 5)
    clock.advance(5)
    killed(store, clock)
    assert (dead(store), steps_of(store, msg_id).count("dead_letter"), steps_of(store, msg_id).count("requeued")) == ([msg_id], 2, 1)


@pytest.mark.parametrize("state", ["pending", "in_flight", "nacked", "acked", "expired", "purged"])
@pytest.mark.parametrize("act", [mail.purge_dead_letter, mail.retry_dead_letter], ids=["purge", "retry"])
def test_what_is_not_dead_is_no_dead_letter(store: Store, clock: Clock, act: Any, state: str) -> None:
    scene = brought(store, clock, state)
    before = everything(store)
    with pytest.raises(InvalidState) as refused:
        act(store, BOX, msg_id=scene.msg_id)
    assert refused.value.facts["state"] == state
    assert everything(store) == before


@pytest.mark.parametrize("act", [mail.purge_dead_letter, mail.retry_dead_letter], ids=["purge", "retry"])
def test_a_dead_letter_that_is_not_there_is_not_found(store: Store, clock: Clock, act: Any) -> None:
    scene = brought(store, clock, "dead_letter")
    for session, msg_id in ((BOX, "m:nowhere"), ("other", scene.msg_id)):
        with pytest.raises(NotFound):
            act(store, session, msg_id=msg_id)
    assert dead(store) == [scene.msg_id]


# Counts


def test_the_counts_are_what_a_recount_finds(store: Store, clock: Clock) -> None:
    mail.set_policy(store, "short", ttl_secs=60)
    for session in ("long", "short"):
        for number in range(12):
            post(store, to=session, sender=f"sender {number}")
    acked = {"long": 0, "short": 0}
    for session in acked:
        for number in range(9):
            msg_id = taken(store, session).message.msg_id
            if number < 3:
                acked[session] += mail.ack(store, session, msg_id).changed
            elif number < 6:
                mail.nack(store, session, msg_id)
    for seconds in (0, 5, 24, 1, 5, 15, 10, 10_000):
        clock.advance(seconds)
        told = counts(store)
        for session, numbers in told.items():
            states = [one.state for one in mail.peek(store, session).messages]
            assert {state: numbers[state] for state in LIVE} == {state: states.count(state) for state in LIVE}
            assert (numbers["acked"], numbers["dead_letter"]) == (acked[session], len(dead(store, session)))
            assert sum(numbers.values()) == 12
    assert told["long"] == {**NOTHING, "pending": 9, "acked": 3}
    assert told["short"] == {**NOTHING, "expired": 9, "acked": 3}


@pytest.mark.parametrize("state", STATES)
def test_each_state_is_counted_as_itself(store: Store, clock: Clock, state: str) -> None:
    brought(store, clock, state)
    assert counts(store) == {BOX: {**NOTHING, state: 1}}


def test_what_was_purged_is_not_counted(store: Store, clock: Clock) -> None:
    brought(store, clock, "dead_letter")
    held(store)
    mail.purge(store, BOX)
    mail.purge_dead_letter(store, BOX)
    assert counts(store) == {}


def test_sessions_are_told_by_name(store: Store) -> None:
    for session in ("cid", "ann", "bob"):
        post(store, to=session)
    assert [one.session for one in mail.sessions(store).sessions] == ["ann", "bob", "cid"]
    assert [one.session for one in mail.sessions(store, limit=2).sessions] == ["ann", "bob"]


# Receipts


def test_a_receipt_tells_every_step_with_its_time_and_its_reason(store: Store, clock: Clock) -> None:
    msg_id, expected = post(store), [("stored", at(clock))]
    clock.advance(1)
    mail.dequeue(store, BOX, receiver="worker 1")
    expected.append(("offered", at(clock)))
    clock.advance(2)
    mail.extend(store, BOX, msg_id)
    expected.append(("extended", at(clock)))
    clock.advance(3)
    mail.nack(store, BOX, msg_id, "the disk is full")
    expected += [("nacked", at(clock)), ("retried", at(clock, 5))]
    clock.advance(5)
    mail.dequeue(store, BOX, receiver="worker 2")
    expected.append(("offered", at(clock)))
    clock.advance(1)
    mail.ack(store, BOX, msg_id)
    expected.append(("acked", at(clock)))
    told = mail.show(store, msg_id)
    assert (told.state, [(step.step, step.at) for step in told.steps]) == ("acked", expected)
    facts = [step.facts for step in told.steps]
    assert [(facts[number]["receiver"], facts[number]["attempt"]) for number in (1, 5)] == [("worker 1", 0), ("worker 2", 1)]
    assert (facts[3]["reason"], facts[3]["by"], facts[3]["retry_at"]) == ("the disk is full", "receiver", expected[4][1])


def test_a_receipt_of_a_dead_letter_says_why(store: Store, clock: Clock) -> None:
    scene = brought(store, clock, "dead_letter")
    told = mail.show(store, scene.msg_id)
    offered, nacked, died = told.steps[-3:]
    assert [step.step for step in (offered, nacked, died)] == ["offered", "nacked", "dead_letter"]
    assert (nacked.facts["reason"], nacked.facts["retry_at"], died.at) == ("it broke", None, at(clock))
    assert died.facts["reason"] == "max_retries exhausted: it broke"


def test_a_receiver_has_a_name_though_it_gave_none(store: Store) -> None:
    scene = held(store)
    assert mail.show(store, scene.msg_id).steps[-1].facts["receiver"]


def test_a_receipt_does_not_give_the_token_away(store: Store, clock: Clock) -> None:
    scene = held(store)
    assert scene.token is not None
    mail.extend(store, BOX, scene.msg_id, delivery_token=scene.token)
    assert scene.token not in repr(mail.show(store, scene.msg_id))
    assert scene.token not in repr(mail.peek(store, BOX))
    mail.nack(store, BOX, scene.msg_id, delivery_token=scene.token)
    assert scene.token not in repr(mail.show(store, scene.msg_id).to_json())


def test_a_receipt_of_what_never_was_is_not_found(store: Store) -> None:
    post(store)
    with pytest.raises(NotFound):
        mail.show(store, "m:nowhere")


def test_an_expiry_is_in_the_receipt_when_it_was_due(store: Store, clock: Clock) -> None:
    mail.set_policy(store, BOX, ttl_secs=60)
    msg_id, expiry = post(store), at(clock, 60)
    clock.advance(10_000)
    told = mail.show(store, msg_id)
    assert (told.state, [(step.step, step.at) for step in told.steps][1:]) == ("expired", [("expired", expiry)])


# The sweep


def test_a_sweep_carries_out_what_is_due_in_every_mailbox_and_says_what(store: Store, clock: Clock) -> None:
    mail.set_policy(store, "short", ttl_secs=10)
    mail.set_policy(store, "last", max_retries=0)
    held(store, "slow")
    held(store, "last")
    post(store, to="short")
    mail.nack(store, "failed", held(store, "failed").msg_id)
    clock.advance(30)
    assert mail.sweep(store) == SweepResult(retried=1, timed_out=2, dead_lettered=1, expired=1, forgotten=0)
    clock.advance(5)
    assert mail.sweep(store) == SweepResult(retried=1, timed_out=0, dead_lettered=0, expired=0, forgotten=0)
    assert mail.sweep(store) == SweepResult(retried=0, timed_out=0, dead_lettered=0, expired=0, forgotten=0)


def test_a_sweep_forgets_what_ended_longer_ago_than_the_days_to_keep(store: Store, clock: Clock) -> None:
    old = [brought(store, clock, state).msg_id for state in ("acked", "expired")]
    clock.advance(2 * DAY)
    mail.set_policy(store, BOX, ttl_secs=0)
    young, corpse = brought(store, clock, "acked").msg_id, brought(store, clock, "dead_letter").msg_id
    live = post(store)
    clock.advance(DAY / 2)
    assert mail.sweep(store).forgotten == 0
    assert mail.sweep(store, keep_days=1).forgotten == 2
    assert mail.sweep(store, keep_days=1).forgotten == 0
    assert [state_of(store, msg_id) for msg_id in old] == ["forgotten", "forgotten"]
    assert [mail.show(store, msg_id).message for msg_id in old] == [None, None]
    assert [state_of(store, msg_id) for msg_id in (young, corpse, live)] == ["acked", "dead_letter", "pending"]


def test_of_a_forgotten_message_only_ids_states_and_times_are_left(store: Store, clock: Clock) -> None:
    msg_id = post(store, "hunter2 is the payload")
    mail.dequeue(store, BOX, receiver="worker 1")
    mail.nack(store, BOX, msg_id, "the password was hunter2")
    clock.advance(5)
    mail.ack(store, BOX, taken(store).message.msg_id)
    kept = post(store, sender="bob")
    clock.advance(2 * DAY)
    assert mail.sweep(store, keep_days=1).forgotten == 1
    told = mail.show(store, msg_id)
    assert [step.step for step in told.steps] == ["stored", "offered", "nacked", "retried", "offered", "acked"]
    assert "hunter2" not in repr((told, events(store)))
    assert told.steps[2].facts == {"attempt": 0, "retry_at": told.steps[3].at}
    assert state_of(store, kept) == "pending"


@pytest.mark.parametrize("days", [-1, float("nan"), float("inf"), "7"])
def test_days_that_make_no_sense_are_refused(store: Store, days: Any) -> None:
    with pytest.raises(InvalidInput) as refused:
        mail.sweep(store, keep_days=days)
    assert refused.value.facts["field"] == "keep_days"


# Policies


def test_the_policy_is_the_documents_unless_set(store: Store) -> None:
    assert mail.policy(store, "never heard of") == MailboxPolicy(
        session="never heard of", base_backoff_secs=5, max_retries=3, inflight_timeout_secs=30, ttl_secs=None
    )
    assert mail.sessions(store).sessions == ()


def test_a_policy_is_stored_and_every_process_agrees(store: Store, place: str, clock: Clock) -> None:
    told = mail.set_policy(store, BOX, base_backoff_secs=2, max_retries=1, inflight_timeout_secs=0.5, ttl_secs=1000)
    with open_with(place, clock) as another:
        assert mail.policy(another, BOX) == told == mail.policy(store, BOX)
        post(another)
        assert taken(another).in_flight_until == at(clock, 0.5)
    assert mail.nack(store, BOX, taken_id(store)).retry_at == at(clock, 2)
    assert mail.policy(store, "other").max_retries == 3


def taken_id(store: Store) -> str:
    return mail.peek(store, BOX).messages[0].msg_id


def test_what_is_not_said_of_a_policy_stays(store: Store) -> None:
    mail.set_policy(store, BOX, base_backoff_secs=2, max_retries=1, inflight_timeout_secs=7, ttl_secs=1000)
    mail.set_policy(store, BOX, max_retries=9)
    told = mail.set_policy(store, BOX)
    assert (told.base_backoff_secs, told.max_retries, told.inflight_timeout_secs, told.ttl_secs) == (2, 9, 7, 1000)
    assert mail.set_policy(store, BOX, ttl_secs=0).ttl_secs is None


YEAR = 31_536_000
BOUNDS: list[tuple[str, list[Any]]] = [
    ("base_backoff_secs", [-1, -0.001, 400 * 86_400, float("nan"), float("inf"), "5"]),
    ("max_retries", [-1, 1001, 1.5, "3", float("nan")]),
    ("inflight_timeout_secs", [0, -1, 400 * 86_400, float("nan"), float("inf"), "30"]),
    ("ttl_secs", [-1, 400 * 86_400, float("nan"), float("inf"), "60"]),
]


@pytest.mark.parametrize(("field", "value"), [pytest.param(field, value, id=f"{field}={value}") for field, row in BOUNDS for value in row])
@pytest.mark.input_check
def test_a_policy_out_of_bounds_is_refused_and_nothing_changes(store: Store, field: str, value: Any) -> None:
    mail.set_policy(store, BOX, max_retries=2)
    before = mail.policy(store, BOX), everything(store)
    with pytest.raises(InvalidInput) as refused:
        mail.set_policy(store, BOX, **{"max_retries": 7, field: value})
    assert refused.value.facts["field"] == field
    assert (mail.policy(store, BOX), everything(store)) == before


@pytest.mark.parametrize(
    "values",
    [{"base_backoff_secs": 0}, {"base_backoff_secs": YEAR}, {"max_retries": 1000}, {"inflight_timeout_secs": YEAR}, {"ttl_secs": YEAR}],
)
def test_the_bounds_themselves_are_allowed(store: Store, values: dict[str, Any]) -> None:
    assert dict(mail.set_policy(store, BOX, **values).items()).items() >= values.items()


def test_a_new_policy_holds_from_the_next_move_on(store: Store, clock: Clock) -> None:
    flying, waiting = held(store), post(store, sender="bob")
    taken(store)
    mail.nack(store, BOX, waiting)
    mail.set_policy(store, BOX, base_backoff_secs=100, inflight_timeout_secs=300, max_retries=0)
    clock.advance(5)
    assert (state_of(store, waiting), state_of(store, flying.msg_id)) == ("pending", "in_flight")
    assert taken(store).in_flight_until == at(clock, 300)
    clock.advance(25)
    assert state_of(store, flying.msg_id) == "dead_letter"


def test_what_was_due_before_a_policy_changed_went_by_the_old_one(store: Store, clock: Clock) -> None:
    scene, start = held(store), clock.instant
    clock.advance(31)
    mail.set_policy(store, BOX, base_backoff_secs=100, max_retries=0)
    assert state_of(store, scene.msg_id) == "nacked"
    assert mail.show(store, scene.msg_id).steps[-1].facts["retry_at"] == time.format_stamp(start + 35 * time.MICROSECONDS_PER_SECOND)


def test_what_was_forgotten_is_called_what_it_was_and_not_purged(store: Store, clock: Clock) -> None:
    mail.enqueue(store, {"from": "lead", "to": "forgetful", "payload": "x", "msg_id": "old"})
    mail.dequeue(store, "forgetful")
    mail.ack(store, "forgetful", "old")
    clock.advance(10 * 86_400)
    assert mail.sweep(store, keep_days=1).forgotten == 1
    with pytest.raises(InvalidState) as refused:
        mail.retry_dead_letter(store, "forgetful", msg_id="old")
    assert refused.value.facts["state"] == "acked"
