"""Names that a reader may take for each other, because their letters look alike."""

from __future__ import annotations

# Letters of other scripts that look like a Latin one, from the table of confusables of Unicode (UTS 39), and two digits.
_LOOKALIKES = {
    "a": "аΑАαɑ", "b": "ВΒЬь", "c": "сСϲ", "d": "ԁ", "e": "еЕΕεҽ", "g": "ɡ", "h": "һНΗհ", "i": "іІΙιı", "j": "јЈϳ", "k": "КкΚκ",
    "l": "ӏ1", "m": "МмΜ", "n": "ΝηпՈո", "o": "оОΟοօ0", "p": "рРΡρ", "q": "ԛ", "r": "гᴦ", "s": "ѕЅ", "t": "ТтΤτ", "u": "υսᴜ",
    "v": "νѵ", "w": "ԝω", "x": "хХΧχ", "y": "уУΥγү", "z": "Ζ",
}  # fmt: skip
_TO_LATIN = {ord(letter): latin for latin, letters in _LOOKALIKES.items() for letter in letters}


def skeleton(name: str) -> str:
    """Return a form that is equal for names which a reader may take for each other."""
    if name.isascii():
        return name.lower().translate(_TO_LATIN)
    from unicodedata import normalize

    return normalize("NFKC", normalize("NFKC", name).translate(_TO_LATIN).casefold()).translate(_TO_LATIN)
