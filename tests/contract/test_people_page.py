"""The verbs that only the page uses: how a workspace is opened, what documents were when they were pushed, and how much waits."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from postroom import people
from postroom.core.errors import InvalidInput, InvalidState, NotFound
from postroom.people import entries, focusing, repository
from postroom.store.interface import Store
from tests.contract.people_data import AGENT, USER, asked, field, new_workspace, pushed, settled

KIB = 1024


def _text(store: Store, entry_id: str, path: str) -> str | None:
    with store.read() as tx:
        return repository.pushed_text(tx, entry_id, path)


def _counts(store: Store) -> tuple[int, int, int, bool]:
    with store.read() as tx:
        found = entries.count_waiting(tx)
    return found.unread, found.questions, found.notices, found.any


def test_a_workspace_can_be_renamed_and_given_a_command(store: Store, tmp_path: Path) -> None:
    workspace_id = new_workspace(store, tmp_path)
    assert people.show_workspace(store, workspace_id).focus is None
    changed = people.set_workspace(store, workspace_id, label="Another name", focus="  tmux select-window -t thesis ")
    assert (changed.label, changed.focus) == ("Another name", "tmux select-window -t thesis")
    assert people.show_workspace(store, workspace_id) == changed
    assert people.set_workspace(store, workspace_id, label="Third").focus == changed.focus
    assert people.set_workspace(store, workspace_id, focus="") == changed.replace(label="Third", focus=None)


def test_a_change_that_makes_no_sense_is_refused_and_changes_nothing(store: Store, tmp_path: Path) -> None:
    workspace_id = new_workspace(store, tmp_path)
    before = settled(store)
    for wrong, named in (({}, "focus"), ({"label": ""}, "label"), ({"focus": "a\0b"}, "focus"), ({"focus": "x" * 5000}, "focus")):
        with pytest.raises(InvalidInput) as refused:
            people.set_workspace(store, workspace_id, **wrong)
        assert field(refused.value) == named
    with pytest.raises(NotFound):
        people.set_workspace(store, "ws_nowhere", label="Name")
    assert settled(store) == before


def test_a_session_is_opened_by_its_command_in_its_folder(store: Store, tmp_path: Path) -> None:
    workspace_id = new_workspace(store, tmp_path)
    people.set_workspace(store, workspace_id, focus='pwd > "$INBOX_AGENT.seen"; echo shown')
    assert people.focus(store, workspace_id).output == "shown"
    assert (tmp_path / AGENT / f"{AGENT}.seen").read_text().strip() == os.path.realpath(tmp_path / AGENT)


def test_a_command_that_fails_says_what_it_said(store: Store, tmp_path: Path) -> None:
    workspace_id = new_workspace(store, tmp_path)
    with pytest.raises(InvalidState, match="no command"):
        people.focus(store, workspace_id)
    people.set_workspace(store, workspace_id, focus="echo no such window >&2; exit 3")
    with pytest.raises(InvalidState, match="exit status 3") as refused:
        people.focus(store, workspace_id)
    assert refused.value.hint == "no such window"


def test_a_command_that_stays_is_ended(store: Store, tmp_path: Path) -> None:
    workspace_id = new_workspace(store, tmp_path)
    changed = people.set_workspace(store, workspace_id, focus="echo $$ > pid; exec sleep 600")
    with pytest.raises(InvalidState, match="did not end"):
        focusing.run_focus_command(changed, timeout_seconds=0.5)
    with pytest.raises(ProcessLookupError):
        os.kill(int((tmp_path / AGENT / "pid").read_text()), 0)


def test_a_text_is_kept_as_it_was_pushed(store: Store, tmp_path: Path) -> None:
    workspace_id = new_workspace(store, tmp_path)
    entry_id = pushed(store, workspace_id, docs=["report.md"])
    (tmp_path / AGENT / "report.md").write_text("# Changed\n")
    assert _text(store, entry_id, "report.md") == "# Rates\n"
    question = people.ask(store, workspace_id=workspace_id, question="Better?", docs=["report.md"]).id
    assert _text(store, question, "report.md") == "# Changed\n"


def test_what_is_no_text_or_too_long_is_not_kept(store: Store, tmp_path: Path) -> None:
    workspace_id = new_workspace(store, tmp_path)
    contents = {"zero": b"a\0b", "latin": b"caf\xe9", "long": b"x" * (256 * KIB + 1), "whole": b"x" * 256 * KIB}
    for name, content in contents.items():
        (tmp_path / AGENT / name).write_bytes(content)
    entry_id = pushed(store, workspace_id, docs=list(contents))
    assert [_text(store, entry_id, name) is not None for name in contents] == [False, False, False, True]


def test_what_was_kept_goes_with_its_entry(store: Store, tmp_path: Path) -> None:
    workspace_id = new_workspace(store, tmp_path)
    first, second = (pushed(store, workspace_id, docs=["report.md"]) for _ in range(2))
    people.delete_entry(store, first, person=USER)
    assert _text(store, first, "report.md") is None
    assert _text(store, second, "report.md") is not None


def test_what_waits_is_counted(store: Store, tmp_path: Path) -> None:
    assert _counts(store) == (0, 0, 0, False)
    people.notify(store, sender="backup", text="Done")
    assert _counts(store) == (0, 0, 1, True)
    entry_id = pushed(store, new_workspace(store, tmp_path))
    question = asked(store)
    assert _counts(store) == (2, 1, 1, True)
    people.mark_read(store, entry_id, person=USER)
    people.reply(store, question, person=USER, body="yes")
    assert _counts(store)[1:] == (0, 1, True)
    for each in (entry_id, question):
        people.delete_entry(store, each, person=USER)
    assert _counts(store) == (0, 0, 1, True)


def test_nothing_is_counted_further_than_anybody_reads(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(entries, "MAX_COUNTED_ENTRIES", 3)
    for number in range(5):
        people.seed(store, comments=str(number))
    assert _counts(store)[0] == 3


def test_a_receipt_says_of_which_reply_it_is(store: Store) -> None:
    question = asked(store)
    replied = people.reply(store, question, person=USER, body="yes").reply.reply_id
    people.read_messages(store, agent=AGENT)
    receipts = people.show_entry(store, question).receipts
    assert {receipt.step: receipt.reply for receipt in receipts if receipt.step.startswith("reply")} == {
        "reply_stored": replied,
        "reply_seen": replied,
    }
    assert all(receipt.reply is None for receipt in receipts if not receipt.step.startswith("reply"))
