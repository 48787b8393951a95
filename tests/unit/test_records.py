"""Records are values."""

from __future__ import annotations

import pytest

from postroom.core.records.work import Agent, Attachment, Thread


def agent(**changes: str) -> Agent:
    return Agent("ada", "agent", "{}", "2026", None).replace(**changes)


def test_equal_fields_make_equal_records() -> None:
    assert agent() == agent()
    assert hash(agent()) == hash(agent())
    assert agent() != agent(name="bo")


def test_a_record_cannot_be_changed() -> None:
    with pytest.raises(AttributeError):
        agent().name = "bo"  # type: ignore[misc]


def test_a_change_makes_a_new_record() -> None:
    before = agent()
    after = before.replace(kind="human")
    assert (before.kind, after.kind) == ("agent", "human")


def test_a_missing_field_is_refused_unless_it_has_a_default() -> None:
    assert Attachment("a.txt") == Attachment("a.txt", "file", "{}")
    with pytest.raises(TypeError):
        Agent("ada")  # type: ignore[call-arg]


def test_an_unknown_or_superfluous_field_is_refused() -> None:
    with pytest.raises(TypeError):
        agent(colour="blue")
    with pytest.raises(TypeError):
        Attachment("a", "b", "c", "d")  # type: ignore[call-arg]


def test_a_record_says_what_it_holds() -> None:
    assert repr(Attachment("a.txt")) == "Attachment(path='a.txt', kind='file', metadata_json='{}')"


def test_fields_stand_in_the_order_of_the_columns() -> None:
    assert Thread.__fields__[:3] == ("thread_id", "run_id", "task_id")
