"""Supervise the handlers of consumers, in one process and without threads. Each running handler is one process group.

The runner of the notifier has a supervisor. `thread dispatch` starts a process of its own for one (`start_supervisor`). A supervisor
holds the lock of each of its consumers. If it is killed, its handlers go on: the next supervisor finds them by the state in the lock
file, and no second handler is started.
"""

from __future__ import annotations

import fcntl
import os
import select
import signal
import sys
from time import monotonic

from postroom.core import limits
from postroom.core.errors import Refusal
from postroom.processes.command_environment import command_environment
from postroom.processes.interpreter import NEUTRAL_FOLDER
from postroom.processes.resource_limits import limit_resources
from postroom.processes.wake_pipe import WakePipe
from postroom.queues.locks import ConsumerLock
from postroom.queues.queue import Queue
from postroom.queues.subscriptions import read_subscription_state
from postroom.queues.supervised_consumer import SupervisedConsumer

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import NoReturn

    from postroom.queues.subscriptions import SubscriptionState

MAX_IDLE_QUEUES = 32  # that stay open without a handler, because the next push is often to the same queue
_SUPERVISOR_CODE = "from postroom.queues.supervisor import main; main()"


class Supervisor:
    """The consumers whose handlers this process runs."""

    def __init__(self) -> None:
        self._consumers: list[SupervisedConsumer] = []
        self._queues: dict[str, tuple[Queue, tuple[int, int]]] = {}  # by path, with the identity of the database

    @property
    def is_busy(self) -> bool:
        return bool(self._consumers)

    def open_queue(self, path: str) -> Queue:
        """Return an open queue, which this supervisor closes. Refuses with `NoStore` if there is none."""
        known = self._queues.pop(path, None)
        if known is None or known[1] != _identify(known[0].file.location):
            queue = Queue(path, door="cli")
            known = queue, _identify(queue.file.location)
        self._queues[path] = known  # the last one is the one that was used last
        self._close_idle_queues()
        return known[0]

    def start(self, queue: Queue, state: SubscriptionState, lock: ConsumerLock, *, at_once: bool) -> str:
        """Take over a consumer with its lock and start its handler. Return what is to be said about that, or an empty text."""
        consumer = SupervisedConsumer(queue, state, lock)
        detail = consumer.begin(state, at_once=at_once)
        self._consumers.append(consumer)
        return detail

    def check_soon(self, path: str) -> None:
        """Look at the subscriptions of a queue with the next `advance`."""
        for consumer in self._consumers:
            if consumer.queue.path == path:
                consumer.check_soon()

    def stop_after_runs(self) -> None:
        """Start no more runs. Consumers whose handlers run stay until those have ended."""
        for consumer in self._consumers:
            consumer.stop_after_run()

    def reap(self, pid: int, status: int) -> bool:
        """Record the end of a child. Return whether it was a handler."""
        for consumer in self._consumers:
            if consumer.pid == pid:
                consumer.record_exit(status)
                return True
        return False

    def advance(self) -> None:
        """Do what is due for each consumer, and forget those that are done."""
        now = monotonic()
        self._consumers = [consumer for consumer in self._consumers if consumer.next_due() > now or consumer.advance()]

    def seconds_until_due(self) -> float | None:
        """Return the seconds until `advance` has something to do, or None if only a signal can bring that."""
        if not self._consumers:
            return None
        return max(min(consumer.next_due() for consumer in self._consumers) - monotonic(), 0.0)

    def _close_idle_queues(self) -> None:
        used = {id(consumer.queue) for consumer in self._consumers}
        idle = [path for path, (queue, _) in self._queues.items() if id(queue) not in used]
        for path in idle[:-MAX_IDLE_QUEUES]:
            self._queues.pop(path)[0].close()


def start_supervisor(path: str, held: Sequence[tuple[str, ConsumerLock]], *, at_once: bool) -> None:
    """Start a detached process that supervises consumers of a queue. It inherits their locks."""
    copies = [fcntl.fcntl(lock.fd, fcntl.F_DUPFD, 3) for _, lock in held]
    words = [word for (consumer, _), copy in zip(held, copies, strict=True) for word in (consumer, str(copy))]
    null = (os.devnull, os.O_RDWR, 0)
    try:
        os.posix_spawn(
            sys.executable,
            # Not -I, which would hide a Postroom that is installed for one user. Without PYTHON… variables, -P is as safe.
            (sys.executable, "-P", "-c", _SUPERVISOR_CODE, os.path.abspath(path), "at once" if at_once else "", *words),
            command_environment(),
            file_actions=[(os.POSIX_SPAWN_OPEN, standard_fd, *null) for standard_fd in (0, 1, 2)],
            setsid=True,
        )
    finally:
        for copy in copies:
            os.close(copy)


def main() -> NoReturn:
    """Run as the process that `start_supervisor` started: until no consumer needs it."""
    limit_resources(limits.MAX_CHILD_MEMORY_BYTES, 0)  # not of the handlers
    os.chdir(NEUTRAL_FOLDER)
    path, at_once, *words = sys.argv[1:]
    locks = {consumer: ConsumerLock(int(fd)) for consumer, fd in zip(words[::2], words[1::2], strict=True)}
    for lock in locks.values():
        os.set_inheritable(lock.fd, False)
    supervisor, wake = Supervisor(), install_wake_pipe()
    for consumer, lock in locks.items():
        try:
            state = read_subscription_state(supervisor.open_queue(path), consumer)
            if state is not None and lock.is_current(path, consumer):
                supervisor.start(supervisor.open_queue(path), state, lock, at_once=bool(at_once))
                continue
        except (Refusal, OSError):
            pass  # the queue is gone or broken. Its lock is released, so that the next dispatch reports why
        lock.close()
    while supervisor.is_busy:
        select.select([wake.read_fd], [], [], supervisor.seconds_until_due())
        wake.drain()
        reap_children(supervisor)
        supervisor.advance()
    os._exit(0)


def install_wake_pipe() -> WakePipe:
    """Return a pipe that becomes readable when a child ends or another signal arrives."""
    wake = WakePipe()
    signal.set_wakeup_fd(wake.write_fd, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    return wake


def reap_children(supervisor: Supervisor) -> list[tuple[int, int]]:
    """Collect the processes that ended, and return those that were not handlers, with their exit codes."""
    others: list[tuple[int, int]] = []
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return others
        if pid == 0:
            return others
        exit_code = os.waitstatus_to_exitcode(status)
        if not supervisor.reap(pid, exit_code):
            others.append((pid, exit_code))


def _identify(location: str) -> tuple[int, int]:
    try:
        status = os.stat(location)
    except OSError:
        return 0, 0
    return status.st_dev, status.st_ino
