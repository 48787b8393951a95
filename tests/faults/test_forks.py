"""A store that crosses a fork: whatever either process was told is stored, is stored."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable

import pytest

from postroom import mail
from postroom.store.interface import Store
from tests.contract.mail_data import BOX, drained
from tests.wired import WIRES

pytestmark = pytest.mark.travels("http", "ws")

BEGIN = """
import os, sys, postroom
from postroom import mail
from postroom.core.errors import InvalidState

store = postroom.open(sys.argv[1])

def post(*names):
    for name in names:
        assert mail.enqueue(store, {"from": "ann", "to": "box", "payload": name}).queued

post("first")
"""
FORKS = """
children = []
for child in "abc":
    if not (pid := os.fork()):
        post(*(f"{child}{number}" for number in range(5)))
        sys.exit()
    children.append(pid)
    post(f"parent {child}")
assert [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in children] == [0, 0, 0]
post("last")
"""
MULTIPROCESSING = """
from multiprocessing import get_context
fork = get_context("fork")
children = [fork.Process(target=post, args=[f"{child}{number}" for number in range(5)]) for child in "abc"]
for child in children:
    child.start()
    post(f"parent {child.name[-1]}")
for child in children:
    child.join()
    assert child.exitcode == 0
post("last")
"""
DAEMON = """
gone, ends = os.pipe()
if os.fork():
    store.close()
    sys.exit()
os.setsid()
if os.fork():
    sys.exit()
os.close(ends)
os.read(gone, 1)  # ends with the last of the two processes before
post(*(f"d{number}" for number in range(20)))
os._exit(0)  # as if killed: nothing is closed, and everything that was accepted must be there
"""
CHILDREN = {f"{child}{number}" for child in "abc" for number in range(5)}
PROGRAMS = {
    "os.fork": (FORKS, CHILDREN | {"first", "parent a", "parent b", "parent c", "last"}),
    "multiprocessing": (MULTIPROCESSING, CHILDREN | {"first", "parent 1", "parent 2", "parent 3", "last"}),
    "daemon": (DAEMON, {"first"} | {f"d{number}" for number in range(20)}),
}


def run_program(location: str, program: str) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "ignore::DeprecationWarning", "-c", BEGIN + program, location],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("program", PROGRAMS)
def test_everything_that_a_process_and_its_forks_were_told_is_stored_is_there(
    place: str, engine: str, connect: Callable[[], Store], request: pytest.FixtureRequest, program: str
) -> None:
    text, posted = PROGRAMS[program]
    # No other process has the store open: the last one to close a file removes its log.
    run_program(request.getfixturevalue("relay").url(engine) if engine in WIRES else place, text)
    payloads = drained(connect())
    assert (len(payloads), set(payloads)) == (len(posted), posted)


INSIDE = """
def refused(call):
    try:
        call()
    except InvalidState as refusal:
        assert refusal.hint, refusal
        return True

with store.write() as tx:
    if not (pid := os.fork()):
        try:
            assert refused(lambda: tx.fetch_one(tx.sql.event_latest))
            assert refused(lambda: tx.fetch_all("SELECT * FROM deliveries"))
            assert refused(lambda: tx.execute("DELETE FROM deliveries"))
            assert refused(lambda: tx.execute_exactly_one(AssertionError("ran"), "DELETE FROM deliveries"))
            assert refused(lambda: tx.insert_event("DELETE FROM deliveries", ()))
            assert refused(lambda: tx.__exit__(None, None, None))
        except BaseException as error:
            print(repr(error), file=sys.stderr)
            os._exit(1)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    tx.execute("DELETE FROM deliveries")
post("last")
"""


@pytest.mark.needs_the_store("a transaction of its own")
def test_a_child_that_was_forked_inside_a_transaction_is_refused_and_its_parent_goes_on(store: Store, place: str) -> None:
    run_program(place, INSIDE)
    assert [one.message.payload for one in [mail.dequeue(store, BOX)] if one] == ["last"]


POISONED = """
with store.write() as tx:
    tx.execute("DELETE FROM deliveries")
    if not (pid := os.fork()):
        try:
            postroom.open(sys.argv[1])
        except InvalidState:
            os._exit(0)
        os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
"""


def test_a_file_with_a_transaction_of_the_parent_cannot_be_opened_in_the_child(sqlite_place: str) -> None:
    """SQLite would believe that the child holds the locks of its parent."""
    run_program(sqlite_place, POISONED)


WAITING = """
import threading
inside, leave = threading.Event(), threading.Event()

def read_slowly():
    with store.read():
        inside.set()
        leave.wait()

reader = threading.Thread(target=read_slowly)
reader.start()
inside.wait()
threading.Timer(0.2, leave.set).start()
if not (pid := os.fork()):
    post("child")
    os._exit(0)
assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
reader.join()
post("last")
"""


@pytest.mark.needs_the_store("a transaction of its own")
def test_a_fork_waits_for_the_transaction_of_another_thread(store: Store, place: str) -> None:
    run_program(place, WAITING)
    assert drained(store) == ["first", "child", "last"]
