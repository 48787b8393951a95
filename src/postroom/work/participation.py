"""Participation: which agents take part in a thread, which may see it, and which may take it. The server's permission check calls this."""

from __future__ import annotations

from postroom.core import clock
from postroom.core.states import HELD_STATUSES, PENDING

TYPE_CHECKING = False
if TYPE_CHECKING:
    from postroom.core.records.work import Lease, Thread
    from postroom.store.interface import Transaction


def takes_part(tx: Transaction, thread: Thread, lease: Lease | None, agent: str) -> bool:
    """Return whether an agent created a thread, is assigned to it, holds it, was addressed in it, or spoke in it."""
    if agent in (thread.created_by, thread.assigned_to) or is_holder(lease, agent):
        return True
    mark = tx.fetch_one(tx.sql.read_of_thread, agent=agent, thread_id=thread.thread_id)
    return mark is not None and mark.guest == 1


def is_holder(lease: Lease | None, agent: str) -> bool:
    return lease is not None and lease.is_held and lease.agent_id == agent


def is_takeable(thread: Thread, lease: Lease | None, agent: str, now: str) -> bool:
    """Return whether an agent may take a thread: it is pending for the agent, or its lease has run out. `now` is a stamp."""
    return (thread.status == PENDING and thread.assigned_to == agent) or is_lapsed(thread, lease, now)


def is_lapsed(thread: Thread, lease: Lease | None, now: str) -> bool:
    return thread.status in HELD_STATUSES and lease is not None and lease.is_held and not lease.is_live(now)


def can_see(tx: Transaction, thread: Thread, lease: Lease | None, agent: str) -> bool:
    """Return whether an agent takes part in a thread, or may take it because its lease has run out."""
    return takes_part(tx, thread, lease, agent) or is_lapsed(thread, lease, clock.format_stamp(tx.now()))
