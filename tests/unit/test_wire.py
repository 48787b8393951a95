"""The wire format: every value that verbs take and return comes back equal, and nothing else is decoded."""

from __future__ import annotations

import math
from types import UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from postroom._fastpath import json_text as jsontext
from postroom.core.errors import InvalidInput, WrongVersion
from postroom.core.records import Record
from postroom.core.records.work import Attachment, Lease
from postroom.core.rpc import wire
from postroom.server.rpc import verb_schemas
from postroom.tasks.a2a.models import (
    A2ATask,
    A2ATaskPage,
    Accepted,
    AnsweredSheet,
    Card,
    CardPage,
    Checkpoint,
    Job,
    JobPage,
    Sheet,
    UnappliedAnswer,
)
from postroom.tasks.a2a.rendering import Rendered

NAMES = verb_schemas.annotation_names()
TRAVELLING = {name.removeprefix(verb_schemas.PREFIX) for name in verb_schemas.component_schemas()} - {wire.LIST, wire.DICT, wire.FLOAT}
RECORDS: dict[str, type[Record]] = {name: NAMES[name] for name in sorted(TRAVELLING) if issubclass(NAMES[name], Record)}
PLAIN: dict[Any, SearchStrategy[Any]] = {
    str: st.text(max_size=20),
    int: st.integers(),
    float: st.floats(allow_nan=False),
    bool: st.booleans(),
    type(None): st.none(),
}
ATOMS = st.one_of(*PLAIN.values())
KEYS = st.one_of(st.text(max_size=5), st.sampled_from(["~", "items", "", "dict", "list"]))
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
    """Return the types of a value and its parts, since 1, 1.0 and True are equal."""
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
    hints = get_type_hints(kind, localns=NAMES)
    return st.builds(kind, **{field: values_of(hints[field]) for field in kind.__fields__})


def test_a_class_name_on_the_wire_means_one_class() -> None:
    kinds = [kind.__name__ for kind in (*wire.record_classes(), *wire.foreign_types())]
    assert [name for name in TRAVELLING if kinds.count(name) != 1] == []


@pytest.mark.parametrize("kind", RECORDS.values(), ids=RECORDS)
@settings(max_examples=10, deadline=None)
@given(data=st.data())
def test_a_record_comes_back_equal_also_between_versions(kind: type[Record], data: st.DataObject) -> None:
    record, more = data.draw(records(kind)), data.draw(VALUES)
    _check_comes_back(record)
    _check_unknown_field_is_ignored(record, more)
    _check_missing_fields(record)


def _check_comes_back(record: Record) -> None:
    found = travelled(record)
    assert found == record
    assert kinds(found) == kinds(record)


def _check_unknown_field_is_ignored(record: Record, more: object) -> None:
    """A newer side may send more: also a value of a type that is known."""
    assert wire.decode({**wire.encode(record), "a later field": wire.encode(more)}) == record


def _check_missing_fields(record: Record) -> None:
    """A missing field has its default, or the refusal names the older side."""
    kind = type(record)
    for field in kind.__fields__:
        encoded = {name: value for name, value in wire.encode(record).items() if name != field}
        if field in vars(kind):
            assert wire.decode(encoded) == record.replace(**{field: vars(kind)[field]})
            continue
        for sender in (wire.SERVER, wire.CLIENT):
            with pytest.raises(WrongVersion) as refused:
                wire.decode(encoded, sender=sender)
            assert f"the {sender} is older" in str(refused.value)
            assert (field in str(refused.value), refused.value.hint) == (True, f"Upgrade the {sender}.")


TASK = A2ATask(task_id="t", source_job_id="j", source_agent="a", description="d", context={"~": ["x", {"y": None}]})
JOB = Job(job_id="j", agent="a", status="running", sheet=0, created_at="c", updated_at="u")
FOREIGN: list[Any] = [
    TASK,
    A2ATaskPage(tasks=(TASK, TASK), more=True, after="1.2"),
    Accepted(task=TASK, lease_token="l"),
    CardPage(cards=(Card(name="ada"),), more=True, after="ada"),
    JobPage(jobs=(JOB,), more=True, after="7"),
    Card(name="ada", skills=("write", "~")),
    JOB,
    Sheet(token="t", text="x", tasks=(TASK, TASK)),
    Checkpoint(job=JOB, version=1, state_json="{}", tasks=(TASK,), left_out=True),
    Rendered("text", ("t1", "t2"), 3),
    UnappliedAnswer(line=3, text="@complete x", why="no such task"),
    AnsweredSheet(job=JOB, completed=(TASK,), not_applied=(UnappliedAnswer(line=1, text="@fail", why="no id"),)),
]


