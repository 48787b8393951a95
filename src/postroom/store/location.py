"""Where the store is, when nobody says."""

from __future__ import annotations

import os

from postroom.core.errors import NoStore

DEFAULT = os.path.join(".agents", "coord.db")


def find(given: str | None = None) -> str:
    """The store named, or $INBOX_DB, or the nearest `.agents/coord.db` upward from here, as git finds its folder."""
    named = given or os.environ.get("INBOX_DB")
    if named:
        return named
    folder = os.getcwd()
    while True:
        place = os.path.join(folder, DEFAULT)
        if os.path.isfile(place):
            return place
        parent = os.path.dirname(folder)
        if parent == folder:
            raise NoStore(
                "there is no store here or in any folder above", hint="Create one with `inbox init`, or name one with --db or INBOX_DB."
            )
        folder = parent


def for_init(given: str | None = None) -> str:
    """Where `init` makes a store: the one named, or $INBOX_DB, or `.agents/coord.db` in this folder."""
    return given or os.environ.get("INBOX_DB") or DEFAULT
