"""Questions that can wait for their answer: choices, a deadline, and what silence means, as of the deadline's instant."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import postroom
from postroom import people, work
from postroom.core import clock as time
from postroom.core.errors import InvalidInput, NotFound, Refusal
from postroom.store.interface import Store
from tests.conftest import Clock
from tests.contract.blocking_store import LONG, BlockingStore
from tests.contract.people_data import (
    ADA,
    AGENT,
    FIRED,
    KIB,
    LOOKS,
    NOWHERE,
    SILENCES,
    USER,
    asked,
    at,
    entry_events,
    facts,
    field,
    happened,
    ids,
    letters,
    new_workspace,
    persons,
    pushed,
    question_of,
    received,
    settled,
    shown,
    state_of,
    steps,
    timed,
)

MOMENT = 0.01  # to look, and not to wait


def outcome(store: Store, entry_id: str) -> Any:
    return people.wait_answer(store, entry_id, timeout_seconds=MOMENT)


# Asking


def test_a_question_says_all_that_is_known_of_it(store: Store, clock: Clock) -> None:
    entry = people.ask(
        store, agent=AGENT, question="Ship it?", choices=["yes", "no"], deadline_seconds=60, on_silence="default", default="no"
    ).to_json()
    assert (entry["kind"], entry["from"], entry["comments"]) == ("question", AGENT, "Ship it?")
    assert (entry["workspaceId"], entry["workspaceLabel"]) == ("", AGENT)
    assert entry["question"] == {
        "questionId": entry["id"],
        "state": "open",
        "to": USER,
        "choices": ["yes", "no"],
        "deadline": at(clock, 60),
        "onSilence": "default",
        "default": "no",
        "escalateTo": None,
        "escalatedAt": None,
        "answer": None,
        "choice": None,
        "answeredBy": None,
        "answeredAt": None,
        "answerId": None,
        "entryId": entry["id"],
        "dangerous": [],
        "proposal": None,
        "decision": None,
    }
    assert "threadId" not in entry
    assert shown(store, entry["id"]) == entry


def test_a_question_waits_for_ever_unless_it_is_said(store: Store, clock: Clock) -> None:
    entry_id = asked(store)
    question = question_of(store, entry_id)
    assert (question["onSilence"], question["deadline"], question["choices"], question["default"]) == ("wait", None, [], None)
    clock.advance(10_000_000)
    assert state_of(store, entry_id) == "open"


def test_a_question_of_a_workspaces_agent_is_its_workspaces(store: Store, tmp_path: Path) -> None:
    desk = new_workspace(store, tmp_path)
    for entry in (
        people.ask(store, agent=AGENT, question="One?"),
        people.ask(store, workspace_id=desk, question="Two?", docs=["report.md"]),
    ):
        told = entry.to_json()
        assert (told["workspaceId"], told["workspaceLabel"], told["from"]) == (desk, f"The {AGENT} desk", AGENT)
    assert [doc["path"] for doc in told["docs"]] == ["report.md"]
    assert len(ids(store, workspace_id=desk)) == 2


def test_a_question_is_announced_and_stored_by_its_asker(store: Store) -> None:
    entry_id = asked(store)
    (event,) = entry_events(store)
    assert (event.event_type, event.message_id, facts(event)["kind"]) == ("entry.created", entry_id, "question")
    assert steps(store, entry_id) == ["stored"]


def test_any_human_can_be_asked(store: Store) -> None:
    persons(store)
    assert question_of(store, asked(store, to=ADA))["to"] == ADA


CHOICES = ["yes", "no"]
SOON: dict[str, Any] = {"deadline_seconds": 60}
BAD: dict[str, tuple[dict[str, Any], str]] = {
    "no question": ({"question": ""}, "question"),
    "a blank question": ({"question": " \n "}, "question"),
    "a long question": ({"question": "☃" * (16 * KIB // 3 + 1)}, "question"),
    "a NUL": ({"question": "a\0b"}, "question"),
    "to a program": ({"to": "builder"}, "to"),
    "to nobody known": ({"to": "zoe"}, "to"),
    "to nobody": ({"to": ""}, "to"),
    "one choice": ({"choices": ["yes"]}, "choices"),
    "too many choices": ({"choices": [str(number) for number in range(21)]}, "choices"),
    "the same choice twice": ({"choices": ["yes", "no", "yes"]}, "choices"),
    "an empty choice": ({"choices": ["yes", ""]}, "choices"),
    "a choice of two lines": ({"choices": ["yes", "no\nway"]}, "choices"),
    "a long choice": ({"choices": ["yes", "n" * 201]}, "choices"),
    "a choice that is no text": ({"choices": ["yes", 3]}, "choices"),
    "no time": ({"deadline_seconds": 0, "on_silence": "refuse"}, "deadline_seconds"),
    "less than no time": ({"deadline_seconds": -1, "on_silence": "refuse"}, "deadline_seconds"),
    "no number": ({"deadline_seconds": float("nan"), "on_silence": "refuse"}, "deadline_seconds"),
    "an unknown silence": ({"on_silence": "panic", **SOON}, "on_silence"),
    "a default without a deadline": ({"on_silence": "default", "default": "no"}, "deadline_seconds|on_silence"),
    "a refusal without a deadline": ({"on_silence": "refuse"}, "deadline_seconds|on_silence"),
    "an escalation without a deadline": ({"on_silence": "escalate", "escalate_to": ADA}, "deadline_seconds|on_silence"),
    "a default that is missing": ({"on_silence": "default", **SOON}, "default"),
    "a default that is blank": ({"on_silence": "default", "default": "", **SOON}, "default"),
    "a default that is no choice": ({"on_silence": "default", "default": "maybe", "choices": CHOICES, **SOON}, "default"),
    "a default for nothing": ({"default": "no"}, "default|on_silence"),
    "a default for a refusal": ({"on_silence": "refuse", "default": "no", **SOON}, "default|on_silence"),
    "an escalation to nobody": ({"on_silence": "escalate", **SOON}, "escalate_to"),
    "an escalation to a program": ({"on_silence": "escalate", "escalate_to": "builder", **SOON}, "escalate_to"),
    "an escalation to nobody known": ({"on_silence": "escalate", "escalate_to": "zoe", **SOON}, "escalate_to"),
    "an escalation to the same": ({"on_silence": "escalate", "escalate_to": USER, **SOON}, "escalate_to"),
    "an escalation for nothing": ({"escalate_to": ADA}, "escalate_to|on_silence"),
}


def test_a_question_that_makes_no_sense_is_refused_and_the_field_is_named(store: Store) -> None:
    persons(store)
    work.add_agent(store, "builder")
    before = settled(store)
    for what, (fields, named) in BAD.items():
        with pytest.raises(InvalidInput) as refused:
            people.ask(store, agent=AGENT, **{"question": "Ship it?", **fields})
        assert field(refused.value) in named.split("|"), what
    assert settled(store) == before


def test_somebody_asks_by_name_or_by_workspace_and_not_by_both(store: Store, tmp_path: Path) -> None:
    desk = new_workspace(store, tmp_path)
    asking: list[dict[str, Any]] = [{}, {"agent": AGENT, "workspace_id": desk}, {"agent": ""}, {"agent": "two\nlines"}]
    for who in asking:
        with pytest.raises(InvalidInput):
            people.ask(store, question="Ship it?", **who)
    assert ids(store) == []


@pytest.mark.parametrize("count", [2, 20])
def test_choices_stand_as_they_were_given(store: Store, count: int) -> None:
    choices = [f"{number} " + "x" * (200 - len(str(number)) - 1) for number in range(count)]
    assert question_of(store, asked(store, "☃" * (16 * KIB // 3), choices=choices))["choices"] == choices


# Silence


@pytest.mark.parametrize("silence", SILENCES)
def test_nothing_happens_a_moment_before_the_deadline(store: Store, clock: Clock, silence: str) -> None:
    entry_id = timed(store, silence)
    clock.instant += 60 * time.MICROSECONDS_PER_SECOND - 1
    assert (state_of(store, entry_id), question_of(store, entry_id)["to"]) == ("open", USER)
    assert happened(store, entry_id) == ["entry.created"]
    clock.instant += 1
    assert (state_of(store, entry_id), happened(store, entry_id)[-1]) == (
        FIRED[silence],
        {"default": "entry.default", "refuse": "entry.refused", "escalate": "entry.escalated"}[silence],
    )


def test_a_default_is_the_answer_as_of_the_deadline(store: Store, clock: Clock) -> None:
    entry_id = timed(store, "default", choices=CHOICES)
    deadline = at(clock, 60)
    clock.advance(1000)
    question = question_of(store, entry_id)
    assert (question["state"], question["answer"], question["choice"], question["answeredAt"]) == ("default", "no", "no", deadline)
    told = outcome(store, entry_id)
    assert (told.state, told.answer, told.choice, told.answered_at) == ("default", "no", "no", deadline)


def test_a_refusal_has_no_answer(store: Store, clock: Clock) -> None:
    entry_id = timed(store, "refuse")
    clock.advance(60)
    question = question_of(store, entry_id)
    assert (question["state"], question["answer"], question["choice"]) == ("refused", None, None)
    assert (outcome(store, entry_id).state, outcome(store, entry_id).answer) == ("refused", None)


def test_an_escalation_asks_another_and_then_waits(store: Store, clock: Clock) -> None:
    entry_id = timed(store, "escalate")
    people.mark_read(store, entry_id, person=USER)
    deadline = at(clock, 60)
    clock.advance(1000)
    entry = shown(store, entry_id)
    question = entry["question"]
    assert (question["state"], question["to"], question["escalatedAt"], entry["readAt"]) == ("open", ADA, deadline, None)
    assert ids(store, unread=True) == ids(store, open_only=True) == [entry_id]
    assert steps(store, entry_id) == ["stored", "seen", "escalated"]
    clock.advance(1_000_000)
    assert state_of(store, entry_id) == "open"
    assert happened(store, entry_id).count("entry.escalated") == 1
    people.reply(store, entry_id, person=ADA, body="Yes")
    told = outcome(store, entry_id)
    assert (told.state, told.answer, told.answered_by, told.to) == ("answered", "Yes", ADA, ADA)


@pytest.mark.parametrize("look", LOOKS.values(), ids=LOOKS.keys())
def test_whoever_looks_next_fires_what_is_due(store: Store, clock: Clock, tmp_path: Path, look: Callable[[Store, str], object]) -> None:
    desk = new_workspace(store, tmp_path, "other")
    asks = {silence: timed(store, silence) for silence in SILENCES}
    for _ in range(2):
        clock.advance(61)
        look(store, desk)
        fired = {silence: happened(store, entry_id)[1:] for silence, entry_id in asks.items()}  # read from the log, past the room
        assert fired == {"default": ["entry.default"], "refuse": ["entry.refused"], "escalate": ["entry.escalated"]}


OTHERS: dict[str, Callable[[Store, str], object]] = {
    "mark_read": lambda s, e: people.mark_read(s, e, person=USER),
    "mark_unread": lambda s, e: people.mark_unread(s, e, person=USER),
    "delete_entry": lambda s, e: people.delete_entry(s, e, person=USER),
    "reply": lambda s, e: people.reply(s, e, person=USER, body="Hello"),
    "show_entry": people.show_entry,
}


@pytest.mark.parametrize("look", OTHERS.values(), ids=OTHERS.keys())
def test_whoever_acts_on_another_entry_fires_what_is_due_too(
    store: Store, clock: Clock, tmp_path: Path, look: Callable[[Store, str], object]
) -> None:
    other = pushed(store, new_workspace(store, tmp_path, "other"))
    entry_id = timed(store)
    clock.advance(61)
    look(store, other)
    assert happened(store, entry_id)[-1] == "entry.default"


def test_several_deadlines_fire_each_at_its_own_instant(store: Store, clock: Clock) -> None:
    persons(store)
    several = {asked(store, deadline_seconds=seconds, on_silence="default", default="no"): at(clock, seconds) for seconds in (30, 10, 20)}
    clock.advance(100)
    people.sync_questions(store)
    assert {entry_id: question_of(store, entry_id)["answeredAt"] for entry_id in several} == several


@pytest.mark.parametrize("silence", SILENCES)
def test_an_answer_in_time_is_the_answer_for_good(store: Store, clock: Clock, silence: str) -> None:
    entry_id = timed(store, silence)
    clock.instant += 60 * time.MICROSECONDS_PER_SECOND - 1
    assert people.reply(store, entry_id, person=USER, body="Yes").reply.via == "answer"
    clock.advance(1000)
    question = question_of(store, entry_id)
    assert (question["state"], question["answer"], question["to"], question["answeredBy"]) == ("answered", "Yes", USER, USER)
    assert happened(store, entry_id)[-1] != f"entry.{silence}"


@pytest.mark.parametrize("silence", ["default", "refuse"])
def test_an_answer_at_the_deadline_is_too_late_though_nobody_has_looked(store: Store, clock: Clock, silence: str) -> None:
    entry_id = timed(store, silence)
    clock.advance(60)
    told = people.reply(store, entry_id, person=USER, body="Wait!")
    assert told.reply.via == "mailbox"  # the question is closed; the word still reaches who asked
    assert state_of(store, entry_id) == FIRED[silence]
    assert [letter["payload"] for letter in letters(store)] == ["Wait!"]


# Answers


@pytest.mark.parametrize(("body", "choice"), [("yes", "yes"), ("no", "no"), ("Maybe later", None), ("y", None)])
def test_an_answer_is_a_choice_or_a_comment(store: Store, clock: Clock, body: str, choice: str | None) -> None:
    entry_id = asked(store, choices=CHOICES)
    clock.advance(5)
    people.reply(store, entry_id, person=USER, body=body, comment=choice is None)
    question = question_of(store, entry_id)
    assert (question["state"], question["answer"], question["choice"]) == ("answered", body, choice)
    assert (question["answeredBy"], question["answeredAt"]) == (USER, at(clock))
    told = outcome(store, entry_id)
    assert (told.entry_id, told.state, told.answer, told.choice) == (entry_id, "answered", body, choice)
    assert (told.answered_by, told.answered_at, told.door, told.deadline, told.to) == (USER, at(clock), "library", None, USER)


@pytest.mark.parametrize("terms", [{"choices": CHOICES}, {"proposal": {"text": "Dear all"}}])
def test_a_reply_that_decides_nothing_is_refused_and_the_question_stays_open(store: Store, terms: dict[str, Any]) -> None:
    entry_id = asked(store, **terms)
    with pytest.raises(InvalidInput) as refused:
        people.reply(store, entry_id, person=USER, body="maybe")
    assert "comment" in refused.value.hint
    assert (question_of(store, entry_id)["state"], people.show_entry(store, entry_id).replies) == ("open", ())
    people.reply(store, entry_id, person=USER, body="maybe", comment=True)
    assert question_of(store, entry_id)["state"] == "answered"


ACCEPTED: dict[str, tuple[dict[str, Any], dict[str, Any], bool]] = {
    "a choice": ({"choices": CHOICES}, {"body": "yes"}, True),
    "a choice that refuses": ({"choices": CHOICES}, {"body": "no"}, False),
    "a choice that refuses with a reason": ({"choices": ["Yes", "No, wait"]}, {"body": "No, wait"}, False),
    "a choice that only begins like a refusal": ({"choices": ["No objections", "Wait"]}, {"body": "No objections"}, True),
    "other words than the choices": ({"choices": CHOICES}, {"body": "yes, but later", "comment": True}, False),
    "any text where nothing was offered": ({}, {"body": "On Tuesday"}, True),
    "a refusal where nothing was offered": ({}, {"body": "No."}, False),
    "an approved proposal": ({"proposal": {"text": "Dear all"}}, {"decision": {"type": "approve"}}, True),
    "a rejected proposal": ({"proposal": {"text": "Dear all"}}, {"decision": {"type": "reject", "reason": "too long"}}, False),
    "a comment on a proposal": ({"proposal": {"text": "Dear all"}}, {"body": "Approved", "comment": True}, False),
}


@pytest.mark.parametrize("case", ACCEPTED)
def test_an_answer_says_whether_the_agent_may_go_on(store: Store, case: str) -> None:
    terms, reply, accepted = ACCEPTED[case]
    entry_id = asked(store, **terms)
    assert not outcome(store, entry_id).accepted
    people.reply(store, entry_id, person=USER, **reply)
    assert outcome(store, entry_id).accepted is accepted


def test_an_answer_tells_its_door(store: Store) -> None:
    entry_id = asked(store)
    people.reply(store.with_door("web"), entry_id, person=USER, body="Yes")
    assert outcome(store, entry_id).door == "web"


def test_a_wait_ends_with_its_time_and_the_question_stays_open(store: Store, clock: Clock) -> None:
    entry_id = timed(store)
    told = outcome(store, entry_id)
    assert (told.state, told.answer, told.answered_by, told.deadline) == ("open", None, None, at(clock, 60))


def test_an_answer_that_was_waited_for_does_not_come_again(store: Store, clock: Clock) -> None:
    waited, unwaited = asked(store, "One?"), asked(store, "Two?")
    for entry_id in (waited, unwaited):
        people.reply(store, entry_id, person=USER, body="Yes")
    assert outcome(store, waited).state == "answered"
    assert happened(store, waited)[-1] == "entry.collected"
    assert [one.entry_id for one in people.read_messages(store, agent=AGENT)] == [unwaited]
    assert received(store) == []
    assert outcome(store, waited).answer == outcome(store, unwaited).answer == "Yes"  # whoever asks again is told again
    assert happened(store).count("entry.collected") == 2


def test_an_open_question_is_collected_by_nobody(store: Store) -> None:
    entry_id = asked(store)
    outcome(store, entry_id)
    people.reply(store, entry_id, person=USER, body="Yes")
    assert received(store) == [("answer", USER, "Yes")]


def test_only_who_asked_is_told(store: Store) -> None:
    entry_id = asked(store)
    people.reply(store, entry_id, person=USER, body="Yes")
    with pytest.raises(NotFound):
        people.wait_answer(store, entry_id, timeout_seconds=MOMENT, agent="other")
    assert people.wait_answer(store, entry_id, timeout_seconds=MOMENT, agent=AGENT).answer == "Yes"


def test_a_wait_for_nothing_there_or_for_no_sensible_time_is_refused(store: Store, tmp_path: Path) -> None:
    entry_id, gone = asked(store), asked(store)
    people.delete_entry(store, gone, person=USER)
    for unknown in (NOWHERE, gone):
        with pytest.raises(NotFound):
            outcome(store, unknown)
    for seconds in (-1, float("nan")):
        with pytest.raises(InvalidInput):
            people.wait_answer(store, entry_id, timeout_seconds=seconds)
    with pytest.raises(Refusal):
        outcome(store, pushed(store, new_workspace(store, tmp_path)))


# Waiting: real time, and real writers meanwhile


@pytest.fixture
def live(place: str) -> Iterator[Store]:
    """A store with the time of day: waiting is the one thing that a test's clock cannot do."""
    store = postroom.open(place)
    yield store
    store.close()


