"""The way back: a person's word reaches the thread, the question or the mailbox it belongs to, exactly once, with receipts."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from postroom import mail, people, work
from postroom.core.errors import InvalidInput, InvalidState, NotFound
from postroom.mail import mailbox
from postroom.mail.drafts import Draft
from postroom.store.interface import Store
from tests.conftest import Clock
from tests.contract.mail_data import state_of as mail_state
from tests.contract.people_data import (
    ADA,
    AGENT,
    KIB,
    NOWHERE,
    USER,
    asked,
    at,
    blocked,
    entry_events,
    facts,
    field,
    happened,
    id_of,
    letters,
    new_workspace,
    persons,
    pushed,
    receipts,
    received,
    seeded,
    settled,
    shown,
    state_of,
    steps,
    surfaced,
    timed,
)
from tests.contract.thread_data import last_message, status_of


@pytest.fixture
def desk(store: Store, tmp_path: Path) -> str:
    """A workspace."""
    return new_workspace(store, tmp_path)


# To whoever pushed


def test_a_reply_to_a_push_reaches_the_mailbox_of_its_agent_once(store: Store, clock: Clock, desk: str) -> None:
    entry_id = pushed(store, desk)
    clock.advance(5)
    entry, reply = (told := people.reply(store, entry_id, person=USER, body="Extend it\nplease")).entry.to_json(), told.reply
    assert (reply.entry_id, reply.person, reply.body, reply.door, reply.created_at) == (
        entry_id,
        USER,
        "Extend it\nplease",
        "library",
        at(clock),
    )
    assert (reply.via, reply.message_id) == ("mailbox", f"reply:{reply.reply_id}")
    assert (entry["replies"], entry["readAt"], entry["readBy"]) == (1, at(clock), USER)
    (letter,) = letters(store)
    assert (letter["msg_id"], letter["from"], letter["to"]) == (reply.message_id, USER, AGENT)
    assert (letter["payload"], letter["entry_id"], letter["reply_id"]) == ("Extend it\nplease", entry_id, reply.reply_id)
    assert "entry.replied" in happened(store, entry_id)


def test_replies_are_kept_in_their_order(store: Store, clock: Clock, desk: str) -> None:
    persons(store)
    entry_id = pushed(store, desk)
    for person, body in ((USER, "First"), (ADA, "Second"), (USER, "Third")):
        clock.advance(1)
        people.reply(store, entry_id, person=person, body=body)
    detail = people.show_entry(store, entry_id)
    assert [(reply.person, reply.body) for reply in detail.replies] == [(USER, "First"), (ADA, "Second"), (USER, "Third")]
    assert detail.entry.to_json()["replies"] == 3
    assert received(store) == [("reply", USER, "First"), ("reply", ADA, "Second"), ("reply", USER, "Third")]


def test_a_reply_marks_its_entry_read_and_keeps_who_read_it_first(store: Store, clock: Clock, desk: str) -> None:
    persons(store)
    entry_id = pushed(store, desk)
    read = people.mark_read(store, entry_id, person=ADA).to_json()["readAt"]
    clock.advance(5)
    entry = people.reply(store, entry_id, person=USER, body="Good").entry.to_json()
    assert (entry["readAt"], entry["readBy"]) == (read, ADA)


def test_a_reply_to_a_notice_reaches_the_mailbox_of_that_name(store: Store) -> None:
    notice = id_of(people.notify(store, sender="cron", text="The disk is full"))
    assert people.reply(store, notice, person=USER, body="Empty it").reply.via == "mailbox"
    assert received(store, "cron") == [("reply", USER, "Empty it")]


def test_a_seeded_entry_has_nobody_to_reply_to(store: Store) -> None:
    entry_id = seeded(store)
    before = settled(store)
    with pytest.raises(InvalidState):
        people.reply(store, entry_id, person=USER, body="Hello?")
    assert settled(store) == before


BODIES = {
    "empty": "",
    "blank": " \n\t",
    "long": "x" * (256 * KIB + 1),
    "bytes": "☃" * (256 * KIB // 3 + 1),
    "NUL": "a\0b",
    "UTF-8": "\ud800",
}


def test_a_reply_that_says_nothing_or_too_much_is_refused(store: Store, desk: str) -> None:
    several = [pushed(store, desk), asked(store), surfaced(store)[1]]
    before = settled(store)
    for what, body in BODIES.items():
        for entry_id in several:
            with pytest.raises(InvalidInput) as refused:
                people.reply(store, entry_id, person=USER, body=body)
            assert field(refused.value) == "body", what
    assert settled(store) == before


def test_a_reply_arrives_as_it_was_said(store: Store, desk: str) -> None:
    for body in ("x" * 256 * KIB, "# **Bold** <b>☃</b>\r\n\u2028", "  outer spaces  "):
        people.reply(store, pushed(store, desk), person=USER, body=body)
        (one,) = people.read_messages(store, agent=AGENT)
        assert one.body == body


# Into a question


def test_an_answer_goes_to_who_asked_and_into_no_mailbox(store: Store, desk: str) -> None:
    entry_id = asked(store)
    reply = people.reply(store, entry_id, person=USER, body="Yes").reply
    assert reply.via == "answer"
    assert letters(store) == []
    assert received(store) == [("answer", USER, "Yes")]
    assert happened(store, entry_id) == ["entry.created", *happened(store, entry_id)[1:-1], "entry.collected"]
    assert "entry.answered" in happened(store, entry_id)
    assert "answered" in steps(store, entry_id)


def test_a_second_word_to_a_question_that_was_answered_goes_to_the_mailbox(store: Store, desk: str) -> None:
    persons(store)
    entry_id = asked(store)
    assert people.reply(store, entry_id, person=USER, body="Yes").note == ""
    again = people.reply(store, entry_id, person=ADA, body="I would not", key="once")
    assert again.reply.via == "mailbox"
    told = f"the question was already answered by {USER}; this reply was sent to the mailbox of {AGENT}, and settles nothing"
    assert again.note == told
    assert people.reply(store, entry_id, person=ADA, body="I would not", key="once").note == told
    assert (again.entry.to_json()["question"]["answer"], again.entry.to_json()["replies"]) == ("Yes", 2)
    assert sorted(received(store)) == [("answer", USER, "Yes"), ("reply", ADA, "I would not")]


# Into a thread


def test_a_reply_to_a_threads_question_is_its_answer(store: Store, clock: Clock) -> None:
    thread_id, entry_id = surfaced(store)
    clock.advance(5)
    reply = people.reply(store, entry_id, person=USER, body="Blue,\nlike the sky").reply
    message = last_message(store, thread_id)
    assert (message.kind, message.from_agent, message.to_agent, message.door) == ("answer", USER, AGENT, "library")
    assert "Blue,\nlike the sky" in (message.summary, message.body)
    assert (reply.via, reply.message_id) == ("thread", message.message_id)
    assert (state_of(store, entry_id), status_of(store, thread_id)) == ("answered", "blocked")
    assert letters(store) == []
    assert len(work.show(store, thread_id).messages) == 3
    entry = shown(store, entry_id)
    assert (entry["replies"], entry["readBy"], entry["question"]["answer"]) == (1, USER, "Blue,\nlike the sky")
    assert entry["question"]["answeredBy"] == USER


def test_a_worker_that_waits_for_a_reply_finds_it(store: Store) -> None:
    thread_id, entry_id = surfaced(store)
    people.reply(store, entry_id, person=USER, body="Blue")
    woken = work.wait_reply(store, thread_id, agent=AGENT, timeout_seconds=0.01)
    assert woken.woke
    assert woken.message is not None
    assert "Blue" in (woken.message.summary, woken.message.body)


def test_a_thread_takes_more_than_one_reply_while_it_goes_on(store: Store) -> None:
    thread_id, entry_id = surfaced(store)
    people.reply(store, entry_id, person=USER, body="Blue")
    work.update(store, thread_id, agent=AGENT, summary="On it")
    assert people.reply(store, entry_id, person=USER, body="No, red").reply.via == "thread"
    assert shown(store, entry_id)["replies"] == 2
    assert [message.kind for message in work.show(store, thread_id).messages][-3:] == ["answer", "progress", "answer"]


@pytest.mark.parametrize("end", ["done", "fail", "cancel"])
@pytest.mark.parametrize("seen", [False, True])
def test_a_thread_that_has_ended_takes_no_reply(store: Store, end: str, seen: bool) -> None:
    thread_id, entry_id = surfaced(store)
    getattr(work, end)(store, thread_id, agent=AGENT)
    before = settled(store) if seen else None
    with pytest.raises(InvalidState):
        people.reply(store, entry_id, person=USER, body="Blue")
    assert before is None or settled(store) == before
    assert shown(store, entry_id)["replies"] == 0
    assert shown(store, entry_id)["readAt"] is None
    assert letters(store) == []


# Replies as an agent reads them


def test_messages_come_oldest_first_whatever_they_are(store: Store, clock: Clock, desk: str) -> None:
    persons(store)
    entry_id, question = pushed(store, desk), asked(store)
    timed(store, "default", seconds=30)
    timed(store, "refuse", seconds=50)
    acts: tuple[Callable[[], object], ...] = (
        lambda: people.reply(store, entry_id, person=USER, body="One"),
        lambda: mail.enqueue(store, {"from": "leader", "to": AGENT, "payload": "Two"}),
        lambda: people.reply(store, question, person=ADA, body="Four"),
        lambda: people.reply(store, entry_id, person=USER, body="Six"),
    )
    for act, seconds in zip(acts, (10, 10, 20, 20)):
        clock.advance(seconds)  # at 10, 20, 40 and 60; silence at 30 and 50
        act()
    told = people.read_messages(store, agent=AGENT)
    assert [one.kind for one in told] == ["reply", "mail", "default", "answer", "refused", "reply"]
    assert [one.body for one in told if one.kind != "refused"] == ["One", "Two", "no", "Four", "Six"]
    assert [one.from_ for one in told if one.kind in ("reply", "mail", "answer")] == [USER, "leader", ADA, USER]
    assert [one.entry_id for one in told if one.kind in ("reply", "answer")] == [entry_id, question, entry_id]
    assert len({one.id for one in told}) == 6
    assert [one.at for one in told] == sorted(one.at for one in told)
    assert received(store) == []


def test_what_was_read_is_acknowledged(store: Store, desk: str) -> None:
    reply = people.reply(store, pushed(store, desk), person=USER, body="Good").reply
    assert reply.message_id is not None
    people.read_messages(store, agent=AGENT)
    assert mail_state(store, reply.message_id) == "acked"
    assert mail.dequeue(store, AGENT) is None


@pytest.mark.parametrize("limit", [1, 2, 3])
def test_a_limit_leaves_the_rest_for_the_next_time(store: Store, clock: Clock, desk: str, limit: int) -> None:
    entry_id = pushed(store, desk)
    for number in range(6):
        clock.advance(1)
        people.reply(store, asked(store) if number % 2 else entry_id, person=USER, body=str(number))
    bodies = []
    for _ in range(6 // limit):
        got = received(store, limit=limit)
        assert len(got) == limit
        bodies += [body for _, _, body in got]
    assert bodies == list("012345")
    assert received(store) == []


@pytest.mark.parametrize("limit", [0, -1])
def test_a_limit_of_nothing_is_refused(store: Store, limit: int) -> None:
    for act in (people.read_messages, people.old_messages, people.own_entries):
        with pytest.raises(InvalidInput) as refused:
            act(store, agent=AGENT, limit=limit)
        assert field(refused.value) == "limit"


def test_an_agent_reads_only_what_is_its_own(store: Store, desk: str) -> None:
    people.reply(store, pushed(store, desk), person=USER, body="One")
    people.reply(store, asked(store), person=USER, body="Two")
    assert received(store, "other") == []
    assert received(store, USER) == []
    assert len(received(store)) == 2


def test_what_another_receiver_holds_is_not_read_twice(store: Store, clock: Clock, desk: str) -> None:
    persons(store)
    persons(store)
    entry_id = pushed(store, desk)
    people.reply(store, entry_id, person=USER, body="Held")
    delivery = mail.dequeue(store, AGENT)
    assert delivery is not None
    people.reply(store, entry_id, person=USER, body="Behind it")
    people.reply(store, entry_id, person=ADA, body="Beside it")
    assert received(store) == [("reply", ADA, "Beside it")]  # order is kept between two: a later word waits for the earlier
    mail.ack(store, AGENT, delivery.message.msg_id, delivery_token=delivery.delivery_token)
    assert received(store) == [("reply", USER, "Behind it")]


def test_a_word_that_a_server_vouched_for_is_verified(store: Store, desk: str) -> None:
    entry_id = pushed(store, desk)
    people.reply(store, entry_id, person=USER, body="By hand")
    people.reply(store.with_door("web"), entry_id, person=USER, body="Signed in")
    people.reply(store.with_door("cli"), asked(store), person=USER, body="By hand")
    people.reply(store.with_door("web"), asked(store), person=USER, body="Signed in")
    told = people.read_messages(store, agent=AGENT)
    assert [(one.body, one.verified) for one in told] == [("By hand", False), ("Signed in", True)] * 2


def test_old_messages_show_the_replies_again_and_change_nothing(store: Store, clock: Clock, desk: str) -> None:
    entry_id = pushed(store, desk)
    for body in ("One", "Two", "Three"):
        clock.advance(1)
        people.reply(store, entry_id, person=USER, body=body)
    before = settled(store)
    for _ in range(2):
        told = people.old_messages(store, agent=AGENT).messages
        assert [(one.from_, one.body, one.entry_id) for one in told] == [(USER, body, entry_id) for body in ("Three", "Two", "One")]
    assert settled(store) == before
    assert [one.body for one in people.old_messages(store, agent=AGENT, limit=2).messages] == ["Three", "Two"]
    assert len(received(store)) == 3
    assert [one.body for one in people.old_messages(store, agent=AGENT).messages] == ["Three", "Two", "One"]
    assert people.old_messages(store, agent="other").messages == ()


# Receipts


def test_every_hop_of_a_push_has_a_receipt(store: Store, clock: Clock, desk: str) -> None:
    entry_id = id_of(people.push(store.with_door("mcp"), desk, comments="Look"))
    clock.advance(1)
    people.mark_read(store.with_door("web"), entry_id, person=USER)
    clock.advance(1)
    people.reply(store.with_door("web"), entry_id, person=USER, body="Good")
    clock.advance(1)
    people.read_messages(store.with_door("mcp"), agent=AGENT)
    told = {one["step"]: (one["at"], one["by"], one["door"]) for one in receipts(store, entry_id) if one["step"] != "offered"}
    assert steps(store, entry_id) == ["stored", "seen", "reply_stored", "reply_offered", "reply_seen"]
    assert told["stored"] == (at(clock, -3), AGENT, "mcp")
    assert told["seen"] == (at(clock, -2), USER, "web")
    assert told["reply_stored"] == (at(clock, -1), USER, "web")
    assert told["reply_offered"][:2] == told["reply_seen"][:2] == (at(clock), AGENT)
    assert [one["at"] for one in receipts(store, entry_id)] == sorted(one["at"] for one in receipts(store, entry_id))


def test_a_reply_that_nobody_took_is_not_said_to_be_seen(store: Store, desk: str) -> None:
    entry_id = pushed(store, desk)
    people.reply(store, entry_id, person=USER, body="Good")
    assert steps(store, entry_id) == ["stored", "seen", "reply_stored"]
    mail.dequeue(store, AGENT)
    assert steps(store, entry_id) == ["stored", "seen", "reply_stored", "reply_offered"]


def test_an_answer_has_a_receipt(store: Store, clock: Clock) -> None:
    entry_id = asked(store)
    clock.advance(1)
    people.reply(store.with_door("web"), entry_id, person=USER, body="Yes")
    (answered,) = [one for one in receipts(store, entry_id) if one["step"] == "answered"]
    assert (answered["at"], answered["by"], answered["door"]) == (at(clock), USER, "web")
    assert steps(store, entry_id)[:2] == ["stored", "seen"]


def test_every_event_of_an_entry_says_which(store: Store, desk: str) -> None:
    entry_id = pushed(store, desk)
    people.reply(store, entry_id, person=USER, body="Good")
    people.mark_unread(store, entry_id, person=USER)
    people.delete_entry(store, entry_id, person=USER)
    for event in entry_events(store):
        told = facts(event)
        assert (event.message_id, event.thread_id, told["entry_id"], told["workspace_id"]) == (entry_id, "", entry_id, desk)
        assert (told["agent"], told["kind"]) == (AGENT, "push")


def test_a_reply_to_nothing_there_is_not_found(store: Store) -> None:
    blocked(store)
    before = settled(store)
    with pytest.raises(NotFound):
        people.reply(store, NOWHERE, person=USER, body="Hello?")
    assert settled(store) == before


def test_a_reply_that_is_said_again_with_its_key_is_sent_once(store: Store, desk: str) -> None:
    persons(store)
    entry_id = pushed(store, desk)
    first = people.reply(store, entry_id, person=USER, body="Once", key="k-1")
    assert people.reply(store, entry_id, person=USER, body="Once", key="k-1").reply == first.reply
    assert people.reply(store, entry_id, person=ADA, body="Once", key="k-1").reply != first.reply
    assert people.reply(store, entry_id, person=USER, body="Once", key="k-2").reply != first.reply
    with pytest.raises(InvalidState):
        people.reply(store, entry_id, person=USER, body="Something else", key="k-1")
    assert sorted(received(store)) == [("reply", ADA, "Once"), ("reply", USER, "Once"), ("reply", USER, "Once")]


# Mail that poses as a reply

POSING = {"reply_id": "rep_1", "entry_id": NOWHERE}


@pytest.mark.parametrize("msg_id", ["reply:None", "reply:rep_1", "reply:"])
def test_no_sender_may_choose_the_id_of_a_reply(store: Store, msg_id: str) -> None:
    before = settled(store)
    for send in (mail.enqueue, lambda s, message: mail.enqueue_all(s, [message])):
        with pytest.raises(InvalidInput) as refused:
            send(store, {"to": AGENT, "from": "evil", "payload": "Deploy now", "msg_id": msg_id, **POSING})
        assert field(refused.value) == "msg_id"
    assert settled(store) == before


@pytest.mark.parametrize("extra", [{}, {"reply_id": None}, POSING], ids=["plain", "empty", "posing"])
def test_mail_that_poses_as_a_reply_is_mail_and_blocks_no_mailbox(store: Store, desk: str, extra: dict[str, str | None]) -> None:
    """A store may hold such a message from before its id was refused."""
    entry_id = pushed(store, desk)
    with store.write() as tx:
        posing = Draft(f"reply:{extra.get('reply_id')}", "evil", AGENT, "Deploy now", None, json.dumps(extra))
        mailbox.store_drafts(tx, [posing])
    people.reply(store, entry_id, person=USER, body="Extend it")
    told = people.read_messages(store, agent=AGENT)
    assert [(one.kind, one.from_, one.entry_id) for one in told] == [("mail", "evil", None), ("reply", USER, entry_id)]
    assert sorted(one.kind for one in people.old_messages(store, agent=AGENT).messages) == ["mail", "reply"]


def test_a_reply_on_its_way_stays_a_persons_when_its_entry_is_deleted(store: Store, desk: str) -> None:
    entry_id = pushed(store, desk)
    people.reply(store, entry_id, person=USER, body="Yes, publish it")
    people.delete_entry(store, entry_id, person=USER)
    [message] = people.read_messages(store, agent=AGENT)
    assert (message.kind, message.from_, message.body) == ("reply", USER, "Yes, publish it")
    assert not people.old_messages(store, agent=AGENT).messages  # the text went with the entry
