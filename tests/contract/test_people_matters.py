"""One row for each matter: titles, what an agent adds to its entry, questions in it, and proposals that people decide about."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from postroom import people, work
from postroom.core.errors import InvalidInput, InvalidState, NotFound
from postroom.store.interface import Store
from tests.conftest import Clock
from tests.contract.people_data import AGENT, USER, blocked, found, ids, inbox, letters, new_workspace, pushed, settled, state_of

PROPOSAL = {"action": "send_mail", "args": {"to": "globex", "amount": 12}}


@pytest.fixture
def desk(store: Store, tmp_path: Path) -> str:
    return new_workspace(store, tmp_path)


@pytest.mark.parametrize(
    ("content", "title"),
    [
        ({"title": "Rates, Q3", "docs": ["report.md"], "comments": "Look"}, "Rates, Q3"),
        ({"docs": ["report.md"], "comments": "Look"}, "Rates"),
        ({"comments": "## **Fixed** `test_refund_race`\n\nMore"}, "Fixed test_refund_race"),
        ({"comments": "\n\nMAX_RETRY_COUNT=5 * 3 and ~$197"}, "MAX_RETRY_COUNT=5 * 3 and ~$197"),
    ],
)
def test_an_entry_has_a_title(store: Store, desk: str, content: dict[str, Any], title: str) -> None:
    people.push(store, desk, **content)
    assert inbox(store)[0]["title"] == title
    assert found(store, title.split(maxsplit=1)[0]) == ids(store)


@pytest.mark.parametrize("title", ["two\nlines", "x" * 201])
def test_a_title_is_one_short_line(store: Store, desk: str, title: str) -> None:
    before = settled(store)
    with pytest.raises(InvalidInput, match="a title is one line"):
        people.push(store, desk, comments="x", title=title)
    assert settled(store) == before


def test_what_is_added_to_an_entry_brings_it_back_to_the_top_unread(store: Store, clock: Clock, desk: str) -> None:
    first = pushed(store, desk, "Report")
    clock.advance(60)
    second = pushed(store, desk, "Another matter")
    for entry_id in (first, second):
        people.mark_read(store, entry_id, person=USER)
    people.set_state(store, first, person=USER, state="done")
    clock.advance(60)
    added = people.push(store, desk, comments="The outcome", docs=["report.md"], entry_id=first)
    assert (added.id, added.parts, added.read_at, added.triage) == (first, 1, None, "inbox")
    assert ids(store) == ids(store, state="inbox") == [first, second]
    assert [part.comments for part in people.show_entry(store, first).parts] == ["The outcome"]
    assert inbox(store)[0]["comments"] == "Report"
    assert found(store, "outcome") == [first]
    page = people.history(store, limit=1)
    assert page.has_more
    assert ids(store, before=page.entries[-1].id) == [second]


def test_only_its_agent_adds_to_an_entry(store: Store, desk: str, tmp_path: Path) -> None:
    entry_id = pushed(store, desk)
    other = new_workspace(store, tmp_path, "other")
    before = settled(store)
    with pytest.raises(NotFound):
        people.push(store, other, comments="Mine now", entry_id=entry_id)
    with pytest.raises(NotFound):
        people.ask(store, agent="other", question="Mine?", entry_id=entry_id)
    assert settled(store) == before


def test_a_report_its_question_the_answer_and_the_outcome_are_one_row(store: Store, desk: str) -> None:
    entry_id = pushed(store, desk, "Drafted")
    question = people.ask(store, workspace_id=desk, question="Publish?", choices=["Yes", "No"], entry_id=entry_id)
    assert (question.root_id, state_of_part(store, question.id)) == (entry_id, "open")
    assert ids(store, open_only=True) == ids(store) == [entry_id]
    assert inbox(store)[0]["question"]["entryId"] == question.id
    people.reply(store, entry_id, person=USER, body="Yes")
    assert people.wait_answer(store, question.id, agent=AGENT).choice == "Yes"
    assert ids(store, open_only=True) == []
    people.push(store, desk, comments="Published", entry_id=question.id)
    detail = people.show_entry(store, question.id)
    assert detail.entry.id == entry_id
    assert [part.comments for part in detail.parts] == ["Publish?", "Published"]
    assert [reply.body for reply in detail.replies] == ["Yes"]
    people.delete_entry(store, entry_id, person=USER)
    assert ids(store) == []
    with pytest.raises(NotFound):
        people.show_entry(store, question.id)


def state_of_part(store: Store, part_id: str) -> str:
    return people.answer_of(store, part_id).state


def test_a_row_has_the_words_of_its_open_question_or_else_of_what_was_added_last(store: Store, desk: str) -> None:
    def latest() -> str | None:
        (row,) = people.history(store).entries
        assert row.to_json().get("latest") == row.latest
        return row.latest

    matter = people.push(store, desk, comments="Drafted.", title="Week 1").id
    assert latest() is None
    asked = people.ask(store, workspace_id=desk, question="Publish it?", choices=("Yes", "No"), entry_id=matter)
    people.push(store, desk, comments="A number was wrong.", entry_id=matter)
    assert latest() == "Publish it?"
    assert people.open_questions(store).entries[0].latest == "Publish it?"
    people.reply(store, asked.id, person="user", body="Yes")
    assert latest() == "A number was wrong."
    people.push(store, desk, docs=["report.md"], entry_id=matter)
    assert latest() == "report.md"


def test_a_reply_to_an_entry_with_two_open_questions_names_one(store: Store, desk: str) -> None:
    entry_id = pushed(store, desk)
    first, second = (people.ask(store, workspace_id=desk, question=text, entry_id=entry_id).id for text in ("One?", "Two?"))
    with pytest.raises(InvalidState, match="several open questions"):
        people.reply(store, entry_id, person=USER, body="Yes")
    people.reply(store, second, person=USER, body="Yes")
    assert (state_of_part(store, first), state_of_part(store, second)) == ("open", "answered")
    assert inbox(store)[0]["question"]["entryId"] == first


def test_open_questions_come_by_their_deadline(store: Store, clock: Clock, desk: str) -> None:
    def ask(question: str, seconds: float | None = None) -> str:
        clock.advance(1)
        return people.ask(store, workspace_id=desk, question=question, deadline_seconds=seconds).id

    never, late, soon = ask("Some day?"), ask("This week?", 5000), ask("Now?", 60)
    people.mark_read(store, soon, person=USER)
    pushed(store, desk)
    assert [entry.id for entry in people.open_questions(store).entries] == [soon, late, never]


@pytest.mark.parametrize(
    ("decision", "answer", "proposal"),
    [
        ({"type": "approve"}, "Approved", PROPOSAL),
        ({"type": "edit", "proposal": {**PROPOSAL, "args": {"amount": 7}}}, "Approved with changes", {**PROPOSAL, "args": {"amount": 7}}),
        ({"type": "reject", "reason": "Too much"}, "Rejected: Too much", None),
    ],
)
def test_the_agent_gets_what_was_decided_as_data(store: Store, desk: str, decision: Any, answer: str, proposal: Any) -> None:
    entry = people.ask(store, workspace_id=desk, question="Pay?", proposal=PROPOSAL)
    assert entry.to_json()["question"]["proposal"] == PROPOSAL
    people.reply(store, entry.id, person=USER, decision=decision)
    got = people.wait_answer(store, entry.id, agent=AGENT)
    assert got.decision == {"type": decision["type"], "proposal": proposal, "reason": decision.get("reason", "")}
    assert (got.answer or "").startswith(answer)
    (old,) = people.old_messages(store, agent=AGENT).messages  # also for an agent that lost the first response
    assert (old.decision, old.body) == (got.decision, got.answer)


@pytest.mark.parametrize(
    "decision",
    [{"type": "approve"}, {"type": "edit", "proposal": {**PROPOSAL, "args": {"amount": 7}}}, {"type": "reject", "reason": "Too much"}],
)
def test_a_decision_that_is_sent_again_with_its_key_is_stored_once(store: Store, desk: str, decision: Any) -> None:
    entry = people.ask(store, workspace_id=desk, question="Pay?", proposal=PROPOSAL)
    first = people.reply(store, entry.id, person=USER, decision=decision, key="once")
    again = people.reply(store, entry.id, person=USER, decision=decision, key="once")
    assert (again.reply, again.entry.replies) == (first.reply, 1)
    with pytest.raises(InvalidState, match="another reply"):
        people.reply(store, entry.id, person=USER, decision={"type": "reject", "reason": "On second thoughts"}, key="once")


WRONG = [
    {"type": "perhaps"},
    {"type": "approve", "proposal": PROPOSAL},
    {"type": "edit"},
    {"type": "edit", "proposal": {"text": "another kind"}},
    {"type": "edit", "proposal": {"action": "delete_all", "args": {}}},
    "approve",
]


@pytest.mark.parametrize("decision", WRONG)
def test_a_decision_that_does_not_fit_is_refused(store: Store, desk: str, decision: Any) -> None:
    entry_id = people.ask(store, workspace_id=desk, question="Pay?", proposal=PROPOSAL).id
    before = settled(store)
    with pytest.raises(InvalidInput):
        people.reply(store, entry_id, person=USER, decision=decision)
    assert settled(store) == before


def test_there_is_nothing_to_decide_without_a_proposal(store: Store, desk: str) -> None:
    with pytest.raises(InvalidState, match="no open question with a proposal"):
        people.reply(store, pushed(store, desk), person=USER, decision={"type": "approve"})


@pytest.mark.parametrize(
    "terms",
    [
        {"proposal": {"text": 3}},
        {"proposal": {"action": "x"}},
        {"proposal": {"text": "x"}, "choices": ["a", "b"]},
        {"choices": ["a", "b"], "dangerous": ["c"]},
        {"choices": ["a", "b"], "dangerous": "a"},
    ],
)
def test_terms_that_make_no_sense_are_refused(store: Store, desk: str, terms: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput):
        people.ask(store, workspace_id=desk, question="Pay?", **terms)


def test_a_deleted_question_of_a_thread_is_said_to_its_worker(store: Store) -> None:
    thread_id = blocked(store, "Which colour?")
    people.sync(store)
    people.delete_entry(store, ids(store)[0], person=USER)
    [*_, last] = work.show(store, thread_id).messages
    assert (last.kind, last.from_agent, last.summary) == ("answer", USER, "The question was deleted without an answer")
    assert letters(store) == []


def test_an_answered_question_is_not_asked_again_by_its_state(store: Store, desk: str) -> None:
    entry_id = people.ask(store, workspace_id=desk, question="Ship?", choices=["Yes", "No"], dangerous=["Yes"]).id
    people.reply(store, entry_id, person=USER, body="Yes")
    assert state_of(store, entry_id) == "answered"
    assert people.open_questions(store).entries == ()
