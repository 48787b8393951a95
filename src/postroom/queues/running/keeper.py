"""The parent of the runner: it waits for the runner, and starts another one if the runner was killed or failed.

It loads little, and does nothing else, so that it has no reason to fail. If it is killed, the runner goes on without it.
"""

from __future__ import annotations

import os
import sys
from time import monotonic, sleep

from postroom.core import limits
from postroom.processes.resource_limits import limit_resources
from postroom.queues.locks import ConsumerLock

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn

MAX_PAUSE_SECONDS = 60.0
LONG_LIFE_SECONDS = 60.0  # a runner that lived for longer does not fail again and again


def main() -> NoReturn:
    """Keep a runner. The arguments are the notifier's folder and the descriptor of its lock, which keeper and runner share."""
    home, lock = sys.argv[1], ConsumerLock(int(sys.argv[2]))
    os.closerange(3, lock.fd)  # close what the parent left open: a file may carry a lock
    os.closerange(lock.fd + 1, 1 << 16)
    os.set_inheritable(lock.fd, False)
    limit_resources(limits.MAX_CHILD_MEMORY_BYTES, 0)  # also of the runner; not of the commands that it starts
    pause_seconds = 0.0
    while True:
        started_at = monotonic()
        runner = os.fork()
        if runner == 0:
            _become_runner(home, lock)
        exit_code = os.waitstatus_to_exitcode(os.waitpid(runner, 0)[1])
        if exit_code == 0 or not os.path.isdir(home):
            os._exit(0)
        if monotonic() - started_at > LONG_LIFE_SECONDS:
            pause_seconds = 0.0
        os.ftruncate(lock.fd, 0)
        if pause_seconds:
            lock.release()  # a push during the pause starts another keeper, and its event does not wait
            sleep(pause_seconds)
        pause_seconds = min(2 * pause_seconds or 0.5, MAX_PAUSE_SECONDS)
        if not lock.try_acquire():  # another keeper is up
            os._exit(0)


def _become_runner(home: str, lock: ConsumerLock) -> NoReturn:
    from postroom.queues.running.runner import run_until_idle

    try:
        run_until_idle(home, lock)
    except BaseException:  # the keeper must not run in the child: report the failure, and end here
        import traceback

        traceback.print_exc()
        os._exit(1)
    os._exit(0)
