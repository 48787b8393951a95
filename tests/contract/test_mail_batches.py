"""Many messages in one transaction, and an ack with the next message."""

from __future__ import annotations

import pytest

from postroom import mail
from postroom.core.errors import DeliveryLost, InvalidInput, InvalidState
from postroom.store.interface import Store
from tests.conftest import Clock

pytestmark = pytest.mark.travels("http", "unix", "ws")


def note(msg_id: str, sender: str = "lead") -> dict[str, object]:
    return {"msg_id": msg_id, "from": sender, "to": "analyst", "payload": msg_id}


def test_many_are_stored_in_their_order(store: Store) -> None:
    acks = mail.enqueue_all(store, [note("a"), note("b"), note("a"), note("c", sender="other")])
    assert [(ack.msg_id, ack.queued, ack.pending) for ack in acks] == [("a", True, 1), ("b", True, 2), ("a", False, 2), ("c", True, 3)]
    assert [summary.msg_id for summary in mail.peek(store, "analyst").messages] == ["a", "b", "c"]


def test_if_one_is_refused_none_is_stored(store: Store) -> None:
    with pytest.raises(InvalidInput, match="message 2") as refused:
        mail.enqueue_all(store, [note("a"), {**note("b"), "payload": 7}])
    assert refused.value.facts["field"] == "payload"
    assert mail.peek(store, "analyst").total == 0
    assert mail.enqueue(store, note("a")).queued


def test_ids_made_in_one_batch_differ(store: Store) -> None:
    acks = mail.enqueue_all(store, [{"from": "lead", "to": "analyst", "payload": "x"}] * 5)
    assert len({ack.msg_id for ack in acks}) == 5


def test_an_ack_hands_over_the_next(store: Store) -> None:
    mail.enqueue_all(store, [note("a"), note("b")])
    first = mail.dequeue(store, "analyst")
    assert first is not None
    acked, second = mail.ack_and_dequeue(store, "analyst", "a", delivery_token=first.delivery_token, receiver="ada")
    assert (acked.state, acked.changed) == ("acked", True)
    assert second is not None
    assert second.message.msg_id == "b"
    assert mail.show(store, "b").steps[-1].facts["receiver"] == "ada"
    acked, third = mail.ack_and_dequeue(store, "analyst", "b", delivery_token=second.delivery_token)
    assert (acked.changed, third) == (True, None)
    [counts] = mail.sessions(store).sessions
    assert (counts.pending, counts.in_flight, counts.acked) == (0, 0, 2)


def test_an_ack_that_is_refused_takes_nothing(store: Store, clock: Clock) -> None:
    mail.enqueue_all(store, [note("a"), note("b", sender="other")])
    first = mail.dequeue(store, "analyst")
    assert first is not None
    clock.advance(31)
    with pytest.raises(DeliveryLost):
        mail.ack_and_dequeue(store, "analyst", "a", delivery_token=first.delivery_token)
    with pytest.raises(InvalidState):
        mail.ack_and_dequeue(store, "analyst", "b")
    assert [summary.state for summary in mail.peek(store, "analyst").messages] == ["nacked", "pending"]
