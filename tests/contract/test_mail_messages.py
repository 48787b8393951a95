"""Messages: what a mailbox takes in, what it refuses, whom it is for, and that an id is known for ever. Sections 2, 8 and 9."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from postroom import mail
from postroom.core import clock as time
from postroom.core.errors import DeliveryLost, InvalidInput, NotFound
from postroom.store.interface import Store
from tests.conftest import Clock
from tests.contract.mail_data import (
    BOX,
    brought,
    dead,
    drained,
    everything,
    held,
    killed,
    message,
    post,
    state_of,
    taken,
    waiting,
)
from tests.contract.test_texts import each_bad, each_text

pytestmark = pytest.mark.travels("http", "unix", "ws")

MIB = 1024 * 1024
LAST_SECOND = 253_402_300_799  # of the year 9999
LAST_UINT64 = 2**64 - 1
DOCUMENTS_OWN = {
    "msg_id": "orchestrator:1743999600123456789",
    "from": "aigentry-orchestrator-claude",
    "to": "aigentry-analyst-claude",
    "payload": "analyze the auth module",
    "created_at": 1743999600,
    "attempt": 0,
}


# Accepted messages


def test_the_documents_own_message_comes_back_to_the_letter(store: Store) -> None:
    told = mail.enqueue(store, DOCUMENTS_OWN)
    assert told.to_json() == {"msg_id": DOCUMENTS_OWN["msg_id"], "queued": True, "pending": 1}
    delivered = taken(store, "aigentry-analyst-claude").message
    assert delivered.to_json() == DOCUMENTS_OWN
    assert (delivered.msg_id, delivered.sender, delivered.to) == (DOCUMENTS_OWN["msg_id"], DOCUMENTS_OWN["from"], DOCUMENTS_OWN["to"])


def test_camel_case_says_the_same(store: Store) -> None:
    mail.enqueue(store, message(msgId="m:1", createdAt=1743999600, protocolVersion="1.0", attempt=0))
    said = taken(store).message.to_json()
    assert (said["msg_id"], said["created_at"], said["protocol_version"]) == ("m:1", 1743999600, "1.0")
    assert not {"msgId", "createdAt", "protocolVersion"} & set(said)


@pytest.mark.parametrize(("snake", "camel", "value"), [("msg_id", "msgId", "m:1"), ("created_at", "createdAt", 7)])
def test_a_field_in_both_spellings_may_say_one_thing(store: Store, snake: str, camel: str, value: Any) -> None:
    mail.enqueue(store, message(**{snake: value, camel: value}))
    assert taken(store).message.to_json()[snake] == value


@pytest.mark.parametrize(
    ("snake", "camel", "values"),
    [("msg_id", "msgId", ("m:1", "m:2")), ("created_at", "createdAt", (7, 8)), ("protocol_version", "protocolVersion", ("1.0", "2.0"))],
)
def test_a_field_in_both_spellings_may_not_say_two(store: Store, snake: str, camel: str, values: tuple[Any, Any]) -> None:
    before = everything(store)
    with pytest.raises(InvalidInput) as refused:
        mail.enqueue(store, message(**{snake: values[0], camel: values[1]}))
    assert refused.value.facts["field"] == snake
    assert everything(store) == before


def test_what_was_not_said_is_the_stores_time_and_an_id_of_sender_and_nanoseconds(store: Store, clock: Clock) -> None:
    told = mail.enqueue(store, {"from": "ann", "to": BOX, "payload": "hello"})
    assert told.msg_id == f"ann:{clock.instant * 1000}"
    assert taken(store).message.to_json() == {
        "msg_id": told.msg_id,
        "from": "ann",
        "to": BOX,
        "payload": "hello",
        "created_at": clock.instant // time.MICROSECONDS_PER_SECOND,
        "attempt": 0,
    }


def test_ids_made_in_one_instant_move_on_by_nanoseconds(store: Store, clock: Clock) -> None:
    told = [mail.enqueue(store, message(to=to)) for to in (BOX, BOX, "other", BOX, "other")]
    first = clock.instant * 1000
    assert [one.msg_id for one in told] == [f"ann:{first + number}" for number in range(5)]
    assert all(one.queued for one in told)


def test_a_made_id_steps_over_one_that_was_given(store: Store, clock: Clock) -> None:
    post(store, msg_id=f"ann:{clock.instant * 1000}", to="other")
    assert post(store) == f"ann:{clock.instant * 1000 + 1}"


def test_a_made_id_fits_however_long_the_senders_name(store: Store) -> None:
    assert re.fullmatch("x{200}:[0-9]+", post(store, sender="x" * 200))


@pytest.mark.parametrize("created_at", [0, 1, 1743999600, LAST_SECOND, LAST_SECOND + 1, 2**63 - 1, 2**63, LAST_UINT64])
@pytest.mark.every_value
def test_created_at_may_be_any_second_there_is(store: Store, created_at: int) -> None:
    msg_id = post(store, created_at=created_at)
    shown = mail.show(store, msg_id).message
    assert shown is not None
    assert (mail.peek(store, BOX).messages[0].created_at, shown.created_at, taken(store).message.created_at) == (created_at,) * 3


def test_a_whole_number_in_a_floats_clothes_is_a_whole_number(store: Store) -> None:
    post(store, created_at=1743999600.0)
    created_at = taken(store).message.created_at
    assert (created_at, type(created_at)) == (1743999600, int)


@pytest.mark.parametrize("attempt", [0, 1, 7, 2**32 - 1])
def test_attempts_are_counted_here_whatever_the_sender_says(store: Store, attempt: int) -> None:
    post(store, attempt=attempt)
    assert taken(store).message.attempt == 0


def test_an_empty_payload_is_a_payload(store: Store) -> None:
    post(store, "")
    assert taken(store).message.payload == ""


@each_text
@pytest.mark.every_value
def test_a_payload_comes_back_as_it_was_given(store: Store, text: str) -> None:
    msg_id = post(store, text)
    shown = mail.show(store, msg_id).message
    assert shown is not None
    assert (taken(store).message.payload, shown.payload) == (text, text)


@pytest.mark.parametrize("text", ["a\0b", "\0", "\x10", "\x10\x10", "\x100\0\x10", "\0" * 3], ids=ascii)
@pytest.mark.every_value
def test_a_payload_may_hold_nul_on_every_engine(store: Store, clock: Clock, text: str) -> None:
    msg_id = mail.enqueue(store, message(text, msg_id="m:1")).msg_id
    assert not mail.enqueue(store, message(text, msg_id="m:1")).queued
    killed(store, clock)
    assert mail.peek_dead_letter(store, BOX).entries[0].message.payload == text
    mail.retry_dead_letter(store, BOX, msg_id=msg_id)
    assert taken(store).message.payload == text


@pytest.mark.parametrize("character", ["x", "é", "😀"])
def test_ten_mebibytes_of_payload_pass_whole_and_a_byte_more_is_refused(store: Store, character: str) -> None:
    payload = character * (10 * MIB // len(character.encode()))
    with pytest.raises(InvalidInput) as refused:
        mail.enqueue(store, message(payload + "x"))
    assert refused.value.facts["field"] == "payload"
    assert mail.enqueue(store, message(payload)).pending == 1
    assert taken(store).message.payload == payload


NAMES = [
    "../x",
    "/etc/passwd",
    "..",
    ".",
    "~",
    "C:\\x",
    "a/../../b",
    "x" * 200,
    "'; DROP TABLE deliveries; --",
    "%s :to ?1 $1",
    "建築者 👷",
    "-f",
]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.every_value
def test_a_name_is_only_a_name(store: Store, name: str, tmp_path: Path) -> None:
    post(store, sender=name, to=name)
    delivery = taken(store, name)
    assert (delivery.message.sender, delivery.message.to) == (name, name)
    mail.ack(store, name, delivery.message.msg_id)
    assert [one.session for one in mail.sessions(store).sessions] == [name]
    assert [path.name for path in tmp_path.rglob("*") if not path.name.startswith("coord.db")] == []


UNKNOWN: list[dict[str, Any]] = [
    {"protocol_version": "1.0"},
    {"priority": 3, "tags": ["a", "b"], "nested": {"deep": [1, 2.5, None, True, {"x": "é 😀"}]}},
    {"sender": "not the from", "session": "s", "state": "acked", "delivery_token": "x", "extra_json": "{}", "id": 1},
    {"empty": "", "nothing": None, "yes": True, "big": 123456789012345678901234567890, "small": 1e-300},
    {"replyTo": "camel stays camel", "": "a nameless one", "with space": 1, "'; --": 2},
    {"long": "y" * 60_000},
]


@pytest.mark.parametrize("extra", UNKNOWN, ids=lambda extra: next(iter(extra)) or "empty")
@pytest.mark.every_value
def test_unknown_fields_come_back_wherever_the_message_does(store: Store, clock: Clock, extra: dict[str, Any]) -> None:
    msg_id = mail.enqueue(store, {**message(), **extra}).msg_id
    whole = {**message(msg_id=msg_id, created_at=clock.instant // time.MICROSECONDS_PER_SECOND, attempt=0), **extra}
    shown = mail.show(store, msg_id).message
    waited = mail.wait(store, BOX, timeout_seconds=1)
    assert shown is not None
    assert waited is not None
    assert (shown.to_json(), waited.message.to_json()) == (whole, whole)
    mail.nack(store, BOX, msg_id)
    clock.advance(5)
    assert taken(store).message.to_json() == {**whole, "attempt": 1}


def test_unknown_fields_come_back_with_a_dead_letter_and_cannot_pose_as_its_own(store: Store, clock: Clock) -> None:
    msg_id = post(store, priority=3, reason="forged", failed_at=1, attempts=99)
    killed(store, clock, reason="it broke")
    entry = mail.peek_dead_letter(store, BOX).entries[0].to_json()
    assert (entry["msg_id"], entry["priority"]) == (msg_id, 3)
    assert (entry["reason"], entry["failed_at"], entry["attempts"]) == (
        "max_retries exhausted: it broke",
        clock.instant // time.MICROSECONDS_PER_SECOND,
        3,
    )


def test_unknown_fields_have_a_bound(store: Store) -> None:
    before = everything(store)
    with pytest.raises(InvalidInput):
        mail.enqueue(store, message(long="y" * 65_536))
    assert everything(store) == before


@pytest.mark.parametrize(
    "wrap", [lambda inner: [inner], lambda inner: {"a": inner}, lambda inner: [1, {"b": [inner]}]], ids=["list", "dict", "both"]
)
def test_unknown_fields_are_nested_only_so_deep(store: Store, wrap: Callable[[object], object]) -> None:
    """Else there were a message that can be stored, and not be read by who is handed it."""
    before = everything(store)
    deep: object = 1
    for _ in range(100):
        deep = wrap(deep)
    with pytest.raises(InvalidInput):
        mail.enqueue(store, message(deep=deep))
    assert everything(store) == before
    level: object = 1
    for _ in range(99):
        level = [level]
    mail.enqueue(store, message(level=level))
    assert taken(store).message.to_json()["level"] == level


@pytest.mark.parametrize("value", [1j, {1, 2}, b"bytes", math.inf, -math.inf, "a\0b", "\ud800", {"a\0b": 1}, [["\udcff"]]], ids=ascii)
def test_an_unknown_field_that_is_no_json_is_refused_or_comes_back(store: Store, value: object) -> None:
    """Never half: what was accepted is given back, and what cannot be given back was not accepted."""
    before = everything(store)
    try:
        mail.enqueue(store, message(odd=value))
    except InvalidInput:
        assert everything(store) == before
    else:
        assert taken(store).message.to_json()["odd"] == value


def test_pending_counts_what_is_pending_in_that_mailbox(store: Store) -> None:
    assert [mail.enqueue(store, message(sender=sender)).pending for sender in ("ann", "bob", "ann")] == [1, 2, 3]
    assert mail.enqueue(store, message(to="other")).pending == 1
    taken(store)
    assert mail.enqueue(store, message()).pending == 3


def test_pending_counts_what_has_fallen_due(store: Store, clock: Clock) -> None:
    mail.nack(store, BOX, held(store).msg_id)
    assert mail.enqueue(store, message()).pending == 1
    clock.advance(5)
    assert mail.enqueue(store, message()).pending == 3


# Refused messages

MISSING = ...  # the field is not there at all
BAD_NAMES = ["", "   ", " ann", "ann ", "a\nb", "a\tb", "a\0b", "\ud800", "x" * 201, "x" * 10_000, "a\u2028b", "\x1b[31m", 7, ["ann"]]
REFUSED: list[tuple[str, list[Any]]] = [
    ("from", [MISSING, None, *BAD_NAMES]),
    ("to", [MISSING, None, *BAD_NAMES]),
    ("payload", [MISSING, None, 7, 1.5, True, b"bytes", {"a": 1}, ["a"], "\ud800", "x" * (10 * MIB + 1)]),
    ("msg_id", ["", "a\nb", "a\0b", "\udcff", "x" * 401, 7, True, ["m"]]),
    ("created_at", [-1, LAST_UINT64 + 1, 10**30, 1.5, "1743999600", "", True, [1], math.nan, math.inf, -math.inf]),
    ("attempt", [-1, 1.5, "0", "x", [0], math.nan]),
]
CASES = [pytest.param(field, value, id=f"{field}: {ascii(value)[:40]}") for field, values in REFUSED for value in values]


@pytest.mark.parametrize(("field", "value"), CASES)
@pytest.mark.input_check
def test_a_malformed_message_is_refused_by_the_fields_name_and_nothing_changes(store: Store, field: str, value: Any) -> None:
    post(store)
    before = everything(store)
    spoilt = {**message(msg_id="m:1", created_at=7, attempt=0), field: value}
    if value is MISSING:
        del spoilt[field]
    with pytest.raises(InvalidInput) as refused:
        mail.enqueue(store, spoilt)
    assert refused.value.facts["field"] == field
    assert everything(store) == before
    with pytest.raises(NotFound):
        mail.show(store, "m:1")


@pytest.mark.parametrize(("camel", "field", "value"), [("msgId", "msg_id", "a\nb"), ("createdAt", "created_at", -1)])
def test_a_refusal_names_the_field_in_one_spelling(store: Store, camel: str, field: str, value: Any) -> None:
    with pytest.raises(InvalidInput) as refused:
        mail.enqueue(store, message(**{camel: value}))
    assert refused.value.facts["field"] == field


@pytest.mark.parametrize("thing", [None, 7, "hello", [], [("from", "ann")], b"{}"], ids=repr)
@pytest.mark.input_check
def test_what_is_no_mapping_is_no_message(store: Store, thing: Any) -> None:
    with pytest.raises(InvalidInput) as refused:
        mail.enqueue(store, thing)
    assert refused.value.facts["field"] == "message"


NAMED: dict[str, Callable[[Store, Any], object]] = {
    "dequeue": mail.dequeue,
    "wait": lambda s, name: mail.wait(s, name, timeout_seconds=0.01),
    "ack": lambda s, name: mail.ack(s, name, "m:1"),
    "nack": lambda s, name: mail.nack(s, name, "m:1"),
    "extend": lambda s, name: mail.extend(s, name, "m:1"),
    "peek": mail.peek,
    "purge": mail.purge,
    "peek_dead_letter": mail.peek_dead_letter,
    "purge_dead_letter": mail.purge_dead_letter,
    "retry_dead_letter": mail.retry_dead_letter,
    "policy": mail.policy,
    "set_policy": lambda s, name: mail.set_policy(s, name, max_retries=1),
    "set_alias": lambda s, name: mail.set_alias(s, "nick", name),
}


@pytest.mark.parametrize("name", ["", " box", "a\nb", "a\0b", "\ud800", "x" * 201], ids=ascii)
@pytest.mark.parametrize("act", NAMED.values(), ids=NAMED.keys())
@pytest.mark.input_check
def test_no_verb_takes_an_absurd_name_for_a_session(store: Store, act: Callable[[Store, Any], object], name: str) -> None:
    post(store, msg_id="m:1")
    before = everything(store)
    with pytest.raises(InvalidInput) as refused:
        act(store, name)
    assert refused.value.facts["field"] == "session"
    assert everything(store) == before


@each_bad
def test_texts_that_cannot_be_stored_are_refused_wherever_a_verb_takes_one(store: Store, bad: str) -> None:
    scene = held(store)
    before = everything(store)
    with pytest.raises(InvalidInput) as refused:
        mail.nack(store, BOX, scene.msg_id, bad)
    assert refused.value.facts["field"] == "reason"
    for act in (mail.ack, mail.nack, mail.extend):
        with pytest.raises((InvalidInput, NotFound)):
            act(store, BOX, bad)
        with pytest.raises((InvalidInput, DeliveryLost)):
            act(store, BOX, scene.msg_id, delivery_token=bad)
    with pytest.raises((InvalidInput, NotFound)):
        mail.show(store, bad)
    with pytest.raises(InvalidInput):
        mail.set_alias(store, bad, BOX)
    assert everything(store) == before


@pytest.mark.parametrize("receiver", ["", "a\nb", "a\0b", "\ud800"], ids=ascii)
def test_a_receiver_of_no_proper_name_gets_nothing(store: Store, receiver: str) -> None:
    msg_id = post(store)
    with pytest.raises(InvalidInput) as refused:
        mail.dequeue(store, BOX, receiver=receiver)
    assert refused.value.facts["field"] == "receiver"
    assert state_of(store, msg_id) == "pending"


@each_text
@pytest.mark.every_value
def test_a_reason_comes_back_as_it_was_given(store: Store, clock: Clock, text: str) -> None:
    post(store)
    killed(store, clock, reason=text)
    assert mail.peek_dead_letter(store, BOX).entries[0].to_json()["reason"] == f"max_retries exhausted: {text}"


# Once and no more


def test_an_id_is_known_after_its_dead_letter_was_purged(store: Store, clock: Clock) -> None:
    scene = brought(store, clock, "dead_letter")
    mail.purge_dead_letter(store, BOX)
    assert not mail.enqueue(store, message(msg_id=scene.msg_id)).queued
    assert (waiting(store), dead(store), state_of(store, scene.msg_id)) == ([], [], "purged")


def test_a_message_sent_ten_times_is_delivered_once(store: Store) -> None:
    told = [mail.enqueue(store, message(msg_id="m:1")) for _ in range(10)]
    assert [one.queued for one in told] == [True] + [False] * 9
    assert {one.pending for one in told} == {1}
    assert drained(store) == ["hello"]
    assert not mail.enqueue(store, message(msg_id="m:1")).queued
    assert drained(store) == []


@pytest.mark.parametrize("act", [mail.ack, mail.nack, mail.extend], ids=lambda act: act.__name__)
def test_speaking_of_an_id_never_seen_does_not_make_it_known(store: Store, act: Callable[..., object]) -> None:
    """The program it replaces lost the genuine message as a duplicate then."""
    with pytest.raises(NotFound):
        act(store, BOX, "m:1")
    assert mail.enqueue(store, message(msg_id="m:1")).queued
    assert drained(store) == ["hello"]


def test_a_refused_message_leaves_its_id_free(store: Store) -> None:
    with pytest.raises(InvalidInput):
        mail.enqueue(store, message(msg_id="m:1", created_at=-1))
    assert mail.enqueue(store, message(msg_id="m:1")).queued
