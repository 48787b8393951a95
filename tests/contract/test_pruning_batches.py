"""The batches of pruning: how long their transactions last, and what they leave to other writers."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from time import monotonic

import pytest

from postroom import work
from postroom.maintenance import paced_batches
from postroom.maintenance.paced_batches import PacedBatches
from postroom.store.interface import Transaction
from postroom.store.maintenance.space import SharedFile
from postroom.store.sqlite import writer_queue
from postroom.store.sqlite.engine import MAX_WAL_BYTES, SqliteStore
from postroom.store.sqlite.open_database import MAX_IDLE_WAL_BYTES, WalFile
from tests.contract.blocking_store import eventually
from tests.contract.thread_data import sent


def test_pruning_notices_when_others_write_and_not_its_own_commits(sqlite_place: str) -> None:
    with SqliteStore(sqlite_place) as store, SqliteStore(sqlite_place) as other:
        shared = SharedFile(store)
        shared.have_others_written()
        sent(store)
        assert not shared.have_others_written()
        sent(other)
        assert shared.have_others_written()
        assert not shared.have_others_written()


def test_the_time_that_a_batch_holds_the_store_includes_its_commit(sqlite_place: str) -> None:
    with SqliteStore(sqlite_place) as store:
        shared = SharedFile(store)
        with store.write() as tx:
            tx.execute(tx.sql.setting_put, name="a", value="b")
            before_commit = monotonic()
        assert before_commit < shared.left_at() < monotonic()


def test_the_time_that_a_batch_holds_the_store_is_known_without_a_turn_to_write(sqlite_place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writer_queue, "MAX_WAIT_SECONDS", 0.0)
    stopped = writer_queue.WriterQueue(sqlite_place)
    with SqliteStore(sqlite_place) as store:
        shared = SharedFile(store)
        stopped.enter()
        with store.write():
            began = monotonic()
        assert shared.left_at() > began
    stopped.close()


def _put_settings(tx: Transaction, names: Sequence[str]) -> int:
    for name in names:
        tx.execute(tx.sql.setting_put, name=name, value="b")
    return len(names)


def test_the_batches_of_pruning_leave_the_sync_to_its_end(sqlite_place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[None] = []
    with SqliteStore(sqlite_place) as store:
        sent(store)
        batches = PacedBatches(store)
        monkeypatch.setattr(WalFile, "sync", lambda _: synced.append(None))
        batches.run_parts(["a", "b", "c"], _put_settings)
        assert synced == []
        batches.sync()
        assert synced == [None]
        sent(store)
        assert synced == [None, None]  # what somebody is told is on the disk


def test_the_batches_of_a_command_leave_a_long_log_alone(sqlite_place: str) -> None:
    log = Path(sqlite_place + "-wal")
    with SqliteStore(sqlite_place) as store:
        work.send(store, sender="leader", to="builder", subject="Build", body="text " * 200_000)
        before = log.stat().st_size
        assert before > MAX_WAL_BYTES  # which a command truncates, and others would wait
        PacedBatches(store.with_door("cli")).run_once(lambda tx: _put_settings(tx, ["a"]))
        assert log.stat().st_size >= before


def test_a_batch_neither_syncs_in_its_turn_nor_overwrites_what_it_frees(sqlite_place: str) -> None:
    with SqliteStore(sqlite_place) as store:
        with store.read() as tx:
            tx.fetch_one(tx.sql.event_latest)  # makes the log
        modes: list[tuple[int, int]] = []

        def read_modes(tx: Transaction) -> None:
            modes.append((tx.fetch_one("PRAGMA synchronous")[0], tx.fetch_one("PRAGMA secure_delete")[0]))

        PacedBatches(store).run_once(read_modes)
    normal, fast = 1, 2
    assert modes == [(normal, fast)]


def test_a_batch_ends_when_its_items_take_longer_than_those_before(sqlite_place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[int] = []
    transactions: list[int] = []
    with SqliteStore(sqlite_place) as store:
        batches = PacedBatches(store, is_stopping=lambda: bool(transactions.append(len(done))))  # type: ignore[func-returns-value]
        batches.run_all(range(100), lambda _, item: done.append(item) or 0)  # type: ignore[func-returns-value]
        assert len(transactions) < 100
        transactions.clear()
        monkeypatch.setattr(paced_batches, "WORK_SHARE", 0)  # as if the first item had taken the whole time
        batches.run_all(range(5), lambda _, item: done.append(item) or 0)  # type: ignore[func-returns-value]
    assert transactions == [100, 101, 102, 103, 104]
    assert done == [*range(100), *range(5)]


def test_large_items_have_batches_of_their_own(sqlite_place: str) -> None:
    parts: list[list[int]] = []
    with SqliteStore(sqlite_place) as store:
        PacedBatches(store).run_parts(
            [1, 1, 1000, 1000, 1],
            lambda _, part: parts.append(list(part)) or 0,  # type: ignore[func-returns-value]
            size_of=lambda size: size,
        )
    assert parts == [[1, 1], [1000], [1000], [1]]


def test_a_page_begins_with_what_the_pages_before_took(sqlite_place: str) -> None:
    parts: list[int] = []

    def change(tx: Transaction, items: Sequence[int]) -> int:
        parts.append(len(items))
        return len(items)

    with SqliteStore(sqlite_place) as store:
        batches = PacedBatches(store)
        while not parts or parts[-1] < 50:
            batches.run_parts(range(100), change)
        parts.clear()
        batches.run_parts(range(100), change)
    assert parts[0] > paced_batches.QUIET_HOLD_SECONDS / paced_batches.FIRST_ROW_SECONDS


def test_a_log_that_a_reader_held_up_shrinks_again(sqlite_place: str) -> None:
    log = Path(sqlite_place + "-wal")
    with SqliteStore(sqlite_place) as store, SqliteStore(sqlite_place) as reader:
        with reader.read() as tx:
            tx.fetch_one(tx.sql.event_latest)
            while log.stat().st_size < MAX_IDLE_WAL_BYTES * 1.2:
                work.send(store, sender="leader", to="builder", subject="Build", body="text " * 12_000)
        for _ in range(3):  # one copies the log, the next one begins it anew
            sent(store)
        assert log.stat().st_size <= MAX_IDLE_WAL_BYTES


def test_pruning_pauses_while_others_write_and_goes_on_at_once_when_nobody_does(sqlite_place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    pauses: list[float] = []
    monkeypatch.setattr(paced_batches, "sleep", pauses.append)
    with SqliteStore(sqlite_place) as store, SqliteStore(sqlite_place) as other:
        batches = PacedBatches(store)

        def change(tx: Transaction) -> int:
            tx.execute(tx.sql.setting_put, name="a", value="b")
            return 1

        def has_paused() -> bool:
            pauses.clear()
            batches.run_once(change)
            return bool(pauses)

        assert eventually(lambda: not has_paused())
        sent(other)
        assert has_paused()
        assert eventually(lambda: not has_paused())
