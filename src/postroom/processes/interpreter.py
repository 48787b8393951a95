"""Command line and environment of child interpreters, so that files of the current folder and variables of the user cannot change them."""

from __future__ import annotations

import os
import sys

NEUTRAL_FOLDER = "/"
KEPT_VARIABLES = ("HOME", "LANG", "LC_ALL", "LC_CTYPE", "LD_LIBRARY_PATH", "PATH", "TMPDIR", "TZ")


def isolated_command(module: str, *arguments: str) -> tuple[str, ...]:
    """Return the command line that runs a module of ours. `-P` ignores the current folder, and `-E` the PYTHON* variables.

    `-I` would also ignore the packages of the user, and with them a Postroom that is installed for one user.
    """
    return (sys.executable, "-E", "-P", "-m", module, *arguments)


def short_environment() -> dict[str, str]:
    """Return the variables that an interpreter needs. Secrets of this process, such as tokens, are not among them."""
    return {name: os.environ[name] for name in KEPT_VARIABLES if name in os.environ}
