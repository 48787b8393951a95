"""Receivers of mail that were never seen: a name that resembles a used one is pointed out, and `strict` refuses every unknown name."""

from __future__ import annotations

import pytest

from postroom import mail, work
from postroom.core.errors import NotFound
from postroom.mail.receivers import MAX_COMPARED_NAMES
from postroom.store.interface import Store

pytestmark = pytest.mark.travels("http")


def enqueue(store: Store, to: str, *, strict: bool = False) -> str:
    """The note about the receiver of a new message."""
    return mail.enqueue(store, {"from": "lead", "to": to, "payload": "x"}, strict=strict).note


def test_a_new_name_that_resembles_a_mailbox_is_pointed_out(store: Store) -> None:
    assert enqueue(store, "analyst") == ""
    assert enqueue(store, "analist") == "nobody called analist has been seen; did you mean analyst?"
    assert enqueue(store, "analist") == ""  # by now it is a mailbox


def test_a_new_name_that_resembles_an_agent_or_an_alias_is_pointed_out(store: Store) -> None:
    work.add_agent(store, "builder")
    enqueue(store, "worker-of-the-night")
    mail.set_alias(store, "printer", "worker-of-the-night")
    assert "did you mean builder?" in enqueue(store, "bilder")
    assert "did you mean printer?" in enqueue(store, "prinetr")


def test_a_name_that_is_known_or_resembles_nothing_has_no_note(store: Store) -> None:
    work.add_agent(store, "analyst")
    enqueue(store, "printer")
    mail.set_alias(store, "analist", "printer")
    assert [enqueue(store, to) for to in ("analyst", "analist", "telescope")] == ["", "", ""]


def test_strict_refuses_a_name_that_was_never_seen_and_stores_nothing(store: Store) -> None:
    enqueue(store, "analyst")
    for to, hint in (("analist", "Did you mean analyst?"), ("telescope", "mailbox sessions")):
        with pytest.raises(NotFound, match=f"nobody called {to} has been seen") as refused:
            enqueue(store, to, strict=True)
        assert hint in refused.value.hint
    assert [counts.session for counts in mail.sessions(store).sessions] == ["analyst"]
    assert enqueue(store, "analyst", strict=True) == ""


def test_each_message_of_a_batch_has_its_note_and_strict_refuses_all(store: Store) -> None:
    enqueue(store, "analyst")
    batch = [{"from": "lead", "to": to, "payload": "x"} for to in ("analyst", "analist")]
    with pytest.raises(NotFound):
        mail.enqueue_all(store, batch, strict=True)
    assert mail.sessions(store).sessions[0].pending == 1
    assert [bool(ack.note) for ack in mail.enqueue_all(store, batch)] == [False, True]


def test_names_are_not_compared_where_programs_make_mailboxes(store: Store) -> None:
    mail.enqueue_all(store, [{"from": "lead", "to": f"job {number}", "payload": "x"} for number in range(MAX_COMPARED_NAMES + 1)])
    assert mail.enqueue(store, {"from": "lead", "to": "job 1x", "payload": "x"}).note == ""