def test_every_type_that_is_no_record_comes_back_equal() -> None:
    assert {type(value) for value in FOREIGN} == set(wire.foreign_types())
    for value in FOREIGN:
        found = travelled([value, {"in": value}])
        assert found == [value, {"in": value}]
        assert type(found[0]) is type(value)


@pytest.mark.parametrize("value", FOREIGN, ids=lambda value: type(value).__name__)
def test_a_type_that_is_no_record_survives_versions_too(value: Any) -> None:
    encoded = wire.encode(value)
    later = wire.decode({**encoded, "a later field": 1})
    assert all(getattr(later, name) == getattr(value, name) for name in encoded if name != wire.TYPE_KEY)
    first = next(name for name in encoded if name != wire.TYPE_KEY)
    with pytest.raises(WrongVersion, match="the server is older"):
        wire.decode({name: part for name, part in encoded.items() if name != first})


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
    {"~": "Thread"},
    {"~": "list", "items": [1]},
    {"~": {"~": "dict", "items": []}},
    {"items": [1]},
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
    """Clients in other languages can write it, too."""
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
    with pytest.raises(WrongVersion, match="the client is older"):
        wire.decode(encoded)


# Malformed input

GIVEN = ("Attachment",)
LEASE = {"~": "Lease", **dict.fromkeys(Lease.__fields__, "x")}


def test_a_record_that_may_be_sent_is_let_in() -> None:
    attached = Attachment("a.md", "doc", "{}")
    assert wire.decode(jsontext.loads(jsontext.dumps(wire.encode([attached]))), only=GIVEN) == [attached]


@pytest.mark.parametrize("held", [LEASE, [LEASE], {"a": LEASE}, {"~": "list", "items": [[LEASE]]}, {"~": "dict", "items": [["k", LEASE]]}])
def test_a_record_that_may_not_be_sent_is_refused_wherever_it_hides(held: object) -> None:
    wire.decode(held)
    with pytest.raises(InvalidInput):
        wire.decode(held, only=GIVEN)


BROKEN: list[object] = [
    {"~": 1, "items": []},
    {"~": None, "items": []},
    {"~": ["list"], "items": []},
    {"~": "list"},
    {"~": "list", "items": None},
    {"~": "list", "items": {}},
    {"~": "dict", "items": [1]},
    {"~": "dict", "items": [[1]]},
    {"~": "dict", "items": [[1, 2, 3]]},
    {"~": "dict", "items": [[{}, 1]]},
    {"~": "dict", "items": [[{"~": "list", "items": []}, 1]]},
    {"~": "dict", "items": ["ab"]},
    {"~": "", "items": []},
    {"~": "Thread", "items": []},
    {"~": "Nobody"},
    {"~": "Attachment"},
    {"~": "Record"},
    {"~": "records.Lease", **dict.fromkeys(Lease.__fields__, "x")},
    {"~": "dataclass_transform"},
    {"~": "__builtins__"},
    {"~": "Record.__init__"},
    {"~": "Refusal", "message": "x"},
    {"~": "os.system", "items": ["true"]},
    {"~": "postroom.core.records.Thread"},
    {"~": "jsontext.dumps", "items": [1]},
    {"~": "A2ATask", "task_id": "t"},
    {"~": "Card", "name": 7},
    {"~": "float", "items": []},
    {"~": "float", "items": [[]]},
    {"~": "float", "items": ["x"]},
]


@pytest.mark.parametrize("held", BROKEN, ids=repr)
def test_a_broken_wire_is_refused(held: object) -> None:
    for value in (held, [held], {"a": [held]}):
        for only in (None, GIVEN):
            with pytest.raises((InvalidInput, WrongVersion)):
                wire.decode(value, only=only)


MARKS = st.sampled_from(["list", "dict", "float", "Attachment", "Thread", "Step", "Card", "x", "os.system"])


@settings(deadline=None)
@given(
    st.recursive(
        ATOMS,
        lambda inner: st.one_of(
            st.lists(inner, max_size=4),
            st.dictionaries(KEYS, inner, max_size=3),
            st.fixed_dictionaries({"~": MARKS | inner, "items": st.lists(inner, max_size=4) | inner}),
        ),
        max_leaves=20,
    )
)
def test_whatever_comes_is_read_or_refused(held: object) -> None:
    for only in (None, GIVEN):
        try:
            wire.decode(held, only=only)
        except (InvalidInput, WrongVersion):
            pass


WRAPS = {"tuple": lambda inner: [inner], "dict": lambda inner: {"a": inner}, "list": lambda inner: {"~": "list", "items": [inner]}}


@pytest.mark.parametrize("wrap", WRAPS.values(), ids=WRAPS)
def test_what_is_nested_without_end_is_refused(wrap: Any) -> None:
    held: Any = 1
    for _ in range(5000):
        held = wrap(held)
    with pytest.raises(InvalidInput):
        wire.decode(held)
