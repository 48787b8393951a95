"""A command line on a leash: when we die, however that comes, it dies too, with all that it started."""

from __future__ import annotations

import fcntl
import os

# The first line dies with us: its pipe closes, and the whole process group is killed. Who lives writes a line before it closes the
# pipe, so that what a command left running on purpose is left alone.
SHELL = '{ read -r line < "/dev/fd/$INBOX_LEASH" || kill -s KILL 0; } & exec /bin/sh -c "$1"'
_IGNORED = (13, 25)  # SIGPIPE and SIGXFSZ: Python ignores them; a command should not


def spawn(command: str, environment: dict[str, str], files: tuple[int, int, int]) -> tuple[int, int]:
    """Start a shell line as the leader of its own session; its process id, and the leash to `let_go` of when it has ended.

    `files` are its standard input, output and error. Nothing else of ours is open in it.
    """
    held, leash = os.pipe()
    os.set_inheritable(held, True)
    ours = [fcntl.fcntl(file, fcntl.F_DUPFD_CLOEXEC, 3) for file in files]  # out of the way of the places that they are to take
    try:
        process = os.posix_spawn(
            "/bin/sh",
            ("/bin/sh", "-c", SHELL, "inbox", command),
            {**environment, "INBOX_LEASH": str(held)},
            file_actions=[(os.POSIX_SPAWN_DUP2, file, place) for place, file in enumerate(ours)],
            setsid=True,
            setsigmask=(),
            setsigdef=_IGNORED,
        )
    except BaseException:
        os.close(leash)
        raise
    finally:
        for file in (held, *ours):
            os.close(file)
    return process, leash


def let_go(leash: int) -> None:
    try:
        os.write(leash, b"\n")
    except BrokenPipeError:
        pass
    os.close(leash)


def end_group(process: int, signal: int) -> None:
    try:
        os.killpg(process, signal)
    except (ProcessLookupError, PermissionError):
        pass
