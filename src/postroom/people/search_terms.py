"""Split texts into search terms. Both engines index the same terms, so both find the same entries."""

from __future__ import annotations

import re
from unicodedata import combining, normalize

MAX_TERMS = 2000
MAX_TERM_CHARS = 64
_WORD = re.compile(r"[^\W_]+")
_SINGLE_CHARACTER_WORD = re.compile(r"([\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff])")  # scripts without spaces between words


def fold(text: str) -> str:
    """Return a text in lower case and without accents."""
    if text.isascii():
        return text.lower()
    return "".join(letter for letter in normalize("NFKD", text.casefold()) if not combining(letter))


def is_single_character(term: str) -> bool:
    """Return whether a term is one Chinese or Japanese character, which may stand within a word."""
    return _SINGLE_CHARACTER_WORD.fullmatch(term) is not None


def search_terms(*texts: str) -> list[str]:
    """Return each word once, in lower case and without accents. Each Chinese or Japanese character is a word.

    Returns at most `MAX_TERMS` terms of at most `MAX_TERM_CHARS` characters.
    """
    words = _WORD.findall(_SINGLE_CHARACTER_WORD.sub(r" \1 ", fold("\n".join(texts))))
    return list(dict.fromkeys(word[:MAX_TERM_CHARS] for word in words))[:MAX_TERMS]
