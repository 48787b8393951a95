"""Render a long Markdown text in pieces: its beginning first, and no piece takes long. Runs in the render process.

A piece begins where a block at the top level begins, as the parser of blocks says. So the HTML of the pieces, joined, is that of the text.
Each piece is told the addresses to which links of the whole text refer.
"""

from __future__ import annotations

import re
from typing import Any

from postroom.server.api.markdown import parse_blocks, render_markdown

FIRST_PIECE_CHARS = 12 * 1024  # more than a screenful
PIECE_CHARS = 48 * 1024
_BEGINNING_CHARS = 4 * FIRST_PIECE_CHARS  # in which a place for the first cut is looked for
_DEFINITION = re.compile(r"^[ \t>*+\-\d.)]*\[[^\]]+\]:", re.MULTILINE)
_DETAILS = re.compile(r"<(/?)details\b", re.IGNORECASE)
_CODE = ("fence", "code_block")


def render_beginning(text: str, folder: str = "") -> dict[str, Any]:
    """Return the HTML of the first piece and where it ends: after so many characters, or None if it has no end near the beginning."""
    start = text[: text.rfind("\n", 0, _BEGINNING_CHARS) + 1]
    cut = next(iter(_find_cuts(start, parse_blocks(start, {}), FIRST_PIECE_CHARS, len(text))), None)
    if cut is None:
        return {"html": "", "end": None}
    environment: dict[str, Any] = {}
    if _DEFINITION.search(text):
        parse_blocks(text, environment)
    return {"html": render_markdown(text[:cut], folder, environment.get("references")), "end": cut}


def outline_text(text: str, first_chars: int = FIRST_PIECE_CHARS, piece_chars: int = PIECE_CHARS) -> dict[str, Any]:
    """Return where the pieces of a text begin, except for the first one, and the addresses to which its links refer."""
    environment: dict[str, Any] = {}
    tokens = parse_blocks(text, environment)
    references = {label: {"href": found["href"], "title": found["title"]} for label, found in environment.get("references", {}).items()}
    return {"cuts": _find_cuts(text, tokens, first_chars, piece_chars), "references": references}


def _find_cuts(text: str, tokens: list[Any], first_chars: int, piece_chars: int) -> list[int]:
    """Return the positions at which blocks of the top level begin, with at least so many characters between them."""
    line_starts = [0, *(match.end() for match in re.finditer("\n", text))]
    cuts: list[int] = []
    wanted, details = first_chars, 0
    for token in tokens:
        if token.level == 0 and token.nesting >= 0 and token.map and details <= 0:
            position = line_starts[token.map[0]]
            if position >= wanted:
                cuts.append(position)
                wanted = position + piece_chars
        if token.type not in _CODE:
            details += sum(-1 if closing else 1 for closing in _DETAILS.findall(token.content))
    return cuts
