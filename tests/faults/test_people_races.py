"""Races in the people room, staged with processes at a barrier and with threads of one store: each thing happens once."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from postroom import mail, people, work
from postroom.core.errors import NotFound, Refusal
from postroom.store.interface import Store
from tests.conftest import Clock, open_with
from tests.contract.blocking_store import LONG
from tests.contract.people_data import (
    ADA,
    AGENT,
    FIRED,
    USER,
    asked,
    blocked,
    happened,
    ids,
    inbox,
    letters,
    new_workspace,
    persons,
    pushed,
    question_of,
    received,
    shown,
    surfaced,
    timed,
)
from tests.faults.inspection import assert_no_lock
from tests.faults.mail_children import assert_sound
from tests.faults.people_children import racers
from tests.faults.test_mail_staged import at_once
from tests.faults.test_races import race

Act = Callable[[Store], Any]


def apart(places: list[tuple[Any, Act]]) -> list[Any]:
    """Let threads, each with a store of its own, act at once; what came of each."""
    barrier = threading.Barrier(len(places))
    came: list[Any] = [None] * len(places)

    def run(number: int, store: Store, act: Act) -> None:
        barrier.wait(LONG)
        try:
            came[number] = act(store)
        except Refusal as refusal:
            came[number] = refusal

    threads = [threading.Thread(target=run, args=(number, *place), daemon=True) for number, place in enumerate(places)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(LONG)
    return came


# Passes


def test_of_eight_processes_that_redeem_one_link_one_comes_in(store: Store, place: str) -> None:
    with racers(place, [USER] * 8) as children:
        for _ in range(6):
            link = people.issue_link(store, person=USER)
            answers = race(children, f"people.redeem(store, {link!r}).token")
            (token,) = [answer for answer in answers if answer != "NotFound"]
            assert people.person_of(store, token) == USER
    assert_no_lock(place)


def test_of_eight_threads_that_redeem_one_link_one_comes_in(store: Store) -> None:
    for _ in range(6):
        link = people.issue_link(store, person=USER)
        came = at_once(store, *[lambda s, link=link: people.redeem(s, link)] * 8)
        assert sorted(type(one).__name__ for one in came) == ["NotFound"] * 7 + ["PersonSession"]


def test_of_many_who_want_one_folder_or_one_name_one_gets_it(store: Store, place: str, tmp_path: Path) -> None:
    with racers(place, ["one", "two", "three"]) as children:
        for number in range(6):
            for name in ("shared", "one", "two", "three"):
                (tmp_path / f"{name}-{number}").mkdir()
            same_folder = (
                f"people.add_workspace(store, {str(tmp_path / f'shared-{number}')!r}, label='D', agent=me + '-{number}a').workspace.agent"
            )
            same_name = (
                f"people.add_workspace(store, {str(tmp_path)!r} + '/' + me + '-{number}', label='D', agent='same-{number}').workspace.agent"
            )
            for act in (same_folder, same_name):
                answers = race(children, act)
                assert Counter(answers)["Taken"] == 2, answers
    assert len(people.list_workspaces(store)) == 12


# Answers


def test_a_question_that_two_people_answer_at_once_has_one_answer(store: Store, place: str) -> None:
    persons(store)
    with racers(place, [USER, ADA]) as children:
        for number in range(12):
            entry_id = asked(store, f"{number}?")
            answers = race(children, f"people.reply(store, {entry_id!r}, person=me, body='said by ' + me).reply.via")
            assert sorted(answers) == ["answer", "mailbox"]
            winner, loser = (USER, ADA) if answers[0] == "answer" else (ADA, USER)
            question = question_of(store, entry_id)
            assert (question["state"], question["answer"], question["answeredBy"]) == ("answered", f"said by {winner}", winner)
            assert shown(store, entry_id)["replies"] == 2
            assert happened(store, entry_id).count("entry.answered") == 1
            assert sorted(received(store)) == [("answer", winner, f"said by {winner}"), ("reply", loser, f"said by {loser}")]
    assert_sound(place)


@pytest.mark.parametrize("silence", ["default", "refuse", "escalate"])
def test_a_reply_that_races_the_deadline_is_the_answer_or_comes_after_it(store: Store, place: str, clock: Clock, silence: str) -> None:
    """One clock is a moment before the deadline, the other at it: either may be first, and both may not be."""
    early = Clock()
    with ExitStack() as stack:
        mine, theirs = stack.enter_context(open_with(place, early)), stack.enter_context(open_with(place, clock))
        for _ in range(8):
            early.instant = clock.instant
            entry_id = timed(store, silence)
            clock.advance(60)
            early.instant = clock.instant - 1
            reply: Act = lambda s, e=entry_id: people.reply(s, e, person=USER, body="Wait!")  # type: ignore[misc]  # noqa: E731
            replied, _ = apart([(mine, reply), (theirs, people.history)])
            question, events = question_of(store, entry_id), happened(store, entry_id)
            if silence == "escalate":
                assert (replied.reply.via, question["state"], question["answer"]) == ("answer", "answered", "Wait!")
                assert (question["to"] == ADA) == ("entry.escalated" in events)
                continue
            assert ("entry.answered" in events) != (f"entry.{FIRED[silence]}" in events)
            if "entry.answered" in events:
                assert (replied.reply.via, question["state"], question["answer"]) == ("answer", "answered", "Wait!")
                assert letters(store) == []
            else:
                assert (replied.reply.via, question["state"]) == ("mailbox", FIRED[silence])
                assert [letter["payload"] for letter in letters(store)] == ["Wait!"]
            people.read_messages(store, agent=AGENT)


def test_a_deadline_that_many_find_fires_once(store: Store, place: str, clock: Clock) -> None:
    with ExitStack() as stack:
        stores = [stack.enter_context(open_with(place, clock)) for _ in range(4)]
        for silence in ("default", "refuse", "escalate") * 2:
            entry_id = timed(store, silence)
            clock.advance(60)
            came = apart([(one, people.history) for one in stores])
            assert not any(isinstance(one, Exception) for one in came)
            assert len(happened(store, entry_id)) == 2


def test_a_reply_that_races_the_end_of_its_thread_is_in_it_or_is_refused(store: Store, place: str) -> None:
    with racers(place, [USER, AGENT]) as children:
        for _ in range(10):
            thread_id, entry_id = surfaced(store)
            reply = f"people.reply(store, {entry_id!r}, person=me, body='Blue').reply.via"
            done = f"work.done(store, {thread_id!r}, agent=me).thread.status"
            answers = race(children, reply, done)
            kinds = [message.kind for message in work.show(store, thread_id).messages]
            assert answers in (["thread", "done"], ["InvalidState", "done"])
            assert ("answer" in kinds) == (answers[0] == "thread")
            assert question_of(store, entry_id)["state"] == ("answered" if answers[0] == "thread" else "ended")
            assert shown(store, entry_id)["replies"] == int(answers[0] == "thread")


def test_a_reply_that_races_the_delete_of_its_entry_is_said_or_refused_and_the_entry_is_gone(
    store: Store, place: str, tmp_path: Path
) -> None:
    persons(store)
    desk = new_workspace(store, tmp_path)
    with racers(place, [USER, ADA]) as children:
        for _ in range(10):
            entry_id = pushed(store, desk)
            reply, delete = (
                f"people.reply(store, {entry_id!r}, person=me, body='Good').reply.via",
                f"people.delete_entry(store, {entry_id!r}, person=me)",
            )
            answers = race(children, reply, delete)
            assert answers in (["mailbox", "None"], ["NotFound", "None"])
            assert len(received(store)) == int(answers[0] == "mailbox")
            with pytest.raises(NotFound):
                people.show_entry(store, entry_id)
    assert ids(store) == []


# Folding


def test_however_many_surface_at_once_a_question_is_one_entry(store: Store, place: str) -> None:
    with racers(place, ["one", "two", "three"]) as children:
        for number in range(8):
            threads = [blocked(store, f"{number}.{each}") for each in range(3)]
            answers = race(children, "people.sync_questions(store)", "len(people.history(store).entries)")
            assert all(answer.isdigit() for answer in answers), answers
            assert [entry["threadId"] for entry in inbox(store)][:3] == threads[::-1]
            assert len(inbox(store)) == 3 * (number + 1)
    assert happened(store).count("entry.created") == 24


def test_a_question_that_is_asked_while_others_surface_is_not_passed_over(store: Store, place: str) -> None:
    """Events become visible out of order on a server: a cursor that went past one would never see it."""
    ask = (
        "[(t := work.send(store, sender='leader', to=me, subject='Paint it').thread.thread_id, work.claim(store, t, agent=me),"
        " work.update(store, t, agent=me, status='blocked', summary='?', to='user')) and t for _ in range(12)]"
    )
    look = "[people.sync_questions(store) for _ in range(25)] and 'looked'"
    with racers(place, ["one", "two", "looker"]) as children:
        answers = race(children, ask, ask, look)
    threads = [thread_id for answer in answers[:2] for thread_id in eval(answer)]
    assert answers[2] == "looked"
    assert sorted(entry["threadId"] for entry in inbox(store)) == sorted(threads)


# Reading


def test_whoever_reads_at_once_each_message_comes_to_one(store: Store, place: str, tmp_path: Path) -> None:
    desk = new_workspace(store, tmp_path)
    with racers(place, ["one", "two", "three"]) as children:
        for _ in range(4):
            sent = waiting(store, desk)
            answers = race(children, f"[one.body for one in people.read_messages(store, agent={AGENT!r}, limit=3)]")
            bodies = [body for answer in answers for body in eval(answer)] + [body for _, _, body in received(store)]
            assert sorted(bodies) == sorted(sent)
    assert_sound(place)


def test_whichever_thread_reads_each_message_comes_to_one(store: Store, tmp_path: Path) -> None:
    desk = new_workspace(store, tmp_path)
    for _ in range(4):
        sent = waiting(store, desk)
        came = at_once(store, *[lambda s: people.read_messages(s, agent=AGENT, limit=3)] * 4)
        assert sorted([one.body for told in came for one in told]) == sorted(sent)


def waiting(store: Store, desk: str) -> list[str]:
    """Return the messages that can be read now: replies, answers and a letter."""
    for number in range(6):
        people.reply(store, asked(store) if number % 2 else pushed(store, desk), person=USER, body=str(number))
    mail.enqueue(store, {"from": "leader", "to": AGENT, "payload": "letter"})
    return [*map(str, range(6)), "letter"]


def test_of_a_waiter_and_a_reader_both_may_learn_the_answer_and_it_is_collected_once(store: Store, place: str) -> None:
    with racers(place, ["waiter", "reader"]) as children:
        for _ in range(8):
            entry_id = asked(store)
            people.reply(store, entry_id, person=USER, body="Yes")
            wait = f"people.wait_answer(store, {entry_id!r}, timeout_seconds=5).answer"
            read = f"[one.body for one in people.read_messages(store, agent={AGENT!r})]"
            waited, got = race(children, wait, read)
            assert waited == "Yes"
            assert got in ("['Yes']", "[]")
            assert happened(store, entry_id).count("entry.collected") == 1
            assert received(store) == []


def test_of_many_who_mark_one_entry_read_one_did(store: Store, place: str, tmp_path: Path) -> None:
    persons(store)
    desk = new_workspace(store, tmp_path)
    with racers(place, [USER, ADA]) as children:
        for _ in range(10):
            entry_id = pushed(store, desk)
            answers = race(children, f"people.mark_read(store, {entry_id!r}, person=me).to_json()['readBy']")
            assert len(set(answers)) == 1
            assert happened(store, entry_id) == ["entry.created", "entry.read"]


def test_pages_stay_whole_while_others_push_and_delete(store: Store, place: str, tmp_path: Path) -> None:
    """Entries that exist before and after the reading are on the pages once, whatever is added or deleted meanwhile."""
    desk = new_workspace(store, tmp_path)
    kept = [pushed(store, desk, str(number)) for number in range(12)]
    push = f"people.push(store, {desk!r}, comments='x').to_json()['id']"
    busy = f"[people.delete_entry(store, {push}, person='user') for _ in range(15)] and 'busy'"
    walk = (
        "[(lambda f: f(f, None, []))(lambda f, last, seen: (lambda page: seen + page if len(page) < 3 else"
        " f(f, page[-1], seen + page))([e.to_json()['id'] for e in people.history(store, limit=3, before=last).entries]))"
        " for _ in range(5)]"
    )
    with racers(place, ["one", "two", "walker"]) as children:
        answers = race(children, busy, busy, walk)
    assert answers[:2] == ["busy", "busy"]
    walks = [] if answers[2] == "NotFound" else eval(answers[2])  # the entry a page ended with may be deleted: then it says so
    for seen in walks:
        assert [entry_id for entry_id in seen if entry_id in kept] == kept[::-1]
    assert ids(store) == kept[::-1]
