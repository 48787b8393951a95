"""Markdown as models write it, as HTML without scripts, forms or remote images. Runs in the render process.

Beside CommonMark: tables, strikethrough, task lists, footnotes, bare addresses, maths, diagrams, and a few HTML tags without attributes. A
picture or a link to a file of the workspace gets `data-path`: the page fetches it with the key of the session.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cache
from posixpath import join, normpath
from typing import Any
from urllib.parse import unquote, urlsplit

import nh3
from markdown_it import MarkdownIt
from markdown_it.renderer import RendererHTML
from markdown_it.rules_core import StateCore
from markdown_it.rules_inline import StateInline
from markdown_it.token import Token
from mdit_py_plugins.footnote import footnote_plugin
from pygments import highlight
from pygments.formatters.html import HtmlFormatter
from pygments.lexer import Lexer
from pygments.lexers import get_lexer_by_name
from pygments.util import ClassNotFound

MAX_HIGHLIGHTED_CHARS = 256 * 1024  # highlighting a longer text takes too long
MAX_GROWTH_FACTOR, MAX_GROWTH_BYTES = 10, 100 * 1024  # HTML of highlighted code has up to 9 times the size of its source
ALLOWED_TAGS = {
    "a", "b", "blockquote", "br", "code", "dd", "del", "details", "div", "dl", "dt", "em", "h1", "h2", "h3", "h4", "h5", "h6", "hr", "i",
    "img", "ins", "kbd", "li", "mark", "ol", "p", "pre", "s", "section", "span", "strong", "sub", "summary", "sup", "table", "tbody", "td",
    "th", "thead", "tr", "u", "ul",
}  # fmt: skip
ALLOWED_ATTRIBUTES = {
    "a": {"href", "title", "id", "data-path", "class"},
    "code": {"class"},
    "details": {"open"},
    "img": {"alt", "title", "data-path"},
    "li": {"id", "class"},
    "ol": {"start", "class"},
    "pre": {"class"},
    "section": {"class"},
    "span": {"class", "role", "aria-label"},
    "sup": {"class"},
    "td": {"align"},
    "th": {"align"},
}
_PLAIN_TAGS = "b|br|del|details|em|i|ins|kbd|mark|p|s|strong|sub|summary|sup|u"
_PLAIN_TAG = re.compile(rf"</?(?:{_PLAIN_TAGS})(?: open)? ?/?>", re.IGNORECASE)
_TAG_OR_TEXT = re.compile(r"<!--.*?-->|<[^<>]*>|[^<]+|<", re.DOTALL)
_FOOTNOTE_ID = re.compile(r"fn(?:ref)?\d+(?::\d+)?")
_ADDRESS = re.compile(r"https?://[^\s<>\"`]+")
_TASK = re.compile(r"\[([ xX])\][ \t]+")
_INLINE_MATHS = re.compile(r"\$([^\s$](?:[^$\n]*[^\s$\\])?)\$(?!\d)")
_LOOKS_LIKE_MATHS = re.compile(r"[\\^_={}]|^[A-Za-z]$")  # else two prices in a sentence would be maths


def render_markdown(text: str, folder: str = "", references: Mapping[str, Any] | None = None) -> str:
    """Return Markdown as HTML. `folder` is where its relative addresses begin, below the workspace's root.

    `references` has the addresses to which links refer, where the text is a piece of another one that defines them. A text
    whose HTML would be far larger than itself is returned as it is: references can repeat one long definition without end.
    """
    environment = {"folder": folder, "references": dict(references or {})}
    html = _markdown_parser().render(text, environment).replace('style="text-align:', 'align="')
    if len(html) > MAX_GROWTH_FACTOR * len(text) + MAX_GROWTH_BYTES:
        return f"<pre>{escape_html(text)}</pre>"
    return clean_html(html)


def parse_blocks(text: str, environment: dict[str, Any]) -> list[Token]:
    """Return the blocks of a text, without parsing the text in them. The environment gets the addresses that the text defines."""
    parser = _markdown_parser()
    tokens: list[Token] = []
    parser.block.parse(text, parser, environment, tokens)
    return tokens


def clean_html(html: str) -> str:
    """Return HTML with only the tags and attributes that the page may show."""
    return nh3.clean(
        html,
        tags=ALLOWED_TAGS,
        attributes=ALLOWED_ATTRIBUTES,
        attribute_filter=_keep_attribute,
        url_schemes={"http", "https", "mailto"},
        link_rel="noopener noreferrer nofollow",
    )


def _keep_attribute(tag: str, name: str, value: str) -> str | None:
    """Return the value of an attribute to keep. Ids are those of footnotes only, because scripts find elements by id."""
    return None if name == "id" and not _FOOTNOTE_ID.fullmatch(value) else value


def escape_html(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;").replace('"', "&quot;")


def highlight_code(code: str, lexer: Lexer) -> str:
    html: str = highlight(code, lexer, HtmlFormatter(nowrap=True))
    return html


@cache
def _markdown_parser() -> MarkdownIt:
    options = {"html": True, "linkify": False, "typographer": False, "highlight": _highlight_block}
    parser = MarkdownIt("commonmark", options).enable(["table", "strikethrough"]).use(footnote_plugin)
    parser.inline.ruler.before("escape", "maths", _parse_inline_maths)
    parser.core.ruler.push("addresses", _link_addresses)
    parser.core.ruler.push("tasks", _mark_tasks)
    for name, rule in _RENDER_RULES.items():
        parser.add_render_rule(name, rule)
    return parser


def _highlight_block(code: str, language: str, _attributes: str) -> str:
    try:
        return highlight_code(code, get_lexer_by_name(language)) if language and len(code) <= MAX_HIGHLIGHTED_CHARS else ""
    except ClassNotFound:
        return ""


# Parsing


def _parse_inline_maths(state: StateInline, silent: bool) -> bool:
    """Recognise `$x^2$`, `$$x^2$$`, `\\(x^2\\)` and `\\[x^2\\]`."""
    for begin, end, display in (("$$", "$$", True), ("\\[", "\\]", True), ("\\(", "\\)", False)):
        if state.src.startswith(begin, state.pos):
            close = state.src.find(end, state.pos + 2)
            formula = state.src[state.pos + 2 : close] if close > 0 else ""
            is_maths = bool(formula.strip()) and (begin == "$$" or _LOOKS_LIKE_MATHS.search(formula.strip()) is not None)
            return is_maths and _add_maths(state, formula, close + 2, silent=silent, display=display)
    match = _INLINE_MATHS.match(state.src, state.pos)
    if match is None or not _LOOKS_LIKE_MATHS.search(match[1]):
        return False
    return _add_maths(state, match[1], match.end(), silent=silent, display=False)


def _add_maths(state: StateInline, formula: str, end: int, *, silent: bool, display: bool) -> bool:
    if not silent:
        token = state.push("maths", "code", 0)
        token.content, token.meta = formula.strip(), {"display": display}
    state.pos = end
    return True


def _link_addresses(state: StateCore) -> None:
    """Turn bare addresses into links, except inside a link."""
    for block in state.tokens:
        if block.type != "inline" or "://" not in block.content:
            continue
        linked: list[Token] = []
        depth = 0
        for token in block.children or ():
            depth += {"link_open": 1, "link_close": -1}.get(token.type, 0)
            linked += _split_addresses(token) if token.type == "text" and depth == 0 else [token]
        block.children = linked


def _split_addresses(token: Token) -> list[Token]:
    parts, position = [], 0
    for match in _ADDRESS.finditer(token.content):
        address = _trim_address(match[0])
        parts += [_text(token.content[position : match.start()], token)]
        parts += [Token("link_open", "a", 1, attrs={"href": address}), _text(address, token), Token("link_close", "a", -1)]
        position = match.start() + len(address)
    return [*parts, _text(token.content[position:], token)] if parts else [token]


def _text(content: str, of: Token) -> Token:
    return Token("text", "", 0, content=content, level=of.level)


def _trim_address(address: str) -> str:
    """Return an address without the punctuation of the sentence around it."""
    while address[-1] in ".,;:!?*_~'" or (address[-1] == ")" and address.count(")") > address.count("(")):
        address = address[:-1]
    return address


def _mark_tasks(state: StateCore) -> None:
    """Turn `[x]` at the start of a list item into a box."""
    for before, paragraph, inline in zip(state.tokens, state.tokens[1:], state.tokens[2:], strict=False):
        if (before.type, paragraph.type, inline.type) != ("list_item_open", "paragraph_open", "inline") or not inline.children:
            continue
        first = inline.children[0]
        match = _TASK.match(first.content) if first.type == "text" else None
        if match is not None:
            first.content = first.content[match.end() :]
            inline.children.insert(0, Token("task", "span", 0, meta={"done": match[1] != " "}))
            before.attrSet("class", "task")


# Rendering

_Tokens = Sequence[Token]
_Environment = Mapping[str, Any]


def _render_task(_renderer: RendererHTML, tokens: _Tokens, index: int, _options: Any, _environment: _Environment) -> str:
    name, sign = ("done", "☑") if tokens[index].meta["done"] else ("not done", "☐")
    return f'<span class="box" role="img" aria-label="{name}">{sign}</span> '


def _render_maths(_renderer: RendererHTML, tokens: _Tokens, index: int, _options: Any, _environment: _Environment) -> str:
    kind = "maths display" if tokens[index].meta["display"] else "maths"
    return f'<code class="{kind}">{escape_html(tokens[index].content)}</code>'


def _render_fence(renderer: RendererHTML, tokens: _Tokens, index: int, options: Any, environment: _Environment) -> str:
    """Render a block of code. Diagrams and maths are drawn by the page, which shows the source if that fails."""
    language = tokens[index].info.strip().partition(" ")[0].lower()
    code = tokens[index].content
    if language == "mermaid":
        return f'<pre class="mermaid">{escape_html(code)}</pre>\n'
    if language in ("math", "maths", "latex-math"):
        return f'<p><code class="maths display">{escape_html(code.strip())}</code></p>\n'
    return renderer.fence(tokens, index, options, environment)  # type: ignore[arg-type] # the environment is a plain mapping


def _render_image(_renderer: RendererHTML, tokens: _Tokens, index: int, _options: Any, environment: _Environment) -> str:
    source, name = str(tokens[index].attrGet("src") or ""), escape_html(tokens[index].content)
    path = resolve_path(source, environment["folder"])
    if path is not None:
        return f'<img data-path="{escape_html(path)}" alt="{name or escape_html(path)}">'
    if urlsplit(source).scheme in ("http", "https"):
        return f'<a href="{escape_html(source)}">{name or escape_html(source)}</a> (a picture on another site)'
    return f"{name or 'A picture'} (outside of the workspace)"


def _render_link(renderer: RendererHTML, tokens: _Tokens, index: int, options: Any, environment: _Environment) -> str:
    token = tokens[index]
    path = resolve_path(str(token.attrGet("href") or ""), environment["folder"])
    if path is not None:
        token.attrs.pop("href")
        token.attrSet("data-path", path)
    return renderer.renderToken(tokens, index, options, environment)  # type: ignore[arg-type] # as above


def _render_html(_renderer: RendererHTML, tokens: _Tokens, index: int, _options: Any, _environment: _Environment) -> str:
    """Keep the few tags that models use, drop comments, and show every other tag as text."""
    parts = []
    for part in _TAG_OR_TEXT.findall(tokens[index].content):
        if part.startswith("<!--"):
            continue
        is_kept = _PLAIN_TAG.fullmatch(part) is not None
        parts.append(part if is_kept else escape_html(part))
    return "".join(parts)


_RENDER_RULES = {
    "task": _render_task,
    "maths": _render_maths,
    "fence": _render_fence,
    "image": _render_image,
    "link_open": _render_link,
    "html_inline": _render_html,
    "html_block": _render_html,
}


def resolve_path(address: str, folder: str) -> str | None:
    """Return the path below the workspace's root of a relative address, or None if it is of another kind or leads outside."""
    try:
        parts = urlsplit(address)
    except ValueError:
        return None
    if parts.scheme or parts.netloc or not parts.path:
        return None
    path = unquote(parts.path)
    joined = normpath(path.lstrip("/") if path.startswith("/") else join(folder, path))
    return None if joined.startswith("..") or joined in (".", "/") or not joined.isprintable() else joined
