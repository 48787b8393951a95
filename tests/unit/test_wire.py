"""The wire: whatever verbs take and give goes over it and comes back the same, and nothing else gets through."""

from __future__ import annotations

import math
from collections.abc import Iterator
from importlib import import_module
from types import UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from postroom.core import jsontext, wire
from postroom.core.errors import InvalidInput
from postroom.core.records import Attachment, Record

RECORDS: dict[str, type[Record]] = {
    found.__name__: found
    for module in wire.MODULES
    for found in vars(import_module(f"postroom.core.{module}")).values()
    if isinstance(found, type) and issubclass(found, Record) and found is not Record
}
PLAIN: dict[Any, SearchStrategy[Any]] = {
    str: st.text(max_size=20),
    int: st.integers(),
    float: st.floats(allow_nan=False),
    bool: st.booleans(),
    type(None): st.none(),
}
ATOMS = st.one_of(*PLAIN.values())
KEYS = st.one_of(st.text(max_size=5), st.sampled_from(["~", "is", "", "dict", "list"]))
ODD_KEYS = st.one_of(KEYS, st.integers(), st.none(), st.tuples(st.integers(), st.text(max_size=3)))
JSON = st.recursive(ATOMS, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(KEYS, inner, max_size=4), max_leaves=20)
VALUES = st.recursive(
    ATOMS,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.lists(inner, max_size=4).map(tuple),
        st.dictionaries(ODD_KEYS, inner, max_size=4),
    ),
    max_leaves=20,
)


def travelled(value: object) -> Any:
    return wire.decode(jsontext.loads(jsontext.dumps(wire.encode(value))))


def kinds(value: object) -> object:
    """Of what types it is made: 1, 1.0 and True are equal, and so are no list and tuple."""
    if isinstance(value, Record):
        return type(value), [kinds(item) for _, item in value.items()]
    if isinstance(value, dict):
        return dict, [(kinds(key), kinds(item)) for key, item in value.items()]
    return (type(value), [kinds(item) for item in value]) if isinstance(value, list | tuple) else type(value)


def values_of(hint: Any) -> SearchStrategy[Any]:
    """Any value that an annotation allows."""
    if hint is Any:
        return JSON
    if hint in PLAIN:
        return PLAIN[hint]
    if get_origin(hint) in (Union, UnionType):
        return st.one_of(*map(values_of, get_args(hint)))
    if get_origin(hint) is tuple:
        return st.lists(values_of(get_args(hint)[0]), max_size=3).map(tuple)
    if get_origin(hint) is list:
        return st.lists(values_of(get_args(hint)[0]), max_size=3)
    if get_origin(hint) is dict:
        return st.dictionaries(*map(values_of, get_args(hint)), max_size=3)
    assert issubclass(hint, Record), hint
    return records(hint)


def records(kind: type[Record]) -> SearchStrategy[Any]:
    hints = get_type_hints(kind, localns={**RECORDS, "Any": Any})
    return st.builds(kind, **{field: values_of(hints[field]) for field in kind.__fields__})


def test_every_room_has_its_records_on_the_wire() -> None:
    core = {kind for kind in _below(Record) if kind.__module__.startswith("postroom.core.")}
    queues = ("postroom.core.events", "postroom.core.chores", "postroom.core.addresses")  # folders, and so always here
    here = {kind for kind in core if kind.__module__ in queues}
    assert {kind.__name__ for kind in core - here} == set(RECORDS)


def _below(kind: type[Record]) -> Iterator[type[Record]]:
    for found in kind.__subclasses__():
        yield found
        yield from _below(found)


@pytest.mark.parametrize("kind", RECORDS.values(), ids=RECORDS)
@settings(max_examples=20, deadline=None)
@given(data=st.data())
def test_a_record_comes_back_equal(kind: type[Record], data: st.DataObject) -> None:
    record = data.draw(records(kind))
    found = travelled(record)
    assert found == record
    assert kinds(found) == kinds(record)


@settings(deadline=None)
@given(VALUES)
def test_any_value_comes_back_equal_and_of_the_same_types(value: object) -> None:
    found = travelled(value)
    assert found == value
    assert kinds(found) == kinds(value)


@settings(deadline=None)
@given(st.dictionaries(KEYS, st.dictionaries(KEYS, ATOMS, max_size=3), max_size=3))
def test_a_dictionary_that_looks_like_the_wire_comes_back(value: object) -> None:
    assert travelled(value) == value


LOOKALIKES: list[object] = [
    {"~": "records.Thread"},
    {"~": "list", "is": [1]},
    {"~": {"~": "dict", "is": []}},
    {"is": [1]},
    {"": {"~": None}},
    {1: "a", "1": "b"},
    {(1, "x"): [()]},
]


@pytest.mark.parametrize("value", LOOKALIKES, ids=repr)
def test_what_looks_like_the_wire_is_not_taken_for_it(value: object) -> None:
    assert travelled(value) == value


