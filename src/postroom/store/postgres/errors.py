"""Mapping of PostgreSQL's errors to refusals, by SQLSTATE or class, never by message text."""

from __future__ import annotations

from psycopg import Error, OperationalError

from postroom.core.errors import (
    Contended,
    NoStore,
    Refusal,
    StorageFailure,
    StoreBusy,
    StoreFull,
    StoreReadOnly,
    StoreUnreachable,
)

UNREACHABLE_STATES = ("08", "57P01", "57P02", "57P03", "57P05")
CONTENDED_STATES = ("40001", "40P01", "23505", "26000")
LOCKED_STATES = ("55P03", "57014", "25P03")  # the timeouts for a lock, a statement and an idle transaction
NO_ROOM_STATE = "53300"  # also for the limits of a role and of a database
FORBIDDEN_STATES = ("28", "42501")


def map_error(error: Error, location: str) -> Refusal:
    """Return the refusal for an error of the driver."""
    state = error.sqlstate or ""
    message = str(error).strip().partition("\n")[0]
    if state in CONTENDED_STATES:
        return Contended(f"{location}: another transaction was in the way", hint="Try again.")
    if state.startswith(FORBIDDEN_STATES):
        return StoreReadOnly(f"{location} refuses: {message}", hint="Check the user, the password, and the rights on the schema.")
    if state.startswith("3D"):
        return NoStore(f"there is no database at {location}: {message}", hint="Create it with `createdb`, then run `inbox init --db URL`.")
    if state.startswith(("3F", "42P01")):
        return NoStore(f"there is no store at {location}: {message}", hint="Create it with `inbox init --db URL`.")
    if state in ("25006", "0A000"):  # the second: a read-write transaction was begun on a server in recovery
        return StoreReadOnly(f"{location} is read-only: it is in recovery, or a standby", hint="Connect to the primary server.")
    if state.startswith("53100"):
        return StoreFull(f"{location} has no space left", hint="Make room on the server's disk; nothing was changed.")
    if state.startswith(LOCKED_STATES):
        hint = "Nothing was changed. Try again; if it stays so, look in pg_locks for the session that holds a lock on the schema."
        return StoreBusy(f"{location}: another session was in the way for too long: {message}", hint=hint)
    if state == NO_ROOM_STATE:
        hint = "Raise max_connections on the server, or let agents go through one `inbox serve`, which uses at most 10 connections."
        return StoreBusy(f"{location} has no room for another connection: {message}", hint=hint)
    if state.startswith("53"):
        return StoreBusy(f"{location} is too busy: {message}", hint="Try again later.")
    if isinstance(error, OperationalError) and (not state or state.startswith(UNREACHABLE_STATES)):
        return StoreUnreachable(
            f"{location} cannot be reached: {message}", hint="Check the address, and that the server runs; then try again."
        )
    return StorageFailure(f"{location}: {message}", hint="See the server's log.")
