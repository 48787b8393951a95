"""The turnstile: whoever stands in it and stops slows others, and never stops them."""

from __future__ import annotations

import fcntl
import os
import signal

import pytest

import postroom
from postroom import work
from postroom.core.errors import StoreBusy
from postroom.store.sqlite.engine import SqliteStore
from tests.contract.scenes import sent
from tests.contract.sleeping import eventually
from tests.faults.children import Child
from tests.faults.inspection import assert_no_lock, dump

HOLDER = """
import fcntl
files = [os.open(path, os.O_RDWR) for path in sys.argv[1:]]
for file in files:
    fcntl.flock(file, fcntl.LOCK_EX)
say("READY")
sys.stdin.read()
"""

INSIDE = """
store = postroom.open(sys.argv[1])
with store.write() as tx:
    tx.run(tx.sql.agent_put, name="stopped", kind="agent", now="2026")
    say("READY")
    sys.stdin.readline()
say("COMMITTED")
"""


def stop(child: Child) -> None:
    child.process.send_signal(signal.SIGSTOP)
    os.waitpid(child.process.pid, os.WUNTRACED)


def no_lock(place: str) -> bool:
    """Whether all is free. A store that gave up waiting is granted its place once the holder is gone, and leaves it at once."""
    try:
        assert_no_lock(place)
    except BlockingIOError:
        return False
    return True


def stands_in_line(store: SqliteStore) -> bool:
    """Whether a writer of this store holds the turnstile's lock."""
    file = os.open(store.place + ".lock", os.O_RDWR)
    try:
        with store.write():
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(file)
    return False


@pytest.mark.parametrize("suffixes", [(".lock",), (".turn",), (".turn", ".lock")], ids=["lock", "turn", "both"])
def test_a_stopped_process_in_the_turnstile_does_not_stop_the_writers(place: str, suffixes: tuple[str, ...]) -> None:
    with Child(HOLDER, *(place + suffix for suffix in suffixes)).ready() as child:
        stop(child)
        store = postroom.open(place)
        ids = [sent(store) for _ in range(20)]
        assert len(work.list_threads(store).threads) == len(set(ids)) == 20
        store.close()
    assert eventually(lambda: no_lock(place))


def test_writers_without_the_turnstile_still_keep_apart(place: str) -> None:
    program = """
store = postroom.open(sys.argv[1])
say("READY")
sys.stdin.readline()
say(*[work.take(store, agent="worker").thread.thread_id for _ in range(5)])
"""
    store = postroom.open(place)
    ids = [sent(store, to="worker") for _ in range(20)]
    store.close()
    with Child(HOLDER, place + ".turn", place + ".lock").ready() as holder:
        stop(holder)
        children = [Child(program, place).ready() for _ in range(4)]
        for child in children:
            child.tell()
        taken = [thread_id for child in children for thread_id in child.line().split()]
        for child in children:
            with child:
                child.rest()
    assert sorted(taken) == sorted(ids)


def test_the_flocks_of_a_process_die_with_it(place: str) -> None:
    with Child(HOLDER, place + ".turn", place + ".lock").ready() as child:
        stop(child)
        child.kill()
        assert_no_lock(place)


def test_a_store_that_met_a_stopped_holder_stands_in_line_again_when_it_is_gone(place: str) -> None:
    store = SqliteStore(place)
    assert stands_in_line(store)
    with Child(HOLDER, place + ".lock").ready() as child:
        stop(child)
        sent(store)
    assert eventually(lambda: stands_in_line(store))
    store.close()
    assert eventually(lambda: no_lock(place))


def test_without_the_files_of_the_turnstile_writing_goes_on(place: str) -> None:
    for suffix in (".turn", ".lock", ".bell"):
        os.unlink(place + suffix)
    store = postroom.open(place)
    assert sent(store)
    store.close()


def test_a_writer_that_stops_inside_its_transaction_is_reported_as_busy_and_nothing_changes(place: str) -> None:
    with Child(INSIDE, place).ready() as child:
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
