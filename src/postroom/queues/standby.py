"""Whether a runner is up, and starting one if not.

The runner holds `runner.lock` for as long as it lives. Who starts one takes the lock first and hands it on, so that two are never
started; and a runner that has let go of it looks once more before it is gone, so that who found it held was right to trust it.
"""

from __future__ import annotations

import fcntl
import os
import sys
from time import monotonic, sleep

from postroom.core.errors import StoreReadOnly
from postroom.queues.locks import Lock

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

_CODE = "from postroom.queues.runner import main; main()"
_OF_A_HANDLER = ("THREAD_DIR", "THREAD_CONSUMER", "INBOX_LEASH")  # a runner that one starts is not that one's
_LARGEST_LOG = 1 << 20
_PATIENCE = 10.0
_TERM = 15


def wake(home: str) -> None:
    """Make sure that a runner is up. It hears the bell by itself."""
    lock = _open(home)
    try:
        if lock.retake():
            _start(home, lock)
    finally:
        lock.close()


def look(home: str) -> tuple[bool, int | None]:
    """Whether a runner is up, and its process id, unless it is only just starting."""
    lock = _open(home)
    try:
        if lock.only_looked_at():
            return False, None
        process = lock.read().get("pid")
        return True, process if isinstance(process, int) else None
    finally:
        lock.close()


def settle(home: str) -> None:
    """Wait a while for a runner that is only just starting."""
    _until(lambda: look(home) != (True, None))


def end(home: str) -> None:
    """Tell the runner to end, if one is up, and wait a while for it to do so."""
    settle(home)
    up, process = look(home)
    if not up or process is None:
        return
    try:
        os.kill(process, _TERM)
    except ProcessLookupError:
        return  # it was leaving anyway
    _until(lambda: look(home) != (True, process))


def _until(fact: Callable[[], bool]) -> None:
    deadline = monotonic() + _PATIENCE
    while not fact() and monotonic() < deadline:
        sleep(0.005)


def _open(home: str) -> Lock:
    try:
        return Lock(os.open(os.path.join(home, "runner.lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666))
    except OSError as error:
        hint = "Check the folder, or name another with NOTIFIER_HOME."
        raise StoreReadOnly(f"{home}/runner.lock cannot be opened: {error.strerror}", hint=hint) from None


def _start(home: str, lock: Lock) -> None:
    os.ftruncate(lock.file, 0)
    log = os.path.join(home, "runner.log")
    try:
        if os.stat(log).st_size > _LARGEST_LOG:
            os.replace(log, log + ".1")
    except OSError:
        pass
    handed = fcntl.fcntl(lock.file, fcntl.F_DUPFD, 3)  # inherited, and out of the way of standard input and output
    try:
        os.posix_spawn(
            sys.executable,
            (sys.executable, "-P", "-c", _CODE, home, str(handed)),
            {name: value for name, value in os.environ.items() if name not in _OF_A_HANDLER},
            file_actions=[
                (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
                (os.POSIX_SPAWN_OPEN, 1, log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o666),
                (os.POSIX_SPAWN_DUP2, 1, 2),
            ],
            setsid=True,
        )
    finally:
        os.close(handed)
