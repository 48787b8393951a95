"""Similar names: those that a reader may take for each other, and the known name that a misspelt one probably stands for."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

# Letters of other scripts that look like a Latin one, from the table of confusables of Unicode (UTS 39), and two digits.
_LOOKALIKES = {
    "a": "аΑАαɑ", "b": "ВΒЬь", "c": "сСϲ", "d": "ԁ", "e": "еЕΕεҽ", "g": "ɡ", "h": "һНΗհ", "i": "іІΙιı", "j": "јЈϳ", "k": "КкΚκ",
    "l": "ӏ1", "m": "МмΜ", "n": "ΝηпՈո", "o": "оОΟοօ0", "p": "рРΡρ", "q": "ԛ", "r": "гᴦ", "s": "ѕЅ", "t": "ТтΤτ", "u": "υսᴜ",
    "v": "νѵ", "w": "ԝω", "x": "хХΧχ", "y": "уУΥγү", "z": "Ζ",
}  # fmt: skip
_TO_LATIN = {ord(letter): latin for latin, letters in _LOOKALIKES.items() for letter in letters}
MAX_COMPARED_NAMES = 1000
MAX_EDITS = 2  # letters in which a name may differ from the suggested one


def find_similar(name: str, known_names: Iterable[str]) -> str | None:
    """Return the nearest known name, if it differs by few letters."""
    distance, nearest = min(((_edit_distance(name, known), known) for known in known_names), default=(MAX_EDITS + 1, ""))
    return nearest if distance <= min(MAX_EDITS, len(name) // 3) else None


def _edit_distance(first: str, second: str) -> int:
    """Return how many letters must be inserted, deleted or replaced. `difflib` would cost more than the whole command."""
    if abs(len(first) - len(second)) > MAX_EDITS:
        return MAX_EDITS + 1
    row = list(range(len(second) + 1))
    for number, letter in enumerate(first, 1):
        previous, row[0] = row[0], number
        for column, other in enumerate(second, 1):
            previous, row[column] = row[column], min(row[column] + 1, row[column - 1] + 1, previous + (letter != other))
    return row[-1]


def skeleton(name: str) -> str:
    """Return a form that is equal for names which a reader may take for each other."""
    if name.isascii():
        return name.lower().translate(_TO_LATIN)
    from unicodedata import normalize

    return normalize("NFKC", normalize("NFKC", name).translate(_TO_LATIN).casefold()).translate(_TO_LATIN)
