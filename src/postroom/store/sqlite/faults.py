"""SQLite's errors become ours here, recognised by result code, never by message text."""

from __future__ import annotations

from _sqlite3 import (
    SQLITE_BUSY,
    SQLITE_CANTOPEN,
    SQLITE_CORRUPT,
    SQLITE_FULL,
    SQLITE_IOERR,
    SQLITE_LOCKED,
    SQLITE_NOTADB,
    SQLITE_PERM,
    SQLITE_READONLY,
    SQLITE_TOOBIG,
    Error,
)

from postroom.core.errors import InvalidInput, NotAStore, Refusal, StorageFailure, StoreBusy, StoreFull, StoreReadOnly


def refusal(error: Error, place: str) -> Refusal:
    """The refusal that says what a driver's error means for its user."""
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    if code in (SQLITE_BUSY, SQLITE_LOCKED):
        return StoreBusy(
            f"{place} is kept busy by another writer", hint="Try again; if it lasts, look for a stopped process that holds the file."
        )
    if code == SQLITE_FULL:
        return StoreFull(f"no space left to write {place}", hint="Make room on the disk, then try again; nothing was changed.")
    if code in (SQLITE_READONLY, SQLITE_PERM):
        return StoreReadOnly(f"{place} cannot be written", hint="Check the permissions of the file and of its folder.")
    if code == SQLITE_CANTOPEN:
        return StoreReadOnly(
            f"{place} cannot be opened", hint="Check the permissions of the file and of its folder (SQLite keeps two more files beside it)."
        )
    if code == SQLITE_NOTADB:
        return NotAStore(f"{place} is not a database", hint="Pass the path of a store made with `inbox init`.")
    if code == SQLITE_CORRUPT:
        return NotAStore(
            f"{place} is damaged: {error}", hint="Restore it from a backup, or recover what is left with `sqlite3 FILE .recover`."
        )
    if code == SQLITE_TOOBIG:
        return InvalidInput("the text is too large for SQLite (1 GB)", hint="Attach a file with --artifact instead.")
    if code == SQLITE_IOERR:
        return StorageFailure(
            f"{place} could not be read or written: {error}", hint="Check the disk (space, quota, health); nothing was changed."
        )
    return StorageFailure(f"{place}: {error}", hint="Run `inbox doctor`.")
