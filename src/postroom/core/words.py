"""How refusals and hints repeat what somebody typed: short, on one line, and safe to paste into a shell."""

from __future__ import annotations

_LONGEST = 80
_PLAIN = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-+=./:@%,")


def shown(value: object) -> str:
    """A value as it was given, never a page of it."""
    text = repr(value)
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"


def quoted(word: str) -> str:
    """A word for a shell: as it is where that is harmless, else in quotes."""
    return word if word and _PLAIN.issuperset(word) else "'" + word.replace("'", "'\"'\"'") + "'"
