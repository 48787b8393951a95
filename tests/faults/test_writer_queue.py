"""The writer queue: a stopped process in it slows other writers down, and never blocks them."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

import postroom
from postroom import work
from postroom.core.errors import StoreBusy
from postroom.store.sqlite import writer_queue
from postroom.store.sqlite.engine import SqliteStore
from tests.cli.process import suspend
from tests.contract.blocking_store import eventually
from tests.contract.thread_data import sent
from tests.faults.children import BarrierProcess
from tests.faults.inspection import assert_no_lock, assert_no_ticket, dump


@pytest.fixture
def place(sqlite_place: str) -> str:
    """These are about files."""
    return sqlite_place


HOLDER = """
from postroom.store.sqlite import writer_queue
held = writer_queue.WriterQueue(sys.argv[1])
held.enter()
say("READY")
sys.stdin.read()
"""

DRAWING = """
from postroom.store.sqlite import writer_queue
file = os.open(sys.argv[1] + ".lock", os.O_RDWR)
assert writer_queue._try_lock(file, writer_queue._GUARD_OFFSET)
say("READY")
sys.stdin.read()
"""

IN_LINE = """
from postroom.store.sqlite import writer_queue
writer_queue.MAX_WAIT_SECONDS = 60
line = writer_queue.WriterQueue(sys.argv[1])
say("READY")
line.enter()
with open(sys.argv[2], "a") as file:
    file.write(sys.argv[3])
line.leave()
"""

INSIDE = """
store = postroom.open(sys.argv[1])
with store.write() as tx:
    tx.execute(tx.sql.agent_put, name="stopped", kind="agent", now="2026")
    say("READY")
    sys.stdin.readline()
say("COMMITTED")
"""


def stop(child: BarrierProcess) -> None:
    suspend(child.process.pid)


def no_lock(place: str) -> bool:
    """Whether all is free. A store that gave up waiting is granted its place once the holder is gone, and leaves it at once."""
    try:
        assert_no_lock(place)
    except BlockingIOError:
        return False
    return True


def stands_in_line(store: SqliteStore) -> bool:
    """Whether a writer of this store holds a ticket."""
    with store.write():
        return not no_lock_of_ours(store.location)


def no_lock_of_ours(place: str) -> bool:
    try:
        assert_no_ticket(place)
    except BlockingIOError:
        return False
    return True


def drawn(place: str) -> int:
    file = os.open(place + ".lock", os.O_RDWR)
    try:
        return writer_queue._read_number(file, writer_queue._DRAWN_OFFSET)
    finally:
        os.close(file)


@pytest.mark.parametrize("program", [HOLDER, DRAWING], ids=["inside", "drawing"])
def test_a_stopped_process_in_the_writer_queue_does_not_stop_the_writers(place: str, program: str) -> None:
    with BarrierProcess(program, place).ready() as child:
        stop(child)
        store = postroom.open(place)
        ids = [sent(store) for _ in range(3)]
        assert len(work.list_threads(store).threads) == len(set(ids)) == 3
        store.close()
    assert eventually(lambda: no_lock(place))


def test_writers_come_in_as_they_drew(place: str, tmp_path: Path) -> None:
    first = writer_queue.WriterQueue(place)
    first.enter()
    children = []
    for name in "abcdef":
        before = drawn(place)
        children.append(BarrierProcess(IN_LINE, place, str(tmp_path / "order"), name).ready())
        assert eventually(lambda before=before: drawn(place) > before)  # type: ignore[misc]
    assert not (tmp_path / "order").exists()
    first.leave()
    for child in children:
        with child:
            child.rest()
    first.close()
    assert (tmp_path / "order").read_text() == "abcdef"


def test_a_ticket_of_the_dead_is_let_through(place: str, tmp_path: Path) -> None:
    first = writer_queue.WriterQueue(place)
    first.enter()
    mine = drawn(place)
    with BarrierProcess(IN_LINE, place, str(tmp_path / "order"), "dead").ready() as dead:
        assert eventually(lambda: drawn(place) == mine + 1)
        with BarrierProcess(IN_LINE, place, str(tmp_path / "order"), "next").ready() as after:
            assert eventually(lambda: drawn(place) == mine + 2)
            dead.kill()
            first.leave()
            after.rest()
    first.close()
    assert (tmp_path / "order").read_text() == "next"


def test_writers_without_the_writer_queue_still_keep_apart(place: str) -> None:
    program = """
store = postroom.open(sys.argv[1])
say("READY")
sys.stdin.readline()
say(*[work.take(store, agent="worker").thread.thread_id for _ in range(5)])
"""
    store = postroom.open(place)
    ids = [sent(store, to="worker") for _ in range(20)]
    store.close()
    with BarrierProcess(HOLDER, place).ready() as holder:
        stop(holder)
        children = [BarrierProcess(program, place).ready() for _ in range(4)]
        for child in children:
            child.tell()
        taken = [thread_id for child in children for thread_id in child.line().split()]
        for child in children:
            with child:
                child.rest()
    assert sorted(taken) == sorted(ids)


def test_the_tickets_of_a_process_die_with_it(place: str) -> None:
    with BarrierProcess(HOLDER, place).ready() as child:
        stop(child)
        child.kill()
        assert_no_lock(place)


def test_a_store_that_met_a_stopped_holder_stands_in_line_again_when_it_is_gone(place: str) -> None:
    store = SqliteStore(place)
    assert stands_in_line(store)
    with BarrierProcess(HOLDER, place).ready() as child:
        stop(child)
        sent(store)
    assert eventually(lambda: stands_in_line(store))
    store.close()
    assert eventually(lambda: no_lock(place))


def test_without_the_files_of_the_writer_queue_writing_goes_on(place: str) -> None:
    os.unlink(place + ".lock")
    store = postroom.open(place)
    assert sent(store)
    store.close()


def test_a_writer_that_stops_inside_its_transaction_is_reported_as_busy_and_nothing_changes(place: str) -> None:
    with BarrierProcess(INSIDE, place).ready() as child:
        stop(child)
        store = SqliteStore(place)
        store.connection.execute("PRAGMA busy_timeout=50")  # as in a store whose patience is over
        before = dump(place)
        with pytest.raises(StoreBusy):
            sent(store)
        assert dump(place) == before
        assert [agent.name for agent in work.list_agents(store)] == ["user"]  # readers do not wait
        child.process.send_signal(signal.SIGCONT)
        child.tell()
        assert child.line() == "COMMITTED"
        assert sent(store)
        assert "stopped" in [agent.name for agent in work.list_agents(store)]
        store.close()
    assert eventually(lambda: no_lock(place))
