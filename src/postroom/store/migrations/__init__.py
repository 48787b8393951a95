"""The numbered scripts that make a store, one folder an engine."""

from __future__ import annotations

import os


def scripts(engine: str) -> list[tuple[int, str]]:
    """Each script with its number, in order."""
    folder = os.path.join(os.path.dirname(__file__), engine)
    found = []
    for name in sorted(os.listdir(folder)):
        if name.endswith(".sql"):
            with open(os.path.join(folder, name), encoding="utf-8") as file:
                found.append((int(name[:4]), file.read()))
    return found
