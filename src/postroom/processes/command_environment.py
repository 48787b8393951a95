"""The environment of a command that a runner or a supervisor starts: a short list, and what the command's owner named for it.

The process that happens to start a runner may have secrets in its environment, and the runner serves others too. `queues` calls it.
"""

from __future__ import annotations

import os
import sys

from postroom.core import checks
from postroom.core.errors import InvalidInput
from postroom.core.text import short_repr

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

PASSED_NAMES = frozenset(
    ("HOME", "PATH", "LANG", "TZ", "TMPDIR", "USER", "LOGNAME", "SHELL", "XDG_STATE_HOME", "INBOX_LIMITS", "INBOX_SAFE")
)
PASSED_PREFIXES = ("LC_", "NOTIFIER_", "THREAD_")
HANDLER_NAMES = frozenset(
    ("THREAD_DIR", "THREAD_CONSUMER", "INBOX_WATCHDOG_FD")
)  # of one handler: a runner that it starts does not belong to it
_NAME_CHARS = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_")


def command_environment() -> dict[str, str]:
    """Return the variables of this process that every command may see. Those of a handler are left out."""
    return {
        name: value
        for name, value in os.environ.items()
        if (name in PASSED_NAMES or name.startswith(PASSED_PREFIXES)) and name not in HANDLER_NAMES
    }


def check_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that a command shall have beside the short list. Refuses a name that no shell accepts."""
    for name, value in environment.items():
        if not name or not _NAME_CHARS.issuperset(name) or name[0].isdigit() or name in HANDLER_NAMES:
            raise InvalidInput(f"env cannot be {short_repr(name)}", field="env", hint="Name a variable, such as AWS_PROFILE.")
        checks.text("env", value)
    return dict(environment)


def take_from_environment(names: Iterable[str]) -> dict[str, str]:
    """Return the named variables of this process. Refuses a variable that is not set."""
    for name in names:
        if name not in os.environ:
            raise InvalidInput(f"the variable {short_repr(name)} is not set", field="env", hint="Set it first: its value now is stored.")
    return {name: os.environ[name] for name in names}


def add_own_programs(environment: dict[str, str]) -> dict[str, str]:
    """Return an environment whose PATH begins with the folder of the programs of this installation, if it has one."""
    for program in (sys.argv[0], sys.executable):
        is_file = program and not program.startswith("-")  # -c and -m are no files of the current folder
        folder = os.path.dirname(os.path.abspath(program)) if is_file else ""
        if folder and os.access(os.path.join(folder, "inbox"), os.X_OK) and os.path.isfile(os.path.join(folder, "inbox")):
            return {**environment, "PATH": f"{folder}{os.pathsep}{environment.get('PATH') or os.defpath}"}
    return environment
