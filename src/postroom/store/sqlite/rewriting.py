"""Checkpoints of the log, and the rewriting of a whole file by VACUUM. `SqliteStore` calls it."""

from __future__ import annotations

import os
from time import monotonic, sleep

from postroom._fastpath.sqlite import Error
from postroom.core.errors import StoreBusy
from postroom.store.sqlite.open_database import map_error

TYPE_CHECKING = False
if TYPE_CHECKING:
    from postroom.store.sqlite.engine import SqliteStore

TRUNCATE_WAIT_SECONDS = 10.0
RETRY_SECONDS = 0.02


def checkpoint(store: SqliteStore, mode: str) -> bool:
    """Copy the log to the file. Return whether all of it was copied. Mode TRUNCATE also empties the log, if no reader needs it."""
    try:
        with store.mutex:
            busy, in_log, copied = store.connection.execute(f"PRAGMA wal_checkpoint({mode})").fetchone()
    except Error as error:
        raise map_error(error, store.location) from error
    return not busy and in_log == copied


def rewrite_file(store: SqliteStore) -> tuple[int, int]:
    """Run VACUUM and empty the log. Return the bytes of the file before and after.

    Nothing of a deleted row remains in either. Raises `StoreBusy` if readers held the old log for too long.
    """
    before = os.path.getsize(store.location)
    with store.mutex:
        connection, writer_queue = store.connection, store.file.writer_queue
        writer_queue.enter()
        try:
            connection.execute("PRAGMA secure_delete=ON").fetchone()
            connection.execute("PRAGMA auto_vacuum=INCREMENTAL")
            connection.execute("VACUUM")
        except Error as error:
            raise map_error(error, store.location) from error
        finally:
            writer_queue.leave()
    _empty_log(store)
    return before, os.path.getsize(store.location)


def _empty_log(store: SqliteStore) -> None:
    deadline = monotonic() + TRUNCATE_WAIT_SECONDS
    while not checkpoint(store, "TRUNCATE") or os.path.getsize(store.location + "-wal"):
        if monotonic() > deadline:
            raise StoreBusy(
                "the rows are gone, but a reader keeps the old log: their bytes are still in it",
                hint="End the process that reads for so long, and run this again.",
            )
        sleep(RETRY_SECONDS)