def test_a_number_that_is_none_comes_back_as_none() -> None:
    found = travelled([math.nan, math.inf, -math.inf])
    assert math.isnan(found[0])
    assert found[1:] == [math.inf, -math.inf]


def test_json_is_written_as_json() -> None:
    """Whoever speaks no Python can speak it, too."""
    message = {"from": "ann", "to": "box", "payload": "é", "created_at": 7, "nothing": None, "deep": {"yes": True}}
    assert wire.encode(message) == message
    assert wire.decode(message) == message


class Stranger(Record):
    """A record of nobody's room."""

    name: str


@pytest.mark.parametrize(
    "value", [{1, 2}, frozenset("a"), b"bytes", bytearray(b"x"), 1j, object(), range(3), Stranger], ids=lambda value: type(value).__name__
)
def test_what_verbs_do_not_take_is_refused(value: object) -> None:
    for held in (value, [value], (1, value), {"a": value}):
        with pytest.raises(InvalidInput):
            wire.encode(held)


def test_a_record_of_nobodys_room_does_not_come_back() -> None:
    try:
        encoded = wire.encode(Stranger("x"))
    except InvalidInput:
        return
    with pytest.raises(InvalidInput):
        wire.decode(encoded)


# What strangers send

GIVEN = ("records.Attachment",)
THREAD = {"~": "records.Lease", "is": ["t", "a", "l", "c", "e", None, 1.0]}


def test_a_record_that_may_be_sent_is_let_in() -> None:
    attached = Attachment("a.md", "doc", "{}")
    assert wire.decode(jsontext.loads(jsontext.dumps(wire.encode([attached]))), only=GIVEN) == [attached]


@pytest.mark.parametrize("held", [THREAD, [THREAD], {"a": THREAD}, {"~": "list", "is": [[THREAD]]}, {"~": "dict", "is": [["k", THREAD]]}])
def test_a_record_that_may_not_be_sent_is_refused_wherever_it_hides(held: object) -> None:
    wire.decode(held)
    with pytest.raises(InvalidInput):
        wire.decode(held, only=GIVEN)


BROKEN: list[object] = [
    {"~": 1, "is": []},
    {"~": None, "is": []},
    {"~": ["list"], "is": []},
    {"~": "list"},
    {"~": "list", "is": None},
    {"~": "list", "is": {}},
    {"~": "dict", "is": [1]},
    {"~": "dict", "is": [[1]]},
    {"~": "dict", "is": [[1, 2, 3]]},
    {"~": "dict", "is": [[{}, 1]]},
    {"~": "dict", "is": [[{"~": "list", "is": []}, 1]]},
    {"~": "dict", "is": ["ab"]},
    {"~": "", "is": []},
    {"~": "Thread", "is": []},
    {"~": "records.", "is": []},
    {"~": "records.Nobody", "is": []},
    {"~": "records.Thread", "is": []},
    {"~": "records.Attachment", "is": ["a", "b", "c", "d"]},
    {"~": "records.dataclass_transform", "is": []},
    {"~": "records.__builtins__", "is": []},
    {"~": "records.Record.__init__", "is": []},
    {"~": "records..Thread", "is": []},
    {"~": "errors.Refusal", "is": ["x"]},
    {"~": "os.system", "is": ["true"]},
    {"~": "postroom.core.records.Thread", "is": []},
    {"~": "jsontext.dumps", "is": [1]},
    {"~": "records.Thread", "is": [], "more": 1},
    {"~": "float", "is": []},
    {"~": "float", "is": [[]]},
    {"~": "float", "is": ["x"]},
]


@pytest.mark.parametrize("held", BROKEN, ids=repr)
def test_a_broken_wire_is_refused(held: object) -> None:
    for value in (held, [held], {"a": [held]}):
        for only in (None, GIVEN):
            with pytest.raises(InvalidInput):
                wire.decode(value, only=only)


MARKS = st.sampled_from(["list", "dict", "records.Attachment", "records.Thread", "letters.Step", "x", "os.system"])


@settings(deadline=None)
@given(
    st.recursive(
        ATOMS,
        lambda inner: st.one_of(
            st.lists(inner, max_size=4),
            st.dictionaries(KEYS, inner, max_size=3),
            st.fixed_dictionaries({"~": MARKS | inner, "is": st.lists(inner, max_size=4) | inner}),
        ),
        max_leaves=20,
    )
)
def test_whatever_comes_is_read_or_refused(held: object) -> None:
    for only in (None, GIVEN):
        try:
            wire.decode(held, only=only)
        except InvalidInput:
            pass


@pytest.mark.parametrize(
    "wrap", [lambda inner: [inner], lambda inner: {"a": inner}, lambda inner: {"~": "list", "is": [inner]}], ids=["tuple", "dict", "list"]
)
def test_what_is_nested_without_end_is_refused(wrap: Any) -> None:
    held: Any = 1
    for _ in range(5000):
        held = wrap(held)
    with pytest.raises(InvalidInput):
        wire.decode(held)
