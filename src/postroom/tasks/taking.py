"""Take work of both kinds, threads and tasks, by priority and age: the verbs of `inbox take` and of the worker.

They have the names and arguments of those in `work`, which know threads only. A task that is taken gets its thread of work, so that its
holder reports, asks and ends it like any thread.
"""

from __future__ import annotations

from postroom.core import checks, clock
from postroom.core.states import DONE, TASK, TASK_PRIORITIES
from postroom.core.verbs import OWN_NAME, OWN_VIEW, STEPS, TASK_RECEIVER, THREAD_PART, WAIT, WRITE, verb
from postroom.store.retries import retry_on_contention
from postroom.tasks.settling import read_settled, write_settled
from postroom.tasks.waiting import DueTaskWake
from postroom.work import candidates, leases, messages

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from postroom.core.records.tasks import TaskRow
    from postroom.core.records.work import Attachment, Claim, PostedMessage, Thread
    from postroom.store.interface import Store, Transaction


@verb(caller="agent", access=OWN_NAME, mode=WRITE)
@retry_on_contention
def take(store: Store, *, agent: str, lease_seconds: float = leases.DEFAULT_LEASE_SECONDS) -> Claim | None:
    """Claim the most urgent thread or task of an agent, by priority, then age. Returns None if there is none."""
    checks.name("agent", agent)
    checks.seconds("lease-seconds", lease_seconds)
    with write_settled(store) as tx:
        return _take_next(tx, agent, lease_seconds)


@verb(caller="agent", access=THREAD_PART, mode=WRITE)
@retry_on_contention
def done_and_take(
    store: Store,
    thread_id: str,
    *,
    agent: str,
    summary: str = "",
    body: str = "",
    payload_json: str = "{}",
    payload: dict[str, Any] | None = None,
    artifacts: Sequence[Attachment] = (),
    lease_token: str | None = None,
    lease_seconds: float = leases.DEFAULT_LEASE_SECONDS,
) -> tuple[PostedMessage, Claim | None]:
    """Finish a thread and take the next thread or task, in one transaction. This costs half of a `done` and a `take`."""
    from postroom.work.progress import finish_thread

    checks.name("agent", agent)
    checks.seconds("lease-seconds", lease_seconds)
    content = messages.check_content(summary, body, payload_json, artifacts, payload)
    with write_settled(store) as tx:
        posted = finish_thread(tx, thread_id, content, agent=agent, status=DONE, lease_token=lease_token)
        return posted, _take_next(tx, agent, lease_seconds)


def _take_next(tx: Transaction, agent: str, lease_seconds: float) -> Claim | None:
    task = tx.fetch_one(tx.sql.tasks_waiting, agent=agent, kind=TASK, limit=1)
    if task is None or not _is_before(task, candidates.peek_next(tx, agent=agent)):
        return candidates.take_next(tx, agent=agent, lease_seconds=lease_seconds)
    return _claim_task(tx, task, lease_seconds)


def _is_before(task: TaskRow, thread: Thread | None) -> bool:
    """Return whether a task is more urgent than a thread, or as urgent and older."""
    if thread is None:
        return True
    return (task.urgency, task.created_at) < (TASK_PRIORITIES.index(thread.priority), thread.created_at)


def _claim_task(tx: Transaction, task: TaskRow, lease_seconds: float) -> Claim:
    from postroom.tasks.task_threads import open_task_thread

    thread = open_task_thread(tx, task)
    return leases.grant_lease(tx, thread, None, agent=task.target_agent, lease_seconds=lease_seconds)


@verb(caller="agent", access=TASK_RECEIVER, mode=WRITE)
@retry_on_contention
def take_task(store: Store, task_id: str, *, agent: str, lease_seconds: float = leases.DEFAULT_LEASE_SECONDS) -> Claim:
    """Claim the thread of work of a task by the task's id. Refuses with `LeaseHeld` while another caller works on the task."""
    from postroom.tasks.lookups import find_open_task_of, reclaim_task
    from postroom.tasks.repository import task_ended_error

    checks.seconds("lease-seconds", lease_seconds)
    with write_settled(store) as tx:
        row = find_open_task_of(tx, task_id, agent, "take")
        if row.status == "accepted":
            row = reclaim_task(tx, row)
        if row.is_open:
            return _claim_task(tx, row, lease_seconds)
    raise task_ended_error(row)  # after the commit: the lapse that was the last attempt is kept


@verb(caller="agent", access=OWN_VIEW, mode=STEPS)
def next_available(store: Store, *, agent: str) -> tuple[bool, float | None]:
    """Return whether an agent has a thread or a task to take. If not, also the seconds until a lease or deadline ends."""
    checks.name("agent", agent)
    with read_settled(store) as tx:
        if tx.fetch_one(tx.sql.tasks_waiting, agent=agent, kind=TASK, limit=1) is not None:
            return True, None
    is_available, lapses_at = candidates.check_available(store, agent=agent)
    if is_available:
        return True, None
    waits = [seconds for seconds in (_seconds_until(store, lapses_at), DueTaskWake(store).seconds_until_due()) if seconds is not None]
    return False, min(waits, default=None)


def _seconds_until(store: Store, instant: int | None) -> float | None:
    if instant is None:
        return None
    with store.read() as tx:
        return max((instant - tx.now()) / clock.MICROSECONDS_PER_SECOND, 0.001)


@verb(caller="agent", access=OWN_NAME, mode=WAIT)
def wait_take(store: Store, *, agent: str, lease_seconds: float = leases.DEFAULT_LEASE_SECONDS, timeout_seconds: float = 0) -> Claim | None:
    """Take the next thread or task. If there is none, wait until one comes. Returns None on a timeout."""
    from postroom.store.wait_loop import wait_until
    from postroom.work.messages import agent_topic

    checks.name("agent", agent)
    checks.seconds("lease-seconds", lease_seconds)
    checks.seconds("timeout-seconds", timeout_seconds, allow_zero=True)
    timer = _WorkTimer(store, agent)

    def take_next() -> Claim | None:
        # Another worker may win between the check and the take. Then check again: None must mean that there is no work.
        while timer.has_work():
            taken = take(store, agent=agent, lease_seconds=lease_seconds)
            if taken is not None:
                return taken
        return None

    return wait_until(store, take_next, timeout_seconds, topics=(agent_topic(agent),), periodic=timer)


class _WorkTimer:
    """The periodic task that wakes a waiter when a lease or a deadline ends that may leave work to take."""

    def __init__(self, store: Store, agent: str) -> None:
        self._store = store
        self._agent = agent

    def has_work(self) -> bool:
        return next_available(self._store, agent=self._agent)[0]

    def seconds_until_due(self) -> float | None:
        is_available, seconds = next_available(self._store, agent=self._agent)
        return candidates.RECHECK_SECONDS if is_available else seconds

    def run(self) -> None:
        """Do nothing: the waiter's next read finds the work."""
