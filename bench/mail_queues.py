"""The mail room and other queues that are one SQLite file, behind one interface.

All of them commit with synchronous=FULL, one message in each transaction. `python -m bench.mail_queues KIND FOLDER CALLS` is a worker.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

import postroom
from postroom import mail
from postroom.store.interface import Store
from postroom.store.sqlite.engine import SqliteStore

PAYLOAD = "analyze the auth module"
SESSION = "analyst"


class MailQueue(Protocol):
    """A queue with a durable put, and a durable take that is followed by an ack."""

    def put(self) -> object: ...

    def take(self) -> object: ...

    def fill(self, count: int) -> None:
        """Put messages without waiting for the disk, because that is what is measured afterwards."""


class PostroomQueue:
    """A mailbox of a store. Each process is a sender of its own: of one sender, only one message at a time is in flight."""

    def __init__(self, folder: str) -> None:
        place = str(Path(folder) / "coord.db")
        postroom.init(place)
        self.store = SqliteStore(place)
        self._sender = f"lead-{os.getpid()}"

    def put(self) -> object:
        return mail.enqueue(self.store, {"from": self._sender, "to": SESSION, "payload": PAYLOAD})

    def take(self) -> object:
        return take_message(self.store, SESSION)

    def fill(self, count: int) -> None:
        for _ in range(count // 100):
            mail.enqueue_all(self.store, [{"from": "lead", "to": SESSION, "payload": PAYLOAD}] * 100)


def take_message(store: Store, session: str) -> object:
    """Take a message and ack it. While other processes hold the first message of each sender, there is none to take."""
    while (delivery := mail.dequeue(store, session)) is None:
        pass
    return mail.ack(store, session, delivery.message.msg_id, delivery_token=delivery.delivery_token)


class LiteQueue:
    """litequeue."""

    def __init__(self, folder: str) -> None:
        import litequeue

        self._queue: Any = litequeue.LiteQueue(str(Path(folder) / "lite.db"))
        self._queue.conn.execute("PRAGMA busy_timeout=10000")
        self._queue.conn.execute("PRAGMA synchronous=FULL")

    def put(self) -> object:
        return self._queue.put(PAYLOAD)

    def take(self) -> object:
        return self._queue.done(self._queue.pop().message_id)

    def fill(self, count: int) -> None:
        self._queue.conn.execute("PRAGMA synchronous=OFF")
        for _ in range(count):
            self.put()
        self._queue.conn.execute("PRAGMA synchronous=FULL")


class PersistQueue:
    """persist-queue's ack queue."""

    def __init__(self, folder: str) -> None:
        import persistqueue

        place = str(Path(folder) / "persist")
        self._queue: Any = persistqueue.SQLiteAckQueue(place, auto_commit=True, auto_resume=False, timeout=10, db_file_name="queue.db")
        self._set("synchronous=FULL")

    def _set(self, pragma: str) -> None:
        for connection in (self._queue._conn, self._queue._putter, self._queue._getter):
            connection.execute(f"PRAGMA {pragma}")

    def put(self) -> object:
        return self._queue.put(PAYLOAD)

    def take(self) -> object:
        return self._queue.ack(self._queue.get())

    def fill(self, count: int) -> None:
        self._set("synchronous=OFF")
        for _ in range(count):
            self.put()
        self._set("synchronous=FULL")


KINDS: dict[str, Callable[[str], MailQueue]] = {"postroom": PostroomQueue, "litequeue": LiteQueue, "persistqueue": PersistQueue}


class Workers:
    """Processes that share one queue. Each call of `run` makes every process put, take and ack its number of messages."""

    def __init__(self, kind: str, folder: str, *, processes: int, calls: int) -> None:
        argv = [sys.executable, "-m", "bench.mail_queues", kind, folder, str(calls)]
        self._processes = [subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for _ in range(processes)]
        self._wait()

    def run(self) -> None:
        for process in self._processes:
            assert process.stdin is not None
            process.stdin.write("go\n")
            process.stdin.flush()
        self._wait()

    def _wait(self) -> None:
        for process in self._processes:
            assert process.stdout is not None
            if not process.stdout.readline():
                raise RuntimeError("a worker has ended")

    def close(self) -> None:
        for process in self._processes:
            process.communicate()


def main(kind: str, folder: str, calls: str) -> None:
    queue = KINDS[kind](folder)
    print("ready", flush=True)
    for _ in sys.stdin:
        for _ in range(int(calls)):
            queue.put()
            queue.take()
        print("done", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
