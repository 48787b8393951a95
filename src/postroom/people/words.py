"""Words: what a search finds an entry by. The same words on every engine, so that each finds the same."""

from __future__ import annotations

import re
from unicodedata import combining, normalize

MOST = 2000
LONGEST = 64
_WORD = re.compile(r"[^\W_]+")
_ALONE = re.compile(r"([\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff])")  # scripts that put no spaces between words


def words(*texts: str) -> list[str]:
    """Each word once, in lower case and without accents; a character of Chinese or Japanese is one by itself."""
    text = normalize("NFKD", "\n".join(texts).casefold())
    bare = _ALONE.sub(r" \1 ", "".join(letter for letter in text if not combining(letter)))
    return list(dict.fromkeys(word[:LONGEST] for word in _WORD.findall(bare)))[:MOST]
