"""The numbered SQL scripts that create and upgrade a database, one folder for each kind.

The `schema` module of each engine and `sqlite/queues/queue_databases.py` run them. They must not know records or rooms.
"""

from __future__ import annotations

import os


def read_scripts(engine: str) -> list[tuple[int, str]]:
    """Return the scripts of an engine with their numbers, in order."""
    folder = os.path.join(os.path.dirname(__file__), engine)
    numbered_scripts = []
    for name in sorted(os.listdir(folder)):
        if name.endswith(".sql"):
            with open(os.path.join(folder, name), encoding="utf-8") as file:
                numbered_scripts.append((int(name[:4]), file.read()))
    return numbered_scripts
