"""The disk after a COMMIT: a verb returns, and waiters wake, when the log is on the disk. Other writers do not wait for that."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from threading import Event, Thread

import pytest

from postroom import mail
from postroom.core.errors import StoreUnreachable
from postroom.store.sqlite.engine import SqliteStore


@pytest.fixture
def place(sqlite_place: str) -> str:
    """These are about files."""
    return sqlite_place


def enqueue(store: SqliteStore, payload: str = "p") -> None:
    mail.enqueue(store, {"from": "lead", "to": "box", "payload": payload})


def test_a_write_waits_for_the_disk_before_it_wakes_and_returns(place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[tuple[str, int]] = []
    sync, wake_file = os.fdatasync, Path(place + ".bell")

    def note_sync(descriptor: int) -> None:
        synced.append((os.readlink(f"/proc/self/fd/{descriptor}"), wake_file.stat().st_mtime_ns))
        sync(descriptor)

    monkeypatch.setattr(os, "fdatasync", note_sync)
    with SqliteStore(place) as store:
        enqueue(store)  # COMMIT itself syncs the first one
        assert store.connection.execute("PRAGMA synchronous").fetchone() == (2,)
        for count in (1, 2, 3):
            os.utime(wake_file, (0, 0))
            enqueue(store)
            assert synced[-1:] == [(place + "-wal", 0)]
            assert len(synced) == count
            assert wake_file.stat().st_mtime_ns > 0
        assert mail.dequeue(store, "empty") is None  # nothing was written, but the answer may rest on a commit whose process died unsynced
        assert len(synced) == 4


def test_a_write_that_the_disk_does_not_confirm_is_not_reported_as_done(place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_: int) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    with SqliteStore(place) as store:
        enqueue(store)
        monkeypatch.setattr(os, "fdatasync", fail)
        with pytest.raises(StoreUnreachable, match="did not confirm"):
            enqueue(store)
        monkeypatch.undo()
        enqueue(store)
        assert mail.peek(store, "box").total == 3


def test_a_writer_that_waits_for_the_disk_holds_up_no_other(place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    waiting, confirmed, sync = Event(), Event(), os.fdatasync

    def sync_slowly(descriptor: int) -> None:
        waiting.set()
        assert confirmed.wait(20)
        sync(descriptor)

    with SqliteStore(place) as store, SqliteStore(place) as other:
        enqueue(store)
        monkeypatch.setattr(os, "fdatasync", sync_slowly)
        slow = Thread(target=enqueue, args=(store, "slow"))
        slow.start()
        assert waiting.wait(20)
        monkeypatch.undo()
        enqueue(other)  # of another connection, as in another process
        enqueue(store)  # of another thread
        assert slow.is_alive()
        assert mail.peek(store, "box").total == 4
        confirmed.set()
        slow.join()


def test_a_closed_store_syncs_by_itself_again(place: str) -> None:
    with SqliteStore(place) as store:
        enqueue(store)
        enqueue(store)
        assert store.connection.execute("PRAGMA synchronous").fetchone() == (1,)
        store.close()
        enqueue(store)
        assert store.connection.execute("PRAGMA synchronous").fetchone() == (2,)
