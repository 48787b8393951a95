"""Verbs that share a transaction, and the doors of one store."""

from __future__ import annotations

import contextlib
from pathlib import Path

import pytest

from postroom import people, work
from postroom.core.errors import Contended, InvalidInput, InvalidState
from postroom.people import repository
from postroom.store.interface import Store
from tests.contract.people_data import USER


def test_verbs_that_run_together_are_each_all_or_nothing(store: Store) -> None:
    kept = []
    with store.batch() as batch:
        kept.append(people.notify(batch, sender="backup", text="one").id)
        with pytest.raises(InvalidInput):
            people.ask(batch, agent="ada", question="Who?", to="nobody")
        kept.append(people.notify(batch.with_door("http"), sender="backup", text="two").id)
    found = people.history(store, section="notices").entries
    assert [(entry.id, entry.door) for entry in reversed(found)] == [(kept[0], store.door), (kept[1], "http")]  # type: ignore[attr-defined]


def test_a_verb_that_refuses_in_the_middle_takes_back_what_it_wrote(store: Store) -> None:
    thread = work.send(store, sender=USER, to="ada", subject="Do it").thread.thread_id
    work.claim(store, thread, agent="ada")
    work.update(store, thread, agent="ada", status="blocked", summary="Which?", to=USER)
    [entry] = people.history(store).entries
    work.cancel(store, thread, agent=USER)
    before = people.show_entry(store, entry.id)
    with store.batch() as batch:
        with pytest.raises(InvalidState):
            people.reply(batch, entry.id, person=USER, body="This one")
        people.notify(batch, sender="backup", text="and another goes on")
    assert people.show_entry(store, entry.id) == before
    assert len(people.history(store, section="notices").entries) == 1


def test_who_waits_is_told_of_what_happened_together(store: Store) -> None:
    asked = people.ask(store, agent="ada", question="Ship it?")
    with store.batch() as batch:
        people.reply(batch, asked.id, person=USER, body="Yes")
    assert people.wait_answer(store, asked.id, timeout_seconds=10).answer == "Yes"


def test_a_store_knows_where_its_files_are(store: Store, engine: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("INBOX_DATA", raising=False)
    assert store.data_folder == (str(tmp_path / "data") if engine == "sqlite" else None)
    monkeypatch.setenv("INBOX_DATA", str(tmp_path / "elsewhere"))
    assert store.data_folder == str(tmp_path / "elsewhere")
    people.seed(store, comments="kept in both")
    assert '"kept in both"' in (tmp_path / "elsewhere" / "inbox" / "entries.jsonl").read_text()


def _write_and_refuse(store: Store) -> None:
    with store.write() as tx:
        tx.execute(tx.sql.agent_put, name="half", kind="agent", now="2026")
        raise InvalidState("on second thoughts")


def test_what_a_verb_wrote_before_it_refused_is_not_kept(store: Store) -> None:
    refused_next = contextlib.suppress(Contended, InvalidState)  # on PostgreSQL, the verbs that follow in a failed batch are refused
    with refused_next, store.batch() as batch:
        with pytest.raises(InvalidState):
            _write_and_refuse(batch)
        people.notify(batch, sender="backup", text="beside it")
    assert people.history(store, section="notices").entries == ()
    assert "half" not in {agent.name for agent in work.list_agents(store)}


def test_with_care_only_the_verb_that_refused_is_undone(store: Store) -> None:
    with store.batch(isolate_verbs=True) as batch:
        with pytest.raises(InvalidState):
            _write_and_refuse(batch)
        people.notify(batch, sender="backup", text="beside it")
    assert len(people.history(store, section="notices").entries) == 1
    assert "half" not in {agent.name for agent in work.list_agents(store)}


def test_a_batch_tells_the_topics_that_it_committed_and_no_others(store: Store) -> None:
    topics: set[str] = set()
    with store.batch(isolate_verbs=True, committed_topics=topics) as batch:
        kept = people.notify(batch, sender="backup", text="kept").id
        with pytest.raises(InvalidState):
            _announce_and_refuse(batch)
    assert f"entry:{kept}" in topics
    assert "entry:refused" not in topics


def test_a_batch_that_is_not_kept_tells_no_topics(store: Store) -> None:
    topics: set[str] = set()
    with contextlib.suppress(Contended), store.batch(committed_topics=topics) as batch, contextlib.suppress(InvalidState):
        _announce_and_refuse(batch)
    assert topics == set()


def _announce_and_refuse(store: Store) -> None:
    with store.write() as tx:
        repository.append_entry_event(tx, "created", "refused", source="ada", agent="ada")
        raise InvalidState("on second thoughts")
