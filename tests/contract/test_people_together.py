"""Verbs that share a transaction, and the doors of one store."""

from __future__ import annotations

import contextlib
from pathlib import Path

import pytest

from postroom import people, work
from postroom.core.errors import Contended, InvalidInput, InvalidState
from postroom.store.port import Store
from tests.contract.people_scenes import USER


def test_verbs_that_run_together_are_each_all_or_nothing(store: Store) -> None:
    kept = []
    with store.together() as batch:
        kept.append(people.notify(batch, sender="backup", text="one").id)
        with pytest.raises(InvalidInput):
            people.ask(batch, agent="ada", question="Who?", to="nobody")
        kept.append(people.notify(batch.through("http"), sender="backup", text="two").id)
    found = people.history(store, section="notices").entries
    assert [(entry.id, entry.door) for entry in reversed(found)] == [(kept[0], store.door), (kept[1], "http")]  # type: ignore[attr-defined]


def test_a_verb_that_refuses_in_the_middle_takes_back_what_it_wrote(store: Store) -> None:
    thread = work.send(store, sender=USER, to="ada", subject="Do it").thread.thread_id
    work.claim(store, thread, agent="ada")
    work.update(store, thread, agent="ada", status="blocked", summary="Which?", to=USER)
    [entry] = people.history(store).entries
    work.cancel(store, thread, agent=USER)
    before = people.show_entry(store, entry.id)
    with store.together() as batch:
        with pytest.raises(InvalidState):
            people.reply(batch, entry.id, person=USER, body="This one")
        people.notify(batch, sender="backup", text="and another goes on")
    assert people.show_entry(store, entry.id) == before
    assert len(people.history(store, section="notices").entries) == 1


def test_who_waits_is_told_of_what_happened_together(store: Store) -> None:
    asked = people.ask(store, agent="ada", question="Ship it?")
    with store.together() as batch:
        people.reply(batch, asked.id, person=USER, body="Yes")
    assert people.wait_answer(store, asked.id, timeout_seconds=10).answer == "Yes"


def test_a_store_knows_where_its_files_are(store: Store, engine: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("INBOX_DATA", raising=False)
    assert store.data == (str(tmp_path / "data") if engine == "sqlite" else None)
    monkeypatch.setenv("INBOX_DATA", str(tmp_path / "elsewhere"))
    assert store.data == str(tmp_path / "elsewhere")
    people.seed(store, comments="kept in both")
    assert '"kept in both"' in (tmp_path / "elsewhere" / "inbox" / "entries.jsonl").read_text()


def _write_and_refuse(store: Store) -> None:
    with store.write() as tx:
        tx.run(tx.sql.agent_put, name="half", kind="agent", now="2026")
        raise InvalidState("on second thoughts")


def test_what_a_verb_wrote_before_it_refused_is_not_kept(store: Store, engine: str) -> None:
    with contextlib.suppress(Contended), store.together() as batch:
        with pytest.raises(InvalidState):
            _write_and_refuse(batch)
        people.notify(batch, sender="backup", text="beside it")
    beside = len(people.history(store, section="notices").entries)
    assert (beside, "half" in {agent.name for agent in work.list_agents(store)}) == (0 if engine == "sqlite" else 1, False)


def test_with_care_only_the_verb_that_refused_is_undone(store: Store) -> None:
    with store.together(careful=True) as batch:
        with pytest.raises(InvalidState):
            _write_and_refuse(batch)
        people.notify(batch, sender="backup", text="beside it")
    assert len(people.history(store, section="notices").entries) == 1
    assert "half" not in {agent.name for agent in work.list_agents(store)}
