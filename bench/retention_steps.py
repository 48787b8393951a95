"""The longest transactions of pruning: for how long they hold other writers up, for rows that are many or large."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from time import thread_time
from typing import Any

import postroom
from bench.report import Report, milliseconds
from bench.results import OURS, SECONDS
from bench.scale import REPEATS
from postroom import mail, people, work
from postroom.core import clock
from postroom.core.records.work import Attachment
from postroom.maintenance import paced_batches
from postroom.maintenance.pruning import prune
from postroom.store.interface import Store
from postroom.store.maintenance.space import SharedFile
from postroom.store.sqlite.engine import SqliteStore
from postroom.tasks import Conductor

DAY_SECONDS = 86_400
OLD_SECONDS = 200 * DAY_SECONDS
BOUND_SECONDS = 0.005
MIB = 1 << 20
GROUP = "retention"


def run(report: Report) -> None:
    """Report for each shape the longest transaction of its pruning, in time and in time of a processor."""
    report.section(f"Pruning when nobody writes: the longest transaction, median of {REPEATS} stores (its processor time)")
    for name, fill in SHAPES.items():
        longest = [_prune_one(fill) for _ in range(REPEATS)]
        held, busy = (median(column) for column in zip(*longest))
        report.row(name, f"{milliseconds(held)} ({milliseconds(busy)})", milliseconds(BOUND_SECONDS), met=held <= BOUND_SECONDS)
        report.record(GROUP, f"longest transaction, {name}", OURS, SECONDS, [seconds for seconds, _ in longest])


def _prune_one(fill: Callable[[Store], None]) -> tuple[float, float]:
    with TemporaryDirectory() as folder:
        place = str(Path(folder) / "coord.db")
        postroom.init(place)
        then = clock.now() - OLD_SECONDS * clock.MICROSECONDS_PER_SECOND
        with closing(SqliteStore(place, now=iter(range(then, then + 10**12, 1000)).__next__)) as store:
            fill(store)
        with closing(postroom.open(place)) as store, holds_of_batches() as holds:
            prune(store, older_than_seconds=90 * DAY_SECONDS)
    return max(held for held, _ in holds), max(busy for _, busy in holds)


@contextmanager
def holds_of_batches() -> Iterator[list[tuple[float, float]]]:
    """Collect for how many seconds each transaction of pruning holds the store, and the processor time of it."""
    holds: list[tuple[float, float]] = []
    measure = paced_batches._run_and_measure

    def measure_and_keep(store: Store, change: Any, shared: SharedFile) -> tuple[Any, float, float]:
        began = thread_time()
        measured: tuple[Any, float, float] = measure(store, change, shared)
        holds.append((measured[2], thread_time() - began))
        return measured

    paced_batches._run_and_measure = measure_and_keep
    try:
        yield holds
    finally:
        paced_batches._run_and_measure = measure


def _send_all(store: Store, messages: int, body_bytes: int, artifacts: int = 0) -> None:
    """One thread that has ended, with so many messages."""
    files = [Attachment(f"out/{number}.txt") for number in range(artifacts)]
    with store.batch() as batch:
        thread: str = work.send(batch, sender="leader", to="builder", subject="Build").thread.thread_id
        for number in range(messages):
            work.send(batch, sender="leader", thread_id=thread, summary=str(number), body="x" * body_bytes, artifacts=files)
        work.cancel(batch, thread, agent="leader", reason="Not wanted")


def _send_mail(store: Store) -> None:
    for number in range(3):
        mail.enqueue(store, {"msg_id": str(number), "from": "a", "to": "b", "payload": "x" * 10 * MIB})
        delivery = mail.dequeue(store, "b")
        assert delivery is not None
        mail.ack(store, "b", str(number), delivery_token=delivery.delivery_token)


def _extend_mail(store: Store) -> None:
    mail.enqueue(store, {"msg_id": "long", "from": "a", "to": "b", "payload": "x"})
    delivery = mail.dequeue(store, "b")
    assert delivery is not None
    with store.batch() as batch:
        for _ in range(5000):
            mail.extend(batch, "b", "long", delivery_token=delivery.delivery_token)
    mail.ack(store, "b", "long", delivery_token=delivery.delivery_token)


def _end_tasks(store: Store) -> None:
    conductor = Conductor(store)
    for name in ("ann", "bob"):
        conductor.register(name)
    for _ in range(4):
        task = conductor.submit("ann", "bob", "x" * 100_000, context={"a": "y" * (MIB - 100)})
        conductor.accept(task.task_id, agent="bob")
        conductor.complete(task.task_id, agent="bob", artifacts={"z": "z" * (10 * MIB - 100)})
    conductor.acknowledge_all(agent="ann")


def _push_entries(store: Store) -> None:
    """Entries of 300 words each, and one with 500 parts."""
    folder = Path(store.location).parent / "desk"
    folder.mkdir()
    workspace = people.add_workspace(store, str(folder), label="Desk").workspace.workspace_id
    parent = people.push(store, workspace, comments="The parts").id
    for number in range(1000):
        text = " ".join(f"word{number * 151 % 20_011 + step * 7}" for step in range(300))
        entry = people.push(store, workspace, comments=text, entry_id=parent if number % 2 else None)
        people.mark_read(store, entry.id, person="user")


SHAPES: dict[str, Callable[[Store], None]] = {
    "a thread of 5,000 messages": lambda store: _send_all(store, 5000, 4096),
    "a thread of 20 messages of 1 MiB": lambda store: _send_all(store, 20, MIB),
    "a thread with 5,000 artifacts": lambda store: _send_all(store, 50, 100, artifacts=100),
    "3 mails of 10 MiB": _send_mail,
    "a mail that was extended 5,000 times": _extend_mail,
    "4 tasks of 11 MiB": _end_tasks,
    "500 entries of 300 words, and one with 500 parts": _push_entries,
}
