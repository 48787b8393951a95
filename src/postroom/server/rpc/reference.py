"""The reference page of verbs, made from their declarations. `docs/make_reference.py` writes it."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Mapping, Sequence
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin

from postroom.core.verbs import Verb
from postroom.server.rpc.dispatch import routing_table
from postroom.server.rpc.permissions import describe_caller
from postroom.server.rpc.verb_schemas import Argument, arguments_of, result_of

TYPE_WORDS: dict[Any, str] = {str: "text", int: "integer", float: "number", bool: "boolean", Any: "any"}
INTRODUCTION = """\
# Verbs

Made by `make reference` from the declarations; do not edit.

A verb is a function of the library whose first argument is the store. Over a network it is `POST /api/verbs/{name}`, or a frame of the
WebSocket at `/api/verbs`, with the same arguments by name. `openapi.json` has the schemas.

How it runs: `read` writes nothing; `write` is one transaction, committed together with other writes; `steps` takes several transactions, or
reads files; `wait` blocks until something happens, at most `timeout_seconds`.
"""


def reference_page() -> str:
    """Return docs/reference/verbs.md: every verb, its arguments and result, who may call it, and how it runs."""
    rooms: dict[str, list[Verb]] = {}
    for name, verb in sorted(routing_table().items()):
        rooms.setdefault(name.partition(".")[0], []).append(verb)
    parts = [INTRODUCTION]
    for room, verbs in rooms.items():
        rows = [
            f"| `{verb.name}` | {_arguments_text(verb)} | {_type_text(result_of(verb))} | {describe_caller(verb)} | {verb.mode} |"
            for verb in verbs
        ]
        head = "| verb | arguments | result | who may call it over a network | runs as |\n|---|---|---|---|---|"
        parts.append(f"## {room}\n\n{head}\n" + "\n".join(rows) + "\n")
    return "\n".join(parts)


def _arguments_text(verb: Verb) -> str:
    return ", ".join(_argument_text(one) for one in arguments_of(verb)) or "none"


def _argument_text(argument: Argument) -> str:
    optional = "" if argument.default is inspect.Parameter.empty else f" = `{_default_text(argument.default)}`"
    return f"`{argument.name}`: {_type_text(argument.annotation)}{optional}"


def _default_text(default: Any) -> str:
    return f'"{default}"' if isinstance(default, str) else repr(default)


def _type_text(hint: Any) -> str:
    """Return an annotation in words, such as `list of text`."""
    origin, inner = get_origin(hint), get_args(hint)
    if hint is NoneType:
        return "null"
    if origin in (Union, UnionType):
        return " or ".join(_type_text(one) for one in inner)
    if origin is tuple and len(inner) == 2 and inner[1] is Ellipsis:
        return f"list of {_type_text(inner[0])}"
    if origin is tuple:
        return f"({', '.join(_type_text(one) for one in inner)})"
    if origin in (Iterable, Sequence, list):
        return f"list of {_type_text(inner[0])}"
    if origin in (dict, Mapping) or hint is dict:
        return "object"
    return TYPE_WORDS.get(hint) or str(hint.__name__)
