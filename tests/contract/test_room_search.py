"""Threads and mail are found by their words, the newest first, at a cost that does not depend on the size of the store."""

from __future__ import annotations

import pytest

from postroom import mail, people, work
from postroom.core.errors import InvalidInput
from postroom.core.records.work import PostedMessage
from postroom.mail import mailbox
from postroom.mail.drafts import Draft
from postroom.people import room_search
from postroom.store.interface import Store
from tests.conftest import Clock


def _found(store: Store, q: str, **more: int) -> list[tuple[str, str]]:
    hits = people.search_rooms(store, q, **more).hits
    return [(hit.kind, hit.thread_id or hit.session or "") for hit in hits]


def test_a_thread_is_found_by_its_subject_and_by_every_message(store: Store) -> None:
    thread = work.send(store, sender="lead", to="coder", subject="Café login", body="With passkeys, **please**").thread.thread_id
    other = work.send(store, sender="lead", to="coder", subject="Write the manual").thread.thread_id
    work.reply(store, thread, sender="lead", summary="Use WebAuthn.")
    for words in ("cafe", "LOGIN", "passk", "webauthn", "login passkeys", "from:lead login"):
        assert _found(store, words) == [("thread", thread)], words
    assert _found(store, "asskeys") == []
    assert _found(store, "from:coder login") == []
    assert _found(store, "manual") == [("thread", other)]


def test_mail_is_found_by_its_payload(store: Store) -> None:
    mail.enqueue(store, {"from": "cron", "to": "coder", "payload": "The nightly\0 backup failed", "msg_id": "m1"})
    assert _found(store, "backup") == [("mail", "coder")]
    [hit] = people.search_rooms(store, "backup").hits
    assert (hit.sender, hit.title, hit.text) == ("cron", "Mail for coder", "The nightly backup failed")


def _send(store: Store, clock: Clock, subject: str) -> PostedMessage:
    clock.advance(1)
    return work.send(store, sender="lead", to="coder", subject=subject)


def test_the_newest_hits_come_first_and_a_thread_comes_once(store: Store, clock: Clock) -> None:
    threads = [_send(store, clock, f"Build {number}").thread.thread_id for number in range(3)]
    clock.advance(1)
    work.reply(store, threads[0], sender="lead", summary="Build it now.")
    assert _found(store, "build") == [("thread", threads[0]), ("thread", threads[2]), ("thread", threads[1])]
    assert _found(store, "build", limit=1) == [("thread", threads[0])]


def test_a_hit_quotes_what_was_found(store: Store) -> None:
    work.send(store, sender="lead", to="coder", subject="Report", body=f"{'word ' * 200}needle {'word ' * 200}")
    [hit] = people.search_rooms(store, "needle").hits
    assert "needle" in hit.text
    assert len(hit.text) <= room_search.MAX_SNIPPET_CHARS


def test_the_answer_says_how_far_it_looked(store: Store, clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    _send(store, clock, "The oldest of all")
    assert people.search_rooms(store, "oldest").since is None
    monkeypatch.setattr(room_search, "MAX_ROWS", 4)
    monkeypatch.setattr(room_search, "PAGE_ROWS", 2)
    later = [_send(store, clock, f"Later {number}") for number in range(4)]
    found = people.search_rooms(store, "oldest")
    assert (found.hits, found.since) == ((), later[0].message.created_at)


def test_alerts_on_their_way_to_people_are_not_searched(store: Store) -> None:
    """Their payload has the link that answers a question."""
    alert = Draft("m1", "postroom", "channel:c1", "A secret link", None, "{}")
    with store.write() as tx:
        mailbox.store_drafts(tx, [alert])
    assert _found(store, "secret") == []


@pytest.mark.parametrize("q", ["is:unread", "in:done"])
def test_operators_that_only_entries_have_find_nothing_here(store: Store, q: str) -> None:
    work.send(store, sender="lead", to="coder", subject="Build")
    assert _found(store, f"{q} build") == []


def test_a_search_for_nothing_is_refused(store: Store) -> None:
    with pytest.raises(InvalidInput):
        people.search_rooms(store, "***")
    with pytest.raises(InvalidInput):
        people.search_rooms(store, "a", limit=0)
