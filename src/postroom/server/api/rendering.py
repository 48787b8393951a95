"""Render Markdown, code and text as HTML without scripts, forms or remote images. Runs in the render process."""

from __future__ import annotations

from difflib import unified_diff
from functools import cache
from typing import Any

import nh3
from markdown_it import MarkdownIt
from pygments import highlight
from pygments.formatters.html import HtmlFormatter
from pygments.lexer import Lexer
from pygments.lexers import get_lexer_by_name, get_lexer_for_filename
from pygments.util import ClassNotFound

MAX_SHOWN_BYTES = 1024 * 1024
MAX_HIGHLIGHTED_CHARS = 256 * 1024  # highlighting a longer text takes too long
MAX_GROWTH_FACTOR, MAX_GROWTH_BYTES = 10, 100 * 1024  # HTML of highlighted code has up to 9 times the size of its source
MARKDOWN_SUFFIXES = (".md", ".markdown", ".mdown")
IMAGE_TYPES = {".png": "image/png", ".jpg": "image/jpeg", ".jpeg": "image/jpeg", ".gif": "image/gif", ".webp": "image/webp"}
ALLOWED_TAGS = {
    "a", "blockquote", "br", "code", "dd", "del", "div", "dl", "dt", "em", "h1", "h2", "h3", "h4", "h5", "h6", "hr", "li", "ol",
    "p", "pre", "s", "span", "strong", "table", "tbody", "td", "th", "thead", "tr", "ul",
}  # fmt: skip
ALLOWED_ATTRIBUTES = {
    "a": {"href", "title"},
    "code": {"class"},
    "span": {"class"},
    "pre": {"class"},
    "ol": {"start"},
    "td": {"align"},
    "th": {"align"},
}


def render_markdown(text: str) -> str:
    """Return Markdown as HTML. Raw HTML in it is escaped, and images are removed.

    A text whose HTML would be far larger than itself is returned as it is: references can repeat one long definition without end.
    """
    html = _markdown_parser().render(text).replace('style="text-align:', 'align="')
    if len(html) > MAX_GROWTH_FACTOR * len(text) + MAX_GROWTH_BYTES:
        return f"<pre>{escape_html(text)}</pre>"
    return nh3.clean(
        html,
        tags=ALLOWED_TAGS,
        attributes=ALLOWED_ATTRIBUTES,
        url_schemes={"http", "https", "mailto"},
        link_rel="noopener noreferrer nofollow",
    )


@cache
def _markdown_parser() -> MarkdownIt:
    options = {"html": False, "linkify": False, "typographer": False, "highlight": _highlight_block}
    return MarkdownIt("commonmark", options).enable(["table", "strikethrough"])


def _highlight_block(code: str, language: str, _attributes: str) -> str:
    try:
        return _highlight_code(code, get_lexer_by_name(language)) if language and len(code) <= MAX_HIGHLIGHTED_CHARS else ""
    except ClassNotFound:
        return ""


def _highlight_code(code: str, lexer: Lexer) -> str:
    html: str = highlight(code, lexer, HtmlFormatter(nowrap=True))
    return html


def escape_html(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def render_document(path: str, data: bytes, *, whole: bool) -> dict[str, Any]:
    """Return the kind of a document and, if it is text, its HTML and its text. `whole`: `data` is the complete file."""
    suffix = path[path.rfind(".") :].lower() if "." in path else ""
    if suffix in IMAGE_TYPES:
        return {"kind": "image", "html": None}
    text = _decode_text(data, whole=whole)
    if text is None:
        return {"kind": "binary", "html": None}
    if suffix in MARKDOWN_SUFFIXES:
        return {"kind": "markdown", "html": render_markdown(text), "text": text}
    lexer = _find_lexer(path) if len(text) <= MAX_HIGHLIGHTED_CHARS else None
    if lexer is None:
        return {"kind": "text", "html": f"<pre>{escape_html(text)}</pre>", "text": text}
    html = nh3.clean(
        f"<pre><code>{_highlight_code(text, lexer)}</code></pre>", tags=ALLOWED_TAGS, attributes=ALLOWED_ATTRIBUTES, link_rel=None
    )
    return {"kind": "code", "html": html, "text": text}


def diff_lines(before: str, now: str) -> list[dict[str, str]]:
    """Return the removed and added lines with some context. Lines with op "@" give their position."""
    lines = []
    for number, line in enumerate(unified_diff(before.splitlines(), now.splitlines(), lineterm="")):
        if number >= 2:  # the first two lines are the file names
            lines.append({"op": line[0], "text": line if line[0] == "@" else line[1:]})
    return lines


def _find_lexer(path: str) -> Lexer | None:
    try:
        lexer: Lexer = get_lexer_for_filename(path.rpartition("/")[2], stripnl=False)
    except ClassNotFound:
        return None
    return None if lexer.name == "Text only" else lexer


def _decode_text(data: bytes, *, whole: bool) -> str | None:
    """Return the bytes as text, or None if they are not UTF-8. Data that is not `whole` may end inside a character."""
    if b"\0" in data:
        return None
    for cut in range(1 if whole else 4):
        try:
            return data[: len(data) - cut].decode("utf-8-sig")
        except UnicodeDecodeError:
            continue
    return None
