"""Similar names: the known name that a misspelt one probably stands for."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

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
