"""Listings of mailboxes that are cut say so and can be continued, and a purge removes no more than what was shown."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from postroom import mail
from postroom.core.errors import InvalidInput, InvalidState
from postroom.mail import dead_letters
from postroom.store.interface import Store
from tests.conftest import Clock
from tests.contract.mail_data import BOX, brought, dead, drained, held, message, post

pytestmark = pytest.mark.travels("http", "unix", "ws")


def _dead_letters(store: Store, count: int) -> list[str]:
    mail.set_policy(store, BOX, max_retries=0)
    mail.enqueue_all(store, [message(str(number), msg_id=f"m:{number}") for number in range(count)])
    for number in range(count):
        mail.dequeue(store, BOX)
        mail.nack(store, BOX, f"m:{number}")
    return [f"m:{number}" for number in range(count)]


def _pages(read: Callable[..., Any], items: str, limit: int) -> list[Sequence[Any]]:
    """Every page of a listing, as a reader that follows the cursor gets them."""
    pages, after = [], None
    while True:
        page = read(limit=limit) if after is None else read(limit=limit, after=after)
        pages.append(getattr(page, items))
        assert page.more == (page.after is not None)
        if not page.more:
            return pages
        after = page.after


def test_peek_goes_on_where_it_was_cut(store: Store) -> None:
    ids = [
        post(store, sender=sender, created_at=created_at)
        for sender, created_at in (("ann", 9), ("bob", 7), ("cid", 9), ("ann", 3), ("dan", 8))
    ]
    pages = _pages(lambda **options: mail.peek(store, BOX, **options), "messages", 2)
    assert [[one.msg_id for one in page] for page in pages] == [[ids[1], ids[4]], [ids[0], ids[2]], [ids[3]]]
    assert mail.peek(store, BOX, limit=2).total == 5


def test_acked_messages_can_be_listed_with_the_newest_first(store: Store) -> None:
    assert mail.peek(store, BOX, acked=True).messages == ()
    ids = [post(store, payload) for payload in ("1", "2", "3", "4")]
    assert drained(store) == ["1", "2", "3", "4"]
    waiting = post(store)
    pages = _pages(lambda **options: mail.peek(store, BOX, acked=True, **options), "messages", 3)
    assert [[one.msg_id for one in page] for page in pages] == [ids[:0:-1], ids[:1]]
    assert {(one.state, one.due_at) for page in pages for one in page} == {("acked", None)}
    assert mail.peek(store, BOX, acked=True).total == 4
    assert [one.msg_id for one in mail.peek(store, BOX).messages] == [waiting]


def test_dead_letters_that_are_not_shown_are_counted_and_can_be_read(store: Store) -> None:
    ids = _dead_letters(store, 5)
    pages = _pages(lambda **options: mail.peek_dead_letter(store, BOX, **options), "entries", 2)
    assert [[one.message.msg_id for one in page] for page in pages] == [ids[:2], ids[2:4], ids[4:]]
    assert mail.peek_dead_letter(store, BOX, limit=2).total == 5


def test_a_page_of_large_dead_letters_is_cut_by_its_size(store: Store, clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dead_letters, "MAX_PAGE_BYTES", 10)
    mail.set_policy(store, BOX, max_retries=0)
    for payload in ("x" * 30, "y" * 6, "z" * 4, "w", "é" * 3, "ö" * 2):  # of the last two, each letter has two bytes
        post(store, payload)
    for _ in range(6):
        mail.nack(store, BOX, _taken_id(store))
    pages = _pages(lambda **options: mail.peek_dead_letter(store, BOX, **options), "entries", 100)
    assert [[one.message.payload[0] for one in page] for page in pages] == [["x"], ["y", "z"], ["w", "é"], ["ö"]]


def _taken_id(store: Store) -> str:
    delivery = mail.dequeue(store, BOX)
    assert delivery is not None
    return delivery.message.msg_id


def test_mailboxes_and_aliases_go_on_where_they_were_cut(store: Store) -> None:
    for name in ("cid", "ann", "bob"):
        post(store, to=name)
        mail.set_alias(store, f"nick of {name}", name)
    sessions = _pages(lambda **options: mail.sessions(store, **options), "sessions", 2)
    assert [[one.session for one in page] for page in sessions] == [["ann", "bob"], ["cid"]]
    aliases = _pages(lambda **options: mail.aliases(store, **options), "aliases", 2)
    assert [[one.session for one in page] for page in aliases] == [["ann", "bob"], ["cid"]]


def test_the_steps_of_a_receipt_go_on_where_they_were_cut(store: Store) -> None:
    msg_id = held(store).msg_id
    for _ in range(3):
        mail.extend(store, BOX, msg_id)
    pages = _pages(lambda **options: mail.show(store, msg_id, **options), "steps", 2)
    assert [[one.step for one in page] for page in pages] == [["stored", "offered"], ["extended", "extended"], ["extended"]]


@pytest.mark.parametrize("after", ["", "x", "1", "1.2.3", "-1.5", "1." + "9" * 30], ids=ascii)
def test_a_cursor_that_no_listing_gave_is_refused(store: Store, after: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        mail.peek(store, BOX, after=after)
    assert refused.value.facts["field"] == "after"


def test_a_purge_of_dead_letters_removes_no_more_than_a_listing_shows(store: Store) -> None:
    ids = _dead_letters(store, 101)
    with pytest.raises(InvalidState) as refused:
        mail.purge_dead_letter(store, BOX)
    assert (refused.value.facts["dead_letters"], "--all" in refused.value.hint) == (101, True)
    assert dead(store) == ids
    assert mail.purge_dead_letter(store, BOX, msg_id=["m:3", "m:5"]) == 2
    assert mail.purge_dead_letter(store, BOX) == 99
    assert dead(store) == []


def test_a_purge_of_all_dead_letters_removes_what_no_listing_showed(store: Store) -> None:
    _dead_letters(store, 101)
    assert mail.purge_dead_letter(store, BOX, everything=True) == 101
    assert dead(store) == []


def test_a_purge_by_ids_of_which_one_is_not_dead_removes_none(store: Store, clock: Clock) -> None:
    scene = brought(store, clock, "dead_letter")
    alive = post(store, sender="bob")
    with pytest.raises(InvalidState):
        mail.purge_dead_letter(store, BOX, msg_id=[scene.msg_id, alive])
    assert dead(store) == [scene.msg_id]
