"""Command line and environment of child interpreters, so that files of the current folder and variables of the user cannot change them."""

from __future__ import annotations

import os
import sys

NEUTRAL_FOLDER = "/"
KEPT_VARIABLES = ("HOME", "LANG", "LC_ALL", "LC_CTYPE", "LD_LIBRARY_PATH", "PATH", "TMPDIR", "TZ")


def isolated_command(module: str, *arguments: str) -> tuple[str, ...]:
    """Return the command line that runs a module of ours. `-I` ignores the current folder, PYTHON* variables and the user's packages."""
    return (sys.executable, "-I", "-m", module, *arguments)


def short_environment() -> dict[str, str]:
    """Return the variables that an interpreter needs. Secrets of this process, such as tokens, are not among them."""
    return {name: os.environ[name] for name in KEPT_VARIABLES if name in os.environ}
