"""Render documents as HTML without scripts, forms or remote images, and compare them. Runs in the render process."""

from __future__ import annotations

import csv
import re
from difflib import SequenceMatcher, unified_diff
from io import StringIO
from typing import Any

from pygments.lexer import Lexer
from pygments.lexers import get_lexer_for_filename
from pygments.util import ClassNotFound

from postroom.server.api.markdown import MAX_HIGHLIGHTED_CHARS, clean_html, escape_html, highlight_code, render_markdown

MAX_TABLE_ROWS, MAX_TABLE_COLUMNS = 1000, 100
MAX_COMPARED_WORDS = 2000  # of a line: comparing words takes the product of both numbers
MARKDOWN_SUFFIXES = (".md", ".markdown", ".mdown")
TABLE_SUFFIXES = {".csv": ",", ".tsv": "\t"}
# The types of downloads. All others are bytes. So is SVG, which can hold scripts: the page shows it as a picture, in which none run.
DOWNLOAD_TYPES = {
    ".png": "image/png",
    ".jpg": "image/jpeg",
    ".jpeg": "image/jpeg",
    ".gif": "image/gif",
    ".webp": "image/webp",
    ".pdf": "application/pdf",
}
IMAGE_SUFFIXES = (".png", ".jpg", ".jpeg", ".gif", ".webp", ".svg")
_CONTROL_BYTES = bytes(set(range(32)) - {9, 10, 12, 13, 27})
_NUMBER = re.compile(r"[-+(]?[$€£]?\d[\d,. ']*%?\)?")
_WORD = re.compile(r"\w+|\s+|[^\w\s]")


def render_document(path: str, data: bytes, *, whole: bool) -> dict[str, Any]:
    """Return the kind of a document and, if it is text, its HTML and its text. `whole`: `data` is the complete file."""
    suffix = path[path.rfind(".") :].lower() if "." in path else ""
    if suffix in IMAGE_SUFFIXES:
        return {"kind": "image", "html": None}
    if suffix == ".pdf":
        return {"kind": "pdf", "html": None}
    text = decode_text(data, whole=whole)
    if text is None:
        return {"kind": "binary", "html": None}
    if suffix in MARKDOWN_SUFFIXES:
        return {"kind": "markdown", "html": render_markdown(text, path.rpartition("/")[0]), "text": text}
    if suffix in TABLE_SUFFIXES:
        return {"kind": "table", **_render_table(text, TABLE_SUFFIXES[suffix]), "text": text}
    lexer = _find_lexer(path) if len(text) <= MAX_HIGHLIGHTED_CHARS else None
    if lexer is None:
        return {"kind": "text", "html": f"<pre>{escape_html(text)}</pre>", "text": text}
    return {"kind": "code", "html": clean_html(f"<pre><code>{highlight_code(text, lexer)}</code></pre>"), "text": text}


def _render_table(text: str, delimiter: str) -> dict[str, Any]:
    """Return separated values as a table. Rows and columns beyond the limits are left out, and counted."""
    try:
        rows = list(csv.reader(StringIO(text), delimiter=_find_delimiter(text, delimiter)))
    except csv.Error:
        return {"html": f"<pre>{escape_html(text)}</pre>", "rows": None}
    shown = [row[:MAX_TABLE_COLUMNS] for row in rows[: MAX_TABLE_ROWS + 1]]
    head = "".join(f"<th>{escape_html(cell)}</th>" for cell in (shown[0] if shown else ()))
    body = "".join(f"<tr>{''.join(map(_render_cell, row))}</tr>" for row in shown[1:])
    html = f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
    return {"html": html, "rows": max(len(rows) - 1, 0)}


def _find_delimiter(text: str, usual: str) -> str:
    """Return a semicolon if the first line has more of them than of the usual sign: spreadsheets of many countries write it."""
    first = text.partition("\n")[0]
    return ";" if usual == "," and first.count(";") > first.count(",") else usual


def _render_cell(value: str) -> str:
    align = ' align="right"' if _NUMBER.fullmatch(value.strip()) else ""
    return f"<td{align}>{escape_html(value)}</td>"


def diff_lines(before: str, now: str) -> list[dict[str, Any]]:
    """Return the removed and added lines with some context. A line with op "@" stands for the lines that are left out.

    Where lines were replaced, `parts` has the words of each: [[text, whether it changed], …].
    """
    lines: list[dict[str, Any]] = []
    for number, line in enumerate(unified_diff(before.splitlines(), now.splitlines(), lineterm="")):
        if number >= 2:  # the first two lines are the file names
            lines.append({"op": line[0], "text": line if line[0] == "@" else line[1:]})
    for removed, added in _replaced_lines(lines):
        removed["parts"], added["parts"] = _compare_words(removed["text"], added["text"])
    return lines


def _replaced_lines(lines: list[dict[str, Any]]) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    """Return pairs of a removed line and the added line in its place: the nth of a run of removed lines, and of the added run after it."""
    pairs = []
    position = 0
    while position < len(lines):
        removed = _take_run(lines, position, "-")
        added = _take_run(lines, position + len(removed), "+")
        pairs += list(zip(removed, added, strict=False))
        position += max(len(removed) + len(added), 1)
    return pairs


def _take_run(lines: list[dict[str, Any]], start: int, op: str) -> list[dict[str, Any]]:
    end = start
    while end < len(lines) and lines[end]["op"] == op:
        end += 1
    return lines[start:end]


def _compare_words(before: str, now: str) -> tuple[list[list[Any]], list[list[Any]]]:
    """Return both lines as words, each with whether it is only on its side."""
    old, new = _WORD.findall(before), _WORD.findall(now)
    if len(old) > MAX_COMPARED_WORDS or len(new) > MAX_COMPARED_WORDS:
        return [[before, True]], [[now, True]]
    removed: list[list[Any]] = []
    added: list[list[Any]] = []
    for op, old_start, old_end, new_start, new_end in SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if old_end > old_start:
            removed.append(["".join(old[old_start:old_end]), op != "equal"])
        if new_end > new_start:
            added.append(["".join(new[new_start:new_end]), op != "equal"])
    return removed, added


def _find_lexer(path: str) -> Lexer | None:
    try:
        lexer: Lexer = get_lexer_for_filename(path.rpartition("/")[2], stripnl=False)
    except ClassNotFound:
        return None
    return None if lexer.name == "Text only" else lexer


def decode_text(data: bytes, *, whole: bool) -> str | None:
    """Return the bytes as text, or None if they are not text: UTF-8, UTF-16 with its mark, or Windows-1252.

    Data that is not `whole` may end inside a character.
    """
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        return data[: len(data) & ~1].decode("utf-16", errors="replace")
    if b"\0" in data:
        return None
    for cut in range(1 if whole else 4):
        try:
            return data[: len(data) - cut].decode("utf-8-sig")
        except UnicodeDecodeError:
            continue
    is_text = len(data.translate(None, _CONTROL_BYTES)) == len(data) and sum(byte < 128 for byte in data) >= 0.5 * len(data)
    return data.decode("cp1252", errors="replace") if is_text else None
