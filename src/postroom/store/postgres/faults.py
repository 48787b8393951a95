"""PostgreSQL's errors become ours here, recognised by SQLSTATE or class, never by message text."""

from __future__ import annotations

from psycopg import Error, OperationalError

from postroom.core.errors import (
    Contended,
    NoStore,
    Refusal,
    StorageFailure,
    StoreAway,
    StoreBusy,
    StoreFull,
    StoreReadOnly,
)

AWAY = ("08", "57P01", "57P02", "57P03", "57P05")
CONTENDED = ("40001", "40P01", "23505", "26000")
FORBIDDEN = ("28", "42501")


def refusal(error: Error, place: str) -> Refusal:
    """The refusal that says what a driver's error means for its user."""
    state = error.sqlstate or ""
    said = str(error).strip().partition("\n")[0]
    if state in CONTENDED:
        return Contended(f"{place}: another transaction was in the way", hint="Try again.")
    if state.startswith(FORBIDDEN):
        return StoreReadOnly(f"{place} refuses: {said}", hint="Check the user, the password, and the rights on the schema.")
    if state.startswith(("3F", "42P01", "3D")):
        return NoStore(f"there is no store at {place}: {said}", hint="Create it with `inbox init --db URL`.")
    if state in ("25006", "0A000"):  # the second: a read-write transaction was begun on a server in recovery
        return StoreReadOnly(f"{place} is read-only: it is in recovery, or a standby", hint="Connect to the primary server.")
    if state.startswith("53100"):
        return StoreFull(f"{place} has no space left", hint="Make room on the server's disk; nothing was changed.")
    if state.startswith(("53", "55P03", "57014")):
        return StoreBusy(f"{place} is too busy: {said}", hint="Try again later.")
    if isinstance(error, OperationalError) and (not state or state.startswith(AWAY)):
        return StoreAway(f"{place} cannot be reached: {said}", hint="Check the address, and that the server runs; then try again.")
    return StorageFailure(f"{place}: {said}", hint="See the server's log.")
