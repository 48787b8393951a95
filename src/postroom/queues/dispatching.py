"""Starting handlers: one for each consumer that has unread events and none at work."""

from __future__ import annotations

import os

from postroom.core import clock
from postroom.core.errors import FilterFailed
from postroom.core.events import Start, Subscription
from postroom.queues.locks import Lock
from postroom.queues.subscriptions import standing
from postroom.queues.supervisor import become, logged, one_line, rests, spawned
from postroom.store.sqlite import queue_statements as sql

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from postroom.queues.queue import Queue
    from postroom.queues.subscriptions import Standing

STARTED, SKIPPED, FAILED = "started", "skipped", "failed"


def dispatch(queue: Queue, *, at_once: bool = False, adopt: Callable[[int], None] | None = None) -> tuple[Start, ...]:
    """Start what is to be started, and say what was done about each consumer that has unread events.

    A handler that got nowhere before is left alone for a while, unless it is to be `at_once`.
    Forks, so call it from a process with one thread; `schedule` is for all others. Supervisors live on by themselves, unless
    `adopt` takes in their process ids.
    """
    with queue.file.read() as tx:
        consumers = [Subscription(*row).consumer_id for row in tx.all(sql.SUBSCRIPTIONS)]
    starts = (_look_after(queue, consumer, at_once, adopt) for consumer in consumers)
    return tuple([start for start in starts if start is not None])


def _look_after(queue: Queue, consumer: str, at_once: bool, adopt: Callable[[int], None] | None) -> Start | None:
    try:
        now = standing(queue, consumer)
    except FilterFailed as refusal:  # its own consumer stops, the others go on
        queue.tracks.say(f"dispatch: consumer={logged(consumer)} filter: {one_line(str(refusal))}", "ERROR")
        return Start(consumer, FAILED, str(refusal))
    if now is None or not now.unread:
        return None
    try:
        lock = Lock.take(queue.path, consumer)
    except OSError as error:
        queue.tracks.say(f"dispatch: consumer={logged(consumer)} lock: {error.strerror}", "ERROR")
        return Start(consumer, FAILED, f"its lock cannot be taken: {error.strerror}")
    if lock is None:
        queue.tracks.say(f"dispatch: consumer={logged(consumer)} skipped (lock held)")
        return Start(consumer, SKIPPED, "lock held")
    try:
        until = 0 if at_once else rests(lock, now, queue.file.clock())
        if not until:
            queue.tracks.say(f"dispatch: consumer={logged(consumer)} {spawned(now.subscription)}")
        _fork(queue.path, now, lock, not until, adopt)
    finally:
        lock.close()
    return Start(consumer, STARTED, f"no progress before: rests until {clock.stamp(until)}" if until else "")


def _fork(path: str, now: Standing, lock: Lock, at_once: bool, adopt: Callable[[int], None] | None) -> None:
    child = os.fork()
    if child == 0:
        try:
            if adopt is not None or os.fork() == 0:  # twice, unless somebody waits for it
                become(path, now, lock, at_once)
        finally:
            os._exit(0)
    if adopt is None:
        os.waitpid(child, 0)
    else:
        adopt(child)
