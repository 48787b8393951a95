"""Titles of entries: the first heading of a document, or the first line of a text, as plain words. Without `re`, for the hot path."""

from __future__ import annotations

from postroom.core.limits import MAX_TITLE_CHARS

_MARKS = "*_`~"


def first_heading(markdown: str) -> str:
    """Return the first heading of a Markdown text, or "" if its first 100 lines have none."""
    in_code = False
    for line in markdown.split("\n", 100)[:100]:
        if line.startswith(("```", "~~~")):
            in_code = not in_code
        elif line.startswith("#") and not in_code:
            words = line.lstrip("#")
            if words[:1] in (" ", "\t") and words.strip(" \t#"):
                return to_plain_words(words.rstrip().rstrip("#"))
    return ""


def first_line(markdown: str) -> str:
    """Return the first line of a text that has words, without the marks of Markdown."""
    for line in markdown.split("\n", 50)[:50]:
        words = to_plain_words(line.lstrip("#>-+ \t"))
        if any(letter.isalnum() for letter in words):
            return words
    return ""


def to_plain_words(line: str) -> str:
    """Return a line without the marks around words. Marks inside a word stay: they belong to an identifier."""
    kept = []
    text = line.strip()
    for index, letter in enumerate(text):
        before, after = text[index - 1 : index], text[index + 1 : index + 2]
        is_inside_word = letter == "_" and (before.isalnum() or before == "_") and (after.isalnum() or after == "_")
        is_sign = (after.isdigit() and (before.isalnum() or letter == "~")) or (letter == "~" and after in ("/", "$"))  # 5*3, ~40, ~/notes
        is_alone = (not before or before.isspace()) and (not after or after.isspace())
        if letter not in _MARKS or is_inside_word or is_alone or is_sign:
            kept.append(letter)
    plain = " ".join("".join(kept).split())
    return plain if len(plain) <= MAX_TITLE_CHARS else f"{plain[: MAX_TITLE_CHARS - 1]}…"
