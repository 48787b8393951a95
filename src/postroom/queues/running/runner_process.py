"""Find, start and stop the notifier's runner process. Called by `notifier`.

The runner holds `runner.lock` while it lives. The process that starts a runner acquires the lock first and passes it on, so that two
runners are never started. A runner that has released the lock checks for tasks once more before it exits (`runner.main`). So a
process that finds the lock held may rely on its task being seen.
"""

from __future__ import annotations

import fcntl
import os
import sys
from time import monotonic, sleep

from postroom.core.errors import StoreReadOnly
from postroom.processes.command_environment import command_environment
from postroom.queues.locks import ConsumerLock

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

_RUNNER_CODE = "from postroom.queues.running.keeper import main; main()"
_MAX_LOG_BYTES = 1 << 20
_WAIT_TIMEOUT_SECONDS = 10.0
_LOCK_POLL_SECONDS = 0.5
_SIGTERM = 15


def wake_runner(home: str) -> None:
    """Start a runner if none is up. A running one is woken by the wake files of the write transaction."""
    lock = _open_lock(home)
    try:
        if lock.try_acquire():
            _spawn_runner(home, lock)
    finally:
        lock.close()


def find_runner(home: str) -> tuple[bool, int | None]:
    """Return whether a runner is up, and its process id. The id is None while the runner is starting."""
    lock = _open_lock(home)
    try:
        if lock.is_free():
            return False, None
        pid = lock.read_state().get("pid")
        return True, pid if isinstance(pid, int) else None
    finally:
        lock.close()


def wait_for_start(home: str) -> None:
    """Wait until no runner is starting, for at most 10 seconds."""
    _poll_until(lambda: find_runner(home) != (True, None))


def wait_for_lock(home: str) -> ConsumerLock:
    """Wait until no other runner is up, and return the lock."""
    lock = _open_lock(home)
    while not lock.try_acquire():
        sleep(_LOCK_POLL_SECONDS)
    os.ftruncate(lock.fd, 0)
    return lock


def stop_runner(home: str) -> None:
    """Send SIGTERM to the runner, if one is up, and wait at most 10 seconds for it to exit."""
    wait_for_start(home)
    up, pid = find_runner(home)
    if not up or pid is None:
        return
    try:
        os.kill(pid, _SIGTERM)
    except ProcessLookupError:
        return  # it exited by itself
    _poll_until(lambda: find_runner(home) != (True, pid))


def _poll_until(condition: Callable[[], bool]) -> None:
    deadline = monotonic() + _WAIT_TIMEOUT_SECONDS
    while not condition() and monotonic() < deadline:
        sleep(0.005)


def _open_lock(home: str) -> ConsumerLock:
    try:
        return ConsumerLock(os.open(os.path.join(home, "runner.lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600))
    except OSError as error:
        hint = "Check the folder, or name another with NOTIFIER_HOME."
        raise StoreReadOnly(f"{home}/runner.lock cannot be opened: {error.strerror}", hint=hint) from None


def _spawn_runner(home: str, lock: ConsumerLock) -> None:
    """Start a runner that inherits the lock. Its log is rotated first if it is too long."""
    os.ftruncate(lock.fd, 0)
    log = os.path.join(home, "runner.log")
    try:
        if os.stat(log).st_size > _MAX_LOG_BYTES:
            os.replace(log, log + ".1")
    except OSError:
        pass
    inherited_fd = fcntl.fcntl(lock.fd, fcntl.F_DUPFD, 3)  # from 3 on: 0, 1 and 2 are replaced below
    try:
        os.posix_spawn(
            sys.executable,
            (sys.executable, "-P", "-c", _RUNNER_CODE, home, str(inherited_fd)),
            {**command_environment(), "NOTIFIER_HOME": home},
            file_actions=[
                (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
                (os.POSIX_SPAWN_OPEN, 1, log, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW, 0o600),
                (os.POSIX_SPAWN_DUP2, 1, 2),
            ],
            setsid=True,
        )
    finally:
        os.close(inherited_fd)
