"""Text output for a terminal: colours, tables and relative times. Control characters are escaped, so that no text can steer it."""

from __future__ import annotations

import os

from postroom.core import clock
from postroom.core.text import shell_quote

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from postroom.core.errors import Refusal

    Data = dict[str, Any]

SHORT_ID_CHARACTERS = 8
_COLOURS = {
    "pending": "33",
    "claimed": "36",
    "in_progress": "36",
    "blocked": "35",
    "done": "32",
    "failed": "31",
    "cancelled": "90",
    "dim": "90",
    "bold": "1",
    "error": "31",
}
_CONTROL_CODES = frozenset((*range(0x20), *range(0x7F, 0xA0), *range(0x2028, 0x202F), *range(0x2066, 0x206A)))
_ESCAPES = {code: f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" for code in _CONTROL_CODES}
_ESCAPES_KEEPING_LINES = {**_ESCAPES, 0x0A: "\n", 0x09: "\t"}
_ESCAPES_ON_ONE_LINE = {**_ESCAPES, 0x0A: " ", 0x0D: " ", 0x09: " "}
_EMOJI_CODES = frozenset((0x200D, 0xFE0F))  # joiner and variation selector: hidden characters that emoji need
_TAG_SPACE = 0xE0020  # one of the hidden characters that the tables get with the first text that is not ASCII


def render_refusal(error: Refusal) -> str:
    """Return the message and the hint of a refusal, for standard error."""
    hint = f"{colour_text('dim', 'hint:', 2)} {one_line(error.hint)}\n" if error.hint else ""
    return f"{colour_text('error', 'error:', 2)} {one_line(str(error))}\n{hint}"


def one_line(text: str) -> str:
    """Return the text on one line, with control characters escaped."""
    return _escape(text, _ESCAPES_ON_ONE_LINE)


def _escape(text: str, table: dict[int, str]) -> str:
    """Return the text with control characters escaped, and with those that could hide an instruction from its reader."""
    if _TAG_SPACE not in table and not text.isascii():
        from postroom.core.hidden_characters import HIDDEN_CODES, escape_table

        table.update(escape_table(HIDDEN_CODES - _EMOJI_CODES - table.keys()))
    return text.translate(table)


def indented_lines(text: str, indent: str) -> str:
    """Return the text with each line indented and control characters escaped, except newlines and tabs."""
    return "".join(f"{indent}{row}\n" for row in _escape(text, _ESCAPES_KEEPING_LINES).rstrip("\n").split("\n"))


def colour_text(style: str, text: str, descriptor: int = 1) -> str:
    """Colour the text if the descriptor is a terminal and NO_COLOR is not set. `style` is a key of `_COLOURS`."""
    if os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb" or not os.isatty(descriptor):
        return text
    return f"\x1b[{_COLOURS[style]}m{text}\x1b[0m"


def render_more(data: Data) -> str:
    """Return the last line of a page that is cut: how to go on. Empty if there are no more."""
    if not data["more"]:
        return ""
    total = f" of {data['total']}" if "total" in data else ""
    return colour_text("dim", f"there are more{total}: --after {shell_quote(data['after'])}") + "\n"


def render_note(data: Data) -> str:
    """Return the line with the note of an answer. Empty if it has none."""
    return f"  {colour_text('pending', 'note:')} {one_line(data['note'])}\n" if data.get("note") else ""


def short_id(identity: str) -> str:
    """Return the first characters of a UUID, which commands accept instead of the whole one. Other ids are returned as they are."""
    return identity[:SHORT_ID_CHARACTERS] if len(identity) == 36 and identity.count("-") == 4 else identity


def relative_time(stamp: str | None) -> str:
    """Return a time relative to now, such as `3 min ago` or `in 14 min`. None is `never`."""
    if stamp is None:
        return "never"
    seconds = (clock.now() - clock.parse_stamp(stamp)) // clock.MICROSECONDS_PER_SECOND
    for size, unit in ((86400, "d"), (3600, "h"), (60, "min"), (1, "s")):
        if abs(seconds) >= size:
            amount = f"{abs(seconds) // size} {unit}"
            return f"{amount} ago" if seconds > 0 else f"in {amount}"
    return "just now"


def render_table(heads: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    """Return aligned columns under `heads`. The last column is cut to the rest of the line."""
    cells = [tuple(one_line(cell) for cell in row) for row in rows]
    widths = [max(_display_width(row[i]) for row in (heads, *cells)) for i in range(len(heads) - 1)]
    room = _terminal_columns() - sum(widths) - 2 * len(widths)
    lines = [colour_text("dim", _render_row(heads, widths))]
    for row in cells:
        lines.append(_render_row((*row[:-1], _truncate_text(row[-1], room)), widths))
    return "".join(f"{text}\n" for text in lines)


def _render_row(cells: tuple[str, ...], widths: list[int]) -> str:
    padded = [_colour_status(cell) + " " * (width - _display_width(cell)) for cell, width in zip(cells, widths)]
    return "  ".join((*padded, cells[-1])).rstrip()


def _colour_status(cell: str) -> str:
    return colour_text(cell, cell) if cell in _COLOURS else cell


def _display_width(text: str) -> int:
    if text.isascii():
        return len(text)
    from unicodedata import combining, east_asian_width

    return sum(0 if combining(letter) else 2 if east_asian_width(letter) in "WF" else 1 for letter in text)


def _truncate_text(text: str, room: int) -> str:
    if _display_width(text) <= max(room, 20):
        return text
    while text and _display_width(text) > max(room, 20) - 1:
        text = text[:-1]
    return text + "…"


def _terminal_columns() -> int:
    columns = os.environ.get("COLUMNS", "")
    try:
        return int(columns) if columns.isdigit() else os.get_terminal_size(1).columns
    except OSError:
        return 10_000  # not a terminal: do not cut anything
