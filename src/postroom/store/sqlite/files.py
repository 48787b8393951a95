"""Databases that stand alone, each with its own schema: a queue's, and the notifier's. What they share with a store is its engine."""

from __future__ import annotations

import os

from postroom.core import checks, clock
from postroom.core.errors import Conflict, InvalidInput, NoStore, NotAStore, StoreReadOnly, WrongVersion
from postroom.core.words import quoted
from postroom.store.sqlite.driver import Error
from postroom.store.sqlite.engine import SqliteStore, check_place, connection, resolved

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

VERSION = 1
_TABLES = "SELECT count(*) FROM sqlite_master WHERE name IN ('events', 'subscriptions', 'consumer_progress')"


class QueueFile(SqliteStore):
    """The database of a queue: `events.db` in its folder. One that another program made will do."""

    def __init__(self, folder: str, *, door: str = "library", solitary: bool = False, now: Callable[[], int] = clock.now) -> None:
        self.folder = _folder(folder)
        super().__init__(os.path.join(self.folder, "events.db"), door=door, solitary=solitary, now=now)

    def _check_place(self, named: str) -> None:
        try:
            check_place(self.place, named)
        except NoStore:
            hint = f"Create it with `thread init {quoted(self.folder)}`."
            raise NoStore(f"there is no queue at {self.folder}", hint=hint, path=self.folder) from None

    def _check_version(self) -> None:
        try:
            version = self.connection.execute("PRAGMA user_version").fetchone()[0]
            tables = self.connection.execute(_TABLES).fetchone()[0]
        except Error:
            raise NotAStore(f"{self.place} is not a database", hint="Restore it from a backup, or init another folder.") from None
        if tables != 3:
            raise NotAStore(f"{self.place} is not the database of a queue", hint="Restore it from a backup, or init another folder.")
        if version > VERSION:
            raise WrongVersion(f"{self.place} has schema {version}; this program knows {VERSION}", hint="Upgrade postroom.")


class NotifierFile(SqliteStore):
    """The database of the notifier, made when it is first needed."""

    def __init__(self, home: str, *, door: str = "library", now: Callable[[], int] = clock.now) -> None:
        self.home = resolved(home)
        place = os.path.join(self.home, "notifier.db")
        if not os.path.exists(place):
            folder_for(self.home, mode=0o700)  # commands and their output are nobody else's business
            _create(place, "notifier")
        super().__init__(place, door=door, now=now)

    def _check_version(self) -> None:
        try:
            version = self.connection.execute("PRAGMA user_version").fetchone()[0]
        except Error:
            version = 0
        if version != VERSION:
            raise NotAStore(f"{self.place} is not a notifier's database of this version", hint="Name another folder with NOTIFIER_HOME.")


def init_queue(path: str) -> str:
    """Make a queue in a folder. Of several at once, one makes it and the others are refused. Returns its resolved path."""
    from postroom.store.sqlite.schema import refuse_network

    folder = _folder(path)
    if os.path.lexists(folder) and not os.path.isdir(folder):
        raise Conflict(f"{folder} is a file", hint="Choose a folder.")
    if os.path.lexists(os.path.join(folder, "events.db")):
        raise Conflict(f"{folder} is a queue already", hint="Use it as it is, or delete the folder to start over.")
    for inner in ("run", "logs"):
        folder_for(os.path.join(folder, inner))
    refuse_network(folder)
    try:
        os.close(os.open(os.path.join(folder, "events.jsonl"), os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o666))
    except OSError as error:
        raise StoreReadOnly(f"{folder} cannot be written: {error.strerror}", hint="Choose a folder that you can write.") from None
    if not _create(os.path.join(folder, "events.db"), "queue"):
        raise Conflict(f"{folder} is a queue already", hint="Use it as it is, or delete the folder to start over.")
    return folder


def _folder(path: str) -> str:
    """The resolved path of a queue, which is its id."""
    if not path:
        raise InvalidInput("the path of a queue cannot be empty", field="thread", hint="Name the queue's folder.")
    return resolved(checks.text("the path of a queue", path))


def folder_for(path: str, *, mode: int = 0o777) -> None:
    try:
        os.makedirs(path, mode, exist_ok=True)
    except OSError as error:
        raise StoreReadOnly(f"the folder {path} cannot be made: {error.strerror}", hint="Choose a folder that you can write.") from None


def _create(place: str, kind: str) -> bool:
    """Make a database beside its place, and put it there whole: nobody ever finds half of one. False if somebody was first."""
    from postroom.store.migrations import scripts
    from postroom.store.sqlite.faults import refusal
    from postroom.store.sqlite.schema import split

    draft = f"{place}.{os.getpid()}.new"
    opened = None
    try:
        opened = connection(draft)
        opened.execute("PRAGMA journal_mode=WAL")
        opened.execute("BEGIN IMMEDIATE")
        for _, script in scripts(kind):
            for statement in split(script):
                opened.execute(statement)
        opened.execute(f"PRAGMA user_version={VERSION}")
        opened.execute("COMMIT")
        opened.close()
        os.link(draft, place)
        return True
    except FileExistsError:
        return False
    except Error as error:
        raise refusal(error, place) from error
    except OSError as error:
        raise StoreReadOnly(f"{place} cannot be made: {error.strerror}", hint="Choose a folder that you can write.") from None
    finally:
        if opened is not None:
            opened.close()
        for suffix in ("", "-wal", "-shm"):
            try:
                os.unlink(draft + suffix)
            except OSError:
                pass
