"""Batches: many threads are opened in one transaction, or none of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from postroom import work
from postroom.core import limits
from postroom.core.errors import InvalidInput, InvalidState, NotFound, Refusal
from postroom.core.records.work import PostedMessage
from postroom.store.interface import Store
from tests.contract.thread_data import everything

pytestmark = pytest.mark.travels("http")


def test_a_batch_opens_a_thread_for_each_draft_in_order(store: Store) -> None:
    whole = {"to": "ada", "summary": "S", "body": "B", "run": "r1", "task": "t1", "kind": "question", "priority": "high"}
    posted = work.send_all(
        store, [{"to": "bob", "subject": "First"}, {**whole, "payload": {"n": 1}, "artifacts": ["a.md"]}], sender="leader"
    )
    first, second = (work.show(store, one.thread.thread_id) for one in posted)
    assert (first.thread, first.messages) == (posted[0].thread, (posted[0].message,))
    assert (first.thread.assigned_to, first.thread.subject, first.messages[0].kind) == ("bob", "First", "task")
    assert (second.thread.run_id, second.thread.task_id, second.thread.priority) == ("r1", "t1", "high")
    message = second.messages[0]
    assert (message.summary, message.body, message.payload_json, message.kind) == ("S", "B", '{"n": 1}', "question")
    assert [artifact.path for artifact in message.artifacts] == ["a.md"]
    assert posted[0].message.event_id < posted[1].message.event_id


BAD_DRAFTS: list[Any] = [
    {},
    {"to": "ada"},
    {"subject": "S"},
    {"to": "ada", "subject": "S", "from": "eve"},
    {"to": "ada", "subject": "S", "kind": "song"},
    {"to": "ada", "subject": 3},
    {"to": "ada", "subject": "S", "payload": [1]},
    {"to": "ada", "subject": "S", "artifacts": "a"},
    "text",
]


@pytest.mark.parametrize("bad", BAD_DRAFTS)
@pytest.mark.input_check
def test_one_bad_draft_refuses_the_whole_batch_and_names_its_line(store: Store, bad: Any) -> None:
    before = everything(store)
    with pytest.raises(InvalidInput) as refused:
        work.send_all(store, [{"to": "ada", "subject": "S"}, {"to": "bob", "subject": "S"}, bad], sender="leader")
    assert refused.value.facts["line"] == 3
    assert str(refused.value).startswith("line 3: ")
    assert everything(store) == before


def test_a_strict_batch_refuses_a_receiver_that_was_never_seen(store: Store) -> None:
    before = everything(store)
    with pytest.raises(NotFound) as refused:
        work.send_all(store, [{"to": "leader", "subject": "S"}, {"to": "zoe", "subject": "S"}], sender="leader", strict=True)
    assert (refused.value.facts["line"], everything(store)) == (2, before)


@pytest.mark.parametrize("drafts", [[], [{"to": "ada", "subject": "S"}] * (limits.MAX_BATCH_ITEMS + 1)], ids=["none", "too many"])
def test_a_batch_has_a_bound(store: Store, drafts: list[Any]) -> None:
    with pytest.raises(Refusal):
        work.send_all(store, drafts, sender="leader")


def test_the_threads_of_a_batch_are_taken_in_the_order_of_their_lines(store: Store) -> None:
    work.send_all(store, [{"to": "builder", "subject": str(number)} for number in range(20)], sender="leader")
    taken = [work.take(store, agent="builder") for _ in range(20)]
    assert [claim and claim.thread.subject for claim in taken] == [str(number) for number in range(20)]


LINES = [{"to": "ada", "subject": "One"}, {"to": "bob", "subject": "Two"}, {"to": "ada", "subject": "Three"}]


def thread_ids(posted: Sequence[PostedMessage]) -> list[str]:
    return [one.thread.thread_id for one in posted]


def test_a_batch_with_a_key_opens_its_threads_once(store: Store) -> None:
    first = work.send_all(store, LINES, sender="leader", key="night-1")
    before = everything(store)
    again = work.send_all(store, LINES, sender="leader", key="night-1")
    assert (thread_ids(again), everything(store)) == (thread_ids(first), before)
    assert len(set(thread_ids(first))) == 3
    assert thread_ids(work.send_all(store, LINES, sender="leader", key="night-2")) != thread_ids(first)


def test_a_line_keeps_its_own_key_wherever_it_stands(store: Store) -> None:
    own = {"to": "ada", "subject": "Own", "key": "k"}
    (first,) = work.send_all(store, [own], sender="leader")
    again = work.send_all(store, [LINES[0], own], sender="leader", key="night-1")
    assert again[1].thread.thread_id == first.thread.thread_id
    assert work.send(store, sender="leader", to="ada", subject="Own", key="k").thread.thread_id == first.thread.thread_id


def test_a_changed_line_with_the_same_key_refuses_the_batch(store: Store) -> None:
    work.send_all(store, LINES, sender="leader", key="night-1")
    before = everything(store)
    with pytest.raises(InvalidState) as refused:
        work.send_all(store, [*LINES[:1], {"to": "bob", "subject": "Other"}], sender="leader", key="night-1")
    assert (refused.value.facts["line"], everything(store)) == (2, before)


def test_a_line_may_name_its_run_and_task_as_our_json_does(store: Store) -> None:
    (sent,) = work.send_all(store, [{"to": "ada", "subject": "S", "run_id": "r1", "task_id": "t1"}], sender="leader")
    assert (sent.thread.run_id, sent.thread.task_id) == ("r1", "t1")
    with pytest.raises(InvalidInput):
        work.send_all(store, [{"to": "ada", "subject": "S", "run_id": "r1", "run": "r2"}], sender="leader")
