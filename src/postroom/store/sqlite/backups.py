"""Copies of a whole SQLite store by SQLite's backup API: out of a store that is in use, and back into one. `maintenance` calls it.

A copy is one read transaction, so that it is consistent and no writer waits for it. Back into a store in use, it is one write transaction
of the same file: processes that have it open see the other content at their next transaction, and no file is exchanged below them.
"""

from __future__ import annotations

import os

from postroom._fastpath.sqlite import Connection, Error, connect
from postroom.core.errors import InvalidInput, NotAStore, StorageFailure
from postroom.core.records.watched_queues import WatchedQueue
from postroom.store.files.private_files import create_draft
from postroom.store.sqlite.engine import APPLICATION_ID, SqliteStore
from postroom.store.sqlite.errors import map_error
from postroom.store.sqlite.open_database import open_connection
from postroom.store.sqlite.queues.queue_databases import QueueDatabase

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

# Other writers may commit until the write lock is taken. No id that they used may be assigned again, because ids are cursors.
EVENT_ID_GAP = 100_000
PIECE_PAGES = 512  # copied and synced at once: 2 MiB


def write_backup(store: SqliteStore, path: str, *, verify: Callable[[str], int] | None = None) -> int:
    """Copy a store into a new file, verify the copy, and return its size in bytes. The file appears once it is complete.

    `verify` checks the copy: `verify_backup` by default, or `verify_queue_backup` if the database is that of a queue.
    """
    file, draft = create_draft(path)
    os.close(file)
    source = open_connection(store.location)
    try:
        _copy(source, draft)
        (verify or verify_backup)(draft)
        os.link(draft, path)
        return os.path.getsize(path)
    except FileExistsError:
        raise InvalidInput(f"{path} exists already", field="file", hint="Choose another name, or move it away.") from None
    except Error as error:
        raise map_error(error, path) from error
    finally:
        source.close()
        _remove_draft(draft)


def verify_backup(path: str) -> int:
    """Check that a file is an undamaged store, and return the version of its schema. Refuses with `NotAStore` or `StorageFailure`."""
    if not os.path.isfile(path):
        raise InvalidInput(f"there is no file {path}", field="file", hint="Name a backup.")
    connection = connect(path, isolation_level=None)
    try:
        if connection.execute("PRAGMA application_id").fetchone()[0] != APPLICATION_ID:
            raise NotAStore(f"{path} is not a Postroom store", hint="Name a file that `inbox store backup` wrote.")
        return _check_intact(connection, path)
    except Error as error:
        raise NotAStore(f"{path} is not a database: {error}", hint="Name a file that `inbox store backup` wrote.") from None
    finally:
        connection.close()


def verify_queue_backup(path: str) -> int:
    """Check that a file is the undamaged database of a queue, and return the version of its schema. Refuses as `verify_backup` does."""
    connection = connect(path, isolation_level=None)
    try:
        QueueDatabase.check_schema(connection, path)
        return _check_intact(connection, path)
    except Error as error:
        raise NotAStore(f"{path} is not a database: {error}", hint="Name a backup that was written with --with-queues.") from None
    finally:
        connection.close()


def list_watched_queues(path: str) -> list[WatchedQueue]:
    """Return the queues that the store of a backup watched. The file stays as it is."""
    connection = connect(path, isolation_level=None)
    try:
        rows = connection.execute("SELECT path, label, created_at FROM watched_queues ORDER BY path").fetchall()
    except Error as error:
        raise map_error(error, path) from error
    finally:
        connection.close()
    return [WatchedQueue(*row) for row in rows]


def _check_intact(connection: Connection, path: str) -> int:
    """Return the version of a database's schema. Refuses with `StorageFailure` if the database is damaged."""
    faults = [row[0] for row in connection.execute("PRAGMA integrity_check(3)") if row[0] != "ok"]
    faults += [f"a row of {row[0]} refers to nothing" for row in connection.execute("PRAGMA foreign_key_check").fetchmany(3)]
    if faults:
        raise StorageFailure(f"{path} is damaged: {'; '.join(faults)}", hint="Use another backup.")
    version: int = connection.execute("PRAGMA user_version").fetchone()[0]
    return version


