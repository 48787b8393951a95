"""The store: the only place that knows SQL. `open_store` chooses the engine by what the place looks like."""

from __future__ import annotations

from postroom.core.errors import InvalidInput, StorageFailure

TYPE_CHECKING = False
if TYPE_CHECKING:
    from postroom.store.port import Store


def open_store(place: str, *, door: str = "library", solitary: bool = False) -> Store:
    """Open a store that exists. `door` is recorded with every message that comes in through it.

    `solitary` says that the process does nothing else while it waits, and has one thread: waits may then use its signals.
    """
    if is_elsewhere(place):
        from postroom.store.remote.engine import RemoteStore

        return RemoteStore(place)
    if _is_url(place):
        _need_driver()
        from postroom.store.postgres.engine import PostgresStore

        return PostgresStore(place, door=door)
    from postroom.store.sqlite.engine import SqliteStore

    return SqliteStore(place, door=door, solitary=solitary)


def init_store(place: str) -> bool:
    """Make a store, or upgrade the one that is there. True if it was not there."""
    if is_elsewhere(place):
        raise InvalidInput("a server has its store already", field="db", hint="Run `inbox init` on its machine, with --db PATH.")
    if _is_url(place):
        _need_driver()
        from postroom.store.postgres import schema

        return schema.init(place)
    from postroom.store.sqlite.schema import init

    return init(place)


def examine(place: str) -> list[tuple[str, str, str]]:
    """What can be told about a store without changing anything: what was looked at, its state, what was found."""
    if is_elsewhere(place):
        open_store(place).say("work.list_agents", (), {"limit": 1})  # type: ignore[attr-defined]
        return [("server", "ok", "answers, and knows who asks")]
    if _is_url(place):
        return [("server", "ok", "answers, with the schema that this version knows")]
    from postroom.store.sqlite import health

    return health.examine(place)


def is_elsewhere(place: str) -> bool:
    """Whether a place is a server of ours, that has the store."""
    return place.startswith(("http://", "https://", "ws://", "wss://", "unix:"))


def _is_url(place: str) -> bool:
    scheme, found, _ = place.partition("://")
    if found and scheme not in ("postgresql", "postgres"):
        hint = "Pass the path of a SQLite file, or postgresql://…"
        raise InvalidInput(f"{scheme} is not an engine that this version knows", field="db", hint=hint)
    return bool(found)


def _need_driver() -> None:
    try:
        import psycopg  # noqa: F401
    except ImportError:
        raise StorageFailure("PostgreSQL needs a driver", hint="Install it: pip install 'postroom[postgres]'") from None
