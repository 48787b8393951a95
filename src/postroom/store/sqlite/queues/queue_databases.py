"""The databases of a queue and of the notifier. Each is a file with its own schema, and uses the engine of a store. `queues` calls it."""

from __future__ import annotations

import os

from postroom._fastpath.sqlite import Connection, Error
from postroom.core import checks, clock
from postroom.core.errors import Conflict, InvalidInput, NoStore, NotAStore, StoreReadOnly, WrongVersion
from postroom.core.text import shell_quote
from postroom.store.files.database_files import DatabaseFiles
from postroom.store.files.private_files import PRIVATE_FILE_MODE, create_draft, make_private_folder, open_beside
from postroom.store.sqlite.engine import SqliteStore, check_exists, resolve_path
from postroom.store.sqlite.open_database import open_connection
from postroom.store.sqlite.queues.queue_statements import EVENTS_ADOPT

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

QUEUE_SCHEMA_VERSION, NOTIFIER_SCHEMA_VERSION = 1, 3
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
            raise NotAStore(f"{location} is not a database", hint=damage_hint(location)) from None
        if tables != 3:
            raise NotAStore(f"{location} is not the database of a queue", hint=damage_hint(location))
        if version > QUEUE_SCHEMA_VERSION:
            raise WrongVersion(f"{location} has schema {version}; this program knows {QUEUE_SCHEMA_VERSION}", hint="Upgrade postroom.")


def damage_hint(location: str) -> str:
    """Return what to do with a database that is damaged, or of another program. The journal beside it has the events."""
    if not os.path.getsize(location):
        return f"Delete this empty file, and run `thread init {shell_quote(os.path.dirname(location))}`."
    folder = shell_quote(os.path.dirname(location))
    return f"Restore it from a backup. Or move it away and run `thread init {folder}`, which takes the events from events.jsonl."


class NotifierDatabase(SqliteStore):
    """The database of the notifier, created when it is first opened.

    With `is_relaxed`, commits survive a crash of this process, but the last ones may be lost in a power cut. That is enough for a dispatch:
    after a power cut the runner looks at every queue that it knows.
    """

    def __init__(self, home: str, *, door: str = "library", now: Callable[[], int] = clock.now, is_relaxed: bool = False) -> None:
        self.home = resolve_path(home)
        location = os.path.join(self.home, "notifier.db")
        if not os.path.exists(location):
            DatabaseFiles(location).make_folder()  # commands and their output are private to the user
            _create_database(location, "notifier", mode=PRIVATE_FILE_MODE)
        super().__init__(location, door=door, now=now)
        self.relax(is_relaxed)

    def relax(self, is_relaxed: bool) -> None:
        """Choose whether a commit waits for the disk, as it does by default."""
        self.connection.execute(f"PRAGMA synchronous={'NORMAL' if is_relaxed else 'FULL'}")

    @staticmethod
    def check_schema(connection: Connection, location: str) -> None:
        try:
            version = connection.execute("PRAGMA user_version").fetchone()[0]
            if 1 <= version < NOTIFIER_SCHEMA_VERSION:
                version = _upgrade_notifier(connection)
        except Error:
            version = 0
        if version != NOTIFIER_SCHEMA_VERSION:
            raise NotAStore(f"{location} is not a notifier's database of this version", hint="Name another folder with NOTIFIER_HOME.")


def init_queue(path: str, *, shared: str | None = None) -> str:
    """Create a queue in a folder and return its resolved path. If several processes try at once, all but one are refused.

    Its files are for their owner only, or for the group `shared`. If the folder has the journal of a queue whose database is gone, its
    events are in the new queue. Refuses with `Conflict` if it has an `events.jsonl` that is anything else.
    """
    from postroom.store.sqlite.schema import refuse_network_filesystem

    folder = _resolve_folder(path)
    location = os.path.join(folder, "events.db")
    if os.path.lexists(folder) and not os.path.isdir(folder):
        raise Conflict(f"{folder} is a file", hint="Choose a folder.")
    if os.path.lexists(location):
        raise _exists_already(folder, location)
    events = read_journal_events(folder)
    files = DatabaseFiles(location, group=shared, companions=("run", "logs", "events.jsonl"))
    files.make_folder()
    refuse_network_filesystem(folder)
    try:
        for inner in ("run", "logs"):
            make_private_folder(os.path.join(folder, inner), mode=files.folder_mode)
        os.close(open_beside(location, os.path.join(folder, "events.jsonl"), os.O_WRONLY))
    except OSError as error:
        raise StoreReadOnly(f"{folder} cannot be written: {error.strerror}", hint="Choose a folder that you can write.") from None
    if not _create_database(location, "queue", mode=files.mode, events=events):
        raise _exists_already(folder, location)
    files.set_permissions()
    return folder


def _exists_already(folder: str, location: str) -> Conflict:
    try:
        if not os.path.getsize(location):
            hint = f"Delete {shell_quote(location)}, and run this again."
            return Conflict(f"{location} is empty, and so not the database of a queue", hint=hint)
    except OSError:
        pass
    return Conflict(f"{folder} is a queue already", hint="Use it as it is, or delete the folder to start over.")


def read_journal_events(folder: str) -> list[tuple[object, ...]]:
    """Return the events in the journal of a folder without a database, each with its columns. Refuses any other file with `Conflict`."""
    from postroom._fastpath.json_text import loads
    from postroom.core.records.queues import QueueEvent, check_draft
    from postroom.store.files.jsonl_mirror import JsonlMirror

    mirror = JsonlMirror(os.path.join(folder, "events.jsonl"), os.open, ())
    rows: list[tuple[object, ...]] = []
    newest = 0
    for path in [*(mirror.rotated_paths() if os.path.isdir(folder) else ()), mirror.path]:
        mirror.path = path
        for number, line in enumerate(mirror.read_lines(), start=1):
            try:
                event = loads(line.decode())
                row = tuple([event[name] for name in QueueEvent.__fields__])
                check_draft(*row[2:])
                if len(event) != len(row) or not isinstance(row[0], int) or row[0] <= newest or not isinstance(row[1], str):
                    raise ValueError
            except (ValueError, KeyError, TypeError, InvalidInput):
                hint = "Move it away, or choose another folder. Its lines are not events of a queue."
                raise Conflict(f"{path} is there already, and its line {number} is not an event", hint=hint) from None
            newest = row[0]
            rows.append(row)
    return rows


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
    """Upgrade a notifier's database of an older version, unless another process was first, and return the version."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        version: int = connection.execute("PRAGMA user_version").fetchone()[0]
        if version < NOTIFIER_SCHEMA_VERSION:
            run_scripts(connection, "notifier", range(version + 1, NOTIFIER_SCHEMA_VERSION + 1))
            version = NOTIFIER_SCHEMA_VERSION
            connection.execute(f"PRAGMA user_version={version}")
        connection.execute("COMMIT")
    except BaseException:
        connection.execute("ROLLBACK")
        raise
    return version


def _create_database(location: str, kind: str, *, mode: int, events: Sequence[tuple[object, ...]] = ()) -> bool:
    """Create a database under a draft name and link it to its path, so that no process finds half of one. A queue begins with `events`.

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
        if events:
            connection.executemany(EVENTS_ADOPT, events)
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
