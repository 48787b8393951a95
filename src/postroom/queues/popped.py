"""The file `run/<consumer>.popped`: the newest event that `pop` returned to a consumer. `queue.ack_events` compares a batch with it."""

from __future__ import annotations

import os

from postroom.core.text import to_file_name
from postroom.store.files.private_files import open_beside

TYPE_CHECKING = False
if TYPE_CHECKING:
    from postroom.queues.queue import Queue

_MAX_BYTES = 64


def record_popped(queue: Queue, consumer: str, newest: int) -> None:
    """Store that `pop` returned events up to `newest`, unless it returned newer ones before. A failure is ignored: reading must work."""
    try:
        file = open_beside(queue.file.location, _path(queue, consumer), os.O_RDWR)
    except OSError:
        return  # the queue is read-only, or its folder `run` is gone
    try:
        if newest > _parse(os.pread(file, _MAX_BYTES, 0)):
            os.pwrite(file, b"%d\n" % newest, 0)
    finally:
        os.close(file)


def read_popped(queue: Queue, consumer: str) -> int:
    """Return the newest event that `pop` returned to a consumer, or 0."""
    try:
        with open(_path(queue, consumer), "rb") as file:
            return _parse(file.read(_MAX_BYTES))
    except OSError:
        return 0


def _parse(data: bytes) -> int:
    try:
        return int(data)
    except ValueError:
        return 0


def _path(queue: Queue, consumer: str) -> str:
    return os.path.join(queue.path, "run", to_file_name(consumer) + ".popped")
