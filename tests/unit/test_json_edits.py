"""Edits of JSON settings keep the text around them and can be taken back."""

from __future__ import annotations

import pytest

from postroom.cli.inbox.harness.json_edits import find_value, insert_entry, parse_with_spans, remove_entry

TEXTS = ["{}", '{"a": 1}', '{"a": 1,}', '{\n\t"a": {"b": [1, 2,],}, // x\n}', '\ufeff{"a": [] /* "b": 1 */}']


@pytest.mark.parametrize("text", TEXTS)
def test_a_removal_takes_back_an_insertion(text: str) -> None:
    value = parse_with_spans(text).value
    made = insert_entry(insert_entry(text, ("new",), {"x": [1]}), ("list",), 1, append=True)
    made = remove_entry(made, ("new",), {"x": [1]}) or ""
    assert parse_with_spans(made).value == {**value, "list": [1]}
    assert parse_with_spans(remove_entry(made, ("list",), 1, append=True) or "").value == {**value, "list": []}
    assert remove_entry(made, ("list",), 2, append=True) is None
    assert remove_entry(made, ("nowhere", "new"), 2) is None


@pytest.mark.parametrize("text", TEXTS)
def test_an_insertion_keeps_the_text_before_and_after_it(text: str) -> None:
    made = insert_entry(text, ("new", "inner"), {"x": [1]})
    assert find_value(made, ("new", "inner")) == {"x": [1]}
    start = next((text[:at] for at in range(len(text), -1, -1) if made.startswith(text[:at])), "")
    assert text[len(start) :] == made[len(made) - (len(text) - len(start)) :]
    again = insert_entry(made, ("new", "list"), 1, append=True)
    assert find_value(insert_entry(again, ("new", "list"), 2, append=True), ("new", "list")) == [1, 2]


@pytest.mark.parametrize("text", ["", "{", '{"a" 1}', '{"a": 1 "b": 2}', "[1", "/* open", "{} x", '{"a": {]}', "[" * 200])
def test_a_broken_file_is_refused_with_the_position(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        parse_with_spans(text)
