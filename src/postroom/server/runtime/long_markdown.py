"""Render a long Markdown document in pieces: its beginning at once, and the rest while others are served."""

from __future__ import annotations

import asyncio
import re
from itertools import pairwise
from typing import Any

from postroom.server.runtime.render_process import RenderPool, escape_text

MIN_LONG_BYTES = 64 * 1024  # a shorter document is rendered whole
ALL, BEGINNING, REST = "all", "beginning", "rest"
_FOOTNOTE = re.compile(r"\^\[|^[ \t>*+\-\d.)]*\[\^[^\]\n]+\]:", re.MULTILINE)  # their numbers and texts belong to the whole document


def prepare_long_markdown(text: str) -> str | None:
    """Return a text with the line ends of the parser. None if it has footnotes: it cannot be rendered in pieces."""
    return None if _FOOTNOTE.search(text) else text.replace("\r\n", "\n").replace("\r", "\n")


async def render_long_markdown(pool: RenderPool, text: str, folder: str, part: str) -> dict[str, Any] | None:
    """Return the HTML of the beginning of a prepared text, the pieces of the rest, or all its HTML. None if no process could do it.

    `more` says whether there is a rest to ask for. `fallback` says that a piece was not rendered and is shown as plain text.
    """
    if part == BEGINNING:
        beginning = await pool.run_job({"what": "beginning", "folder": folder}, text.encode())
        if beginning is not None and beginning["end"] is not None:
            return {"html": beginning["html"], "more": True}
    outline = await pool.run_job({"what": "outline"}, text.encode(), long=True)
    if outline is None:
        return None
    pieces = [text[start:end] for start, end in pairwise([0, *outline["cuts"], len(text)])]
    wanted = {BEGINNING: pieces[:1], REST: pieces[1:]}.get(part, pieces)
    job = {"what": "piece", "folder": folder, "references": outline["references"]}
    rendered = await asyncio.gather(*(pool.run_job(job, piece.encode(), long=True) for piece in wanted))
    shown = [escape_text(piece) if html is None else html for piece, html in zip(wanted, rendered, strict=True)]
    answer: dict[str, Any] = {"pieces": shown} if part == REST else {"html": "".join(shown)}
    return {**answer, "more": part == BEGINNING and len(pieces) > 1, "fallback": None in rendered}
