"""Rendering: a document as HTML that cannot do anything. Markdown, code and text; whatever else it is, a download."""

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

SHOWN_BYTES = 1024 * 1024
COLOURED = 256 * 1024  # characters: beyond, colours cost more than they tell
MARKDOWN = (".md", ".markdown", ".mdown")
IMAGES = {".png": "image/png", ".jpg": "image/jpeg", ".jpeg": "image/jpeg", ".gif": "image/gif", ".webp": "image/webp"}
TAGS = {
    "a", "blockquote", "br", "code", "dd", "del", "div", "dl", "dt", "em", "h1", "h2", "h3", "h4", "h5", "h6", "hr", "li", "ol",
    "p", "pre", "s", "span", "strong", "table", "tbody", "td", "th", "thead", "tr", "ul",
}  # fmt: skip
ATTRIBUTES = {
    "a": {"href", "title"},
    "code": {"class"},
    "span": {"class"},
    "pre": {"class"},
    "ol": {"start"},
    "td": {"align"},
    "th": {"align"},
}


def markdown(text: str) -> str:
    """Markdown as HTML. Raw HTML in it is shown, not obeyed; images are not fetched from anywhere."""
    html = _markdown().render(text).replace('style="text-align:', 'align="')
    return nh3.clean(
        html, tags=TAGS, attributes=ATTRIBUTES, url_schemes={"http", "https", "mailto"}, link_rel="noopener noreferrer nofollow"
    )


@cache
def _markdown() -> MarkdownIt:
    options = {"html": False, "linkify": False, "typographer": False, "highlight": _highlighted}
    return MarkdownIt("commonmark", options).enable(["table", "strikethrough"])


def _highlighted(code: str, language: str, _attributes: str) -> str:
    try:
        return _coloured(code, get_lexer_by_name(language)) if language and len(code) <= COLOURED else ""
    except ClassNotFound:
        return ""


def _coloured(code: str, lexer: Lexer) -> str:
    html: str = highlight(code, lexer, HtmlFormatter(nowrap=True))
    return html


def escaped(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def rendered(path: str, data: bytes, *, whole: bool) -> dict[str, Any]:
    """What kind of document it is, and its HTML, if it is text."""
    suffix = path[path.rfind(".") :].lower() if "." in path else ""
    if suffix in IMAGES:
        return {"kind": "image", "html": None}
    text = _text(data, whole=whole)
    if text is None:
        return {"kind": "binary", "html": None}
    if suffix in MARKDOWN:
        return {"kind": "markdown", "html": markdown(text), "text": text}
    lexer = _lexer(path) if len(text) <= COLOURED else None
    if lexer is None:
        return {"kind": "text", "html": f"<pre>{escaped(text)}</pre>", "text": text}
    html = nh3.clean(f"<pre><code>{_coloured(text, lexer)}</code></pre>", tags=TAGS, attributes=ATTRIBUTES, link_rel=None)
    return {"kind": "code", "html": html, "text": text}


def difference(before: str, now: str) -> list[dict[str, str]]:
    """The lines that were taken away and added, each with a few around it; "@" says where."""
    found = []
    for number, line in enumerate(unified_diff(before.splitlines(), now.splitlines(), lineterm="")):
        if number >= 2:  # the names of the files, which are one
            found.append({"op": line[0], "text": line if line[0] == "@" else line[1:]})
    return found


def _lexer(path: str) -> Lexer | None:
    try:
        lexer: Lexer = get_lexer_for_filename(path.rpartition("/")[2], stripnl=False)
    except ClassNotFound:
        return None
    return None if lexer.name == "Text only" else lexer


def _text(data: bytes, *, whole: bool) -> str | None:
    """The bytes as text, or None if they are not. What was cut may end inside a character."""
    if b"\0" in data:
        return None
    for cut in range(1 if whole else 4):
        try:
            return data[: len(data) - cut].decode("utf-8-sig")
        except UnicodeDecodeError:
            continue
    return None
