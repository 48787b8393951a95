"""Recognise which lines of `entries.jsonl` are entries. Other programs may write into that file. Called by `entries_mirror`."""

from __future__ import annotations

from postroom._fastpath import json_text as jsontext
from postroom.core import limits

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

MAX_TS_MILLISECONDS = 253_402_300_799_000  # the last second of the year 9999
MAX_ID_CHARS = 200
_KNOWN_FIELDS = ("id", "ts", "workspaceId", "workspaceLabel", "docs", "comments", "kind")


def parse_entry_line(line: bytes) -> dict[str, Any] | None:
    """Return a line as the fields of an entry, or None if it is not one."""
    try:
        fields = jsontext.loads(line.decode())
        entry_id, ts, docs = fields["id"], fields["ts"], fields.get("docs", [])
        texts = {name: fields.get(name, "") for name in ("workspaceId", "workspaceLabel", "comments")}
        extra = jsontext.dumps({name: value for name, value in fields.items() if name not in _KNOWN_FIELDS})
        extra.encode()  # raises ValueError for lone surrogates
        valid = _is_id(entry_id) and type(ts) is int and 0 <= ts <= MAX_TS_MILLISECONDS and all(map(_is_text, texts.values()))
        valid = valid and isinstance(docs, list) and all(map(_is_doc, docs)) and bool(jsontext.dumps(docs).encode())
        valid = valid and "\\u0000" not in extra + jsontext.dumps(docs)
    except (ValueError, KeyError, TypeError, AttributeError):
        return None
    return {"id": entry_id, "ts": ts, "docs": docs, "extra": extra, **texts} if valid else None


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
