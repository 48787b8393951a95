"""The schema of a record follows its fields."""

from __future__ import annotations

import pytest

from postroom.core.records import Record
from postroom.server.api.schemas.record_schema import public_schema, record_schema


class Leaf(Record):
    name: str
    size: int | None


class Branch(Record):
    ratio: float
    is_open: bool
    leaves: tuple[Leaf, ...]
    counts: dict[str, int]


LEAF = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "size": {"type": ["integer", "null"]}},
    "required": ["name", "size"],
}


def test_every_field_is_described_and_required() -> None:
    assert record_schema(Leaf) == LEAF


def test_a_record_in_a_record_is_described_where_it_stands() -> None:
    assert record_schema(Branch)["properties"] == {
        "ratio": {"type": "number"},
        "is_open": {"type": "boolean"},
        "leaves": {"type": "array", "items": LEAF},
        "counts": {"type": "object", "additionalProperties": {"type": "integer"}},
    }


def test_a_hidden_field_is_left_out_and_an_optional_one_is_not_promised() -> None:
    schema = public_schema(Leaf, hidden=("size",), optional=("name",), color={"enum": ["green"]})
    assert schema == {
        "type": "object",
        "properties": {"name": {"type": "string"}, "color": {"enum": ["green"]}},
        "required": ["color"],
    }


def test_a_field_that_json_cannot_say_is_refused() -> None:
    class Odd(Record):
        what: bytes

    with pytest.raises(TypeError, match="bytes"):
        record_schema(Odd)
