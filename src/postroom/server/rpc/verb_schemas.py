"""JSON schemas of verbs and wire records, read from their annotations, and the OpenAPI operations made of them."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from types import NoneType, UnionType
from typing import Any, Literal, NamedTuple, Union, get_args, get_origin, get_type_hints

from pydantic import BaseModel

from postroom.core.records import Record
from postroom.core.rpc import wire
from postroom.core.verbs import Verb
from postroom.server.api.schemas.builders import KEY, Schema, describe_operation, object_of, schema_ref
from postroom.server.rpc.dispatch import routing_table
from postroom.server.rpc.permissions import describe_caller
from postroom.tasks.a2a.rendering import Rendered

PREFIX = "wire."  # of component names: other components describe the REST shapes of the same things
PATH = "/api/verbs/"
ATOMS: dict[Any, Schema] = {
    str: {"type": "string"},
    bool: {"type": "boolean"},
    int: {"type": "integer"},
    NoneType: {"type": "null"},
    Any: {},
}
FLOAT: Schema = {"oneOf": [{"type": "number"}, schema_ref(f"{PREFIX}float")]}


def _structure_schema(name: str, **items: Any) -> Schema:
    return {"type": "object", "properties": {"~": {"const": name}, "items": {"type": "array", **items}}, "required": ["~", "items"]}


STRUCTURES: dict[str, Schema] = {
    f"{PREFIX}list": _structure_schema(wire.LIST),
    f"{PREFIX}dict": _structure_schema(wire.DICT),
    f"{PREFIX}float": _structure_schema(wire.FLOAT, items={"type": "string"}),
}


class Argument(NamedTuple):
    """One argument of a verb. `default` is `inspect.Parameter.empty` if it is required."""

    name: str
    annotation: Any
    default: Any


@cache
def annotation_names() -> dict[str, Any]:
    """Return the names that annotations use. The modules import most of them for type checkers only."""
    routing_table()  # loads every room
    names: dict[str, Any] = {"Any": Any, "Callable": Callable, "Iterable": Iterable, "Mapping": Mapping, "Sequence": Sequence}
    names["Docs"] = Iterable[Mapping[str, Any] | str]
    names["Store"] = names["Transaction"] = object
    names.update((record.__name__, record) for record in wire.record_classes())
    names.update((kind.__name__, kind) for kind in wire.foreign_types())
    return names


def arguments_of(verb: Verb) -> tuple[Argument, ...]:
    """Return the arguments of a verb after the store, with their annotations."""
    parameters = list(inspect.signature(verb.function).parameters.values())[1:]
    hints = _type_hints(verb)
    return tuple(Argument(one.name, hints[one.name], one.default) for one in parameters)


def result_of(verb: Verb) -> Any:
    """Return the annotation of a verb's result."""
    return _type_hints(verb)["return"]


def _type_hints(verb: Verb) -> dict[str, Any]:
    return get_type_hints(inspect.unwrap(verb.function), localns=annotation_names())


# Schemas of values on the wire


def value_schema(hint: Any) -> Schema:
    """Return the JSON schema of a value with this annotation, as the wire format writes it."""
    if hint in ATOMS:
        return ATOMS[hint]
    if hint is float:
        return FLOAT
    origin, inner = get_origin(hint), get_args(hint)
    if origin in (Union, UnionType):
        return {"anyOf": [value_schema(one) for one in inner]}
    if origin is Literal:
        return {"enum": list(inner)}
    if origin is tuple:
        return _tuple_schema(inner)
    if origin is list:
        return schema_ref(f"{PREFIX}list")
    if origin in (Iterable, Sequence):
        items = value_schema(inner[0])
        return {"anyOf": [{"type": "array", "items": items}, schema_ref(f"{PREFIX}list")]}
    if origin in (dict, Mapping) or hint is dict:
        return {"type": "object"}
    if isinstance(hint, type) and (issubclass(hint, Record) or hint in wire.foreign_types()):
        return schema_ref(f"{PREFIX}{hint.__name__}")
    raise TypeError(f"{hint} has no schema")


