"""Objects in transcripts, written as the fields in which they differ from a known object of their kind.

`{"…": "thread", "status": "claimed"}` is the thread of transcripts/objects.json with another status. Nothing is lost: an object is
abbreviated only if it begins with the fields of the file in their order, and what follows them is written. A new column of a thread
that is null by default changes no transcript: a thread's fields are those of its record class, and the file gives their values.
"""

from __future__ import annotations

import json
from itertools import islice
from pathlib import Path
from typing import Any

from postroom.core.records.work import Thread

KNOWN: dict[str, dict[str, Any]] = json.loads((Path(__file__).parent / "transcripts" / "objects.json").read_text(encoding="utf-8"))
KNOWN["thread"] = {name: KNOWN["thread"].get(name) for name in Thread.__fields__}
KIND = "…"


def abbreviate(value: Any) -> Any:
    """Replace each known object in a JSON value by its kind and the fields that differ."""
    if isinstance(value, list):
        return [abbreviate(item) for item in value]
    if not isinstance(value, dict):
        return value
    inner = {key: abbreviate(item) for key, item in value.items()}
    kind = kind_of(value)
    if kind is None:
        return inner
    known = KNOWN[kind]
    return {KIND: kind, **{key: item for key, item in inner.items() if key not in known or not _same(value[key], known[key])}}


def expand(value: Any) -> Any:
    """Undo `abbreviate`."""
    if isinstance(value, list):
        return [expand(item) for item in value]
    if not isinstance(value, dict):
        return value
    inner = {key: expand(item) for key, item in value.items() if key != KIND}
    return {**KNOWN[value[KIND]], **inner} if KIND in value else inner


def kind_of(value: dict[str, Any]) -> str | None:
    """Return the kind whose fields an object begins with."""
    for kind, known in KNOWN.items():
        if list(islice(value, len(known))) == list(known):
            return kind
    return None


def _same(one: Any, other: Any) -> bool:
    return json.dumps(one) == json.dumps(other)  # False is not 0, and 1 is not 1.0
