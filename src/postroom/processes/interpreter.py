"""Command line and environment of child interpreters, so that files of the current folder and variables of the user cannot change them.

They also have limits of memory and CPU time: what they read was written by others.
"""

from __future__ import annotations

import os
import sys

from postroom.core import limits

NEUTRAL_FOLDER = "/"
KEPT_VARIABLES = ("HOME", "INBOX_LIMITS", "LANG", "LC_ALL", "LC_CTYPE", "LD_LIBRARY_PATH", "PATH", "TMPDIR", "TZ")
STORE_VARIABLES = ("INBOX_DATA", "INBOX_INSECURE", "INBOX_TOKEN", "XDG_STATE_HOME")
LIBPQ_PREFIX = "PG"  # such as PGPASSFILE


def isolated_command(module: str, *arguments: str, long_lived: bool = False) -> tuple[str, ...]:
    """Return the command line that runs a module of ours. `-P` ignores the current folder, and `-E` the PYTHON* variables.

    `-I` would also ignore the packages of the user, and with them a Postroom that is installed for one user.
    The process has limits of memory and CPU time, but none of CPU time if it is `long_lived`.
    """
    bounds = str(limits.MAX_CHILD_MEMORY_BYTES), str(0 if long_lived else limits.MAX_CHILD_CPU_SECONDS)
    return (sys.executable, "-E", "-P", "-m", "postroom.processes.limited_interpreter", *bounds, module, *arguments)


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
