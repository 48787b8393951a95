"""Replying inside a thread."""

from __future__ import annotations

import pytest

from postroom import work
from postroom.core.errors import InvalidInput, InvalidState, NotFound
from postroom.core.records.work import Attachment
from postroom.core.states import KINDS, REPLY_KINDS
from postroom.store.interface import Store
from tests.conftest import Clock
from tests.contract.thread_data import as_shown, asking, ended, everything, held, last_message, lease_of, sent, status_of

pytestmark = pytest.mark.travels("http", "unix", "ws")


def test_a_reply_is_an_answer_unless_said_otherwise(store: Store) -> None:
    asked = asking(store)
    answered = work.reply(store, asked.thread.thread_id, sender="leader", summary="Blue")
    assert last_message(store, asked.thread.thread_id) == answered.message
    assert (answered.message.kind, answered.message.from_agent, answered.message.to_agent) == ("answer", "leader", "builder")


def test_a_reply_leaves_a_blocked_thread_blocked_until_its_worker_updates_it(store: Store) -> None:
    thread_id = asking(store).thread.thread_id
    work.reply(store, thread_id, sender="leader", summary="Blue")
    assert status_of(store, thread_id) == "blocked"
    work.update(store, thread_id, agent="builder", summary="Painting")
    assert status_of(store, thread_id) == "in_progress"


def test_a_reply_leaves_the_lease_of_another_alone(store: Store, clock: Clock) -> None:
    claimed = held(store)
    clock.advance(60)
    work.reply(store, claimed.thread.thread_id, sender="leader", summary="Blue")
    assert lease_of(store, claimed.thread.thread_id) == as_shown(store, claimed.lease)


def test_the_workers_reply_goes_to_the_creator(store: Store) -> None:
    thread_id = held(store).thread.thread_id
    assert work.reply(store, thread_id, sender="builder", kind="progress", summary="Half").message.to_agent == "leader"


def test_a_reply_can_be_addressed(store: Store) -> None:
    thread_id = asking(store).thread.thread_id
    assert work.reply(store, thread_id, sender="leader", to="reviewer", summary="Look").message.to_agent == "reviewer"


def test_a_reply_is_open_to_anyone(store: Store) -> None:
    thread_id = asking(store).thread.thread_id
    assert work.reply(store, thread_id, sender="stranger", summary="Green").message.from_agent == "stranger"


@pytest.mark.parametrize("kind", REPLY_KINDS)
def test_each_kind_of_reply_can_be_given(store: Store, kind: str) -> None:
    assert work.reply(store, sent(store), sender="leader", kind=kind, summary="Yes").message.kind == kind


@pytest.mark.parametrize("kind", [*sorted(set(KINDS) - set(REPLY_KINDS)), "gossip", ""])
def test_a_kind_that_is_no_reply_is_refused(store: Store, kind: str) -> None:
    thread_id = asking(store).thread.thread_id
    before = everything(store)
    with pytest.raises(InvalidInput):
        work.reply(store, thread_id, sender="leader", kind=kind, summary="Blue")
    assert everything(store) == before


def test_body_payload_and_artifacts_are_kept(store: Store) -> None:
    thread_id = asking(store).thread.thread_id
    work.reply(
        store,
        thread_id,
        sender="leader",
        summary="Blue",
        body="Like\nthe sky",
        payload_json='{"rgb":[0,0,255]}',
        artifacts=[Attachment("sky.png")],
    )
    kept = last_message(store, thread_id)
    assert (kept.body, kept.payload_json, [one.path for one in kept.artifacts]) == ("Like\nthe sky", '{"rgb":[0,0,255]}', ["sky.png"])


def test_a_body_alone_is_an_answer(store: Store) -> None:
    assert work.reply(store, asking(store).thread.thread_id, sender="leader", body="Blue").message.body == "Blue"


def test_an_empty_reply_is_refused(store: Store) -> None:
    thread_id = asking(store).thread.thread_id
    before = everything(store)
    with pytest.raises(InvalidInput):
        work.reply(store, thread_id, sender="leader")
    assert everything(store) == before


def test_a_reply_to_a_thread_that_is_not_there_is_refused(store: Store) -> None:
    with pytest.raises(NotFound):
        work.reply(store, "thr_nowhere", sender="leader", summary="Blue")


@pytest.mark.parametrize("how", ["done", "failed", "cancelled"])
def test_a_thread_that_ended_takes_no_reply(store: Store, how: str) -> None:
    thread_id = ended(store, how)
    before = everything(store)
    with pytest.raises(InvalidState) as refused:
        work.reply(store, thread_id, sender="leader", summary="Too late")
    assert everything(store) == before
    assert (f"`inbox retry {thread_id}`" in refused.value.hint) == (how != "done")


@pytest.mark.parametrize("wrong", [{"sender": ""}, {"to": "a\nb"}, {"payload_json": "[]"}])
def test_a_malformed_reply_is_refused(store: Store, wrong: dict[str, str]) -> None:
    thread_id = asking(store).thread.thread_id
    before = everything(store)
    with pytest.raises(InvalidInput):
        work.reply(store, thread_id, **{"sender": "leader", "summary": "Blue", **wrong})  # type: ignore[arg-type]
    assert everything(store) == before


def test_a_reply_that_is_said_again_with_its_key_is_there_once(store: Store) -> None:
    thread_id = asking(store).thread.thread_id
    first = work.reply(store, thread_id, sender="leader", summary="Blue", key="once")
    before = everything(store)
    again = work.reply(store, thread_id, sender="leader", summary="Blue", key="once")
    assert (again.message, again.next_event_id) == (first.message, first.next_event_id)
    with pytest.raises(InvalidState, match="another message"):
        work.reply(store, thread_id, sender="leader", summary="Green", key="once")
    assert everything(store) == before
    assert work.reply(store, thread_id, sender="leader", summary="Blue", key="twice").message != first.message
    assert work.reply(store, thread_id, sender="boss", summary="Blue", key="once").message != first.message


def test_a_reply_with_a_key_is_known_also_when_the_thread_has_ended(store: Store) -> None:
    asked = asking(store)
    first = work.reply(store, asked.thread.thread_id, sender="leader", summary="Blue", key="once")
    work.done(store, asked.thread.thread_id, agent="builder", summary="Painted")
    assert work.reply(store, asked.thread.thread_id, sender="leader", summary="Blue", key="once").message == first.message
