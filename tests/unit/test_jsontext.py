"""JSON by the C helpers is the same as by `json`."""

from __future__ import annotations

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from postroom._fastpath import json_text as jsontext

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


@given(VALUES)
def test_what_is_written_is_what_json_writes(value: object) -> None:
    assert jsontext.dumps(value) == json.dumps(value, ensure_ascii=False)


@given(VALUES)
def test_what_was_written_is_read_back(value: object) -> None:
    assert jsontext.loads(json.dumps(value)) == value


@given(st.text(alphabet='{}[]",:0123456789.eE+-tfnrueals\\ \n', max_size=30))
def test_a_text_is_accepted_exactly_when_json_accepts_it(text: str) -> None:
    try:
        expected = json.loads(text)
    except ValueError:
        with pytest.raises(ValueError, match=r"."):
            jsontext.loads(text)
    else:
        assert jsontext.loads(text) == expected


@pytest.mark.parametrize("text", ["NaN", "[Infinity]", '{"a": -Infinity}', "1 2", "", "[" * 100_000])
def test_what_is_not_json_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        jsontext.loads(text)


def test_what_has_no_json_form_is_not_written() -> None:
    with pytest.raises(ValueError, match="JSON"):
        jsontext.dumps({"a": math.nan})
    with pytest.raises(TypeError):
        jsontext.dumps({"a": object()})
