"""JSON without importing `json`, which costs as much as the rest of a command: the same C encoder and scanner, called directly.

Where an interpreter lacks them, or a text is malformed, `json` itself takes over and says what is wrong.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def _not_json(value: object) -> object:
    raise TypeError(f"{type(value).__name__} is not JSON")


def _refuse_constant(name: str) -> object:
    raise ValueError(f"{name} is not JSON")


class _Scanning:
    """The settings that `json.JSONDecoder` would hand to the C scanner."""

    strict = True
    object_hook = None
    object_pairs_hook = None
    parse_float = float
    parse_int = int
    parse_constant = staticmethod(_refuse_constant)
    memo: dict[str, str] = {}


_encode: Any = None
_scan: Any = None
try:
    import _json

    _helpers: Any = _json
    _encode = _helpers.make_encoder(None, _not_json, _helpers.encode_basestring, None, ": ", ", ", False, False, False)
    _scan = _helpers.make_scanner(_Scanning())
except (ImportError, TypeError):  # an interpreter without the C helpers
    pass


def dumps(value: object) -> str:
    if _encode is None:
        import json

        return json.dumps(value, ensure_ascii=False, allow_nan=False)
    return "".join(_encode(value, 0))


def loads(text: str) -> Any:
    """Parse strictly (no NaN, nothing after the value), or raise `ValueError` saying where it went wrong."""
    stripped = text.strip(" \t\n\r")
    if _scan is not None:
        try:
            value, end = _scan(stripped, 0)
            if end == len(stripped):
                return value
        except (StopIteration, ValueError, SystemError, RecursionError):
            pass  # SystemError: before 3.13 the scanner cannot raise its own error unless `json` was imported
    import json

    try:
        return json.loads(text, parse_constant=_refuse_constant)
    except RecursionError:
        raise ValueError("nested too deeply") from None
