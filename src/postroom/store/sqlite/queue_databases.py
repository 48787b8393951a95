"""The databases of a queue and of the notifier. Each is a file with its own schema, and uses the engine of a store. `queues` calls it."""

from __future__ import annotations

import os

from postroom._fastpath.sqlite import Connection, Error
from postroom.core import checks, clock
from postroom.core.errors import Conflict, InvalidInput, NoStore, NotAStore, StoreReadOnly, WrongVersion
from postroom.core.text import shell_quote
from postroom.store.database_files import DatabaseFiles
from postroom.store.private_files import PRIVATE_FILE_MODE, create_draft, make_private_folder, open_beside
from postroom.store.sqlite.engine import SqliteStore, check_exists, resolve_path
from postroom.store.sqlite.open_database import open_connection

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

QUEUE_SCHEMA_VERSION, NOTIFIER_SCHEMA_VERSION = 1, 2
_COUNT_QUEUE_TABLES = "SELECT count(*) FROM sqlite_master WHERE name IN ('events', 'subscriptions', 'consumer_progress')"


class QueueDatabase(SqliteStore):
    """The database of a queue: `events.db` in its folder. Another program may have created it."""

    def __init__(self, folder: str, *, door: str = "library", owns_process: bool = False, now: Callable[[], int] = clock.now) -> None:
        self.folder = _resolve_folder(folder)
        super().__init__(os.path.join(self.folder, "events.db"), door=door, owns_process=owns_process, now=now)

    def _check_location(self, named: str) -> None:
        try:
            check_exists(self.location, named)
        except NoStore:
            hint = f"Create it with `thread init {shell_quote(self.folder)}`."
            raise NoStore(f"there is no queue at {self.folder}", hint=hint, path=self.folder) from None

    @staticmethod
    def check_schema(connection: Connection, location: str) -> None:
        try:
            version = connection.execute("PRAGMA user_version").fetchone()[0]
            tables = connection.execute(_COUNT_QUEUE_TABLES).fetchone()[0]
        except Error:
            raise NotAStore(f"{location} is not a database", hint="Restore it from a backup, or init another folder.") from None
        if tables != 3:
            raise NotAStore(f"{location} is not the database of a queue", hint="Restore it from a backup, or init another folder.")
        if version > QUEUE_SCHEMA_VERSION:
            raise WrongVersion(f"{location} has schema {version}; this program knows {QUEUE_SCHEMA_VERSION}", hint="Upgrade postroom.")


class NotifierDatabase(SqliteStore):
    """The database of the notifier, created when it is first opened."""

    def __init__(self, home: str, *, door: str = "library", now: Callable[[], int] = clock.now) -> None:
        self.home = resolve_path(home)
        location = os.path.join(self.home, "notifier.db")
        if not os.path.exists(location):
            DatabaseFiles(location).make_folder()  # commands and their output are private to the user
            _create_database(location, "notifier", mode=PRIVATE_FILE_MODE)
        super().__init__(location, door=door, now=now)

    @staticmethod
    def check_schema(connection: Connection, location: str) -> None:
        try:
            version = connection.execute("PRAGMA user_version").fetchone()[0]
            if version == 1:
                version = _upgrade_notifier(connection)
        except Error:
            version = 0
        if version != NOTIFIER_SCHEMA_VERSION:
            raise NotAStore(f"{location} is not a notifier's database of this version", hint="Name another folder with NOTIFIER_HOME.")


def init_queue(path: str, *, shared: str | None = None) -> str:
    """Create a queue in a folder and return its resolved path. If several processes try at once, all but one are refused.

    Its files are for their owner only, or for the group `shared`.
    """
    from postroom.store.sqlite.schema import refuse_network_filesystem

    folder = _resolve_folder(path)
    location = os.path.join(folder, "events.db")
    if os.path.lexists(folder) and not os.path.isdir(folder):
        raise Conflict(f"{folder} is a file", hint="Choose a folder.")
    if os.path.lexists(location):
        raise Conflict(f"{folder} is a queue already", hint="Use it as it is, or delete the folder to start over.")
    files = DatabaseFiles(location, group=shared, companions=("run", "logs", "events.jsonl"))
    files.make_folder()
    refuse_network_filesystem(folder)
    try:
        for inner in ("run", "logs"):
            make_private_folder(os.path.join(folder, inner), mode=files.folder_mode)
        os.close(open_beside(location, os.path.join(folder, "events.jsonl"), os.O_WRONLY))
    except OSError as error:
        raise StoreReadOnly(f"{folder} cannot be written: {error.strerror}", hint="Choose a folder that you can write.") from None
    if not _create_database(location, "queue", mode=files.mode):
        raise Conflict(f"{folder} is a queue already", hint="Use it as it is, or delete the folder to start over.")
    files.set_permissions()
    return folder


def _resolve_folder(path: str) -> str:
    """Return the resolved path of a queue, which is its id."""
    if not path:
        raise InvalidInput("the path of a queue cannot be empty", field="thread", hint="Name the queue's folder.")
    return resolve_path(checks.text("the path of a queue", path))


def run_scripts(connection: Connection, kind: str, numbers: range) -> None:
    """Run the scripts of a kind of database that have these numbers, in the open transaction."""
    from postroom.store.migrations import read_scripts
    from postroom.store.sqlite.schema import split_statements

    for number, script in read_scripts(kind):
        if number in numbers:
            for statement in split_statements(script):
                connection.execute(statement)


def _upgrade_notifier(connection: Connection) -> int:
    """Upgrade a notifier's database of version 1, unless another process was first, and return the version."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        version: int = connection.execute("PRAGMA user_version").fetchone()[0]
        if version == 1:
            version = NOTIFIER_SCHEMA_VERSION
            run_scripts(connection, "notifier", range(2, version + 1))
            connection.execute(f"PRAGMA user_version={version}")
        connection.execute("COMMIT")
    except BaseException:
        connection.execute("ROLLBACK")
        raise
    return version


def _create_database(location: str, kind: str, *, mode: int) -> bool:
    """Create a database under a draft name and link it to its path, so that no process finds half of one.

    Return False if another process was first.
    """
    from postroom.store.sqlite.errors import map_error

    connection, draft = None, ""
    try:
        file, draft = create_draft(location, mode=mode)
        os.close(file)
        connection = open_connection(draft)
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("BEGIN IMMEDIATE")
        version = NOTIFIER_SCHEMA_VERSION if kind == "notifier" else QUEUE_SCHEMA_VERSION
        run_scripts(connection, kind, range(1, version + 1))
        connection.execute(f"PRAGMA user_version={version}")
        connection.execute("COMMIT")
        connection.close()
        os.link(draft, location)
        return True
    except FileExistsError:
        return False
    except Error as error:
        raise map_error(error, location) from error
    except OSError as error:
        raise StoreReadOnly(f"{location} cannot be made: {error.strerror}", hint="Choose a folder that you can write.") from None
    finally:
        if connection is not None:
            connection.close()
        for suffix in ("", "-wal", "-shm") if draft else ():
            try:
                os.unlink(draft + suffix)
            except OSError:
                pass
