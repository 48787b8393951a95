"""The disk after a COMMIT: a verb returns, and waiters wake, when the log is on the disk. Other writers do not wait for that."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from pathlib import Path
from threading import Event, Thread
from typing import TYPE_CHECKING

import pytest

from postroom import mail
from postroom.core.errors import StoreUnreachable
from postroom.store.sqlite.engine import SqliteStore
from postroom.store.sqlite.file_watcher import InotifyWatcher, PollingWatcher
from postroom.store.sqlite.wake_files import all_wake_file_path

if TYPE_CHECKING:
    from collections.abc import Callable

    from postroom.store.sqlite.file_watcher import FileWatcher


@pytest.fixture
def place(sqlite_place: str) -> str:
    """These are about files."""
    return sqlite_place


def enqueue(store: SqliteStore, payload: str = "p") -> None:
    mail.enqueue(store, {"from": "lead", "to": "box", "payload": payload})


def test_a_write_waits_for_the_disk_before_it_wakes_and_returns(place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[tuple[str, int]] = []
    sync, wake_file = os.fdatasync, Path(all_wake_file_path(place))

    def note_sync(descriptor: int) -> None:
        synced.append((os.readlink(f"/proc/self/fd/{descriptor}"), wake_file.stat().st_mtime_ns))
        sync(descriptor)

    monkeypatch.setattr(os, "fdatasync", note_sync)
    with SqliteStore(place) as store:
        with store.watch():  # makes the wake file
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


def test_an_answer_without_a_write_waits_for_the_disk_also_if_another_writer_follows_at_once(
    place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[int] = []
    sync = os.fdatasync

    def note_sync(descriptor: int) -> None:
        synced.append(descriptor)
        sync(descriptor)

    with SqliteStore(place) as store, SqliteStore(place) as other:
        queue = store.file.writer_queue
        leave = queue.leave

        def let_another_write() -> None:
            leave()
            enqueue(other)  # its COMMIT syncs by itself

        monkeypatch.setattr(queue, "leave", let_another_write)
        monkeypatch.setattr(os, "fdatasync", note_sync)
        assert mail.dequeue(store, "empty") is None
        assert len(synced) == 1


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


def test_a_wake_file_that_became_a_link_or_a_pipe_is_not_written(place: str, tmp_path: Path) -> None:
    wake_file, other = Path(all_wake_file_path(place)), tmp_path / "other"
    other.write_text("kept")
    with SqliteStore(place) as store:
        with store.watch():  # makes the wake file
            wake_file.unlink()
        wake_file.symlink_to(other)
        enqueue(store)
        assert other.read_text() == "kept"
        wake_file.unlink()
        os.mkfifo(wake_file)
        enqueue(store)
        assert mail.peek(store, "box").total == 2


@pytest.mark.parametrize("kind", [InotifyWatcher, PollingWatcher], ids=["inotify", "polling"])
def test_a_watcher_is_notified_of_a_write_and_of_nothing_else(place: str, kind: Callable[[list[str], str], FileWatcher]) -> None:
    with SqliteStore(place) as store:
        with store.watch("mail:box"):  # makes the wake file
            enqueue(store)
        watcher = kind([store.wake_file_path("mail:box")], place)
        mail.enqueue(store, {"from": "lead", "to": "another", "payload": "p"})
        store.connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()  # writes to the file of the store
        assert watcher.wait(0.01, None) == ""
        enqueue(store)
        assert watcher.wait(20, None) == "notified"
        watcher.close()


DNOTIFY = """
import sys
from postroom import mail
from postroom.store.sqlite.engine import SqliteStore
from postroom.store.sqlite.file_watcher import DnotifyWatcher

store = SqliteStore(sys.argv[1])
with store.watch("mail:box"):
    watcher = DnotifyWatcher([store.wake_file_path("mail:box")], store.location)
mail.enqueue(store, {"from": "lead", "to": "another", "payload": "p"})
print(repr(watcher.wait(0.01, None)))
mail.enqueue(store, {"from": "lead", "to": "box", "payload": "p"})
print(repr(watcher.wait(20, None)))
"""


def test_a_watcher_by_signals_is_notified_of_a_write_and_of_nothing_else(place: str) -> None:
    done = subprocess.run([sys.executable, "-c", DNOTIFY, place], capture_output=True, text=True, check=False)  # its signals end pytest
    assert (done.stdout, done.stderr) == ("''\n'notified'\n", "")
