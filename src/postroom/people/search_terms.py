"""Split texts into search terms. Both engines index the same terms, so both find the same entries."""

from __future__ import annotations

import re
from unicodedata import combining, normalize

MAX_TERMS = 2000
MAX_TERM_CHARS = 64
_WORD = re.compile(r"[^\W_]+")
_SINGLE_CHARACTER_WORD = re.compile(r"([\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff])")  # scripts without spaces between words


def search_terms(*texts: str) -> list[str]:
    """Return each word once, in lower case and without accents. Each Chinese or Japanese character is a word.

    Returns at most `MAX_TERMS` terms of at most `MAX_TERM_CHARS` characters.
    """
    text = normalize("NFKD", "\n".join(texts).casefold())
    without_accents = _SINGLE_CHARACTER_WORD.sub(r" \1 ", "".join(letter for letter in text if not combining(letter)))
    return list(dict.fromkeys(word[:MAX_TERM_CHARS] for word in _WORD.findall(without_accents)))[:MAX_TERMS]
