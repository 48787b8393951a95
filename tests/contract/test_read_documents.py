"""The versions of a document that a person was shown, so that the next time they see what changed since they last read it."""

from __future__ import annotations

from pathlib import Path

import pytest

from postroom import people
from postroom.people.read_documents import ReadVersion, note_shown
from postroom.store.interface import Store
from tests.contract.people_data import ADA, AGENT, new_workspace, persons


@pytest.fixture
def entry_id(store: Store, tmp_path: Path) -> str:
    workspace_id = new_workspace(store, tmp_path)
    (tmp_path / AGENT / "plan.md").write_text("one")
    return people.push(store, workspace_id, docs=["plan.md"]).id


def shown(store: Store, entry_id: str, visit: str, text: str | None, *, sha256: str = "", person: str = "user") -> ReadVersion | None:
    """Note that a person was shown a version. Return the one that they had last read."""
    return note_shown(store, entry_id, path="plan.md", person=person, visit=visit, sha256=sha256 or f"hash of {text}", text=text)


def test_a_person_has_read_nothing_before_the_first_visit(store: Store, entry_id: str) -> None:
    assert shown(store, entry_id, "first", "one") is None
    assert shown(store, entry_id, "first", "two") is None


def test_the_last_version_of_the_visit_before_is_what_was_last_read(store: Store, entry_id: str) -> None:
    shown(store, entry_id, "first", "one")
    shown(store, entry_id, "first", "two")
    for now in ("two", "three", "four"):
        read = shown(store, entry_id, "second", now)
        assert read is not None
        assert (read.text, read.sha256) == ("two", "hash of two")
    last = shown(store, entry_id, "third", "five")
    assert last is not None
    assert last.text == "four"


def test_a_visit_without_a_change_leaves_what_was_last_read(store: Store, entry_id: str) -> None:
    shown(store, entry_id, "first", "one")
    shown(store, entry_id, "second", "one")
    read = shown(store, entry_id, "second", "two")
    assert read is not None
    assert read.text == "one"


def test_each_person_has_read_what_they_were_shown(store: Store, entry_id: str) -> None:
    persons(store)
    shown(store, entry_id, "first", "one")
    assert shown(store, entry_id, "his", "two", person=ADA) is None
    read = shown(store, entry_id, "second", "two")
    assert read is not None
    assert read.text == "one"


def test_a_text_that_is_the_pushed_one_is_not_kept_twice(store: Store, entry_id: str) -> None:
    pushed = people.find_entry(store, entry_id).docs[0]["sha256"]
    shown(store, entry_id, "first", "one", sha256=pushed)
    with store.read() as tx:
        kept = tx.fetch_one(tx.sql.text_seen_find, entry_id=entry_id, path="plan.md", person="user")
    assert kept is not None
    assert kept.shown_text is None
    read = shown(store, entry_id, "second", "two")
    assert read is not None
    assert read.text == "one"


def test_a_text_that_is_not_kept_is_known_by_its_hash(store: Store, entry_id: str) -> None:
    shown(store, entry_id, "first", None, sha256="large")
    read = shown(store, entry_id, "second", "two")
    assert read is not None
    assert (read.text, read.sha256) == (None, "large")


def test_what_was_read_goes_with_its_entry(store: Store, entry_id: str) -> None:
    shown(store, entry_id, "first", "one")
    people.delete_entry(store, entry_id, person="user")
    with store.read() as tx:
        assert tx.fetch_one(tx.sql.text_seen_find, entry_id=entry_id, path="plan.md", person="user") is None
