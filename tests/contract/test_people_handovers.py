"""A message that is handed to an agent stays in flight until the agent confirms it, comes again if it was lost, and is seen only then."""

from __future__ import annotations

from pathlib import Path

import pytest

from postroom import mail, people, work
from postroom.core.limits import MAX_RECEIVED_BYTES
from postroom.people.agents import handed_items, handovers
from postroom.people.agents.handovers import HANDOVER_SECONDS, hand_over_reply
from postroom.store.interface import Store
from tests.conftest import Clock
from tests.contract.people_data import AGENT, USER, asked, new_workspace, pushed


def _replied(store: Store, folder: Path, *texts: str) -> str:
    entry_id = pushed(store, new_workspace(store, folder))
    for text in texts:
        people.reply(store, entry_id, person=USER, body=text)
    return entry_id


def _answered(store: Store, *answers: str) -> None:
    """Ask one question after another, and answer each."""
    for answer in answers:
        people.reply(store, asked(store), person=USER, body=answer, comment=True)


def _bodies(handover: object) -> list[str]:
    return [message.body for message in handover.messages]  # type: ignore[attr-defined]


def _steps(store: Store, entry_id: str) -> list[str]:
    return [step.step for step in people.show_entry(store, entry_id).receipts if step.step.startswith("reply_")]


def test_a_reply_counts_as_seen_once_it_is_confirmed(store: Store, tmp_path: Path) -> None:
    entry_id = _replied(store, tmp_path, "one", "two", "three")
    handed = people.hand_over_messages(store, agent=AGENT)
    assert (_bodies(handed), handed.more) == (["one", "two", "three"], False)
    assert {(message.verified, message.door) for message in handed.messages} == {(False, "library")}
    assert "reply_seen" not in _steps(store, entry_id)
    assert people.hand_over_messages(store, agent=AGENT).messages == ()
    assert mail.dequeue(store, AGENT) is None
    assert people.confirm_handover(store, agent=AGENT) == 3
    assert _steps(store, entry_id).count("reply_seen") == 3
    assert people.confirm_handover(store, agent=AGENT) == 0


def test_what_did_not_arrive_is_available_again_at_once_and_in_order(store: Store, tmp_path: Path) -> None:
    _replied(store, tmp_path, "one", "two")
    handed = people.hand_over_messages(store, agent=AGENT)
    assert people.return_handover(store, handed.handover_id, agent=AGENT) == 2
    again = people.hand_over_messages(store, agent=AGENT)
    assert (_bodies(again), [message.again for message in again.messages]) == (["one", "two"], [False, False])
    assert people.return_handover(store, handed.handover_id, agent=AGENT) == 0


def test_a_handover_that_nobody_confirms_ends_and_is_marked_when_it_comes_again(store: Store, tmp_path: Path, clock: Clock) -> None:
    _replied(store, tmp_path, "one", "two")
    people.hand_over_messages(store, agent=AGENT)
    clock.advance(HANDOVER_SECONDS + 60)
    again = people.hand_over_messages(store, agent=AGENT)
    assert [(message.body, message.again) for message in again.messages] == [("one", True), ("two", True)]


def test_a_slow_agent_confirms_after_the_handover_ended(store: Store, tmp_path: Path, clock: Clock) -> None:
    entry_id = _replied(store, tmp_path, "one", "two")
    people.hand_over_messages(store, agent=AGENT)
    clock.advance(HANDOVER_SECONDS + 1)
    assert people.confirm_handover(store, agent=AGENT) == 2
    assert _steps(store, entry_id).count("reply_seen") == 2
    assert people.hand_over_messages(store, agent=AGENT).messages == ()


def test_a_message_that_another_receiver_took_meanwhile_is_not_confirmed(store: Store, tmp_path: Path, clock: Clock) -> None:
    entry_id = _replied(store, tmp_path, "one", "two")
    people.hand_over_messages(store, agent=AGENT)
    clock.advance(HANDOVER_SECONDS + 60)
    taken = mail.dequeue(store, AGENT)
    assert taken is not None
    assert people.confirm_handover(store, agent=AGENT) == 0
    assert "reply_seen" not in _steps(store, entry_id)
    assert mail.ack(store, AGENT, taken.message.msg_id, delivery_token=taken.delivery_token).changed


