"""The mail room and other queues that are one SQLite file, behind one interface.

All of them commit with synchronous=FULL, one message in each transaction. `python -m bench.mail_queues KIND FOLDER SECONDS` is a worker.
"""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from time import perf_counter
from typing import Any, Protocol

import postroom
from bench.results import OURS
from postroom import mail
from postroom.core import clock
from postroom.store.interface import Store
from postroom.store.sqlite.engine import SqliteStore

PAYLOAD = "analyze the auth module"
SESSION = "analyst"


class MailQueue(Protocol):
    """A queue with a durable put, and a durable take that is followed by an ack."""

    def put(self) -> object: ...

    def take(self) -> object: ...

    def fill(self, count: int) -> None:
        """Insert messages without waiting for the disk, because that is what is measured afterwards."""


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
        fill_mailbox(self.store, SESSION, count)


def fill_mailbox(store: SqliteStore, session: str, count: int) -> None:
    """Insert messages, half of them from one sender and half from a hundred others."""
    mail.enqueue(store, {"from": "lead", "to": session, "payload": PAYLOAD})
    now, seconds = clock.now(), clock.now() // clock.MICROSECONDS_PER_SECOND

    def sender(row: int) -> str:
        return "lead" if row % 2 else f"sender-{row // 2 % 100}"

    def is_head(row: int) -> bool:  # the first message of its sender. That of "lead" was enqueued before
        return row % 2 == 0 and row < 200

    database = sqlite3.connect(store.location)
    database.execute("PRAGMA synchronous=OFF")
    database.executemany(
        "INSERT INTO deliveries (msg_id, session, sender, created_at, attempt, state, head, rank, stored_at, since, door, payload)"
        " VALUES (?, ?, ?, ?, 0, 'pending', ?, ?, ?, 0, 'library', ?)",
        ((f"fill:{session}:{row}", session, sender(row), seconds, int(is_head(row)), seconds, now, PAYLOAD) for row in range(count)),
    )
    database.execute("UPDATE mailboxes SET pending = pending + ? WHERE session = ?", (count, session))
    database.commit()
    database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    database.close()


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
        insert = f"INSERT INTO {self._queue.table} (data, message_id, status, in_time) VALUES (?, ?, 0, 0)"  # 0 is READY
        with self._queue.transaction():
            self._queue.conn.executemany(insert, ((PAYLOAD, f"{row:032d}") for row in range(count)))
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
        data = self._queue._serializer.dumps(PAYLOAD)
        insert = f"INSERT INTO {self._queue._table_name} (data, timestamp, status) VALUES (?, 0, 0)"
        with self._queue._putter as transaction:
            transaction.executemany(insert, ((data,) for _ in range(count)))
        self._queue.total += count
        self._set("synchronous=FULL")


class HueyQueue:
    """huey's SQLite storage. It has no ack: a job is deleted when it is taken, and lost if its worker ends."""

    def __init__(self, folder: str) -> None:
        from huey.storage import SqliteStorage

        self._place = str(Path(folder) / "huey.db")
        self._storage: Any = SqliteStorage("bench", filename=self._place, fsync=True, timeout=10)

    def put(self) -> object:
        return self._storage.enqueue(PAYLOAD.encode())

    def take(self) -> object:
        return self._storage.dequeue()

    def fill(self, count: int) -> None:
        database = sqlite3.connect(self._place)
        database.execute("PRAGMA synchronous=OFF")
        database.executemany("INSERT INTO task (queue, data) VALUES ('bench', ?)", ((PAYLOAD.encode(),) for _ in range(count)))
        database.commit()
        database.close()


KINDS: dict[str, Callable[[str], MailQueue]] = {
    OURS: PostroomQueue,
    "litequeue": LiteQueue,
    "persist-queue": PersistQueue,
    "huey": HueyQueue,
}
MODULES = {"litequeue": "litequeue", "persist-queue": "persistqueue", "huey": "huey"}


def find_installed() -> dict[str, Callable[[str], MailQueue]]:
    """Return the queues that this environment has."""
    return {name: make for name, make in KINDS.items() if name == OURS or find_spec(MODULES[name]) is not None}


class Workers:
    """Processes that share one queue. In a block, each of the first `clients` puts, takes and acks messages for `seconds`."""

    def __init__(self, kind: str, folder: str, *, processes: int, seconds: float) -> None:
        argv = [sys.executable, "-m", "bench.mail_queues", kind, folder, str(seconds)]
        self._processes = [subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for _ in range(processes)]
        for process in self._processes:
            _read_line(process)

    def measure_rate(self, clients: int) -> float:
        """Return the messages a second of one block."""
        for process in self._processes[:clients]:
            assert process.stdin is not None
            process.stdin.write("go\n")
            process.stdin.flush()
        return sum(float(_read_line(process)) for process in self._processes[:clients])

    def close(self) -> None:
        for process in self._processes:
            process.communicate()


def _read_line(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    line = process.stdout.readline()
    if not line:
        raise RuntimeError("a worker has ended")
    return line


def main(kind: str, folder: str, seconds: str) -> None:
    queue = KINDS[kind](folder)
    print("ready", flush=True)
    for _ in sys.stdin:
        done, began = 0, perf_counter()
        while perf_counter() - began < float(seconds):
            queue.put()
            queue.take()
            done += 1
        print(done / (perf_counter() - began), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
