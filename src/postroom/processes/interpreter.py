"""Command line and environment of child interpreters, so that files of the current folder and variables of the user cannot change them."""

from __future__ import annotations

import os
import sys

NEUTRAL_FOLDER = "/"
KEPT_VARIABLES = ("HOME", "LANG", "LC_ALL", "LC_CTYPE", "LD_LIBRARY_PATH", "PATH", "TMPDIR", "TZ")
STORE_VARIABLES = ("INBOX_DATA", "INBOX_INSECURE", "INBOX_TOKEN", "XDG_STATE_HOME")
LIBPQ_PREFIX = "PG"  # such as PGPASSFILE


def isolated_command(module: str, *arguments: str) -> tuple[str, ...]:
    """Return the command line that runs a module of ours. `-P` ignores the current folder, and `-E` the PYTHON* variables.

    `-I` would also ignore the packages of the user, and with them a Postroom that is installed for one user.
    """
    return (sys.executable, "-E", "-P", "-m", module, *arguments)


def short_environment() -> dict[str, str]:
    """Return the variables that an interpreter needs. Secrets of this process, such as tokens, are not among them."""
    return {name: os.environ[name] for name in KEPT_VARIABLES if name in os.environ}


def store_environment(location: str) -> dict[str, str]:
    """Return the variables with which a child process opens a store, in every folder.

    The location is passed so and not in a command line, which other users of the machine can read: a URL may have a password.
    """
    passed = {name: value for name, value in os.environ.items() if name in STORE_VARIABLES or name.startswith(LIBPQ_PREFIX)}
    return {**passed, "INBOX_DB": _make_absolute(location)}


def _make_absolute(location: str) -> str:
    if location.startswith("unix:"):
        return f"unix:{os.path.abspath(location[5:].removeprefix('//'))}"
    return location if "://" in location else os.path.abspath(location)
