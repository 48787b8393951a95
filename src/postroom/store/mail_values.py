"""Values of messages that an engine cannot hold as they are. The mail room encodes them, and the statements decode what they read.

A payload may contain NUL, which PostgreSQL cannot store in a text. `created_at` has 64 bits without a sign, and the engines' integers have
a sign.
"""

from __future__ import annotations

_ESCAPE, _ESCAPED_ESCAPE, _ESCAPED_NUL = "\x10", "\x10\x10", "\x100"
_UINT64_VALUES = 2**64


def encode_payload(payload: str) -> str:
    """Return a payload without NUL."""
    if "\0" not in payload and _ESCAPE not in payload:
        return payload
    return payload.replace(_ESCAPE, _ESCAPED_ESCAPE).replace("\0", _ESCAPED_NUL)


def decode_payload(stored: str) -> str:
    """Return the payload that `encode_payload` encoded."""
    if _ESCAPE not in stored:
        return stored
    return _ESCAPE.join(part.replace(_ESCAPED_NUL, "\0") for part in stored.split(_ESCAPED_ESCAPE))


def encode_created_at(seconds: int) -> int:
    """Return an integer with a sign that stands for seconds below 2^64."""
    return seconds if seconds < _UINT64_VALUES // 2 else seconds - _UINT64_VALUES


def decode_created_at(stored: int) -> int:
    """Return the seconds that `encode_created_at` encoded."""
    return stored if stored >= 0 else stored + _UINT64_VALUES
