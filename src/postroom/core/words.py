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


_IN_FILE_NAMES = frozenset(b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.~")
_LONGEST_FILE_NAME = 200


def file_name(name: str) -> str:
    """Any name as one of a file: it cannot leave its folder, and no two names share one."""
    data = name.encode()
    written = "".join(chr(byte) if byte in _IN_FILE_NAMES and (at or byte != 0x2E) else f"%{byte:02X}" for at, byte in enumerate(data))
    if len(written) <= _LONGEST_FILE_NAME:
        return written
    from hashlib import sha256

    return f"{written[: _LONGEST_FILE_NAME - 67]}%~{sha256(data).hexdigest()}"  # %~ is in no name that was written out whole


def digest(text: str) -> str:
    """A text's sha1, by the C module under `hashlib`, without what that drags in. For telling apart, not for secrets."""
    try:
        from _sha1 import sha1
    except ImportError:
        from hashlib import sha1
    found: str = sha1(text.encode(errors="surrogateescape")).hexdigest()  # noqa: S324
    return found
