"""The space that a store takes on disk: return free pages, rewrite a store without slack. `maintenance` calls it.

Differs by engine: a SQLite file keeps the pages of deleted rows until they are returned. PostgreSQL's autovacuum does it by itself.
"""

from __future__ import annotations

from postroom.store.sqlite.engine import SqliteStore

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from postroom.store.interface import Store, Transaction

    BatchRunner = Callable[[Sequence[int], Callable[[Transaction, int], int]], int]  # runs a change for each item, in short transactions

BATCHES_PER_CHECKPOINT = 16


def make_log_keeper(store: Store) -> Callable[[], None] | None:
    """Return a function to call after each of many transactions. It copies SQLite's log to the file, so that no other writer has to."""
    if not isinstance(store, SqliteStore):
        return None
    batches = 0

    def copy_log() -> None:
        nonlocal batches
        batches += 1
        if batches % BATCHES_PER_CHECKPOINT == 0:
            store.checkpoint("PASSIVE")

    return copy_log


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