def copy_backup(path: str, target: str) -> None:
    """Copy a backup into another file, so that it can be changed."""
    source = connect(path, isolation_level=None)
    try:
        _copy(source, target)
    except Error as error:
        raise map_error(error, target) from error
    finally:
        source.close()


def overwrite_store(store: SqliteStore, draft: str) -> None:
    """Replace the content of a store in use by that of a file, in one write transaction. The file must have the present schema.

    Ids go on behind those of the content before. A cursor of that content is refused as expired.
    """
    with store.mutex:
        connection, writer_queue = store.connection, store.file.writer_queue
        writer_queue.enter()
        try:
            _continue_ids(connection, draft)
            source = connect(draft, isolation_level=None)
            try:
                source.backup(connection)
            finally:
                source.close()
        except Error as error:
            raise map_error(error, store.location) from error
        finally:
            writer_queue.leave()
    store.notify(())


def overwrite_queue(queue: QueueDatabase, copy: str) -> None:
    """Replace the content of a new queue by that of a file, in one write transaction."""
    source = connect(copy, isolation_level=None)
    try:
        with queue.mutex:
            source.backup(queue.connection)
    except Error as error:
        raise map_error(error, queue.location) from error
    finally:
        source.close()


def _continue_ids(live: Connection, draft: str) -> None:
    """Let the ids in a file go on behind those of the live store, and mark cursors of the live store as expired."""
    newest = dict(live.execute("SELECT name, seq FROM sqlite_sequence").fetchall())
    connection = connect(draft, isolation_level=None)
    try:
        connection.execute("BEGIN IMMEDIATE")
        for name, seq in newest.items():
            connection.execute(
                "INSERT INTO sqlite_sequence (name, seq) SELECT ?, 0 WHERE ? NOT IN (SELECT name FROM sqlite_sequence)", (name, name)
            )
            connection.execute("UPDATE sqlite_sequence SET seq = max(seq, ?) WHERE name = ?", (seq + EVENT_ID_GAP, name))
        restored = connection.execute(
            "INSERT INTO events (run_id, task_id, thread_id, source, event_type, summary, created_at)"
            " VALUES ('', '', '', 'restore', 'store.restored', '', strftime('%Y-%m-%dT%H:%M:%f000Z', 'now'))"
        ).lastrowid
        connection.execute("UPDATE cursors SET event_id = ? WHERE name = 'events.removed'", (restored,))
        connection.execute("COMMIT")
    finally:
        connection.close()


def _copy(source: Connection, target: str) -> None:
    """Copy a database into a file that is complete by itself, without a log. It is on the disk afterwards.

    Each piece is synced before the next one is read. Otherwise the disk would have the whole copy to write at once, and every writer of
    the store that waits for its own sync would wait for that. One read transaction spans all pieces, so that no commit starts them again.
    """
    copy = connect(target, isolation_level=None)
    file = os.open(target, os.O_RDWR)
    try:
        copy.execute("PRAGMA synchronous=OFF")
        source.execute("BEGIN")
        try:
            source.execute("SELECT 1 FROM sqlite_master").fetchone()  # the moment that is copied
            source.backup(copy, pages=PIECE_PAGES, progress=lambda *_: os.fsync(file))
        finally:
            source.execute("ROLLBACK")
        # Pages written meanwhile could not leave the log. The next commit would do that in its turn to write, and all others would wait.
        source.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
        copy.execute("PRAGMA journal_mode=DELETE").fetchone()
        os.fsync(file)
    finally:
        copy.close()
        os.close(file)  # after the connection: closing a file drops SQLite's locks on it


def _remove_draft(draft: str) -> None:
    for suffix in ("", "-wal", "-shm", "-journal"):
        try:
            os.unlink(draft + suffix)
        except FileNotFoundError:
            pass
