"""An answer names its question: one reply settles one question, only its asker wakes, and a person settles what a person was asked."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from postroom import people, work
from postroom.core.errors import AmbiguousQuestion, Forbidden, InvalidInput, InvalidState, NotFound, QuestionClosed
from postroom.core.records.work import Message, ReplyWaitResult
from postroom.store.interface import Store
from tests.conftest import Clock
from tests.contract.people_data import ADA, AGENT, USER, blocked, inbox, persons, question_of, state_of, surfaced
from tests.contract.thread_data import asking, everything, held, last_message, latest, sent

EVIL = "evil"
SHORT = 0.01


def asked_in(store: Store, thread_id: str, text: str, *, sender: str = EVIL, to: str = USER) -> Message:
    """A question that another agent puts in a thread."""
    return work.reply(store, thread_id, sender=sender, to=to, kind="question", summary=text).message


def questions(store: Store, thread_id: str) -> dict[str, Message]:
    return {message.summary: message for message in work.show(store, thread_id).messages if message.kind == "question"}


def waited(store: Store, thread_id: str, agent: str | None = AGENT, **how: object) -> ReplyWaitResult:
    return work.wait_reply(store, thread_id, agent=agent, **{"timeout_seconds": SHORT, **how})  # type: ignore[arg-type]


# One reply settles one question


def test_a_persons_answer_to_one_question_leaves_the_other_of_the_thread_open(store: Store) -> None:
    thread_id, dangerous = surfaced(store, "May I drop the production database?")
    harmless = asked_in(store, thread_id, "Shall I fix the typo in the README?")
    (entry_id,) = [entry["id"] for entry in inbox(store) if entry["from"] == EVIL]
    people.reply(store, entry_id, person=USER, body="yes")
    assert (state_of(store, entry_id), state_of(store, dangerous)) == ("answered", "open")
    assert not waited(store, thread_id).woke
    answer = waited(store, thread_id, EVIL).message
    assert answer is not None
    assert (answer.summary, answer.to_agent, answer.in_reply_to) == ("yes", EVIL, harmless.message_id)


def test_an_answer_settles_the_only_open_question_and_goes_to_its_asker(store: Store) -> None:
    thread_id = blocked(store)
    question = questions(store, thread_id)["Which colour?"]
    answer = work.reply(store, thread_id, sender=USER, summary="Blue").message
    assert (answer.in_reply_to, answer.to_agent) == (question.message_id, AGENT)
    shown = work.show(store, thread_id).to_json()["messages"]
    assert [(each["kind"], each["is_open"], each["in_reply_to"]) for each in shown[-2:]] == [
        ("question", False, None),
        ("answer", False, question.message_id),
    ]


def test_an_answer_that_could_mean_several_questions_is_refused_with_their_list(store: Store) -> None:
    thread_id = blocked(store, "Which colour?")
    other = asked_in(store, thread_id, "Which size?")
    before = everything(store)
    answers: tuple[Callable[[], object], ...] = (
        lambda: work.reply(store, thread_id, sender=USER, summary="Blue"),
        lambda: work.send(store, thread_id=thread_id, sender=USER, kind="answer", summary="Blue"),
    )
    for answer in answers:
        with pytest.raises(AmbiguousQuestion) as refused:
            answer()
        listed = {each["question_id"]: each["text"] for each in refused.value.facts["questions"]}  # type: ignore[attr-defined]
        assert listed == {questions(store, thread_id)["Which colour?"].message_id: "Which colour?", other.message_id: "Which size?"}
        assert other.message_id in str(refused.value)
    assert everything(store) == before


def test_a_named_question_is_settled_and_no_other(store: Store) -> None:
    thread_id = blocked(store, "Which colour?")
    other = asked_in(store, thread_id, "Which size?")
    assert work.reply(store, thread_id, sender=USER, summary="Large", question=other.message_id).message.to_agent == EVIL
    assert {text: message.is_open for text, message in questions(store, thread_id).items()} == {"Which colour?": 1, "Which size?": 0}
    assert [entry["question"]["state"] for entry in inbox(store)] == ["answered", "open"]


def test_an_answer_to_a_receiver_settles_the_question_of_that_receiver(store: Store) -> None:
    thread_id = blocked(store, "Which colour?")
    other = asked_in(store, thread_id, "Which size?")
    assert work.reply(store, thread_id, sender=USER, to=EVIL, summary="Large").message.in_reply_to == other.message_id
    assert work.reply(store, thread_id, sender=USER, to="somebody", summary="Look").message.in_reply_to is None
    with pytest.raises(InvalidInput):
        work.reply(store, thread_id, sender=USER, to=EVIL, summary="Blue", question=questions(store, thread_id)["Which colour?"].message_id)


def test_a_question_is_settled_once(store: Store) -> None:
    thread_id = blocked(store)
    question_id = questions(store, thread_id)["Which colour?"].message_id
    first = work.reply(store, thread_id, sender=USER, summary="Blue", question=question_id, key="once")
    before = everything(store)
    with pytest.raises(QuestionClosed):
        work.reply(store, thread_id, sender=USER, summary="Green", question=question_id)
    again = work.reply(store, thread_id, sender=USER, summary="Blue", question=question_id, key="once")
    assert (again.message, everything(store)) == (first.message, before)
    other = asked_in(store, thread_id, "Which size?").message_id
    with pytest.raises(InvalidState, match="that key"):
        work.reply(store, thread_id, sender=USER, summary="Blue", question=other, key="once")
    remark = work.reply(store, thread_id, sender=USER, to=AGENT, summary="Light blue")
    answered = f"{question_id} was already answered by {USER} ({first.message.message_id})"
    assert (remark.message.in_reply_to, remark.note) == (None, f"{answered}; this was stored as a remark, which settles nothing")
    assert (first.note, work.reply(store, thread_id, sender=AGENT, summary="Thanks").note) == ("", "")


def test_a_name_that_is_no_question_of_the_thread_is_refused(store: Store) -> None:
    thread_id, elsewhere = blocked(store), blocked(store, "Elsewhere?")
    first = work.show(store, thread_id).messages[0].message_id
    before = everything(store)
    for question_id in ("msg_nowhere", first, questions(store, elsewhere)["Elsewhere?"].message_id):
        with pytest.raises(NotFound):
            work.reply(store, thread_id, sender=USER, summary="Blue", question=question_id)
    with pytest.raises(InvalidInput):
        work.reply(store, thread_id, sender=USER, kind="progress", summary="Hm", question=first)
    assert everything(store) == before


def test_a_second_reply_to_an_answered_entry_settles_nothing_else(store: Store) -> None:
    thread_id, entry_id = surfaced(store, "Which colour?")
    people.reply(store, entry_id, person=USER, body="Blue")
    work.update(store, thread_id, agent=AGENT, status="blocked", summary="Which size?", to=USER)
    again = people.reply(store, entry_id, person=USER, body="I meant green")
    told = f"the question was already answered by {USER}; this reply was stored in the thread as a remark, and settles nothing"
    assert again.note == told
    assert last_message(store, thread_id).in_reply_to is None
    (row,) = inbox(store)
    assert (row["question"]["state"], row["question"]["entryId"] != entry_id) == ("open", True)
    assert not waited(store, thread_id).woke


# The sender must be allowed to settle it


def test_an_agent_does_not_settle_what_was_asked_of_a_person(store: Store) -> None:
    thread_id, entry_id = surfaced(store, "May I deploy?")
    remark = work.reply(store, thread_id, sender=EVIL, summary="yes").message
    assert state_of(store, entry_id) == "open"
    assert not waited(store, thread_id).woke
    assert last_message(store, thread_id) == remark
    assert (remark.kind, remark.in_reply_to) == ("answer", None)
    persons(store)
    work.reply(store, thread_id, sender=ADA, summary="no")
    assert (question_of(store, entry_id)["answeredBy"], state_of(store, entry_id)) == (ADA, "answered")
    woken = waited(store, thread_id).message
    assert woken is not None
    assert woken.summary == "no"


def test_a_question_to_an_agent_is_settled_by_that_agent_or_by_a_person(store: Store) -> None:
    for sender, settles in (("stranger", False), ("builder", False), ("leader", True), (USER, True)):
        asked = asking(store)
        answer = work.reply(store, asked.thread.thread_id, sender=sender, summary="Blue").message
        assert (answer.in_reply_to == asked.message.message_id) is settles, sender


def test_naming_a_question_that_one_may_not_settle_is_refused(store: Store) -> None:
    thread_id = blocked(store)
    question_id = questions(store, thread_id)["Which colour?"].message_id
    before = everything(store)
    for sender in (EVIL, AGENT, "leader"):
        with pytest.raises(Forbidden):
            work.reply(store, thread_id, sender=sender, summary="Blue", question=question_id)
    assert everything(store) == before


# Only its asker wakes


def test_an_agent_wakes_for_the_answer_to_its_own_question_alone(store: Store) -> None:
    thread_id = blocked(store, "Which colour?")
    other = asked_in(store, thread_id, "Which size?")
    mine = questions(store, thread_id)["Which colour?"]
    work.reply(store, thread_id, sender="stranger", summary="A remark")
    work.reply(store, thread_id, sender=USER, summary="Large", question=other.message_id)
    for how in ({}, {"after_event": mine.event_id}, {"after_message": mine.message_id}, {"after_event": 0}, {"question": mine.message_id}):
        assert not waited(store, thread_id, **how).woke, how
    assert not waited(store, thread_id, None, after_event=mine.event_id).woke
    assert not work.is_answered(store, thread_id, after_event=mine.event_id)
    work.reply(store, thread_id, sender=USER, summary="Blue")
    for how in ({}, {"after_event": mine.event_id}, {"after_event": 0}, {"question": mine.message_id}):
        woken = waited(store, thread_id, **how).message
        assert woken is not None, how
        assert (woken.summary, woken.in_reply_to) == ("Blue", mine.message_id), how
    assert work.is_answered(store, thread_id, after_event=mine.event_id)


def test_each_of_ones_own_questions_can_be_waited_for_by_its_id(store: Store) -> None:
    thread_id = blocked(store, "First?")
    work.update(store, thread_id, agent=AGENT, status="blocked", summary="Second?", to=USER)
    asked = questions(store, thread_id)
    work.reply(store, thread_id, sender=USER, summary="One", question=asked["First?"].message_id)
    assert not waited(store, thread_id).woke  # it waits for the second, its latest
    late = work.show(store, thread_id).next_event_id
    for cursor in (None, late):
        first = waited(store, thread_id, question=asked["First?"].message_id, after_event=cursor).message
        assert first is not None
        assert first.summary == "One"
    with pytest.raises(NotFound):
        waited(store, thread_id, question="msg_nowhere")


def test_an_agent_without_a_question_does_not_wake_for_the_answer_to_anothers(store: Store) -> None:
    thread_id = blocked(store, "Which colour?")
    work.reply(store, thread_id, sender=USER, summary="Blue")
    assert not waited(store, thread_id, "leader").woke
    work.reply(store, thread_id, sender=USER, to="leader", summary="Well done")
    woken = waited(store, thread_id, "leader").message
    assert woken is not None
    assert woken.summary == "Well done"


def test_a_control_message_wakes_the_agent_that_it_is_for(store: Store) -> None:
    thread_id = blocked(store)
    work.reply(store, thread_id, sender="leader", to="somebody", kind="control", summary="Not for you")
    assert not waited(store, thread_id).woke
    work.reply(store, thread_id, sender="leader", to=AGENT, kind="control", summary="Stop")
    woken = waited(store, thread_id).message
    assert woken is not None
    assert woken.summary == "Stop"


def test_a_remark_does_not_offer_a_blocked_thread_whose_lease_ran_out(store: Store, clock: Clock) -> None:
    thread_id = asking(store, lease_seconds=60).thread.thread_id
    clock.advance(61)
    work.reply(store, thread_id, sender="stranger", summary="A remark")
    assert work.take(store, agent="other") is None
    work.reply(store, thread_id, sender="leader", summary="Blue")
    taken = work.take(store, agent="other")
    assert taken is not None
    assert taken.thread.thread_id == thread_id


# Other ends of a question


def test_a_revoked_lease_ends_the_questions_of_its_holder_alone(store: Store) -> None:
    thread_id, entry_id = surfaced(store, "Which colour?")
    asked_in(store, thread_id, "Which size?", sender="leader")
    work.revoke_lease(store, thread_id, person=USER)
    assert {text: message.is_open for text, message in questions(store, thread_id).items()} == {"Which colour?": 0, "Which size?": 1}
    assert [entry["question"]["state"] for entry in inbox(store)] == ["open", "ended"]
    assert state_of(store, entry_id) == "ended"


ENDS: dict[str, Callable[[Store, str], object]] = {
    "done": lambda s, t: work.done(s, t, agent="builder"),
    "failed": lambda s, t: work.fail(s, t, agent="builder"),
    "cancelled": lambda s, t: work.cancel(s, t, agent="leader"),
}


@pytest.mark.parametrize("end", ENDS.values(), ids=ENDS.keys())
def test_a_thread_that_ends_leaves_no_question_open(store: Store, end: Callable[[Store, str], object]) -> None:
    thread_id = asking(store).thread.thread_id
    end(store, thread_id)
    assert questions(store, thread_id)["Which colour?"].is_open == 0
    with pytest.raises(InvalidState):
        work.reply(store, thread_id, sender="leader", summary="Late", question=questions(store, thread_id)["Which colour?"].message_id)


# The question and its answer, everywhere


def test_an_entry_its_answer_and_its_receipt_name_the_question_and_the_message_that_settled_it(store: Store) -> None:
    thread_id, entry_id = surfaced(store)
    question_id = questions(store, thread_id)["Which colour?"].message_id
    assert question_of(store, entry_id)["questionId"] == question_id
    replied = people.reply(store, entry_id, person=USER, body="Blue")
    answer_id = last_message(store, thread_id).message_id
    assert (question_of(store, entry_id)["answerId"], replied.reply.to_json()["messageId"]) == (answer_id, answer_id)
    assert [step.answer for step in people.show_entry(store, entry_id).receipts if step.step == "answered"] == [answer_id]
    found = people.answer_of(store, entry_id)
    assert (found.question_id, found.answer_id) == (question_id, answer_id)


def test_the_answer_to_an_ask_names_its_entry_and_the_reply(store: Store) -> None:
    entry_id = people.ask(store, agent=AGENT, question="Ship it?").id
    reply = people.reply(store, entry_id, person=USER, body="yes").reply
    found = people.answer_of(store, entry_id)
    assert (found.question_id, found.answer_id, question_of(store, entry_id)["questionId"]) == (entry_id, reply.reply_id, entry_id)


def test_in_a_thread_without_a_question_an_answer_is_a_plain_answer(store: Store) -> None:
    thread_id = held(store).thread.thread_id
    assert work.reply(store, thread_id, sender="leader", summary="By the way").message.in_reply_to is None
    woken = waited(store, thread_id, "builder").message
    assert woken is not None
    assert woken.summary == "By the way"
    assert work.reply(store, sent(store), sender=USER, summary="Yes").message.in_reply_to is None


def test_the_outcome_of_silence_is_no_verified_word_of_a_person(store: Store, clock: Clock) -> None:
    through_server = store.with_door("http")
    entry_id = people.ask(through_server, agent=AGENT, question="Ship?", deadline_seconds=60, on_silence="default", default="yes").id
    assert not people.answer_of(through_server, entry_id).verified
    clock.advance(61)
    assert not people.answer_of(through_server, entry_id).verified
    assert [(one.kind, one.verified) for one in people.read_messages(through_server, agent=AGENT)] == [("default", False)]


def test_a_waiter_is_not_woken_by_its_own_answer(store: Store) -> None:
    thread_id = held(store).thread.thread_id
    start = latest(store)
    work.reply(store, thread_id, sender="builder", summary="I think blue")
    assert not work.wait_reply(store, thread_id, agent="builder", after_event=start, timeout_seconds=0.01).woke
    work.reply(store, thread_id, sender="leader", summary="Yes")
    reply = work.wait_reply(store, thread_id, agent="builder", after_event=start, timeout_seconds=30).message
    assert reply is not None
    assert reply.from_agent == "leader"
