"""Identities: short, sortable by the time they were made, and unguessable enough that two never meet."""

from __future__ import annotations

from os import urandom

_ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"  # no i, l, o, u: people read these aloud
_TIME_DIGITS, _RANDOM_DIGITS = 9, 8  # 45 bits of milliseconds, 40 bits of chance


def fresh(prefix: str, instant: int) -> str:
    """`thr_1kh3q9zjr4m7x2cdw`: one prefix a kind of record."""
    number = (instant // 1000) << (5 * _RANDOM_DIGITS) | int.from_bytes(urandom(5), "big")
    digits = ""
    for _ in range(_TIME_DIGITS + _RANDOM_DIGITS):
        digits = _ALPHABET[number & 31] + digits
        number >>= 5
    return f"{prefix}_{digits}"


def uuid4() -> str:
    """A random UUID, version 4, as document 002 has them; `uuid` itself costs more to import than a command takes."""
    digits = bytearray(urandom(16))
    digits[6], digits[8] = digits[6] & 0x0F | 0x40, digits[8] & 0x3F | 0x80
    text = digits.hex()
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"
