"""Aliases: another name for a mailbox, which every verb follows."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from postroom import mail
from postroom.core.errors import Invalid, InvalidState, NotFound
from postroom.store.interface import Store
from tests.conftest import Clock
from tests.contract.mail_data import BOX, brought, dead, drained, message, post, taken

pytestmark = pytest.mark.travels("http", "unix", "ws")


def test_an_alias_is_another_name_for_a_session_at_enqueue(store: Store) -> None:
    told = mail.set_alias(store, "nick", BOX)
    assert (told.name, told.session, mail.aliases(store).aliases) == ("nick", BOX, (told,))
    assert mail.enqueue(store, message("one", to="nick")).pending == 1
    assert mail.enqueue(store, message("two")).pending == 2
    assert [one.session for one in mail.sessions(store).sessions] == [BOX]
    delivery = taken(store)
    assert (delivery.message.to, delivery.message.payload) == (BOX, "one")


RECEIVING: dict[str, Callable[[Store, str, str], object]] = {
    "dequeue": lambda store, name, msg_id: mail.dequeue(store, name),
    "wait": lambda store, name, msg_id: mail.wait(store, name, timeout_seconds=5),
    "next_available": lambda store, name, msg_id: mail.next_available(store, name)[0] or None,
    "peek": lambda store, name, msg_id: mail.peek(store, name).messages or None,
    "purge": lambda store, name, msg_id: mail.purge(store, name) or None,
    "policy": lambda store, name, msg_id: mail.policy(store, name).session == BOX or None,
    "set_policy": lambda store, name, msg_id: mail.set_policy(store, name, max_retries=7).session == BOX or None,
}


@pytest.mark.parametrize("act", RECEIVING.values(), ids=RECEIVING.keys())
def test_a_receiver_may_use_the_alias(store: Store, act: Callable[[Store, str, str], object]) -> None:
    mail.set_alias(store, "nick", BOX)
    assert act(store, "nick", post(store, to="nick")) is not None
    assert [one.session for one in mail.sessions(store).sessions] == [BOX]


@pytest.mark.parametrize("act", [mail.ack, mail.nack, mail.extend], ids=lambda act: act.__name__)
def test_a_delivery_may_be_ended_under_the_alias(store: Store, act: Callable[..., object]) -> None:
    mail.set_alias(store, "nick", BOX)
    msg_id = post(store)
    token = taken(store).delivery_token
    assert mail.delivery_state(store, "nick", msg_id, delivery_token=token) == "in_flight"
    act(store, "nick", msg_id, delivery_token=token)


def test_dead_letters_are_found_under_the_alias(store: Store, clock: Clock) -> None:
    mail.set_alias(store, "nick", BOX)
    scene = brought(store, clock, "dead_letter")
    assert [entry.message.msg_id for entry in mail.peek_dead_letter(store, "nick").entries] == [scene.msg_id]
    assert mail.retry_dead_letter(store, "nick", msg_id=scene.msg_id) == 1
    mail.set_policy(store, "nick", max_retries=0)
    mail.nack(store, "nick", taken(store).message.msg_id)
    assert mail.purge_dead_letter(store, "nick") == 1
    assert dead(store) == []


def test_an_ack_under_the_alias_takes_the_next_message(store: Store) -> None:
    mail.set_alias(store, "nick", BOX)
    first, _ = post(store, "one"), post(store, "two")
    token = taken(store, "nick").delivery_token
    _, following = mail.ack_and_dequeue(store, "nick", first, delivery_token=token)
    assert following is not None
    assert following.message.payload == "two"


def test_an_alias_is_resolved_once_so_a_later_change_moves_nothing(store: Store) -> None:
    mail.set_alias(store, "nick", BOX)
    post(store, "one", to="nick")
    mail.set_alias(store, "nick", "other")
    post(store, "two", to="nick")
    mail.remove_alias(store, "nick")
    post(store, "three", to="nick")
    assert (drained(store), drained(store, "other"), drained(store, "nick")) == (["one"], ["two"], ["three"])
    assert mail.aliases(store).aliases == ()


@pytest.mark.parametrize("state", ["pending", "in_flight", "nacked", "dead_letter"])
def test_a_mailbox_that_holds_messages_cannot_become_an_alias(store: Store, clock: Clock, state: str) -> None:
    brought(store, clock, state)
    with pytest.raises(InvalidState) as refused:
        mail.set_alias(store, BOX, "other")
    assert refused.value.hint
    assert mail.aliases(store).aliases == ()


def test_an_alias_names_the_receiver_alone_not_the_sender(store: Store) -> None:
    mail.set_alias(store, "ann", "somebody")
    post(store, sender="ann")
    assert taken(store).message.sender == "ann"


def test_an_alias_of_an_alias_or_of_itself_is_refused(store: Store) -> None:
    mail.set_alias(store, "nick", BOX)
    before = mail.aliases(store)
    for name, session in (("nick nick", "nick"), ("me", "me"), ("nick", "nick")):
        with pytest.raises(Invalid):
            mail.set_alias(store, name, session)
    assert mail.aliases(store) == before


def test_what_has_an_alias_cannot_become_one(store: Store) -> None:
    mail.set_alias(store, "nick", BOX)
    with pytest.raises(Invalid):
        mail.set_alias(store, BOX, "other")
    assert [one.name for one in mail.aliases(store).aliases] == ["nick"]


def test_an_alias_that_is_not_there_cannot_be_removed(store: Store) -> None:
    with pytest.raises(NotFound):
        mail.remove_alias(store, "nick")
