"""A shell command in its own process group, and the group's life after this process.

A group with a watchdog (`spawn_group`) is killed if this process dies: `child_process`, the notifier and the demo use it. A held group
(`spawn_held_group`) needs no second process: it survives this process, which has written down its number and its start time before the
command begins, so that the next process can find it. The handlers of queues use it.
"""

from __future__ import annotations

import fcntl
import os

from postroom.processes.resource_limits import without_limits

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

# The watchdog reads from a pipe whose writing end only this process has. If this process dies, the read fails and the watchdog kills the
# whole group. `release_watchdog` writes a line first, so that processes that the command left running on purpose survive.
SHELL_WITH_WATCHDOG = '{ read -r line < "/dev/fd/$INBOX_WATCHDOG_FD" || kill -s KILL 0; } & exec /bin/sh -c "$1"'
# A held shell reads a line first. If this process dies before it writes one, the read fails and the command never starts.
HELD_SHELL = 'read -r line && exec /bin/sh -c "$1" < /dev/null'
_SIGNALS_TO_RESET = (13, 25)  # SIGPIPE and SIGXFSZ, which Python ignores and a command should not


def spawn_group(command: str, environment: dict[str, str], files: tuple[int, int, int]) -> tuple[int, int]:
    """Start a shell command as the leader of a new session. Return its process id and the writing end of the watchdog's pipe.

    `files` are the descriptors of its standard input, output and error. It inherits no other descriptor except the pipe. Pass the writing
    end to `release_watchdog` when the command has ended.
    """
    read_end, write_end = os.pipe()
    os.set_inheritable(read_end, True)
    try:
        pid = _spawn_shell(SHELL_WITH_WATCHDOG, command, {**environment, "INBOX_WATCHDOG_FD": str(read_end)}, files)
    except BaseException:
        os.close(write_end)
        raise
    finally:
        os.close(read_end)
    return pid, write_end


def release_watchdog(write_end: int) -> None:
    """Stop the watchdog without killing the group, and close the writing end of its pipe."""
    try:
        os.write(write_end, b"\n")
    except BrokenPipeError:
        pass  # the watchdog has already ended
    os.close(write_end)


def spawn_held_group(command: str, environment: dict[str, str], output: int, folder: str) -> tuple[int, int]:
    """Start a shell as the leader of a new session in `folder`, and return its process id and a descriptor.

    Its command begins with `release_held_group` of the descriptor, and never begins if this process dies before. Standard input is empty.
    `output` is the descriptor of its standard output and error. Changes the current folder for a moment: call it without other threads.
    """
    read_end, write_end = os.pipe()
    current_folder = os.open(".", os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.chdir(folder)
        return _spawn_shell(HELD_SHELL, command, {**environment, "PWD": folder}, (read_end, output, output)), write_end
    except BaseException:
        os.close(write_end)
        raise
    finally:
        os.fchdir(current_folder)
        os.close(current_folder)
        os.close(read_end)


def release_held_group(write_end: int) -> None:
    """Let the command of a held group begin."""
    release_watchdog(write_end)  # the same line in the same kind of pipe


def _spawn_shell(script: str, command: str, environment: dict[str, str], files: tuple[int, int, int]) -> int:
    # Copies above 2, so that no descriptor is overwritten before it is duplicated to 0, 1 or 2.
    copies = [fcntl.fcntl(file, fcntl.F_DUPFD_CLOEXEC, 3) for file in files]
    try:
        with without_limits():  # it is a program of the owner
            return os.posix_spawn(
                "/bin/sh",
                ("/bin/sh", "-c", script, "inbox", command),
                environment,
                file_actions=[(os.POSIX_SPAWN_DUP2, file, target) for target, file in enumerate(copies)],
                setsid=True,
                setsigmask=(),
                setsigdef=_SIGNALS_TO_RESET,
            )
    finally:
        for file in copies:
            os.close(file)


def signal_group(pid: int, signal: int) -> None:
    """Send a signal to all processes of the group whose leader is `pid`. Do nothing if the group has ended."""
    try:
        os.killpg(pid, signal)
    except (ProcessLookupError, PermissionError):
        pass


def has_members(pid: int) -> bool:
    """Return whether a process of the group whose first leader was `pid` is left."""
    try:
        os.killpg(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    # A process that has ended counts for the kernel until its parent has noticed. In a container, the first process may never do that.
    return not os.path.exists("/proc/self/stat") or any(_list_living_members(pid))


def read_start_mark(pid: int) -> str:
    """Return a text that differs between two processes with the same number, also after a reboot. Empty if `pid` has ended."""
    try:
        fields = _read_stat_fields(pid)
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            boot = file.read().strip()
    except (FileNotFoundError, ProcessLookupError):
        return "" if os.path.exists("/proc/self/stat") else _ask_ps(pid)
    return "" if fields[0] in "ZX" else f"{boot} {fields[19]}"


def find_members(pid: int, variable: str) -> list[int]:
    """Return the processes of a group that have a variable, such as `NAME=value`, in their environment. Empty on a system without /proc."""
    members = []
    for member in _list_living_members(pid) if os.path.exists("/proc/self/stat") else ():
        try:
            with open(f"/proc/{member}/environ", "rb") as file:
                if os.fsencode(variable) in file.read().split(b"\0"):
                    members.append(member)
        except (FileNotFoundError, ProcessLookupError, PermissionError):
            continue  # it ended meanwhile, or it belongs to another user
    return members


def _list_living_members(pid: int) -> Iterator[int]:
    """Yield the processes of a group that have not ended. Needs /proc."""
    for name in os.listdir("/proc"):
        if not name.isdigit():
            continue
        try:
            state, _, group = _read_stat_fields(int(name))[:3]
        except (FileNotFoundError, ProcessLookupError):
            continue  # it ended meanwhile
        if group == str(pid) and state not in "ZX":
            yield int(name)


def _read_stat_fields(pid: int) -> list[str]:
    """Return the fields of /proc/PID/stat from the state on: the process's name before it may contain spaces."""
    with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
        return file.read().rsplit(")", 1)[1].split()


def _ask_ps(pid: int) -> str:
    """Return the start time of a process on a system without /proc."""
    import subprocess

    found = subprocess.run(["/bin/ps", "-o", "lstart=", "-p", str(pid)], capture_output=True, text=True, check=False)  # noqa: S603
    return found.stdout.strip()
