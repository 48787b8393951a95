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
