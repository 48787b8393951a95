"""Messages for an agent are listed and waited for without being taken, and traffic of other agents does not wake it."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from postroom import mail, people, work
from postroom.core.errors import InvalidInput
from postroom.people.agents import waiting
from postroom.store.event_log import inbox_topic
from postroom.store.interface import Store
from tests.contract.people_data import AGENT, USER, asked, new_workspace, pushed


def _kinds(store: Store, after: int = 0) -> list[tuple[str, str, bool]]:
    return [(item.kind, item.from_, item.verified) for item in people.list_waiting(store, agent=AGENT, after=after).waiting]


def _everything(store: Store, folder: Path) -> None:
    """Mail, a reply, an answer, a new thread, and a reply in a thread of the agent."""
    entry_id = pushed(store, new_workspace(store, folder))
    mail.enqueue(store, {"from": "colleague", "to": AGENT, "payload": "hello"})
    people.reply(store, entry_id, person=USER, body="Good")
    people.reply(store, asked(store), person=USER, body="yes")
    work.send(store, sender="leader", to=AGENT, subject="Build")
    own = work.send(store, sender=AGENT, to="builder", subject="Help me").thread.thread_id
    work.claim(store, own, agent="builder")
    work.update(store, own, agent="builder", status="blocked", summary="How?")


EVERYTHING = [
    ("mail", "colleague", False),
    ("reply", USER, False),
    ("answer", USER, False),
    ("thread", "leader", False),
    ("message", "builder", False),
]


def test_everything_that_waits_is_listed_in_order_and_stays(store: Store, tmp_path: Path) -> None:
    _everything(store, tmp_path)
    assert _kinds(store) == _kinds(store) == EVERYTHING
    texts = [item.text for item in people.list_waiting(store, agent=AGENT).waiting]
    assert texts == ["hello", "Good", "yes", "Build", "How?"]
    cut = people.list_waiting(store, agent=AGENT, limit=2)
    assert (len(cut.waiting), cut.more) == (2, True)


def _mail_from_each(store: Store, count: int) -> None:
    for number in range(count):
        mail.enqueue(store, {"from": f"sender-{number}", "to": AGENT, "payload": str(number)})


def test_what_comes_behind_many_that_wait_is_listed_too(store: Store, tmp_path: Path) -> None:
    new_workspace(store, tmp_path)
    _mail_from_each(store, 5)
    before = people.list_waiting(store, agent=AGENT).next_event_id
    people.reply(store, asked(store), person=USER, body="yes")
    mail.enqueue(store, {"from": "late", "to": AGENT, "payload": "late"})
    assert [item.text for item in people.list_waiting(store, agent=AGENT, after=before, limit=2).waiting] == ["yes", "late"]


def test_the_pages_of_a_cut_list_have_everything_once(store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(waiting, "PAGE_ITEMS", 2)
    new_workspace(store, tmp_path)
    _mail_from_each(store, 5)
    for answer in ("yes", "no"):
        people.reply(store, asked(store), person=USER, body=answer)
    assert [item.text for item in waiting.list_all_waiting(store, agent=AGENT)] == ["0", "1", "2", "3", "4", "yes", "no"]


def test_a_cursor_leaves_out_what_came_before_it(store: Store, tmp_path: Path) -> None:
    _everything(store, tmp_path)
    items = people.list_waiting(store, agent=AGENT).waiting
    assert _kinds(store, items[2].event_id) == EVERYTHING[3:]
    seen = people.wait_messages(store, agent=AGENT)
    assert seen.next_event_id <= items[-1].event_id  # on PostgreSQL it may be earlier, while transactions of others are open
    assert people.list_waiting(store, agent=AGENT, after=items[-1].event_id).waiting == ()


def test_what_is_handed_over_does_not_wait_until_it_comes_back(store: Store, tmp_path: Path) -> None:
    _everything(store, tmp_path)
    handed = people.hand_over_messages(store, agent=AGENT)
    assert _kinds(store) == EVERYTHING[3:]
    people.return_handover(store, handed.handover_id, agent=AGENT)
    assert sorted(_kinds(store)) == sorted(EVERYTHING)
    people.hand_over_messages(store, agent=AGENT)
    people.confirm_handover(store, agent=AGENT)
    assert _kinds(store) == EVERYTHING[3:]


def test_a_wait_ends_with_what_comes_after_the_cursor(store: Store) -> None:
    mail.enqueue(store, {"from": "colleague", "to": AGENT, "payload": "old"})
    cursor = people.list_waiting(store, agent=AGENT).waiting[-1].event_id
    with ThreadPoolExecutor() as threads:
        waiting = threads.submit(people.wait_messages, store.with_door("library"), agent=AGENT, after=cursor, timeout_seconds=60)
        mail.enqueue(store, {"from": "colleague", "to": AGENT, "payload": "new"})
        assert [item.text for item in waiting.result().waiting] == ["new"]


def test_a_wait_in_vain_is_empty(store: Store) -> None:
    assert people.wait_messages(store, agent=AGENT, timeout_seconds=0.01).waiting == ()
    with pytest.raises(InvalidInput):
        people.wait_messages(store, agent=AGENT, timeout_seconds=-1)
    with pytest.raises(InvalidInput):
        people.list_waiting(store, agent="")


@pytest.mark.parametrize("engine", ["sqlite"], indirect=True)
def test_the_wake_file_of_an_agent_is_touched_for_what_is_addressed_to_it_alone(store: Store, tmp_path: Path) -> None:
    wake_file = store.wake_file_path(inbox_topic(AGENT))  # type: ignore[attr-defined]
    with store.watch(inbox_topic(AGENT)):
        pass  # a waiter creates the file
    thread_id = work.send(store, sender="leader", to=AGENT, subject="Build").thread.thread_id
    os.utime(wake_file, (1, 1))
    mail.enqueue(store, {"from": AGENT, "to": "other", "payload": "hello"})
    work.claim(store, thread_id, agent=AGENT)
    work.update(store, thread_id, agent=AGENT, summary="Half")
    assert os.stat(wake_file).st_mtime == 1
    for write in (
        lambda: mail.enqueue(store, {"from": "other", "to": AGENT, "payload": "hello"}),
        lambda: people.reply(store, asked(store), person=USER, body="yes"),
        lambda: work.reply(store, thread_id, sender="leader", summary="Go on"),
    ):
        os.utime(wake_file, (1, 1))
        write()
        assert os.stat(wake_file).st_mtime > 1
