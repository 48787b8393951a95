"""Mapping of SQLite's errors to refusals, by result code, never by message text."""

from __future__ import annotations

from postroom._fastpath.sqlite import Error, driver
from postroom.core.errors import InvalidInput, NotAStore, Refusal, StorageFailure, StoreBusy, StoreFull, StoreReadOnly


def map_error(error: Error, location: str) -> Refusal:
    """Return the refusal for an error of the driver."""
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    if code in (driver.SQLITE_BUSY, driver.SQLITE_LOCKED):
        return StoreBusy(
            f"{location} is kept busy by another writer", hint="Try again; if it lasts, look for a stopped process that holds the file."
        )
    if code == driver.SQLITE_FULL:
        return StoreFull(f"no space left to write {location}", hint="Make room on the disk, then try again; nothing was changed.")
    if code in (driver.SQLITE_READONLY, driver.SQLITE_PERM):
        return StoreReadOnly(f"{location} cannot be written", hint="Check the permissions of the file and of its folder.")
    if code == driver.SQLITE_CANTOPEN:
        hint = "Check the permissions of the file and of its folder (SQLite keeps two more files beside it)."
        return StoreReadOnly(f"{location} cannot be opened", hint=hint)
    if code == driver.SQLITE_NOTADB:
        hint = (
            "If it was a store, `inbox doctor` examines it, and `inbox store restore` replaces it by a backup. Otherwise pass another path."
        )
        return NotAStore(f"{location} is not a database", hint=hint)
    if code == driver.SQLITE_CORRUPT:
        return NotAStore(
            f"{location} is damaged: {error}", hint="Restore it from a backup, or recover what is left with `sqlite3 FILE .recover`."
        )
    if code == driver.SQLITE_TOOBIG:
        return InvalidInput("the text is too large for SQLite (1 GB)", hint="Attach a file with --artifact instead.")
    if code == driver.SQLITE_IOERR:
        return StorageFailure(
            f"{location} could not be read or written: {error}", hint="Check the disk (space, quota, health); nothing was changed."
        )
    return StorageFailure(f"{location}: {error}", hint="Run `inbox doctor`.")
