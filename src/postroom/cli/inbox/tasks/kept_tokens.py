"""Lease tokens that a shell keeps between its commands, so that a process whose task or job was given away is refused without a flag.

`task accept`, `sheet begin` and `job start` note the token for the processes above them: the shell, the agent that runs it, and so on.
A later command takes the token that its nearest ancestor noted. Two shells of one agent thus have their own tokens. Where a process
cannot look at its ancestors, or commands of one agent have none in common, `INBOX_SESSION` names the session instead.
"""

from __future__ import annotations

import os
import sys
import time
from hashlib import sha256

from postroom.cli.framework.output import write_all
from postroom.store.files.private_files import make_private_folder
from postroom.store.location import find_location, state_folder

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from postroom.cli.framework.parser import Arguments

MAX_ANCESTORS = 32
MAX_AGE_SECONDS = 30 * 24 * 3600  # notes of leases that were never ended


def keep_token(args: Arguments, subjects: Iterable[str], token: str) -> None:
    """Note the token of a lease on tasks or a job. If that fails, say so: then only the name protects them."""
    lines = "".join(f"{process} {token}\n" for process in _list_processes())
    folder = _notes_folder(args)
    try:
        make_private_folder(folder)
        _remove_old_notes(folder)
        for subject in subjects:
            flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
            with open(os.open(_note_path(folder, subject), flags, 0o600), "a", encoding="utf-8") as file:
                file.write(lines)
    except OSError as error:
        write_all(2, f"warning: the lease token could not be kept ({error.strerror}). Pass it with --lease-token.\n")


def lease_token(args: Arguments, subject: str) -> str | None:
    """Return `--lease-token`, or the token of a task or a job that the nearest ancestor of this process noted, or None."""
    if args.lease_token is not None:
        return str(args.lease_token)
    try:
        with open(_note_path(_notes_folder(args), subject), encoding="utf-8") as file:
            noted = dict(line.split() for line in file if len(line.split()) == 2)
    except (OSError, ValueError):
        return None
    return next((noted[process] for process in _list_processes() if process in noted), None)


def forget_token(args: Arguments, subject: str) -> None:
    """Remove the note of a task or a job that has ended."""
    try:
        os.unlink(_note_path(_notes_folder(args), subject))
    except OSError:
        pass  # there is none


def _notes_folder(args: Arguments) -> str:
    return os.path.join(state_folder(find_location(args.db)), "leases")


def _note_path(folder: str, subject: str) -> str:
    return os.path.join(folder, sha256(subject.encode(errors="surrogateescape")).hexdigest()[:40])


def _remove_old_notes(folder: str) -> None:
    oldest = time.time() - MAX_AGE_SECONDS
    for entry in os.scandir(folder):
        if entry.stat(follow_symlinks=False).st_mtime < oldest:
            os.unlink(entry.path)


def _list_processes() -> list[str]:
    """Return names of the processes above this one, the nearest first: their ids with their start times."""
    session = os.environ.get("INBOX_SESSION")
    if session:
        return [f"session:{sha256(session.encode(errors='surrogateescape')).hexdigest()[:40]}"]
    if sys.platform != "linux":
        return [f"sid:{os.getsid(0)}"]
    found: list[str] = []
    process = os.getppid()
    while process > 1 and len(found) < MAX_ANCESTORS:
        try:
            with open(f"/proc/{process}/stat", "rb") as file:
                fields = file.read().rpartition(b")")[2].split()
        except OSError:
            break
        found.append(f"{process}:{fields[19].decode()}")
        process = int(fields[1])
    return found
