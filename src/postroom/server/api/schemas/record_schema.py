"""Derive the JSON schema of a record from its fields, for records whose JSON form is their fields by name."""

from __future__ import annotations

from collections.abc import Iterator
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

from postroom.core.records import Record

_SCALARS = {str: "string", int: "integer", float: "number", bool: "boolean"}


def record_schema(cls: type[Record]) -> dict[str, Any]:
    """Return the schema of a record as `plain` writes it: an object with every field, all of them required."""
    kinds = get_type_hints(cls, localns={known.__name__: known for known in _all_subclasses(Record)})
    properties = {name: _type_schema(kinds[name]) for name in cls.__fields__}
    return {"type": "object", "properties": properties, "required": list(properties)}


def public_schema(cls: type[Record], *, hidden: tuple[str, ...] = (), optional: tuple[str, ...] = (), **changed: Any) -> dict[str, Any]:
    """Return the schema of a record without its hidden fields. `changed` replaces the schemas of some fields, or adds fields.

    The optional fields are in every response today, but the schema does not guarantee them.
    """
    schema = record_schema(cls)
    properties = {name: kind for name, kind in schema["properties"].items() if name not in hidden} | changed
    return {**schema, "properties": properties, "required": [name for name in properties if name not in optional]}


def _type_schema(kind: Any) -> dict[str, Any]:
    if kind in _SCALARS:
        return {"type": _SCALARS[kind]}
    if isinstance(kind, type) and issubclass(kind, Record):
        return record_schema(kind)
    arguments = get_args(kind)
    if get_origin(kind) in (UnionType, Union) and NoneType in arguments:
        (other,) = (argument for argument in arguments if argument is not NoneType)
        schema = _type_schema(other)
        return {**schema, "type": [schema["type"], "null"]}
    if get_origin(kind) is tuple:
        return {"type": "array", "items": _type_schema(arguments[0])}
    if get_origin(kind) is dict:
        return {"type": "object", "additionalProperties": _type_schema(arguments[1])}
    raise TypeError(f"{kind} has no JSON schema")


def _all_subclasses(cls: type[Record]) -> Iterator[type[Record]]:
    for subclass in cls.__subclasses__():
        yield subclass
        yield from _all_subclasses(subclass)
