"""A person takes a thread back: pending again, its holder told and refused, and what it asked ended."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing

import pytest

from postroom import people, tasks, work
from postroom.core.errors import InvalidInput, InvalidState, LeaseHeld, NotFound
from postroom.core.records.work import ReplyWaitResult
from postroom.store.interface import Store
from tests.conftest import Clock
from tests.contract.blocking_store import LONG, BlockingStore
from tests.contract.people_data import ADA, AGENT, USER, blocked, happened, inbox, persons, question_of, state_of, steps, surfaced
from tests.contract.thread_data import asking, ended, events, everything, held, last_message, sent, status_of, thread_of

pytestmark = pytest.mark.travels("http")

Act = Callable[..., object]
each_write = pytest.mark.parametrize(
    "act", [work.renew, work.update, work.done, work.fail, work.release, tasks.done_and_take], ids=lambda act: act.__name__
)


def test_a_thread_taken_back_is_pending_for_the_same_agent(store: Store) -> None:
    thread_id = held(store).thread.thread_id
    posted = work.revoke_lease(store, thread_id, person=USER, reason="It hangs")
    assert (posted.thread.status, posted.thread.assigned_to) == ("pending", "builder")
    assert thread_of(store, thread_id) == posted.thread
    lease = work.show(store, thread_id).lease
    assert lease is None or not lease.is_held
    assert [candidate.thread.thread_id for candidate in work.fetch(store, agent="builder").candidates] == [thread_id]


def test_its_holder_is_told_why_by_a_control_message(store: Store) -> None:
    thread_id = held(store).thread.thread_id
    posted = work.revoke_lease(store, thread_id, person=USER, reason="It hangs")
    said = last_message(store, thread_id)
    assert said == posted.message
    assert (said.kind, said.from_agent, said.to_agent, said.summary) == ("control", USER, "builder", "It hangs")
    assert [unread.thread.thread_id for unread in work.fetch(store, agent="builder", unread=True).candidates] == [thread_id]


def test_it_is_one_event_which_says_who_did_it(store: Store) -> None:
    thread_id = held(store).thread.thread_id
    before = len(events(store))
    posted = work.revoke_lease(store, thread_id, person=USER)
    (event,) = events(store)[before:]
    assert (event.event_type, event.source, event.message_id) == ("thread.released", USER, posted.message.message_id)


@each_write
def test_the_former_holders_next_write_is_refused(store: Store, act: Act) -> None:
    claim = held(store)
    work.revoke_lease(store, claim.thread.thread_id, person=USER)
    before = everything(store)
    for token in (None, claim.lease.lease_token):
        with pytest.raises(InvalidState) as refused:
            act(store, claim.thread.thread_id, agent="builder", lease_token=token)
        assert "stop" in refused.value.hint, "a hint to claim it again would undo what the person did"
    assert everything(store) == before


@each_write
def test_who_takes_it_next_owns_it_alone(store: Store, act: Act) -> None:
    claim = held(store)
    work.revoke_lease(store, claim.thread.thread_id, person=USER)
    work.claim(store, claim.thread.thread_id, agent="other")
    with pytest.raises(LeaseHeld):
        act(store, claim.thread.thread_id, agent="builder", lease_token=claim.lease.lease_token)
    work.done(store, claim.thread.thread_id, agent="other")


def test_what_lapsed_is_taken_back_too(store: Store, clock: Clock) -> None:
    thread_id = held(store, lease_seconds=1).thread.thread_id
    clock.advance(2)
    assert work.revoke_lease(store, thread_id, person=USER).thread.status == "pending"
    with pytest.raises(InvalidState):
        work.update(store, thread_id, agent="builder", summary="Still here")


def test_a_blocked_thread_taken_back_is_offered_again(store: Store) -> None:
    thread_id = asking(store).thread.thread_id
    work.revoke_lease(store, thread_id, person=USER)
    taken = work.take(store, agent="builder")
    assert taken is not None
    assert taken.thread.thread_id == thread_id


def test_what_nobody_holds_is_not_taken_back(store: Store) -> None:
    thread_id = sent(store)
    released = held(store).thread.thread_id
    work.release(store, released, agent="builder")
    before = everything(store)
    for each in (thread_id, released):
        with pytest.raises(InvalidState, match="nobody holds"):
            work.revoke_lease(store, each, person=USER)
    assert everything(store) == before


def test_taken_back_twice_is_taken_back_once(store: Store) -> None:
    thread_id = held(store).thread.thread_id
    work.revoke_lease(store, thread_id, person=USER)
    with pytest.raises(InvalidState):
        work.revoke_lease(store, thread_id, person=USER)


@pytest.mark.parametrize("how", ["done", "failed", "cancelled"])
def test_what_has_ended_is_not_taken_back(store: Store, how: str) -> None:
    thread_id = ended(store, how)
    with pytest.raises(InvalidState) as refused:
        work.revoke_lease(store, thread_id, person=USER)
    assert refused.value.facts["status"] == how
    assert status_of(store, thread_id) == how


@pytest.mark.parametrize("person", ["leader", "builder", "nobody", "", "two\nlines"])
def test_only_a_person_takes_back(store: Store, person: str) -> None:
    thread_id = held(store).thread.thread_id
    before = everything(store)
    with pytest.raises(InvalidInput) as refused:
        work.revoke_lease(store, thread_id, person=person)
    assert refused.value.facts["field"] == "person"
    assert everything(store) == before


@pytest.mark.needs_the_store("over the network a person speaks for no other")
def test_another_person_may_too(store: Store) -> None:
    persons(store)
    assert work.revoke_lease(store, held(store).thread.thread_id, person=ADA).message.from_agent == ADA


def test_what_is_not_there_is_not_taken_back(store: Store) -> None:
    with pytest.raises(NotFound):
        work.revoke_lease(store, "thr_nowhere", person=USER)
    with pytest.raises(InvalidInput):
        work.revoke_lease(store, held(store).thread.thread_id, person=USER, reason="a\0b")


# Open questions


def test_the_question_of_a_thread_that_was_taken_back_has_ended(store: Store) -> None:
    thread_id, entry_id = surfaced(store)
    work.revoke_lease(store, thread_id, person=USER, reason="Never mind")
    question = question_of(store, entry_id)
    assert (question["state"], question["answer"], question["answeredBy"]) == ("ended", None, USER)
    assert happened(store, entry_id)[-1] == "entry.ended"
    assert inbox(store, open_only=True) == []


def test_a_question_that_nobody_had_seen_yet_has_ended_too(store: Store) -> None:
    thread_id = blocked(store)
    work.revoke_lease(store, thread_id, person=USER)
    (entry,) = inbox(store)
    assert (entry["threadId"], entry["question"]["state"]) == (thread_id, "ended")


def test_an_answered_question_stays_answered_when_its_thread_is_taken_back(store: Store) -> None:
    thread_id, entry_id = surfaced(store)
    people.reply(store, entry_id, person=USER, body="Blue")
    work.revoke_lease(store, thread_id, person=USER)
    assert (state_of(store, entry_id), question_of(store, entry_id)["answer"]) == ("answered", "Blue")


def test_what_the_next_holder_asks_is_open(store: Store) -> None:
    thread_id, first = surfaced(store)
    work.revoke_lease(store, thread_id, person=USER)
    work.claim(store, thread_id, agent=AGENT)
    work.update(store, thread_id, agent=AGENT, status="blocked", summary="Which size?", to=USER)
    (row,) = inbox(store)  # the questions of one thread share a row, which shows the open one
    detail = people.show_entry(store, first)
    each = [detail.entry, *detail.parts]  # each with its own question
    states = {asked.comments: asked.to_json()["question"]["state"] for asked in each}
    assert states == {"Which colour?": "ended", "Which size?": "open"}
    assert (row["question"]["state"], row["question"]["questionId"]) == ("open", each[1].message_id)
    assert "ended" in steps(store, first)


def test_a_word_of_control_alone_ends_no_question(store: Store) -> None:
    thread_id, entry_id = surfaced(store)
    work.reply(store, thread_id, sender="leader", kind="control", summary="Hurry")
    assert state_of(store, entry_id) == "open"


def test_a_holder_who_gives_it_back_itself_leaves_its_question_open(store: Store) -> None:
    thread_id, entry_id = surfaced(store)
    work.release(store, thread_id, agent=AGENT)
    assert state_of(store, entry_id) == "open"


def test_who_becomes_known_as_a_person_is_not_shown_what_was_taken_back(store: Store) -> None:
    threads = [blocked(store, question, to="bob") for question in ("Open?", "Taken back?")]
    work.reply(store, threads[0], sender="leader", kind="control", summary="Hurry")
    work.reply(store, threads[1], sender="leader", kind="control", summary="Hurry")
    work.revoke_lease(store, threads[1], person=USER)
    assert people.history(store).entries == ()
    work.add_agent(store, "bob", kind="human")
    assert people.backfill_person(store, "bob") == 1
    assert [entry["comments"] for entry in inbox(store)] == ["Open?"]


def test_a_holder_that_waits_for_its_answer_is_woken(connect: Callable[[], Store]) -> None:
    with closing(connect()) as store:
        thread_id = asking(store).thread.thread_id
        with BlockingStore(connect(), lambda: work.revoke_lease(store, thread_id, person=USER, reason="Stop")) as asleep:
            woken = work.wait_reply(asleep, thread_id, timeout_seconds=LONG)
    assert woken.message is not None
    assert (woken.message.kind, woken.message.summary) == ("control", "Stop")


def test_a_holder_that_waits_under_its_name_is_told(connect: Callable[[], Store]) -> None:
    with closing(connect()) as store:
        thread_id = asking(store).thread.thread_id
        with BlockingStore(connect(), lambda: work.revoke_lease(store, thread_id, person=USER)) as asleep:
            outcome = _outcome(lambda: work.wait_reply(asleep, thread_id, agent="builder", timeout_seconds=LONG))
    assert outcome in ("control", "invalid_state")  # the message, or that nobody holds it: whichever it finds first


def _outcome(wait: Callable[[], ReplyWaitResult]) -> str:
    try:
        message = wait().message
    except InvalidState as refusal:
        return refusal.code
    assert message is not None
    return message.kind
