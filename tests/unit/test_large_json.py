"""Large JSON is parsed in steps: to the same values as by `json`, and no further than the bound."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from postroom.core.errors import TooLarge
from postroom.core.limits import MAX_JSON_VALUES
from postroom.server.http.large_json import MAX_LEVELS, parse_in_steps

scalars = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text()
values = st.recursive(scalars, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4), max_leaves=20)


@given(values, st.sampled_from([None, 0, 2]), st.booleans())
def test_every_value_is_read_as_it_was_written(value: object, indent: int | None, ascii_only: bool) -> None:
    assert parse_in_steps(f" \t\r\n{json.dumps(value, indent=indent, ensure_ascii=ascii_only)}\n") == value


@given(st.text(alphabet='{}[]:,"\\ntrue1.e-/ u00 ', max_size=30))
def test_a_text_is_refused_if_json_refuses_it(text: str) -> None:
    try:
        expected = json.loads(text, parse_constant=_refuse)
    except ValueError:
        with pytest.raises(ValueError, match=r"."):
            parse_in_steps(text)
    else:
        assert parse_in_steps(text) == expected


def _refuse(name: str) -> object:
    raise ValueError(name)


@pytest.mark.parametrize(
    "text", ["NaN", "[Infinity]", '{"a": -Infinity}', "[1,]", '{"a":1,}', "{1: 2}", '"\n"', "1 2", "", "[", '{"a"', "tru"]
)
def test_what_is_not_json_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        parse_in_steps(text)


def test_the_last_of_two_equal_names_counts() -> None:
    assert parse_in_steps('{"a": 1, "a": 2}') == {"a": 2}


def test_a_text_with_too_many_values_is_refused() -> None:
    assert len(parse_in_steps("[" + "1," * (MAX_JSON_VALUES - 2) + "1]")) == MAX_JSON_VALUES - 1
    with pytest.raises(TooLarge):
        parse_in_steps("[" + "1," * (MAX_JSON_VALUES - 1) + "1]")
    with pytest.raises(TooLarge):
        parse_in_steps("[" + "[]," * (MAX_JSON_VALUES * 3))


def test_a_text_with_too_many_levels_is_refused() -> None:
    deepest = parse_in_steps("[" * MAX_LEVELS + "1" + "]" * MAX_LEVELS)
    assert deepest
    with pytest.raises(ValueError, match="deep"):
        parse_in_steps("[" * (MAX_LEVELS + 1) + "1" + "]" * (MAX_LEVELS + 1))
    with pytest.raises(ValueError, match="deep"):
        parse_in_steps("[" * 5_000_000)
