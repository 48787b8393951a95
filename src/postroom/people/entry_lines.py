"""Recognise which lines of `entries.jsonl` are entries. Other programs may write into that file. Called by `entries_mirror`."""

from __future__ import annotations

from postroom._fastpath import json_text as jsontext
from postroom.core import limits
from postroom.core.records.people import DONE, SNOOZED, UNTIL_ACTIVITY

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

MAX_TS_MILLISECONDS = 253_402_300_799_000  # the last second of the year 9999
MAX_ID_CHARS = 200
_KNOWN_FIELDS = ("id", "ts", "workspaceId", "workspaceLabel", "docs", "comments", "kind")
_STATE_FIELDS = ("title", "entryId", "state", "snoozedUntil", "pinned")


def parse_entry_line(line: bytes) -> dict[str, Any] | None:
    """Return a line as the fields of an entry, or None if it is not one."""
    try:
        fields = jsontext.loads(line.decode())
        entry_id, ts, docs = fields["id"], fields["ts"], fields.get("docs", [])
        texts = {name: fields.get(name, "") for name in ("workspaceId", "workspaceLabel", "comments")}
        states = _parse_states(fields)
        known = (*_KNOWN_FIELDS, *states)
        extra = jsontext.dumps({name: value for name, value in fields.items() if name not in known})
        extra.encode()  # raises ValueError for lone surrogates
        valid = _is_id(entry_id) and type(ts) is int and 0 <= ts <= MAX_TS_MILLISECONDS and all(map(_is_text, texts.values()))
        valid = valid and isinstance(docs, list) and all(map(_is_doc, docs)) and bool(jsontext.dumps(docs).encode())
        valid = valid and "\\u0000" not in extra + jsontext.dumps(docs)
    except (ValueError, KeyError, TypeError, AttributeError):
        return None
    return {"id": entry_id, "ts": ts, "docs": docs, "extra": extra, "states": states, **texts} if valid else None


def _parse_states(fields: dict[str, Any]) -> dict[str, Any]:
    """Return the title and the states of triage in a line, if all of them are as we write them. Else they are unknown fields."""
    states = {name: fields[name] for name in _STATE_FIELDS if name in fields}
    title, until = states.get("title", "-"), states.get("snoozedUntil", 0)
    valid = _is_text(title) and 0 < len(title) <= limits.MAX_TITLE_CHARS and "\n" not in title
    valid = valid and _is_id(states.get("entryId", "-")) and states.get("pinned", True) is True
    valid = valid and states.get("state", SNOOZED) in (SNOOZED, DONE) and type(until) is int and 0 <= until <= UNTIL_ACTIVITY
    valid = valid and ("snoozedUntil" in states) == (states.get("state") == SNOOZED)
    return states if valid else {}


def is_importable(fields: dict[str, Any]) -> bool:
    """Return whether an entry that another program wrote may be taken in: it is within the bounds of a push, and its paths stay inside."""
    docs = fields["docs"]
    return (
        len(fields["comments"].encode()) <= limits.MAX_COMMENT_BYTES
        and len(fields["extra"].encode()) <= limits.MAX_METADATA_JSON_BYTES
        and max(len(fields["workspaceId"]), len(fields["workspaceLabel"])) <= limits.MAX_NAME_CHARS
        and len(docs) <= limits.MAX_DOCUMENTS
        and all(len(doc["path"]) <= limits.MAX_PATH_CHARS and ".." not in doc["path"].split("/") for doc in docs)
    )


def _is_id(value: object) -> bool:
    return isinstance(value, str) and 0 < len(value) <= MAX_ID_CHARS and value.isprintable() and value == value.strip()


def _is_text(value: object) -> bool:
    """Return whether both engines can keep a value as text. Raises `ValueError` if it cannot be encoded."""
    return isinstance(value, str) and "\0" not in value and value.encode() is not None


def _is_doc(doc: object) -> bool:
    """Return whether a value is a document of an entry: a path, and optionally its hash and its size in bytes when it was pushed."""
    if not isinstance(doc, dict) or not isinstance(doc.get("path"), str) or not set(doc) <= {"path", "sha256", "size"}:
        return False
    size, sha256 = doc.get("size"), doc.get("sha256")
    return isinstance(sha256, str | None) and (size is None or (isinstance(size, int) and 0 <= size < 2**63))
