"""JSON without importing `json`: it calls the same C encoder and scanner directly. `core.jsontext` exports its functions.

If the interpreter lacks them, or if a text is malformed, `json` does the work and raises the error.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def _refuse_value(value: object) -> object:
    raise TypeError(f"{type(value).__name__} is not JSON")


def _refuse_constant(name: str) -> object:
    raise ValueError(f"{name} is not JSON")


class _ScannerSettings:
    """The settings that `json.JSONDecoder` passes to the C scanner."""

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
    _encode = _helpers.make_encoder(None, _refuse_value, _helpers.encode_basestring, None, ": ", ", ", False, False, False)
    _scan = _helpers.make_scanner(_ScannerSettings())
except (ImportError, AttributeError, TypeError):  # the interpreter has no C helpers, or different ones
    _encode = _scan = None


def dumps(value: object) -> str:
    """Return a value as JSON text. Raises `TypeError` for a type that JSON lacks, and `ValueError` for NaN and infinity."""
    if _encode is None:
        import json

        return json.dumps(value, ensure_ascii=False, allow_nan=False, check_circular=False, default=_refuse_value)
    return "".join(_encode(value, 0))


def loads(text: str) -> Any:
    """Return the value of a JSON text. Raises `ValueError`, with the position, for malformed text, NaN, or text after the value."""
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
