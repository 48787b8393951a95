"""Message ids belong to their sender: repeats, conflicts, and one id of two senders. Sections 2 and 8."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from postroom import mail
from postroom.core.errors import Conflict, DeliveryLost, InvalidInput
from postroom.store.interface import Store
from tests.conftest import Clock
from tests.contract.mail_data import BOX, STATES, brought, dead, drained, everything, killed, message, post, taken, waiting

pytestmark = pytest.mark.travels("http", "unix", "ws")


def test_ids_of_different_senders_never_meet(store: Store) -> None:
    assert mail.enqueue(store, message("squatted", sender="evil", to="evil", msg_id="deploy-42")).queued
    assert mail.enqueue(store, message("the real one", sender="ada", msg_id="deploy-42")).queued
    assert drained(store) == ["the real one"]


@pytest.mark.parametrize("state", [*STATES, "purged", "forgotten"])
def test_a_repeat_is_known_whatever_became_of_the_message(store: Store, clock: Clock, state: str) -> None:
    scene = brought(store, clock, state)
    before = everything(store)
    told = mail.enqueue(store, message(msg_id=scene.msg_id, created_at=1))
    assert (told.msg_id, told.queued, told.pending) == (scene.msg_id, False, 1 if state == "pending" else 0)
    assert everything(store) == before


@pytest.mark.parametrize("state", [*STATES, "purged", "forgotten"])
@pytest.mark.parametrize("changed", [{"to": "other"}, {"payload": "another text"}], ids=["recipient", "payload"])
def test_another_message_under_a_used_id_is_a_conflict(store: Store, clock: Clock, state: str, changed: dict[str, str]) -> None:
    scene = brought(store, clock, state)
    before = everything(store)
    with pytest.raises(Conflict) as refused:
        mail.enqueue(store, {**message(msg_id=scene.msg_id), **changed})
    assert (refused.value.code, refused.value.facts["msg_id"]) == ("id_conflict", scene.msg_id)
    assert "new id" in refused.value.hint
    assert everything(store) == before


def test_a_conflict_in_a_batch_stores_nothing_of_it(store: Store) -> None:
    with pytest.raises(Conflict):
        mail.enqueue_all(store, [message("one", msg_id="m:1"), message("two", msg_id="m:1")])
    assert waiting(store) == []


def test_a_repeat_may_name_the_session_or_its_alias_even_after_the_alias_moved(store: Store) -> None:
    mail.set_alias(store, "nick", BOX)
    assert mail.enqueue(store, message(to="nick", msg_id="m:1")).queued
    assert not mail.enqueue(store, message(to=BOX, msg_id="m:1")).queued
    mail.set_alias(store, "nick", "other")
    assert not mail.enqueue(store, message(to="nick", msg_id="m:1")).queued
    with pytest.raises(Conflict):
        mail.enqueue(store, message("another text", to="nick", msg_id="m:1"))


def _two_of_one_id(store: Store) -> None:
    for sender in ("ann", "bob"):
        mail.enqueue(store, message(f"of {sender}", sender=sender, msg_id="m:1"))


@pytest.mark.parametrize("act", [mail.ack, mail.nack, mail.extend], ids=lambda act: act.__name__)
def test_one_id_of_two_senders_in_one_mailbox_needs_the_sender_or_the_token(store: Store, act: Callable[..., object]) -> None:
    _two_of_one_id(store)
    first, second = taken(store), taken(store)
    before = everything_of_two(store)
    with pytest.raises(InvalidInput) as refused:
        act(store, BOX, "m:1")
    assert (refused.value.facts["field"], "--from" in refused.value.hint) == ("from", True)
    assert everything_of_two(store) == before
    act(store, BOX, "m:1", delivery_token=second.delivery_token)
    act(store, BOX, "m:1", sent_by=first.message.sender)
    with pytest.raises(DeliveryLost):
        act(store, BOX, "m:1", delivery_token="dlv_of_neither")


def everything_of_two(store: Store) -> object:
    return [mail.show(store, "m:1", sent_by=sender) for sender in ("ann", "bob")], mail.peek(store, BOX)


def test_a_receipt_of_one_id_of_two_senders_tells_the_steps_of_one(store: Store) -> None:
    _two_of_one_id(store)
    delivery = taken(store)
    mail.ack(store, BOX, "m:1", delivery_token=delivery.delivery_token)
    with pytest.raises(InvalidInput) as refused:
        mail.show(store, "m:1")
    assert refused.value.facts["field"] == "from"
    shown = [mail.show(store, "m:1", sent_by=sender) for sender in ("ann", "bob")]
    assert [(one.state, [step.step for step in one.steps]) for one in shown] == [
        ("acked", ["stored", "offered", "acked"]),
        ("pending", ["stored"]),
    ]


def test_dead_letters_of_one_id_are_told_apart_by_their_sender(store: Store, clock: Clock) -> None:
    _two_of_one_id(store)
    mail.set_policy(store, BOX, max_retries=0)
    killed(store, clock)
    killed(store, clock)
    for act in (mail.retry_dead_letter, mail.purge_dead_letter):
        with pytest.raises(InvalidInput) as refused:
            act(store, BOX, msg_id="m:1")
        assert refused.value.facts["field"] == "from"
    assert mail.purge_dead_letter(store, BOX, msg_id="m:1", sent_by="ann") == 1
    assert mail.retry_dead_letter(store, BOX, msg_id="m:1", sent_by="bob") == 1
    assert (drained(store), dead(store)) == (["of bob"], [])


def test_an_id_that_the_mailbox_made_steps_over_those_of_its_sender_alone(store: Store, clock: Clock) -> None:
    used = f"ann:{clock.instant * 1000}"
    post(store, msg_id=used, sender="bob", to="other")
    assert post(store) == used
