"""Locations of stores: the default one, which the command line uses when no --db is given, and the form that may be shown."""

from __future__ import annotations

import os

from postroom.core.errors import InvalidInput, NoStore

URL_NOTE = "server"  # the file in the state folder with the address of the server that runs
DEFAULT_PATH = os.path.join(".agents", "coord.db")


def find_location(given: str | None = None) -> str:
    """Return the given location, or $INBOX_DB, or the nearest `.agents/coord.db` in this folder or one above, as git finds `.git`.

    Refuses with `NoStore` if there is none, and with `UntrustedStore` if another user owns or can change the one that was found.
    """
    location = _given_or_environment(given)
    if location:
        return location
    try:
        folder = os.getcwd()
    except OSError:
        raise NoStore("the current folder is gone", hint="Go to one that exists, or name the store with --db or INBOX_DB.") from None
    while True:
        path = os.path.join(folder, DEFAULT_PATH)
        if os.path.isfile(path):
            if not _is_private(path):
                from postroom.store.files.ownership import require_trusted_store

                require_trusted_store(path)
            return path
        parent = os.path.dirname(folder)
        if parent == folder:
            raise NoStore(
                "there is no store here or in any folder above", hint="Create one with `inbox init`, or name one with --db or INBOX_DB."
            )
        folder = parent


def _is_private(database: str) -> bool:
    """Return whether nobody else can write a database, its folder or the one above. Costs little, as it is usually so."""
    folder = os.path.dirname(database)
    own = [os.stat(place) for place in (database, folder)]
    above = os.stat(os.path.dirname(folder)).st_mode
    return all(status.st_uid == os.geteuid() and not status.st_mode & 0o022 for status in own) and not above & 0o022


def location_for_init(given: str | None = None) -> str:
    """Return where `init` creates a store: the given location, or $INBOX_DB, or `.agents/coord.db` in this folder.

    Refuses with `UntrustedStore` if that `.agents`, which may be a link, or the database in it is another user's.
    """
    location = _given_or_environment(given)
    if not location and os.path.lexists(os.path.dirname(DEFAULT_PATH)):
        from postroom.store.files.ownership import require_own_folder

        require_own_folder(DEFAULT_PATH)
    return location or DEFAULT_PATH


def shown_location(location: str) -> str:
    """Return a location for texts that people, logs and other programs see: a URL without its password, or the absolute path of a file."""
    scheme, separator, rest = location.partition("://")
    if not separator:
        return location if location.startswith("unix:") else os.path.realpath(location)
    address, mark, query = rest.partition("?")
    if "@" not in address and "@" in query:  # an unquoted question mark in the password
        address, mark, query = rest, "", ""
    user, at, host = address.rpartition("@")
    kept = "&".join(part for part in query.split("&") if not _is_secret(part.partition("=")[0]))
    return f"{scheme}://{user.partition(':')[0]}{at}{host}{mark if kept else ''}{kept}"


def has_password(location: str) -> bool:
    """Return whether a URL has a password, or a parameter that may be one. Such a URL is not written into files or command lines."""
    return "://" in location and shown_location(location) != location.rstrip("?").replace(":@", "@", 1)


def state_folder(location: str) -> str:
    """Return the folder for the secrets of a store: below $XDG_STATE_HOME or ~/.local/state, and never beside the store."""
    from hashlib import sha256

    home = os.environ.get("XDG_STATE_HOME", "")
    root = home if os.path.isabs(home) else os.path.expanduser("~/.local/state")
    return os.path.join(root, "postroom", sha256(_store_identity(location).encode(errors="surrogateescape")).hexdigest()[:16])


def _store_identity(location: str) -> str:
    """Return a text that is the same for every way to name a store: a PostgreSQL database without the role and its settings."""
    shown = shown_location(location)
    if not shown.startswith(("postgresql://", "postgres://")):
        return shown
    address, _, query = shown.partition("://")[2].partition("?")
    named = [part for part in query.split("&") if part.partition("=")[0] in ("host", "hostaddr", "port", "dbname", "schema")]
    return f"postgresql://{address.rpartition('@')[2]}?{'&'.join(sorted(named))}"


def read_url_note(location: str) -> str | None:
    """Return the address of the server that runs for a store, or None if none is known."""
    try:
        with open(os.path.join(state_folder(location), URL_NOTE), encoding="ascii") as note:
            return note.read().strip() or None
    except (OSError, ValueError):
        return None


def _is_secret(parameter: str) -> bool:
    """Return whether a parameter of a URL may hold a password, also if its name is quoted."""
    return "%" in parameter or parameter.lower().endswith("password")


def _given_or_environment(given: str | None) -> str | None:
    if given == "":
        raise InvalidInput("the path of the store is empty", field="db", hint="Leave --db out, or name a file.")
    location = given or os.environ.get("INBOX_DB")
    if location and location.startswith("file:"):
        raise InvalidInput("the path of a store is not a file: URL", field="db", hint=f"Pass the path: {location[5:].removeprefix('//')}")
    # Compose files, systemd and cron pass a tilde on as it is.
    return os.path.expanduser(location) if location and location.startswith("~") else location
