"""Short, safe forms of text: for refusals and hints, for a shell, and for file names. Every package calls this module."""

from __future__ import annotations

_MAX_REPR_CHARS = 80
_SHELL_SAFE_CHARS = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-+=./:@%,")
_FILE_NAME_SAFE_BYTES = frozenset(b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.~")
_MAX_FILE_NAME_CHARS = 200
_DOT = 0x2E


def short_repr(value: object) -> str:
    """Return the `repr` of a value, cut to 80 characters, for messages that repeat input."""
    text = repr(value)
    return text if len(text) <= _MAX_REPR_CHARS else f"{text[: _MAX_REPR_CHARS - 1]}…"


def shell_quote(word: str) -> str:
    """Return a word as a shell reads it: unchanged if all its characters are safe, else in single quotes."""
    return word if word and _SHELL_SAFE_CHARS.issuperset(word) else "'" + word.replace("'", "'\"'\"'") + "'"


def hide_passwords(text: str) -> str:
    """Return the text without the passwords of the addresses in it, also of one that is cut in its password."""
    import re

    text = re.sub(r"(://[^\s/@:']*):[^\s@']*?(@|…)", r"\1\2", text)
    return re.sub(r"([?&]\w*password=)[^\s&']*", r"\1…", text, flags=re.IGNORECASE)


def to_file_name(name: str) -> str:
    """Return a file name for any name. It cannot leave its folder, and two different names never get the same file name."""
    data = name.encode()
    escaped = "".join(
        chr(byte) if byte in _FILE_NAME_SAFE_BYTES and (position or byte != _DOT) else f"%{byte:02X}" for position, byte in enumerate(data)
    )
    if len(escaped) <= _MAX_FILE_NAME_CHARS:
        return escaped
    from hashlib import sha256

    return f"{escaped[: _MAX_FILE_NAME_CHARS - 67]}%~{sha256(data).hexdigest()}"  # "%~" occurs in no name that was escaped in full


def sha1_hex(text: str) -> str:
    """Return the SHA-1 of a text in hexadecimal. It distinguishes texts. It does not protect secrets."""
    from postroom._fastpath.sha1 import sha1

    return sha1(text.encode(errors="surrogateescape"), usedforsecurity=False).hexdigest()
