"""Postroom: the durable inbox for AI agents and the people they work for.

import postroom
from postroom import work

postroom.init(".agents/coord.db")
store = postroom.open(".agents/coord.db")
work.send(store, sender="leader", to="builder", subject="Add the login page")
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from postroom.store.port import Store

__version__ = "0.1.0"


def open(place: str) -> Store:  # noqa: A001 - the word that a reader expects
    """Open a store that exists: the path of its file. Refuses with `NoStore` if there is none."""
    from postroom.store import open_store

    return open_store(place)


def connect(url: str, *, token: str | None = None) -> Store:
    """A store behind a server: `http://…`, `https://…`, `ws://…`, `wss://…` or `unix:PATH`.

    Every verb takes it, and refuses as it does elsewhere. `token` says who asks; by default it is $INBOX_TOKEN.
    """
    from postroom.store.remote.engine import RemoteStore

    return RemoteStore(url, token=token)


def init(place: str) -> bool:
    """Make a store, or upgrade the one that is there. True if it was not there."""
    from postroom.store import init_store

    return init_store(place)