def _tuple_schema(inner: tuple[Any, ...]) -> Schema:
    if len(inner) == 2 and inner[1] is Ellipsis:
        return {"type": "array", "items": value_schema(inner[0])}
    # `prefixItems` would be exact, but tools that read OpenAPI do not support it.
    return {"type": "array", "items": {"anyOf": [value_schema(one) for one in inner]}, "minItems": len(inner), "maxItems": len(inner)}


def wire_record_schema(record: type[Record]) -> Schema:
    """Return the JSON schema of a record on the wire, from its annotations. Further fields are allowed: a newer side may send them."""
    hints = get_type_hints(record, localns=annotation_names())
    fields = {name: value_schema(hints[name]) for name in record.__fields__}
    required = ["~", *(name for name in record.__fields__ if name not in vars(record))]
    description = (record.__doc__ or "").strip().partition("\n")[0]
    return {
        "type": "object",
        "description": description,
        "properties": {"~": {"const": record.__name__}, **fields},
        "required": required,
    }


def _foreign_schema(kind: type) -> Schema:
    """Return the schema of a type that is not a `Record`: its fields by name. Their values follow the model's own JSON."""
    if issubclass(kind, BaseModel):
        names = {name: field.is_required() for name, field in kind.model_fields.items()}
    else:
        assert kind is Rendered
        names = dict.fromkeys(Rendered._fields, True)
    required = ["~", *(name for name, needed in names.items() if needed)]
    return {"type": "object", "properties": {"~": {"const": kind.__name__}, **{name: {} for name in names}}, "required": required}


@cache
def component_schemas() -> dict[str, Schema]:
    """Return the schemas of all records that verbs take or return, and of the records in their fields."""
    pending: list[Any] = []
    for verb in routing_table().values():
        pending += [result_of(verb), *(argument.annotation for argument in arguments_of(verb))]
    components: dict[str, Schema] = dict(STRUCTURES)
    while pending:
        hint = pending.pop()
        pending += get_args(hint)
        if not isinstance(hint, type) or f"{PREFIX}{hint.__name__}" in components:
            continue
        if issubclass(hint, Record):
            components[f"{PREFIX}{hint.__name__}"] = wire_record_schema(hint)
            pending += get_type_hints(hint, localns=annotation_names()).values()
        elif hint in wire.foreign_types():
            components[f"{PREFIX}{hint.__name__}"] = _foreign_schema(hint)
    return dict(sorted(components.items()))


# OpenAPI


def refusal_responses() -> dict[str, Schema]:
    """Return the refusals of verbs as OpenAPI components. A hundred operations refer to them."""
    return {
        f"Refused{status}": response for status, response in describe_operation("", "200", None)["responses"].items() if status != "200"
    }


@cache
def verb_paths() -> dict[str, dict[str, Schema]]:
    """Return one OpenAPI operation for each verb."""
    return {f"{PATH}{name}": {"post": _verb_operation(verb)} for name, verb in sorted(routing_table().items())}


def _verb_operation(verb: Verb) -> Schema:
    arguments = arguments_of(verb)
    named: Schema = {
        "type": "object",
        "properties": {one.name: value_schema(one.annotation) for one in arguments},
        "additionalProperties": False,
    }
    required = [one.name for one in arguments if one.default is inspect.Parameter.empty]
    if required:
        named["required"] = required
    content = {
        "type": "object",
        "properties": {"args": {"type": "array", "maxItems": 0}, "named": named},
        "required": ["named"] if required else [],
        "additionalProperties": False,
    }
    described = describe_operation(
        summary_of(verb),
        "200",
        object_of("ok result", ok={"const": True}, result=value_schema(result_of(verb))),
        body={"required": True, "content": {wire.CONTENT_TYPE: {"schema": content}}},
        parameters=(KEY,),
    )
    for status in [*described["responses"]][1:]:
        described["responses"][status] = {"$ref": f"#/components/responses/Refused{status}"}
    described["operationId"] = verb.name
    described["tags"] = [verb.name.partition(".")[0]]
    described["description"] = f"Who may call: {describe_caller(verb)}. Runs as: {verb.mode}."
    return described


def summary_of(verb: Verb) -> str:
    """Return the first line of a verb's docstring."""
    return (verb.function.__doc__ or verb.name).strip().partition("\n")[0]
