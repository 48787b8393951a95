"""The space that a store takes on disk: return free pages, rewrite a store without slack. `maintenance` calls it.

Differs by engine: a SQLite file keeps the pages of deleted rows until they are returned. PostgreSQL's autovacuum does it by itself.
"""

from __future__ import annotations

from time import monotonic

from postroom.store.sqlite.engine import SqliteStore, SqliteWriteTransaction

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from postroom.store.interface import Store, Transaction

    BatchRunner = Callable[[Sequence[int], Callable[[Transaction, int], int]], int]  # runs a change for each item, in short transactions


class SharedFile:
    """A store in which one process makes many small transactions beside other writers: what they do, and how to be out of their way.

    PostgreSQL's writers do not wait for one another, so on a store there it observes nothing.
    """

    def __init__(self, store: Store) -> None:
        self._store = store if isinstance(store, SqliteStore) else None
        self._version: object = None
        if self._store is not None:
            self._store.file.has_committed = True  # the first of many: not even that one is synced inside of its turn

    def have_others_written(self) -> bool:
        """Return whether another connection has committed since the last call."""
        if self._store is None:
            return True
        before, self._version = self._version, self._store.data_version()
        return before != self._version

    def left_at(self) -> float:
        """Return when the last transaction let other writers go on, in monotonic seconds: on SQLite, before it waits for the disk."""
        return monotonic() if self._store is None else self._store.file.writer_queue.left_at

    def defer_sync(self, tx: Transaction) -> None:
        """Let a transaction end without its own sync of the disk, which would hold up those of other writers. `sync` makes up for it.

        Pages that it frees are not overwritten with zeros, as some builds of SQLite do: 10 MiB of text would take 12 ms instead of 0.2.
        """
        if isinstance(tx, SqliteWriteTransaction):
            tx.defers_sync = True
            tx.fetch_one("PRAGMA secure_delete=FAST")

    def sync(self) -> None:
        """Wait until all commits so far are on the disk."""
        log = None if self._store is None else self._store.file.open_wal()
        if log is not None:
            log.sync()

    def copy_log(self) -> None:
        """Copy the log to the file beside other writers. At 1,000 pages, one of them has to do it in its turn, and all others wait."""
        if self._store is not None:
            self._store.checkpoint("PASSIVE")


def return_free_pages(store: Store, run_batches: BatchRunner) -> tuple[int, str]:
    """Give free pages back to the file system. Return the number of bytes, and what stands in the way, if anything does."""
    if not isinstance(store, SqliteStore):
        return 0, ""
    free, page_bytes, mode = (_read_pragma(store, name) for name in ("freelist_count", "page_size", "auto_vacuum"))
    if free and mode != 2:
        said = f"{free * page_bytes >> 10} KiB are free inside the file, which an older version created."
        return 0, f"{said} `inbox store compact` returns them, and lets prune do it from then on."

    def return_pages(tx: Transaction, _: int) -> int:
        tx.fetch_all("PRAGMA incremental_vacuum(1)")  # each page is a row without columns, and the driver reads only the first
        return 1

    run_batches(range(free), return_pages)
    store.checkpoint("PASSIVE")
    return max(free - _read_pragma(store, "freelist_count"), 0) * page_bytes, ""


def compact(store: Store) -> tuple[int, int]:
    """Rewrite the whole store without free space and without remains of deleted rows. Return its bytes before and after.

    Writers wait meanwhile. A SQLite file returns its free pages when it is pruned from then on.
    """
    if isinstance(store, SqliteStore):
        return store.rewrite_file()
    from postroom.store.postgres.vacuum import vacuum_tables

    return vacuum_tables(store)


def _read_pragma(store: SqliteStore, name: str) -> int:
    with store.read() as tx:
        (value,) = tx.fetch_one(f"PRAGMA {name}")
    return int(value)
