"""The cost of a write in pages: a commit on SQLite pays for each page that it writes to the log, whatever the load of the machine."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from postroom import mail
from postroom.store.sqlite.engine import SqliteStore

WAITING, CALLS = 500, 60
FRAME_BYTES, LOG_HEADER_BYTES = 4096 + 24, 32


def _enqueue(store: SqliteStore) -> None:
    mail.enqueue(store, {"from": "lead", "to": "box", "payload": "analyze the auth module"})


def _dequeue_and_ack(store: SqliteStore) -> None:
    delivery = mail.dequeue(store, "box")
    assert delivery is not None
    mail.ack(store, "box", delivery.message.msg_id, delivery_token=delivery.delivery_token)


@pytest.mark.parametrize(("act", "most_pages"), [(_enqueue, 9), (_dequeue_and_ack, 17)], ids=["enqueue", "dequeue and ack"])
def test_a_message_writes_few_pages(act: Callable[[SqliteStore], None], most_pages: float, sqlite_place: str) -> None:
    with SqliteStore(sqlite_place) as store:
        mail.enqueue_all(store, [{"from": "lead", "to": "box", "payload": "analyze the auth module"}] * WAITING)
        store.connection.execute("PRAGMA wal_autocheckpoint=0")
        store.connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        for _ in range(CALLS):
            act(store)
        log_bytes = Path(f"{sqlite_place}-wal").stat().st_size
    assert (log_bytes - LOG_HEADER_BYTES) / FRAME_BYTES / CALLS <= most_pages
