"""Questions of threads to people become entries: once, in order, only for humans; and what happens in the thread closes them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import postroom
from postroom import people, work
from postroom.store.interface import Store
from tests.conftest import Clock
from tests.contract.blocking_store import LONG, BlockingStore
from tests.contract.people_data import (
    ADA,
    AGENT,
    LOOKS,
    USER,
    asked,
    blocked,
    entry_events,
    facts,
    happened,
    id_of,
    ids,
    inbox,
    letters,
    new_workspace,
    persons,
    pushed,
    question_of,
    settled,
    shown,
    state_of,
    steps,
    surfaced,
)
from tests.contract.thread_data import events


def test_a_question_to_a_person_becomes_an_entry(store: Store) -> None:
    thread_id = blocked(store, "Which colour?", body="Red or blue.\nBoth are cheap.")
    assert people.sync_questions(store) == 1
    (entry,) = inbox(store)
    assert (entry["kind"], entry["from"], entry["threadId"]) == ("question", AGENT, thread_id)
    assert entry["comments"] == "Which colour?\n\nRed or blue.\nBoth are cheap."
    assert (entry["workspaceId"], entry["workspaceLabel"], entry["readAt"], entry["replies"]) == ("", AGENT, None, 0)
    question = entry["question"]
    assert (question["state"], question["to"], question["choices"], question["deadline"]) == ("open", USER, [], None)
    assert shown(store, entry["id"]) == entry


def test_a_question_of_one_line_is_that_line(store: Store) -> None:
    _, entry_id = surfaced(store, "Which colour?")
    assert shown(store, entry_id)["comments"] == "Which colour?"


def test_a_question_of_a_body_alone_is_that_body(store: Store) -> None:
    _, entry_id = surfaced(store, "", body="Red or blue?")
    assert shown(store, entry_id)["comments"].strip() == "Red or blue?"


def test_the_entry_is_of_the_workspace_whose_agent_asked(store: Store, tmp_path: Path) -> None:
    desk = new_workspace(store, tmp_path)
    _, entry_id = surfaced(store)
    entry = shown(store, entry_id)
    assert (entry["workspaceId"], entry["workspaceLabel"], entry["from"]) == (desk, f"The {AGENT} desk", AGENT)
    assert ids(store, workspace_id=desk) == [entry_id]


def test_a_question_surfaces_once_however_often_one_looks(store: Store) -> None:
    blocked(store)
    assert people.sync_questions(store) == 1
    before = settled(store)
    assert people.sync_questions(store) == 0
    people.history(store)
    assert settled(store) == before
    assert happened(store) == ["entry.created"]


def test_questions_surface_in_their_order(store: Store, clock: Clock) -> None:
    threads = []
    for number in range(5):
        clock.advance(1 if number % 2 else 0)
        threads.append(blocked(store, str(number)))
    clock.advance(60)
    assert people.sync_questions(store) == 5
    assert [entry["comments"] for entry in inbox(store)] == list("43210")
    assert [entry["threadId"] for entry in inbox(store)] == threads[::-1]
    assert [event.message_id for event in entry_events(store)] == ids(store)[::-1]


def test_the_questions_of_a_thread_are_one_entry_with_its_subject(store: Store) -> None:
    thread_id, first = surfaced(store, "One?")
    people.reply(store, first, person=USER, body="Yes")
    work.update(store, thread_id, agent=AGENT, status="blocked", summary="Two?", to=USER)
    [entry] = inbox(store)
    assert (entry["id"], entry["title"]) == (first, work.show(store, thread_id).thread.subject)
    assert (entry["comments"], entry["parts"], entry["readAt"]) == ("One?", 1, None)
    assert entry["question"]["state"] == "open"
    [part] = people.show_entry(store, first).parts
    assert (part.comments, part.ask is not None and part.ask.state) == ("Two?", "open")
    people.reply(store, entry["question"]["entryId"], person=USER, body="Also yes")
    assert inbox(store)[0]["question"]["answer"] == "Also yes"
    assert inbox(store, open_only=True) == []


def test_only_questions_to_people_surface(store: Store) -> None:
    blocked(store, "To a program?", to="leader")
    thread_id = work.send(store, sender=USER, to=AGENT, subject="Paint it").thread.thread_id
    work.claim(store, thread_id, agent=AGENT)
    work.update(store, thread_id, agent=AGENT, summary="Half of it")  # progress, to its creator, a person
    work.send(store, sender="leader", to=USER, subject="A task for a person")
    work.done(store, thread_id, agent=AGENT, summary="All of it")
    assert people.sync_questions(store) == 0
    assert inbox(store) == inbox(store, section="notices") == []


def test_a_question_to_the_threads_creator_surfaces_when_that_is_a_person(store: Store) -> None:
    persons(store)
    thread_id = work.send(store, sender=ADA, to=AGENT, subject="Paint it").thread.thread_id
    work.claim(store, thread_id, agent=AGENT)
    work.update(store, thread_id, agent=AGENT, status="blocked", summary="Which colour?")
    (entry,) = inbox(store)
    assert (entry["question"]["to"], entry["threadId"]) == (ADA, thread_id)


def test_a_question_that_opens_a_thread_surfaces_too(store: Store) -> None:
    thread_id = work.send(store, sender=AGENT, to=USER, subject="Which colour?", kind="question").thread.thread_id
    (entry,) = inbox(store)
    assert (entry["threadId"], entry["from"], entry["comments"]) == (thread_id, AGENT, "Which colour?")
    people.reply(store, entry["id"], person=USER, body="Blue")
    answer = work.show(store, thread_id).messages[-1]
    assert (answer.kind, answer.from_agent, answer.to_agent) == ("answer", USER, AGENT)


@pytest.mark.parametrize("look", LOOKS.values(), ids=LOOKS.keys())
def test_whoever_looks_folds_first(store: Store, tmp_path: Path, look: Callable[[Store, str], object]) -> None:
    desk = new_workspace(store, tmp_path, "other")
    thread_id = blocked(store)
    look(store, desk)
    created = [event for event in entry_events(store) if facts(event)["kind"] == "question" and facts(event)["agent"] == AGENT]
    assert len(created) == 1  # read from the log, past the room
    work.reply(store, thread_id, sender=USER, summary="Blue")
    look(store, desk)
    assert "entry.answered" in happened(store, created[0].message_id)


CHOICES: dict[str, tuple[Any, list[str]]] = {
    "choices": (["red", "blue"], ["red", "blue"]),
    "none": ([], []),
    "no list": ("red", []),
    "no texts": ([1, {"x": 2}], []),
    "nothing": (None, []),
    "an object": ({"red": 1}, []),
}


def test_the_choices_of_a_question_come_from_its_payload(store: Store) -> None:
    for what, (given, kept) in CHOICES.items():
        _, entry_id = surfaced(store, payload_json=json.dumps({"choices": given}))
        assert question_of(store, entry_id)["choices"] == kept, what


def test_a_choice_of_a_threads_question_is_told_as_one(store: Store) -> None:
    _, entry_id = surfaced(store, payload_json='{"choices": ["red", "blue"]}')
    people.reply(store, entry_id, person=USER, body="blue")
    question = question_of(store, entry_id)
    assert (question["state"], question["answer"], question["choice"]) == ("answered", "blue", "blue")


def test_whatever_a_question_says_it_surfaces(store: Store) -> None:
    several: list[str] = []
    for question in ("x" * 3000, "two\nlines", "# Heading\n---", '{"id": 1}', "The next?"):
        _, entry_id = surfaced(store, question, body="☃" * 100)
        assert shown(store, entry_id)["comments"].startswith(question[:10])
        several.insert(0, entry_id)
        assert ids(store) == several


# Ends of a question


def test_an_answer_given_in_the_thread_closes_the_entry(store: Store) -> None:
    thread_id, entry_id = surfaced(store)
    work.reply(store, thread_id, sender=USER, summary="Blue")
    question = question_of(store, entry_id)
    assert (question["state"], question["answer"], question["answeredBy"]) == ("answered", "Blue", USER)
    assert ids(store, open_only=True) == []
    assert letters(store) == []
    assert "answered" in steps(store, entry_id)
    assert happened(store, entry_id).count("entry.answered") == 1


def test_an_answer_of_another_person_closes_the_entry(store: Store) -> None:
    persons(store)
    thread_id, entry_id = surfaced(store)
    work.reply(store, thread_id, sender=ADA, summary="Blue")
    question = question_of(store, entry_id)
    assert (question["state"], question["answeredBy"]) == ("answered", ADA)


def test_an_answer_that_came_before_anybody_looked_closes_it_all_the_same(store: Store) -> None:
    thread_id = blocked(store)
    work.reply(store, thread_id, sender=USER, summary="Blue")
    (entry,) = inbox(store)
    assert (entry["question"]["state"], entry["question"]["answer"]) == ("answered", "Blue")


def test_a_question_asked_again_after_an_answer_is_open(store: Store) -> None:
    thread_id = blocked(store, "One?")
    work.reply(store, thread_id, sender=USER, summary="Yes")
    work.update(store, thread_id, agent=AGENT, status="blocked", summary="Two?", to=USER)
    assert [entry["question"]["state"] for entry in inbox(store)] == ["open"]


def test_other_talk_in_the_thread_leaves_the_entry_open(store: Store) -> None:
    thread_id, entry_id = surfaced(store)
    work.reply(store, thread_id, sender="leader", kind="progress", summary="Hm")
    work.reply(store, thread_id, sender=USER, kind="question", summary="Which do we have?")
    work.send(store, sender="leader", thread_id=thread_id, kind="event", summary="Hm")
    assert state_of(store, entry_id) == "open"


def test_a_word_of_control_is_no_answer(store: Store) -> None:
    thread_id, entry_id = surfaced(store)
    work.reply(store, thread_id, sender="leader", kind="control", summary="Slow down")
    assert state_of(store, entry_id) == "open"


ENDS: dict[str, Callable[[Store, str], object]] = {
    "done": lambda s, t: work.done(s, t, agent=AGENT, summary="All of it"),
    "failed": lambda s, t: work.fail(s, t, agent=AGENT, summary="The paint is out"),
    "cancelled": lambda s, t: work.cancel(s, t, agent="leader", reason="Not wanted"),
}
each_end = pytest.mark.parametrize("end", ENDS.values(), ids=ENDS.keys())


@each_end
def test_a_thread_that_ends_ends_its_question(store: Store, end: Callable[[Store, str], object]) -> None:
    thread_id, entry_id = surfaced(store)
    end(store, thread_id)
    question = question_of(store, entry_id)
    assert (question["state"], question["answer"]) == ("ended", None)
    assert ids(store) == [entry_id]
    assert ids(store, open_only=True) == []


@each_end
def test_an_answered_question_stays_answered_when_its_thread_ends(store: Store, end: Callable[[Store, str], object]) -> None:
    thread_id, entry_id = surfaced(store)
    people.reply(store, entry_id, person=USER, body="Blue")
    end(store, thread_id)
    question = question_of(store, entry_id)
    assert (question["state"], question["answer"]) == ("answered", "Blue")


def test_an_end_that_came_before_anybody_looked_ends_it_all_the_same(store: Store) -> None:
    ENDS["done"](store, blocked(store))
    assert [entry["question"]["state"] for entry in inbox(store)] == ["ended"]


def test_an_answer_in_one_thread_closes_no_other(store: Store, tmp_path: Path) -> None:
    thread_id, entry_id = surfaced(store)
    _, other = surfaced(store, "Another?")
    question, push = asked(store), pushed(store, new_workspace(store, tmp_path))
    work.reply(store, thread_id, sender=USER, summary="Blue")
    assert state_of(store, entry_id) == "answered"
    assert sorted(ids(store, open_only=True)) == sorted([other, question])
    assert push in ids(store)


def test_folding_writes_nothing_into_a_thread(store: Store) -> None:
    thread_id = blocked(store)
    before, told = work.show(store, thread_id).messages, len(events(store))
    people.sync_questions(store)
    assert work.show(store, thread_id).messages == before
    assert len(events(store)) == told + 1


def test_an_answer_is_not_told_to_its_asker_twice(store: Store) -> None:
    """It is in the thread, where its asker waits for it; the mailbox and the uncollected answers are for the others."""
    _, entry_id = surfaced(store)
    people.reply(store, entry_id, person=USER, body="Blue")
    assert people.read_messages(store, agent=AGENT) == ()


def test_own_entries_tell_the_questions_of_threads_too(store: Store) -> None:
    _, entry_id = surfaced(store)
    assert [id_of(entry) for entry in people.own_entries(store, agent=AGENT).entries] == [entry_id]


# The loop that sells it, in real time


@pytest.fixture
def live(place: str) -> Iterator[Store]:
    store = postroom.open(place)
    yield store
    store.close()


def test_a_worker_that_sleeps_is_woken_by_a_reply_to_the_entry(live: Store, place: str) -> None:
    thread_id, entry_id = surfaced(live)
    with BlockingStore(postroom.open(place), lambda: people.reply(live, entry_id, person=USER, body="Blue")) as asleep:
        woken = work.wait_reply(asleep, thread_id, agent=AGENT, timeout_seconds=LONG)
    assert woken.woke
    assert woken.message is not None
    assert (woken.message.kind, woken.message.from_agent) == ("answer", USER)


def test_who_becomes_known_as_a_person_is_shown_what_they_were_asked_before(store: Store) -> None:
    threads = [blocked(store, question, to="bob") for question in ("First?", "Second?", "Answered?", "Over?")]
    work.reply(store, threads[1], sender="leader", summary="A remark")
    work.reply(store, threads[2], sender="bob", summary="Before he was a person")
    work.cancel(store, threads[3], agent="leader")
    assert people.history(store).entries == ()
    work.add_agent(store, "bob", kind="human")
    assert (people.backfill_person(store, "bob"), people.backfill_person(store, "bob")) == (2, 0)
    assert [entry.comments for entry in people.history(store).entries] == ["Second?", "First?"]
    people.reply(store, people.history(store).entries[1].id, person="bob", body="Here I am")
    reply = work.wait_reply(store, threads[0], timeout_seconds=5)
    assert reply.message is not None
    assert reply.message.body == "Here I am"
