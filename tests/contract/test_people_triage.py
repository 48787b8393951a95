"""The states of triage: done, snoozed, pinned, all read, muted; on every engine, and in the mirror of the entries."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from postroom import people
from postroom.core.errors import InvalidInput
from postroom.store.interface import Store
from tests.conftest import Clock
from tests.contract.people_data import USER, asked, found, happened, ids, inbox, new_workspace, pushed, settled

SECOND = 1000  # milliseconds


@pytest.fixture
def desk(store: Store, tmp_path: Path) -> str:
    return new_workspace(store, tmp_path)


def move(store: Store, entry_id: str, state: str, **more: Any) -> dict[str, Any]:
    return people.set_state(store, entry_id, person=USER, state=state, **more).to_json()


def unread(store: Store) -> list[str]:
    return ids(store, unread=True)


def test_what_is_done_leaves_the_inbox_and_stays_in_the_history(store: Store, desk: str) -> None:
    entry_id, other = pushed(store, desk), pushed(store, desk)
    done = move(store, entry_id, "done")
    assert (done["state"], done["readBy"]) == ("done", USER)
    assert ids(store, state="inbox") == unread(store) == [other]
    assert ids(store, state="done") == [entry_id]
    assert ids(store) == [other, entry_id]
    before = settled(store)
    assert move(store, entry_id, "done") == done
    assert settled(store) == before
    assert move(store, entry_id, "inbox")["state"] == "inbox"
    assert ids(store, state="inbox") == [other, entry_id]
    assert happened(store, entry_id) == ["entry.created", "entry.done", "entry.read", "entry.reopened"]


def test_a_snoozed_entry_comes_back_on_top_and_unread_at_its_time(store: Store, clock: Clock, desk: str) -> None:
    entry_id = pushed(store, desk)
    clock.advance(10)
    other = pushed(store, desk)
    until = clock.instant // 1000 + 60 * SECOND
    assert move(store, entry_id, "snoozed", until=until)["snoozedUntil"] == until
    clock.advance(59)
    assert (ids(store, state="inbox"), ids(store, state="snoozed")) == ([other], [entry_id])
    clock.advance(1)
    assert ids(store, state="inbox") == unread(store) == [entry_id, other]
    assert happened(store, entry_id)[-1] == "entry.woken"
    assert ids(store, state="snoozed") == []


def test_without_a_time_it_comes_back_when_something_is_added(store: Store, clock: Clock, desk: str) -> None:
    entry_id = pushed(store, desk)
    move(store, entry_id, "snoozed")
    clock.advance(10_000_000)
    assert ids(store, state="snoozed") == [entry_id]
    people.push(store, desk, comments="News", entry_id=entry_id)
    assert ids(store, state="inbox") == unread(store) == [entry_id]


@pytest.mark.parametrize("wrong", [{"state": "gone"}, {"state": "snoozed", "until": 1}, {"state": "done", "until": 2**50}])
def test_a_state_that_cannot_be_is_refused(store: Store, desk: str, wrong: dict[str, Any]) -> None:
    entry_id = pushed(store, desk)
    before = settled(store)
    with pytest.raises(InvalidInput):
        people.set_state(store, entry_id, person=USER, **wrong)
    assert settled(store) == before


def test_an_open_question_that_is_done_still_needs_an_answer(store: Store) -> None:
    entry_id = asked(store)
    move(store, entry_id, "done")
    assert [entry.id for entry in people.open_questions(store).entries] == [entry_id]


def test_pinned_entries_are_listed_alone(store: Store, desk: str) -> None:
    entry_id, other = pushed(store, desk), pushed(store, desk)
    assert people.pin_entry(store, entry_id, person=USER).to_json()["pinned"]
    assert ids(store, pinned=True) == ids(store, pinned=True, state="inbox") == [entry_id]
    people.set_state(store, entry_id, person=USER, state="done")
    assert (ids(store, pinned=True), ids(store, pinned=True, state="inbox")) == ([entry_id], [])  # the page lists it no more
    assert ids(store) == [other, entry_id]
    assert not people.pin_entry(store, entry_id, person=USER, pinned=False).to_json()["pinned"]
    assert ids(store, pinned=True) == []


def test_all_are_read_at_once(store: Store, tmp_path: Path, desk: str) -> None:
    other = new_workspace(store, tmp_path, "other")
    for workspace in (desk, desk, other):
        pushed(store, workspace)
    people.notify(store, sender="cron", text="Backup")
    assert people.mark_all_read(store, person=USER, workspace_id=desk) == 2
    assert len(unread(store)) == 1
    assert people.mark_all_read(store, person=USER) == 1
    assert people.mark_all_read(store, person=USER) == 0
    assert len(ids(store, section="notices", unread=True)) == 1


def test_a_muted_workspace_pushes_what_is_done_and_still_asks(store: Store, desk: str) -> None:
    assert people.mute_workspace(store, desk).muted_at
    entry_id = pushed(store, desk)
    question = people.ask(store, workspace_id=desk, question="Ship?").id
    assert (ids(store, state="done"), ids(store, state="inbox"), unread(store)) == ([entry_id], [question], [question])
    people.mute_workspace(store, desk, muted=False)
    heard = pushed(store, desk)
    assert ids(store, state="inbox") == [heard, question]


def test_searches_have_operators_and_pages(store: Store, clock: Clock, desk: str, tmp_path: Path) -> None:
    other = new_workspace(store, tmp_path, "other", label="Other Desk")
    old = pushed(store, desk, "The invoice of Globex")
    clock.advance(86400)
    new = pushed(store, other, "Another invoice")
    people.mark_read(store, old, person=USER)
    move(store, old, "done")
    day = people.history(store).entries[0].stored_at[:10]
    assert found(store, "invoice") == [new, old]
    for query, wanted in {
        "invoice is:unread": [new],
        "is:unread": [new],
        "invoice from:macro": [old],
        "invoice is:done": [old],
        "in:done": [old],
        "in:inbox": [new],
        f"invoice before:{day}": [old],
        f"after:{day}": [new],
        "invoice in:notices": [],
        "http://x invoice": [],
    }.items():
        assert (query, found(store, query)) == (query, wanted)
    first = people.search(store, "invoice", limit=1)
    assert (first.entries[0].id, first.has_more) == (new, True)
    assert found(store, "invoice", before=new) == [old]
    assert found(store, "invoice", workspace_id=other) == [new]
    assert found(store, "rates") == []
    documented = pushed(store, desk, "See", ["report.md"])
    assert found(store, "rates") == [documented]
    for query in ("is:lost", "in:space", "before:noon"):
        with pytest.raises(InvalidInput):
            people.search(store, query)


def test_the_mirror_has_the_states_in_fields_of_their_own(store: Store, clock: Clock, desk: str) -> None:
    if store.data_folder is None:
        return
    entry_id, other = people.push(store, desk, comments="One", title="First").id, pushed(store, desk, "Two")
    people.push(store, desk, comments="More", entry_id=entry_id)
    move(store, entry_id, "snoozed")
    move(store, other, "done")
    people.pin_entry(store, other, person=USER)
    mirror = Path(store.data_folder) / "inbox" / "entries.jsonl"
    first, second, part = map(json.loads, mirror.read_text().splitlines())
    assert (first["title"], first["state"], first["snoozedUntil"]) == ("First", "snoozed", 2**53 - 1)
    assert (second["state"], second["pinned"]) == ("done", True)
    assert (part["comments"], part["entryId"]) == ("More", entry_id)
    assert len(inbox(store)) == 2
