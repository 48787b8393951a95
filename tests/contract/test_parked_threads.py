"""Threads that were given back until their question is answered: nobody owns them, and the answer offers them again."""

from __future__ import annotations

import pytest

from postroom import work
from postroom.core.errors import InvalidInput
from postroom.store.interface import Store
from tests.contract.thread_data import asking, lease_of, status_of

pytestmark = pytest.mark.travels("http")


def parked(store: Store) -> str:
    """The id of a thread that was given back until its question is answered."""
    thread_id = asking(store).thread.thread_id
    work.release(store, thread_id, agent="builder", until_answered=True)
    return thread_id


def test_a_thread_given_back_until_its_answer_is_blocked_without_an_owner(store: Store) -> None:
    thread_id = parked(store)
    assert status_of(store, thread_id) == "blocked"
    assert not lease_of(store, thread_id).is_held
    assert work.take(store, agent="builder") is None
    assert not work.next_available(store, agent="builder")[0]


def test_the_answer_makes_a_thread_given_back_until_then_pending_for_its_asker_alone(store: Store) -> None:
    thread_id = parked(store)
    assert work.reply(store, thread_id, sender="leader", summary="Blue").thread.status == "pending"
    assert work.take(store, agent="other") is None
    claim = work.take(store, agent="builder")
    assert claim is not None
    assert (claim.thread.thread_id, claim.messages[-1].summary) == (thread_id, "Blue")
    assert work.take(store, agent="builder") is None  # one owner


def test_a_remark_leaves_what_was_given_back_until_its_answer_blocked(store: Store) -> None:
    thread_id = parked(store)
    work.reply(store, thread_id, sender="other", summary="I like blue")
    assert status_of(store, thread_id) == "blocked"


def test_a_control_message_offers_what_was_given_back_until_its_answer(store: Store) -> None:
    thread_id = parked(store)
    assert work.reply(store, thread_id, sender="leader", kind="control", summary="Choose yourself").thread.status == "pending"


def test_the_last_of_several_answers_offers_what_was_given_back_until_then(store: Store) -> None:
    asked = asking(store)
    thread_id = asked.thread.thread_id
    second = work.update(store, thread_id, agent="builder", status="blocked", summary="Which size?")
    work.release(store, thread_id, agent="builder", until_answered=True)
    first_answer = work.reply(store, thread_id, sender="leader", summary="Blue", question=asked.message.message_id)
    second_answer = work.reply(store, thread_id, sender="leader", summary="Big", question=second.message.message_id)
    assert (first_answer.thread.status, second_answer.thread.status) == ("blocked", "pending")


def test_a_thread_given_back_until_its_answer_is_pending_at_once_if_the_answer_is_there(store: Store) -> None:
    thread_id = asking(store).thread.thread_id
    work.reply(store, thread_id, sender="leader", summary="Blue")
    assert work.release(store, thread_id, agent="builder", until_answered=True).thread.status == "pending"


def test_a_thread_given_back_until_its_answer_can_be_claimed_cancelled_and_reassigned(store: Store) -> None:
    assert work.claim(store, parked(store), agent="other").thread.status == "claimed"
    assert work.cancel(store, parked(store), agent="leader").thread.status == "cancelled"
    assert work.reassign(store, parked(store), agent="leader", to="other").thread.status == "pending"


def test_a_thread_cannot_be_given_to_another_agent_until_an_answer(store: Store) -> None:
    thread_id = asking(store).thread.thread_id
    with pytest.raises(InvalidInput, match="until_answered"):
        work.release(store, thread_id, agent="builder", to="other", until_answered=True)
    assert lease_of(store, thread_id).is_held
