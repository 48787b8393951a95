"""The store: transactions, statements and waiting, on SQLite, PostgreSQL or a remote server.

Every room calls it through `interface.py`. It is the only package that knows SQL, and it knows no rule of any room.
`open_store` chooses the engine by the form of the location.
"""

from __future__ import annotations

from postroom.core.errors import InvalidInput, Refusal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from postroom.core.records.health import Finding
    from postroom.store.interface import Store


def open_store(location: str, *, door: str = "library", owns_process: bool = False) -> Store:
    """Open an existing store. `door` is recorded with every message that is written through it.

    `owns_process` declares that the process has one thread and does nothing else while it waits. Waits may then use its signals.
    """
    if is_server_url(location):
        from postroom.store.remote.engine import RemoteStore

        return RemoteStore(location)
    if _is_postgres_url(location):
        _require_psycopg()
        from postroom.store.postgres.engine import PostgresStore

        return PostgresStore(location, door=door)
    from postroom.store.sqlite.engine import SqliteStore

    return SqliteStore(location, door=door, owns_process=owns_process)


def init_store(location: str, *, shared: str | None = None) -> bool:
    """Create a store or upgrade an existing one. Return whether it was created. Refuses the address of a server.

    `shared` is the group whose members may use the files, by name or number. Without it they are for their owner only.
    """
    if is_server_url(location):
        raise InvalidInput("a server has its store already", field="db", hint="Run `inbox init` on its machine, with --db PATH.")
    if _is_postgres_url(location):
        if shared is not None:
            raise InvalidInput("a database has no files to share", field="shared", hint="Grant its roles the rights on the schema.")
        _require_psycopg()
        from postroom.store.postgres import schema

        return schema.init_database(location)
    from postroom.store.sqlite.schema import init_database

    return init_database(location, shared=shared)


def stored_version(location: str) -> int:
    """Return the version of the schema at a location, of any release. 0 if there is no store that can be read."""
    try:
        if _is_postgres_url(location):
            _require_psycopg()
            from postroom.store.postgres.schema import read_stored_version

            return read_stored_version(location)
        from postroom.store.sqlite.schema import read_stored_version as read_file_version

        return read_file_version(location)
    except Refusal:
        return 0


def examine_store(location: str) -> list[Finding]:
    """Check a store without changing it."""
    if is_server_url(location):
        from postroom.store.remote.health import examine_store_server
        from postroom.store.remote.transport import parse_addresses

        return [examine_store_server(address.url) for address in parse_addresses(location)]
    if _is_postgres_url(location):
        _require_psycopg()
        from postroom.store.postgres.health import examine_server

        return examine_server(location)
    from postroom.store.sqlite import health
    from postroom.store.sqlite.engine import resolve_path

    return health.examine_file(resolve_path(location))


def repair_store(location: str) -> None:
    """Mend what can be mended without a decision: the journal mode of a SQLite file, and the permissions of its files."""
    if is_server_url(location) or _is_postgres_url(location):
        return
    from postroom.store.sqlite.health import repair_file

    repair_file(location)
    init_store(location)


def is_server_url(location: str) -> bool:
    """Return whether a location is the address of a Postroom server, rather than of a database."""
    return location.startswith(("http://", "https://", "ws://", "wss://", "unix:"))


def is_path(location: str) -> bool:
    """Return whether a location is the path of a SQLite file."""
    return not is_server_url(location) and not _is_postgres_url(location)


def _is_postgres_url(location: str) -> bool:
    """Return whether a location is a PostgreSQL URL. Refuses every other URL."""
    scheme, separator, _ = location.partition("://")
    if separator and scheme not in ("postgresql", "postgres"):
        hint = "Pass the path of a SQLite file, or postgresql://…"
        raise InvalidInput(f"{scheme} is not an engine that this version knows", field="db", hint=hint)
    if not separator and location.startswith(("postgresql:", "postgres:")):
        raise InvalidInput("a PostgreSQL URL has two slashes after its scheme", field="db", hint="Write postgresql://USER@HOST/DATABASE.")
    if not separator and ("password=" in location or (location.startswith("postgres") and "@" in location)):
        # As a path, it would be shown with its password.
        raise InvalidInput("this looks like a PostgreSQL URL without ://", field="db", hint="Write postgresql://USER@HOST/DATABASE.")
    return bool(separator)


def _require_psycopg() -> None:
    try:
        import psycopg  # noqa: F401
    except ImportError:
        from postroom.store.installation import missing_extra

        raise missing_extra("PostgreSQL needs a driver", "postgres") from None
