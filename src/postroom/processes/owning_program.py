"""The program that runs a hook or a server of ours, such as Claude Code, and whether it still runs."""

from __future__ import annotations

import os

from postroom.processes.process_group import read_start_mark

_SHELLS = ("sh", "bash", "dash", "zsh", "fish", "env", "timeout", "nice")


def find_owner() -> int:
    """Return the process that runs us: the nearest one above us that is no shell."""
    pid = os.getppid()
    while pid > 1 and (found := _name_and_parent(pid)) is not None and found[0] in _SHELLS:
        pid = found[1]
    return pid


def describe_owner(pid: int) -> str:
    """Return a text that is the same for all that a program runs, and differs from that of every other process. It has no spaces."""
    return f"{pid}:{read_start_mark(pid).replace(' ', ':')}"


def _name_and_parent(pid: int) -> tuple[str, int] | None:
    """Return the name of a process and its parent. None on systems without /proc, or if it has ended."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            head, _, rest = file.read().rpartition(")")
    except (FileNotFoundError, ProcessLookupError):
        return None
    return head.partition("(")[2], int(rest.split()[1])


def is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
