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
    from types import ModuleType

    from postroom.store.interface import Store

__version__ = "0.2.0"
_ROOMS = ("mail", "people", "queues", "tasks", "work")
__all__ = ["connect", "init", "open", *_ROOMS]  # noqa: PLE0604


if not TYPE_CHECKING:  # type checkers know a room by `from postroom import work`

    def __getattr__(name: str) -> ModuleType:
        """Import a room when it is first used: `postroom.work` works after `import postroom`."""
        if name not in _ROOMS:
            raise AttributeError(f"module 'postroom' has no attribute {name!r}")
        from importlib import import_module

        return import_module(f"postroom.{name}")


def __dir__() -> list[str]:
    return sorted({*__all__, *(name for name in globals() if name.startswith("_"))})


def open(place: str) -> Store:  # noqa: A001 - readers expect this name
    """Open an existing store. `place` is the path of its file, or the URL of a PostgreSQL database or of a server.

    Refuses with `NoStore` if there is no store at that place.
    """
    from postroom.store import open_store

    return open_store(place)


def connect(url: str, *, token: str | None = None) -> Store:
    """Return the store behind a server: `http://…`, `https://…`, `ws://…`, `wss://…` or `unix:PATH`.

    Every verb accepts it and raises the same refusals as on a local store. `token` identifies the caller. The default is $INBOX_TOKEN.
    """
    from postroom.store.remote.engine import RemoteStore

    return RemoteStore(url, token=token)


def init(place: str) -> bool:
    """Create a store, or upgrade the existing one. Return True if it was created."""
    from postroom.store import init_store

    return init_store(place)
