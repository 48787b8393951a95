"""SIGKILL at any moment: what was accepted is there, nothing is half there, and nothing is locked."""

from __future__ import annotations

import random
import threading

import postroom
from postroom import work
from tests.faults.children import BarrierProcess
from tests.faults.inspection import assert_no_lock, assert_sound

# Says what it did only after the verb has returned: accepted is kept.
WRITER = """
store = postroom.open(sys.argv[1])
me = sys.argv[2]
import itertools
from postroom.core.records.work import Attachment
say("READY")
for size in itertools.cycle([3000, 500_000]):  # many pages to write: many moments to die at
    thread = work.send(store, sender="leader", to=me, subject="Build", body="x" * size, artifacts=[Attachment("a")]).thread.thread_id
    say("pending", thread)
    token = work.claim(store, thread, agent=me).lease.lease_token
    say("claimed", thread)
    work.update(store, thread, agent=me, summary="On it", lease_token=token)
    say("in_progress", thread)
    work.done(store, thread, agent=me, summary="Done", lease_token=token)
    say("done", thread)
"""
ORDER = ["pending", "claimed", "in_progress", "done"]
KILLS, AT_ONCE = 40, 4


def kill_some(place: str, moments: random.Random) -> list[str]:
    """Start some writers, kill each at a moment of its own; all that they said was accepted."""
    said: list[str] = []
    children = [BarrierProcess(WRITER, place, f"worker-{number}") for number in range(AT_ONCE)]
    for child in children:
        child.ready()
    for child in children:
        said.append(child.line())  # at least one each, however slow the machine
        threading.Event().wait(moments.uniform(0, 0.02))
        child.kill()
    for child in children:
        with child:
            said += child.rest()
    return said


def test_what_was_accepted_survives_the_death_of_its_writer(place: str) -> None:
    moments = random.Random(20261115)
    accepted: dict[str, str] = {}
    for _ in range(KILLS // AT_ONCE):
        for line in kill_some(place, moments):
            status, thread_id = line.split()
            accepted[thread_id] = status
        assert_no_lock(place)
        assert_sound(place)
    assert len(accepted) >= KILLS
    store = postroom.open(place)
    stored = {thread.thread_id: thread.status for thread in work.list_threads(store, limit=10_000).threads}
    lost = {
        thread_id: status
        for thread_id, status in accepted.items()
        if thread_id not in stored or ORDER.index(stored[thread_id]) < ORDER.index(status)
    }
    assert lost == {}
    unsaid = set(stored) - set(accepted)
    assert len(unsaid) <= KILLS  # each writer died with at most one verb not yet reported
    assert work.send(store, sender="leader", to="worker-0", subject="Go on").thread.status == "pending"
    store.close()


def test_what_a_dead_worker_held_can_be_taken_when_its_lease_runs_out(place: str) -> None:
    program = """
store = postroom.open(sys.argv[1])
work.take(store, agent="dead", lease_seconds=0.2)
say("READY")
sys.stdin.read()
"""
    store = postroom.open(place)
    thread_id = work.send(store, sender="leader", to="dead", subject="Build").thread.thread_id
    with BarrierProcess(program, place).ready() as child:
        child.kill()
        claimed = work.wait_take(store, agent="heir", timeout_seconds=30)
    assert claimed is not None
    assert (claimed.thread.thread_id, claimed.thread.assigned_to) == (thread_id, "heir")
    store.close()


def test_a_writer_that_is_killed_inside_its_transaction_leaves_no_trace(place: str) -> None:
    program = """
store = postroom.open(sys.argv[1])
with store.write() as tx:
    tx.execute(tx.sql.agent_put, name="ghost", kind="human", now="2026")
    say("READY")
    sys.stdin.read()
"""
    with BarrierProcess(program, place).ready() as child:
        child.kill()
        assert_no_lock(place)
        store = postroom.open(place)
        assert "ghost" not in [agent.name for agent in work.list_agents(store)]
        assert work.add_agent(store, "ada").name == "ada"
        store.close()
    assert_sound(place)
