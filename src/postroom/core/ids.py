"""New ids: short, sortable by the time of their creation, and random enough to be unique."""

from __future__ import annotations

from os import urandom

_ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"  # without i, l, o and u, which are easily misread
_BITS_PER_DIGIT = 5
_TIME_DIGITS, _RANDOM_DIGITS = 9, 8  # 45 bits of milliseconds, 40 random bits
_SHIFTS = range(_BITS_PER_DIGIT * (_TIME_DIGITS + _RANDOM_DIGITS - 1), -1, -_BITS_PER_DIGIT)


def new_id(prefix: str, instant: int) -> str:
    """Return a new id such as `thr_1kh3q9zjr4m7x2cdw`. Each kind of record has its own prefix. `instant` is in microseconds."""
    milliseconds = instant // 1000
    number = milliseconds << (_BITS_PER_DIGIT * _RANDOM_DIGITS) | int.from_bytes(urandom(5), "big")
    return f"{prefix}_" + "".join([_ALPHABET[number >> shift & 31] for shift in _SHIFTS])


def is_generated(text: str) -> bool:
    """Return whether an id has the form of those that `new_id` makes. Nobody has chosen such an id, so it is never used twice."""
    digits = text.partition("_")[2]
    return len(digits) == _TIME_DIGITS + _RANDOM_DIGITS and not set(digits).difference(_ALPHABET)


def new_uuid4() -> str:
    """Return a random UUID of version 4, the form of ids in document 002. Importing `uuid` would cost more than a whole command."""
    data = bytearray(urandom(16))
    data[6] = data[6] & 0x0F | 0x40  # version 4
    data[8] = data[8] & 0x3F | 0x80  # the RFC 4122 variant
    text = data.hex()
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"
