"""Characters that are invisible, or that change how other characters are shown. Names may not hold them, and outputs escape them.

They can hide an instruction in a prompt, make two names look alike, or steer a terminal. Imported only for text that is not ASCII.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

_RANGES = (
    (0x7F, 0x9F),  # DEL and the C1 controls
    (0xAD, 0xAD),  # soft hyphen
    (0x34F, 0x34F),  # combining grapheme joiner
    (0x61C, 0x61C),  # Arabic letter mark
    (0x115F, 0x1160),  # Hangul fillers
    (0x17B4, 0x17B5),  # Khmer vowels without a shape
    (0x180B, 0x180F),  # Mongolian variation selectors and the vowel separator
    (0x200B, 0x200F),  # zero width space to right-to-left mark
    (0x2028, 0x202E),  # line and paragraph separators, embeddings and overrides
    (0x2060, 0x206F),  # word joiner, invisible operators, isolates
    (0x2800, 0x2800),  # blank Braille pattern
    (0x3164, 0x3164),  # Hangul filler
    (0xFE00, 0xFE0F),  # variation selectors
    (0xFEFF, 0xFEFF),  # byte order mark
    (0xFFA0, 0xFFA0),  # halfwidth Hangul filler
    (0xFFF9, 0xFFFB),  # interlinear annotations
    (0x1D173, 0x1D17A),  # musical formatting
    (0xE0000, 0xE0FFF),  # tags, and more variation selectors
)
HIDDEN_CODES = frozenset(code for first, last in _RANGES for code in range(first, last + 1))


def escape_in_json(text: str) -> str:
    """Return a JSON text with hidden characters as `\\uXXXX`. It has the same value: they occur only inside of strings."""
    return text.translate(_JSON_ESCAPES) if not HIDDEN_CODES.isdisjoint(map(ord, set(text))) else text


def escape_table(codes: Iterable[int]) -> dict[int, str]:
    """Return a table for `str.translate` that shows characters by their number."""
    return {code: f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}" for code in codes}


def describe_hidden(text: str) -> str:
    """Return the numbers of the hidden characters of a text, such as `U+200B`, or "" if there are none."""
    return ", ".join(f"U+{code:04X}" for code in sorted(HIDDEN_CODES.intersection(map(ord, text))))


def _json_escape(code: int) -> str:
    if code < 0x10000:
        return f"\\u{code:04x}"
    return f"\\u{0xD800 + (code - 0x10000 >> 10):04x}\\u{0xDC00 + (code - 0x10000 & 0x3FF):04x}"


_JSON_ESCAPES = {code: _json_escape(code) for code in HIDDEN_CODES}
