"""The state machine of section 3, to the letter, and who may speak for a delivery."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from postroom import mail
from postroom.core.errors import Conflict, DeliveryLost, InvalidState, NotFound
from postroom.store.interface import Store
from tests.conftest import Clock
from tests.contract.mail_data import (
    BOX,
    STATES,
    ArrangedMessage,
    attempt_of,
    brought,
    counts,
    drained,
    everything,
    held,
    killed,
    post,
    state_of,
    taken,
)

pytestmark = pytest.mark.travels("http", "unix", "ws")
Act = Callable[..., Any]
VERBS: dict[str, Act] = {"ack": mail.ack, "nack": mail.nack, "extend": mail.extend}
each_verb = pytest.mark.parametrize("act", VERBS.values(), ids=VERBS.keys())


# state → what ack, nack and extend of it come to: the state it is in then, the same one without a change, or a refusal
NO, SAME = "refused", "the same"
TABLE: dict[str, tuple[str, str, str]] = {
    "pending": (NO, NO, NO),
    "in_flight": ("acked", "nacked", "in_flight"),
    "acked": (SAME, SAME, NO),
    "nacked": (NO, NO, NO),
    "dead_letter": (NO, SAME, NO),
    "expired": (NO, NO, NO),
    "purged": (NO, NO, NO),
}
CELLS = [
    pytest.param(state, verb, row[number], id=f"{verb} of {state}") for state, row in TABLE.items() for number, verb in enumerate(VERBS)
]


@pytest.mark.parametrize(("state", "verb", "outcome"), CELLS)
def test_each_verb_in_each_state_does_what_the_table_says(store: Store, clock: Clock, state: str, verb: str, outcome: str) -> None:
    scene = brought(store, clock, state)
    before = everything(store)
    if outcome == NO:
        with pytest.raises(InvalidState) as refused:
            VERBS[verb](store, BOX, scene.msg_id)
        assert refused.value.facts["state"] == state
        assert everything(store) == before
        return
    told = VERBS[verb](store, BOX, scene.msg_id)
    assert told.msg_id == scene.msg_id
    if verb != "extend":
        assert (told.state, told.changed) == ((state, False) if outcome == SAME else (outcome, True))
    assert state_of(store, scene.msg_id) == (state if outcome == SAME else outcome)
    assert outcome != SAME or everything(store) == before


SPOKEN_FOR = [cell for cell in CELLS if cell.values[0] in ("in_flight", "acked", "nacked", "dead_letter")]


@pytest.mark.parametrize(("state", "verb", "outcome"), SPOKEN_FOR)
def test_the_latest_deliverys_token_changes_nothing_in_the_table(store: Store, clock: Clock, state: str, verb: str, outcome: str) -> None:
    scene = brought(store, clock, state)
    if outcome == NO:
        with pytest.raises(InvalidState):
            VERBS[verb](store, BOX, scene.msg_id, delivery_token=scene.token)
    else:
        VERBS[verb](store, BOX, scene.msg_id, delivery_token=scene.token)
    assert state_of(store, scene.msg_id) == (state if outcome in (NO, SAME) else outcome)


@pytest.mark.parametrize("token", ["", "invented"])
@pytest.mark.parametrize("state", STATES)
@each_verb
def test_a_token_that_was_never_given_out_is_refused_in_every_state(store: Store, clock: Clock, state: str, act: Act, token: str) -> None:
    scene = brought(store, clock, state)
    before = everything(store)
    with pytest.raises(DeliveryLost):
        act(store, BOX, scene.msg_id, delivery_token=token)
    assert everything(store) == before


def test_a_lost_delivery_is_a_conflict_with_a_code_of_its_own() -> None:
    assert issubclass(DeliveryLost, Conflict)
    assert DeliveryLost.code == "delivery_lost"


@each_verb
def test_an_id_never_seen_is_not_found(store: Store, act: Act) -> None:
    post(store)
    before = everything(store)
    for token in (None, "invented"):
        with pytest.raises(NotFound):
            act(store, BOX, "m:nowhere", delivery_token=token)
        with pytest.raises(NotFound):
            act(store, "never heard of", "m:nowhere", delivery_token=token)
    assert everything(store) == before


@each_verb
@pytest.mark.parametrize("state", TABLE)
def test_an_id_of_another_mailbox_is_not_found(store: Store, clock: Clock, act: Act, state: str) -> None:
    scene = brought(store, clock, state)
    post(store, to="other")
    before = everything(store)
    for token in {None, scene.token}:
        with pytest.raises(NotFound):
            act(store, "other", scene.msg_id, delivery_token=token)
    assert everything(store) == before


# Tokens


def timed_out(store: Store, clock: Clock) -> ArrangedMessage:
    """A message whose only delivery timed out just now, and its token."""
    scene = held(store)
    clock.advance(30)
    return scene


def taken_again(store: Store, clock: Clock, scene: ArrangedMessage) -> str:
    clock.advance(5)
    delivery = taken(store)
    assert (delivery.message.msg_id, delivery.message.attempt) == (scene.msg_id, 1)
    assert delivery.delivery_token != scene.token
    return delivery.delivery_token


AFTERWARDS: dict[str, Callable[[Store, Clock, ArrangedMessage], object]] = {
    "nacked": lambda s, c, old: None,
    "pending": lambda s, c, old: c.advance(5),
    "in_flight": taken_again,
    "acked": lambda s, c, old: mail.ack(s, BOX, old.msg_id, delivery_token=taken_again(s, c, old)),
    "nacked by another": lambda s, c, old: mail.nack(s, BOX, old.msg_id, delivery_token=taken_again(s, c, old)),
    "dead_letter": lambda s, c, old: c.advance(5) or killed(s, c),  # type: ignore[func-returns-value]
    "expired": lambda s, c, old: mail.set_policy(s, BOX, ttl_secs=30),
}


@each_verb
@pytest.mark.parametrize("afterwards", AFTERWARDS)
def test_a_receiver_whose_delivery_timed_out_cannot_speak_for_it(store: Store, clock: Clock, act: Act, afterwards: str) -> None:
    old = timed_out(store, clock)
    AFTERWARDS[afterwards](store, clock, old)
    assert state_of(store, old.msg_id) == afterwards.split(maxsplit=1)[0]
    before = everything(store)
    with pytest.raises(DeliveryLost):
        act(store, BOX, old.msg_id, delivery_token=old.token)
    assert everything(store) == before


@each_verb
@pytest.mark.parametrize("looked", [False, True])
def test_a_receiver_whose_last_delivery_timed_out_cannot_speak_for_it(store: Store, clock: Clock, act: Act, looked: bool) -> None:
    mail.set_policy(store, BOX, max_retries=0)
    old = timed_out(store, clock)
    if looked:
        mail.sweep(store)
    with pytest.raises(DeliveryLost):
        act(store, BOX, old.msg_id, delivery_token=old.token)
    assert (state_of(store, old.msg_id), counts(store)[BOX]["dead_letter"]) == ("dead_letter", 1)


@each_verb
def test_of_what_was_purged_no_token_is_left_and_every_one_is_told_so(store: Store, act: Act) -> None:
    scene = held(store)
    mail.purge(store, BOX)
    for token in (scene.token, "invented"):
        with pytest.raises(InvalidState) as refused:
            act(store, BOX, scene.msg_id, delivery_token=token)
        assert refused.value.facts["state"] == "purged"


@each_verb
def test_a_token_outlives_its_own_nack_until_the_next_delivery(store: Store, clock: Clock, act: Act) -> None:
    scene = brought(store, clock, "nacked")
    for state in ("nacked", "pending"):
        assert state_of(store, scene.msg_id) == state
        with pytest.raises(InvalidState):
            act(store, BOX, scene.msg_id, delivery_token=scene.token)
        clock.advance(5)
    taken(store)
    with pytest.raises(DeliveryLost):
        act(store, BOX, scene.msg_id, delivery_token=scene.token)
    assert state_of(store, scene.msg_id) == "in_flight"


def test_an_ack_said_twice_is_said_once(store: Store) -> None:
    scene = held(store)
    assert mail.ack(store, BOX, scene.msg_id, delivery_token=scene.token).changed
    before = everything(store)
    assert not mail.ack(store, BOX, scene.msg_id, delivery_token=scene.token).changed
    assert everything(store) == before


def test_a_nack_after_an_ack_does_not_deliver_again(store: Store, clock: Clock) -> None:
    scene = brought(store, clock, "acked")
    told = mail.nack(store, BOX, scene.msg_id, "after all")
    assert (told.state, told.changed, told.retry_at) == ("acked", False, None)
    clock.advance(1000)
    assert mail.dequeue(store, BOX) is None


@each_verb
@pytest.mark.parametrize("ending", ["dead_letter", "expired", "nacked"])
def test_whoever_comes_too_late_finds_what_time_has_done_and_the_counts_agree(store: Store, clock: Clock, act: Act, ending: str) -> None:
    mail.set_policy(store, BOX, max_retries=0 if ending == "dead_letter" else 3, ttl_secs=30 if ending == "expired" else 0)
    scene = timed_out(store, clock)
    if (ending, act) == ("dead_letter", mail.nack):
        told = mail.nack(store, BOX, scene.msg_id, "too late")
        assert (told.state, told.changed) == ("dead_letter", False)
    else:
        with pytest.raises(InvalidState) as refused:
            act(store, BOX, scene.msg_id)
        assert refused.value.facts["state"] == ending
    assert counts(store)[BOX] == {**dict.fromkeys(STATES, 0), ending: 1}
    assert state_of(store, scene.msg_id) == ending


@pytest.mark.parametrize("act", [mail.ack, mail.nack], ids=["ack", "nack"])
def test_what_changes_nothing_itself_still_carries_out_what_is_due(store: Store, clock: Clock, act: Act) -> None:
    acked, failed = brought(store, clock, "acked"), brought(store, clock, "nacked")
    clock.advance(5)
    assert not act(store, BOX, acked.msg_id).changed
    assert counts(store)[BOX] == {**dict.fromkeys(STATES, 0), "acked": 1, "pending": 1}
    assert taken(store).message.msg_id == failed.msg_id


@each_verb
def test_an_id_that_was_forgotten_is_still_what_it_was(store: Store, clock: Clock, act: Act) -> None:
    scene = brought(store, clock, "forgotten")  # it had been acked
    if act is mail.extend:
        with pytest.raises(InvalidState):
            act(store, BOX, scene.msg_id)
    else:
        told = act(store, BOX, scene.msg_id)
        assert (told.state, told.changed) == ("acked", False)
    assert state_of(store, scene.msg_id) == "forgotten"


def test_every_delivery_has_a_token_of_its_own(store: Store, clock: Clock) -> None:
    for sender in "abcdef":
        post(store, sender=sender)
    tokens = [taken(store).delivery_token for _ in "abcdef"]
    clock.advance(35)
    tokens += [taken(store).delivery_token for _ in "abcdef"]
    assert len(set(tokens)) == 12
    assert all(tokens)


def test_a_message_that_is_given_back_is_pending_at_once_and_no_attempt_is_counted(store: Store) -> None:
    first, _ = post(store, "one"), post(store, "two")
    delivery = taken(store)
    released = mail.release(store, BOX, first, delivery_token=delivery.delivery_token)
    assert (released.msg_id, released.state, released.changed) == (first, "pending", True)
    assert (state_of(store, first), attempt_of(store, first)) == ("pending", 0)
    with pytest.raises((InvalidState, DeliveryLost)):
        mail.ack(store, BOX, first, delivery_token=delivery.delivery_token)
    assert drained(store) == ["one", "two"]


@pytest.mark.parametrize("state", [state for state in STATES if state != "in_flight"])
def test_only_a_message_in_flight_can_be_given_back(store: Store, clock: Clock, state: str) -> None:
    scene = brought(store, clock, state)
    before = everything(store)
    with pytest.raises(InvalidState):
        mail.release(store, BOX, scene.msg_id)
    assert everything(store) == before


def test_a_message_is_not_given_back_with_the_token_of_another_delivery(store: Store) -> None:
    scene = held(store)
    with pytest.raises(DeliveryLost):
        mail.release(store, BOX, scene.msg_id, delivery_token="dlv_other")
    assert state_of(store, scene.msg_id) == "in_flight"
