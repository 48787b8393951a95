"""Where the store is, when nobody says."""

from __future__ import annotations

import os

from postroom.core.errors import InvalidInput, NoStore

DEFAULT = os.path.join(".agents", "coord.db")


def find(given: str | None = None) -> str:
    """The store named, or $INBOX_DB, or the nearest `.agents/coord.db` upward from here, as git finds its folder."""
    named = _named(given)
    if named:
        return named
    try:
        folder = os.getcwd()
    except OSError:
        raise NoStore("the current folder is gone", hint="Go to one that exists, or name the store with --db or INBOX_DB.") from None
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
    return _named(given) or DEFAULT


def _named(given: str | None) -> str | None:
    if given == "":
        raise InvalidInput("the path of the store is empty", field="db", hint="Leave --db out, or name a file.")
    return given or os.environ.get("INBOX_DB")
