"""A shell command in its own process group, with a watchdog that kills the group if this process dies.

`child_process`, the room `queues` and the demo call this module.
"""

from __future__ import annotations

import fcntl
import os

# The watchdog reads from a pipe whose writing end only this process has. If this process dies, the read fails and the watchdog kills the
# whole group. `release_watchdog` writes a line first, so that processes that the command left running on purpose survive.
SHELL_WITH_WATCHDOG = '{ read -r line < "/dev/fd/$INBOX_LEASH" || kill -s KILL 0; } & exec /bin/sh -c "$1"'
_SIGNALS_TO_RESET = (13, 25)  # SIGPIPE and SIGXFSZ, which Python ignores and a command should not


def spawn_group(command: str, environment: dict[str, str], files: tuple[int, int, int]) -> tuple[int, int]:
    """Start a shell command as the leader of a new session. Return its process id and the writing end of the watchdog's pipe.

    `files` are the descriptors of its standard input, output and error. It inherits no other descriptor except the pipe. Pass the writing
    end to `release_watchdog` when the command has ended.
    """
    read_end, write_end = os.pipe()
    os.set_inheritable(read_end, True)
    # Copies above 2, so that no descriptor is overwritten before it is duplicated to 0, 1 or 2.
    copies = [fcntl.fcntl(file, fcntl.F_DUPFD_CLOEXEC, 3) for file in files]
    try:
        pid = os.posix_spawn(
            "/bin/sh",
            ("/bin/sh", "-c", SHELL_WITH_WATCHDOG, "inbox", command),
            {**environment, "INBOX_LEASH": str(read_end)},
            file_actions=[(os.POSIX_SPAWN_DUP2, file, target) for target, file in enumerate(copies)],
            setsid=True,
            setsigmask=(),
            setsigdef=_SIGNALS_TO_RESET,
        )
    except BaseException:
        os.close(write_end)
        raise
    finally:
        for file in (read_end, *copies):
            os.close(file)
    return pid, write_end


def release_watchdog(write_end: int) -> None:
    """Stop the watchdog without killing the group, and close the writing end of its pipe."""
    try:
        os.write(write_end, b"\n")
    except BrokenPipeError:
        pass  # the watchdog has already ended
    os.close(write_end)


def signal_group(pid: int, signal: int) -> None:
    """Send a signal to all processes of the group whose leader is `pid`. Do nothing if the group has ended."""
    try:
        os.killpg(pid, signal)
    except (ProcessLookupError, PermissionError):
        pass