def test_an_answer_is_handed_over_confirmed_and_returned_like_mail(store: Store, tmp_path: Path) -> None:
    new_workspace(store, tmp_path)
    entry_id = asked(store)
    people.reply(store, entry_id, person=USER, body="yes")
    handed = people.hand_over_messages(store, agent=AGENT)
    assert _bodies(handed) == ["yes"]
    assert people.hand_over_messages(store, agent=AGENT).messages == ()
    assert people.read_messages(store, agent=AGENT) == ()
    people.return_handover(store, handed.handover_id, agent=AGENT)
    assert _bodies(people.hand_over_messages(store, agent=AGENT)) == ["yes"]
    assert "reply_seen" not in _steps(store, entry_id)
    assert people.confirm_handover(store, agent=AGENT) == 1
    assert "reply_seen" in _steps(store, entry_id)


def test_one_client_does_not_confirm_for_another(store: Store, tmp_path: Path) -> None:
    _replied(store, tmp_path, "one")
    handed = people.hand_over_messages(store, agent=AGENT, client="first")
    assert people.confirm_handover(store, agent=AGENT, client="second") == 0
    assert people.confirm_handover(store, agent=AGENT, client="first", excluded=[handed.handover_id]) == 0
    assert people.confirm_handover(store, agent=AGENT, client="first") == 1


def test_a_limit_cuts_the_handover_and_says_so(store: Store, tmp_path: Path) -> None:
    _replied(store, tmp_path, *"abcde")
    mail.enqueue(store, {"from": "colleague", "to": AGENT, "payload": "x"})
    first = people.hand_over_messages(store, agent=AGENT, limit=3)
    assert (len(first.messages), first.more) == (3, True)
    people.confirm_handover(store, agent=AGENT)
    rest = people.hand_over_messages(store, agent=AGENT, limit=10)
    assert (len(rest.messages), rest.more) == (3, False)


def test_a_limit_cuts_the_answers_too_and_says_so(store: Store, tmp_path: Path) -> None:
    new_workspace(store, tmp_path)
    _answered(store, *"abcde")
    first = people.hand_over_messages(store, agent=AGENT, limit=3)
    assert (_bodies(first), first.more) == (["a", "b", "c"], True)
    rest = people.hand_over_messages(store, agent=AGENT, limit=3)
    assert (_bodies(rest), rest.more) == (["d", "e"], False)


def test_answers_and_mail_together_are_cut_by_size(store: Store, tmp_path: Path) -> None:
    new_workspace(store, tmp_path)
    quarter = MAX_RECEIVED_BYTES // 4
    _answered(store, *(letter * quarter for letter in "abcde"))
    for number in range(3):
        mail.enqueue(store, {"from": "colleague", "to": AGENT, "payload": str(number) * 2 * quarter})
    received = []
    for _ in range(3):
        handed = people.hand_over_messages(store, agent=AGENT)
        received.append([body[0] for body in _bodies(handed)])
        assert handed.more == (len(received) < 3)
        people.confirm_handover(store, agent=AGENT)
    assert received == [["a", "b", "c", "d"], ["e", "0", "1"], ["2"]]


def test_more_is_returned_and_confirmed_than_one_page_of_the_store(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(handed_items, "READ_ITEMS", 3)
    for number in range(8):
        mail.enqueue(store, {"from": f"sender-{number}", "to": AGENT, "payload": str(number)})
    handed = people.hand_over_messages(store, agent=AGENT)
    assert people.return_handover(store, handed.handover_id, agent=AGENT) == 8
    assert len(people.hand_over_messages(store, agent=AGENT).messages) == 8
    assert people.confirm_handover(store, agent=AGENT) == 8


def test_an_answer_that_a_client_lost_wakes_those_who_wait(store: Store, tmp_path: Path) -> None:
    new_workspace(store, tmp_path)
    _answered(store, "yes")
    people.hand_over_messages(store, agent=AGENT, client="gone")
    before = people.list_waiting(store, agent=AGENT).next_event_id
    handovers.end_handovers(store, agent=AGENT, client="gone")
    waiting = people.wait_messages(store, agent=AGENT, after=before, timeout_seconds=0.01)
    assert [item.kind for item in waiting.waiting] == ["answer"]


def test_a_reply_in_a_thread_is_read_once_it_is_confirmed(store: Store) -> None:
    posted = work.send(store, sender="leader", to=AGENT, subject="Build")
    work.claim(store, posted.thread.thread_id, agent=AGENT)
    work.update(store, posted.thread.thread_id, agent=AGENT, status="blocked", summary="Which?")
    reply = work.reply(store, posted.thread.thread_id, sender="leader", summary="Blue")
    hand_over_reply(store, posted.thread.thread_id, reply.next_event_id, agent=AGENT, client="")
    assert work.fetch(store, agent=AGENT, unread=True).candidates
    assert people.confirm_handover(store, agent=AGENT) == 1
    assert work.fetch(store, agent=AGENT, unread=True).candidates == ()
