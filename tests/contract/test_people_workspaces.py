"""Workspaces: a folder, its label, its agent, and a token of which the store keeps only the hash."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from postroom import people, work
from postroom.core.errors import Conflict, InvalidInput, InvalidState, NotFound, Taken
from postroom.store.interface import Store
from tests.conftest import Clock
from tests.contract.people_data import AGENT, USER, at, field, ids, inbox, letters, new_workspace, pushed, settled, sha256
from tests.faults.mail_children import everything as every_row


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "thesis"
    made.mkdir()
    return made


def test_a_workspace_is_a_folder_with_a_label_and_an_agent(store: Store, clock: Clock, folder: Path) -> None:
    registered = people.add_workspace(store, str(folder), label="Macro thesis 2026-05", agent=AGENT)
    workspace = registered.workspace
    assert workspace.workspace_id.startswith("ws_")
    assert (workspace.label, workspace.path, workspace.agent) == ("Macro thesis 2026-05", os.path.realpath(folder), AGENT)
    assert workspace.created_at == at(clock)
    assert registered.token.startswith("prw_")
    assert people.show_workspace(store, workspace.workspace_id) == workspace
    assert people.list_workspaces(store) == (workspace,)
    assert set(workspace.to_json()) >= {"workspace_id", "label", "path", "agent", "created_at"}


def test_a_workspaces_agent_is_named_after_its_folder_unless_it_is_said(store: Store, folder: Path) -> None:
    assert people.add_workspace(store, str(folder), label="Thesis").workspace.agent == "thesis"


def test_a_folder_is_known_by_its_real_path(store: Store, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "link").symlink_to(folder)
    monkeypatch.chdir(tmp_path)
    assert people.add_workspace(store, "link", label="Thesis").workspace.path == os.path.realpath(folder)


def test_workspaces_are_listed_by_their_labels(store: Store, tmp_path: Path) -> None:
    for name in ("beta", "gamma", "alpha"):
        new_workspace(store, tmp_path, name, label=name.capitalize())
    assert [workspace.label for workspace in people.list_workspaces(store)] == ["Alpha", "Beta", "Gamma"]
    assert [workspace.agent for workspace in people.list_workspaces(store)] == ["alpha", "beta", "gamma"]


def test_what_is_no_folder_is_no_workspace(store: Store, tmp_path: Path) -> None:
    (tmp_path / "a file").write_text("")
    before = settled(store)
    for path in ("missing", "a file", "", "a\0b"):
        with pytest.raises(InvalidInput) as refused:
            people.add_workspace(store, path and str(tmp_path / path), label="Thesis", agent=AGENT)
        assert field(refused.value) == "path"
    assert settled(store) == before


def test_a_workspace_needs_a_label(store: Store, folder: Path) -> None:
    for label in ("", "   "):
        with pytest.raises(InvalidInput) as refused:
            people.add_workspace(store, str(folder), label=label)
        assert field(refused.value) == "label"
    assert people.list_workspaces(store) == ()


def test_a_folder_belongs_to_one_workspace_by_whatever_way_one_comes(store: Store, folder: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(folder)
    people.add_workspace(store, str(folder), label="Thesis")
    before = settled(store)
    for way in (folder, tmp_path / "link", tmp_path / "link" / ".." / "thesis"):
        with pytest.raises(Taken):
            people.add_workspace(store, str(way), label="Another", agent="another")
    assert settled(store) == before


def test_an_agents_name_belongs_to_one_workspace(store: Store, folder: Path, tmp_path: Path) -> None:
    new_workspace(store, tmp_path)
    before = settled(store)
    with pytest.raises(Taken) as refused:
        people.add_workspace(store, str(folder), label="Another", agent=AGENT)
    assert isinstance(refused.value, Conflict)
    assert refused.value.code == "taken"
    assert settled(store) == before


@pytest.mark.parametrize("said", [True, False])
def test_a_person_is_no_workspaces_agent(store: Store, tmp_path: Path, said: bool) -> None:
    place = tmp_path / (AGENT if said else USER)
    place.mkdir()
    with pytest.raises(InvalidInput) as refused:
        people.add_workspace(store, str(place), label="Mine", agent=USER if said else None)
    assert field(refused.value) == "agent"
    assert people.list_workspaces(store) == ()


def test_an_agents_name_is_one_line(store: Store, folder: Path) -> None:
    for agent in ("", " ", "two\nlines", "x" * 300):
        with pytest.raises(InvalidInput) as refused:
            people.add_workspace(store, str(folder), label="Thesis", agent=agent)
        assert field(refused.value) == "agent"
    assert people.list_workspaces(store) == ()


def test_an_agent_that_is_known_may_get_a_workspace(store: Store, tmp_path: Path) -> None:
    work.add_agent(store, AGENT)
    assert people.show_workspace(store, new_workspace(store, tmp_path)).agent == AGENT


def test_a_token_tells_its_workspace(store: Store, folder: Path, tmp_path: Path) -> None:
    new_workspace(store, tmp_path)
    registered = people.add_workspace(store, str(folder), label="Thesis")
    assert people.workspace_of(store, registered.token) == registered.workspace


def test_what_is_no_token_tells_nothing(store: Store, folder: Path) -> None:
    token = people.add_workspace(store, str(folder), label="Thesis").token
    for wrong in ("", "prw_", "prw_nothing", token[:-1], token + "x", token.upper(), sha256(token.encode()), "%", "\0"):
        with pytest.raises(NotFound):
            people.workspace_of(store, wrong)


def test_the_store_keeps_no_token(store: Store, place: str, folder: Path) -> None:
    registered = people.add_workspace(store, str(folder), label="Thesis")
    rotated = people.rotate_token(store, registered.workspace.workspace_id)
    kept = repr(every_row(place))
    assert "Thesis" in kept
    for token in (registered.token, rotated.token):
        assert token not in kept
        assert token.removeprefix("prw_") not in kept


def test_a_rotated_token_is_void_at_once(store: Store, folder: Path) -> None:
    old = people.add_workspace(store, str(folder), label="Thesis")
    new = people.rotate_token(store, old.workspace.workspace_id)
    assert new.workspace == old.workspace
    assert new.token != old.token
    with pytest.raises(NotFound):
        people.workspace_of(store, old.token)
    assert people.workspace_of(store, new.token) == old.workspace


def test_a_removed_workspace_is_gone_and_its_token_void_and_its_entries_stay(store: Store, folder: Path) -> None:
    registered = people.add_workspace(store, str(folder), label="Thesis", agent=AGENT)
    workspace_id = registered.workspace.workspace_id
    entry_id = pushed(store, workspace_id)
    assert people.remove_workspace(store, workspace_id) == registered.workspace
    with pytest.raises(NotFound):
        people.workspace_of(store, registered.token)
    assert people.list_workspaces(store) == ()
    assert ids(store) == ids(store, workspace_id=workspace_id) == [entry_id]
    assert inbox(store)[0]["workspaceLabel"] == "Thesis"
    with pytest.raises(InvalidState, match="the workspace was removed"):
        people.reply(store, entry_id, person=USER, body="Too late?")
    assert letters(store) == []


def test_what_a_removed_workspace_had_is_free_again(store: Store, folder: Path) -> None:
    first = people.add_workspace(store, str(folder), label="Thesis", agent=AGENT)
    people.remove_workspace(store, first.workspace.workspace_id)
    again = people.add_workspace(store, str(folder), label="Thesis", agent=AGENT)
    assert again.workspace.workspace_id != first.workspace.workspace_id
    with pytest.raises(NotFound):
        people.workspace_of(store, first.token)


def test_an_unknown_workspace_can_do_nothing(store: Store, tmp_path: Path) -> None:
    removed = new_workspace(store, tmp_path)
    people.remove_workspace(store, removed)
    before = settled(store)
    for unknown in ("ws_nowhere", removed):
        for act in (people.show_workspace, people.remove_workspace, people.rotate_token):
            with pytest.raises(NotFound):
                act(store, unknown)
        with pytest.raises(NotFound):
            people.push(store, unknown, comments="Hello")
        with pytest.raises(NotFound):
            people.ask(store, workspace_id=unknown, question="Hello?")
    assert settled(store) == before