Make = Callable[..., BlockingStore]


@pytest.fixture
def sleeper(place: str) -> Iterator[Make]:
    """Another connection to the same store, for whoever sleeps."""
    made: list[BlockingStore] = []

    def make(*acts: Callable[[], object]) -> BlockingStore:
        made.append(BlockingStore(postroom.open(place), *acts))
        return made[-1]

    yield make
    for one in made:
        one.close()


def test_a_waiter_is_woken_by_the_answer(live: Store, sleeper: Make) -> None:
    entry_id = asked(live)
    asleep = sleeper(lambda: people.reply(live, entry_id, person=USER, body="Yes"))
    told = people.wait_answer(asleep, entry_id, timeout_seconds=LONG)
    assert (told.state, told.answer) == ("answered", "Yes")


def test_a_waiter_sleeps_on_when_another_question_is_answered(live: Store, sleeper: Make) -> None:
    entry_id, other = asked(live), asked(live)
    asleep = sleeper(lambda: people.reply(live, other, person=USER, body="Yes"))
    assert people.wait_answer(asleep, entry_id, timeout_seconds=0.3).state == "open"


@pytest.mark.parametrize("silence", ["default", "refuse"])
def test_a_waiter_wakes_by_itself_at_the_deadline(live: Store, sleeper: Make, silence: str) -> None:
    entry_id = timed(live, silence, seconds=0.2)
    asleep = sleeper()
    assert people.wait_answer(asleep, entry_id, timeout_seconds=LONG).state == FIRED[silence]
    assert all(seconds is not None and seconds <= 0.2 for seconds in asleep.sleeps)  # as they were planned


def test_a_waiter_waits_on_for_whom_it_was_escalated_to(live: Store, sleeper: Make) -> None:
    entry_id = timed(live, "escalate", seconds=0.1)
    told = people.wait_answer(sleeper(), entry_id, timeout_seconds=0.4)
    assert (told.state, told.to) == ("open", ADA)


def test_a_waiter_is_told_when_its_question_is_deleted(live: Store, sleeper: Make) -> None:
    entry_id = asked(live)
    asleep = sleeper(lambda: people.delete_entry(live, entry_id, person=USER))
    with pytest.raises(NotFound):
        people.wait_answer(asleep, entry_id, timeout_seconds=LONG)
