"""The messages of a claim, and payloads as dicts: a worker reads its work without a second call, and without parsing text."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from postroom import tasks, work
from postroom.core import limits
from postroom.core.errors import InvalidInput
from postroom.core.records.work import Attachment, Claim
from postroom.store.interface import Store
from tests.contract.thread_data import held, sent

pytestmark = pytest.mark.travels("http")

CLAIMERS: dict[str, Callable[[Store, str], Claim | None]] = {
    "claim": lambda store, thread: work.claim(store, thread, agent="builder"),
    "take": lambda store, thread: work.take(store, agent="builder"),
    "wait_take": lambda store, thread: work.wait_take(store, agent="builder", timeout_seconds=5),
}


def said(claim: Claim) -> list[str]:
    return [message.summary for message in claim.messages]


@pytest.mark.parametrize("claim", CLAIMERS.values(), ids=CLAIMERS)
def test_a_claim_carries_what_was_said_with_payloads_and_artifacts(store: Store, claim: Callable[[Store, str], Claim | None]) -> None:
    payload = {"numbers": [2, 3], "deep": {"a": None}}
    opened = work.send(store, sender="leader", to="builder", subject="Add", payload=payload, artifacts=(Attachment("in.txt"),))
    work.send(store, sender="leader", thread_id=opened.thread.thread_id, summary="Hurry")
    claimed = claim(store, opened.thread.thread_id)
    assert claimed is not None
    assert (said(claimed), claimed.more) == (["Add", "Hurry"], False)
    assert claimed.messages[0].payload == payload
    assert claimed.messages == work.show(store, opened.thread.thread_id).messages
    told = claimed.to_json()
    assert told["messages"][0]["payload"] == payload
    assert told["messages"][0]["payload_json"] == opened.message.payload_json


def test_done_and_take_carries_the_messages_of_the_next_thread(store: Store) -> None:
    thread = held(store, agent="builder").thread.thread_id
    sent(store, to="builder", subject="Next")
    _, taken = tasks.done_and_take(store, thread, agent="builder", summary="ok")
    assert taken is not None
    assert said(taken) == ["Next"]


@pytest.mark.parametrize("count", [limits.MAX_CLAIM_MESSAGES, limits.MAX_CLAIM_MESSAGES + 1, limits.MAX_CLAIM_MESSAGES + 2])
def test_a_claim_of_a_long_thread_carries_its_first_message_and_the_newest(store: Store, count: int) -> None:
    thread = sent(store, to="builder", subject="0")
    for number in range(1, count):
        work.send(store, sender="leader", thread_id=thread, summary=str(number))
    claimed = work.claim(store, thread, agent="builder")
    newest = [str(number) for number in range(max(count - limits.MAX_CLAIM_MESSAGES, 0), count)]
    assert said(claimed) == (newest if newest[0] == "0" else ["0", *newest])
    assert claimed.more == (count > limits.MAX_CLAIM_MESSAGES + 1)


def test_a_claim_is_bounded_by_the_size_of_its_messages(store: Store) -> None:
    thread = sent(store, to="builder", subject="0")
    for number in range(1, 5):
        work.send(store, sender="leader", thread_id=thread, summary=str(number), body="x" * (limits.MAX_PAGE_CHARS // 2))
    claimed = work.claim(store, thread, agent="builder")
    assert (said(claimed), claimed.more) == (["0", "4"], True)


def test_a_renewal_carries_no_messages(store: Store) -> None:
    claim = held(store, agent="builder")
    renewed = work.renew(store, claim.thread.thread_id, agent="builder")
    assert renewed.messages == ()
    assert "messages" not in renewed.to_json()


def test_every_verb_that_writes_takes_its_payload_as_a_dict(store: Store) -> None:
    payload = {"key": ["value", 1, True, None]}
    thread = work.send(store, sender="leader", to="builder", subject="Add", payload=payload).thread.thread_id
    work.claim(store, thread, agent="builder")
    work.update(store, thread, agent="builder", summary="on it", payload=payload)
    work.reply(store, thread, sender="leader", summary="fine", payload=payload)
    work.done(store, thread, agent="builder", summary="ok", payload=payload)
    assert [message.payload for message in work.show(store, thread).messages] == [payload] * 4
    for end in (work.fail, work.cancel):
        other = held(store, agent="builder").thread.thread_id
        assert end(store, other, agent="builder", payload=payload).message.payload == payload
    finished, _ = tasks.done_and_take(store, held(store, agent="builder").thread.thread_id, agent="builder", payload=payload)
    assert finished.message.payload == payload


@pytest.mark.parametrize("payload", [[1], "text", {"a": float("inf")}, {"a": "\ud800"}], ids=("list", "text", "infinity", "surrogate"))
def test_a_payload_that_is_no_json_object_is_refused(store: Store, payload: object) -> None:
    with pytest.raises(InvalidInput):
        work.send(store, sender="leader", to="builder", subject="Add", payload=payload)  # type: ignore[arg-type]
    assert work.list_threads(store).threads == ()


def test_a_payload_is_given_once(store: Store) -> None:
    with pytest.raises(InvalidInput, match="exclude each other"):
        work.send(store, sender="leader", to="builder", subject="Add", payload={"a": 1}, payload_json='{"a": 2}')


def test_an_event_has_its_facts_as_a_dict(store: Store) -> None:
    sent(store, to="builder")
    event = work.watch(store, after_event=0, timeout_seconds=1).events[0]
    assert event.payload["assigned_to"] == "builder"
    assert event.to_json()["payload"] == event.payload
