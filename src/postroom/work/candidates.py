"""Candidates: what an agent could work on now, and taking the best of it in one step."""

from __future__ import annotations

from postroom.core import checks, clock
from postroom.core.records import Candidate, Claim, Thread
from postroom.core.states import BLOCKED, PENDING, PRIORITIES, STATUSES
from postroom.work import leases, messages

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from postroom.store.port import Store, Transaction

LAPSED_LOOKED_AT = 32  # of the longest lapsed, when taking: enough to honour priority, few enough to cost nothing
_FIELDS = len(Thread.__fields__)


def fetch(
    store: Store, *, agent: str, statuses: Iterable[str] | None = None, limit: int = 20, unread: bool = False
) -> tuple[Candidate, ...]:
    """List what an agent could work on: its pending threads, and anyone's whose lease ran out. Changes nothing.

    `statuses` lists the agent's threads of those statuses instead, held or not. `unread` lists the threads in which
    something was said to the agent that it has not read.
    """
    checks.name("agent", agent)
    checks.limit("limit", limit)
    wanted = None if statuses is None else checks.choices("status", statuses, STATUSES)
    with store.read() as tx:
        if unread:
            return _unread(tx, agent, wanted, limit)
        found = {candidate.thread.thread_id: candidate for candidate in _own(tx, agent, wanted or (PENDING,), limit)}
        for candidate, _ in _lapsed(tx, limit):
            if wanted is None or candidate.thread.status in wanted:
                found[candidate.thread.thread_id] = candidate
    return tuple(sorted(found.values(), key=_urgency)[:limit])


def take(store: Store, *, agent: str, lease_seconds: float = leases.LEASE_SECONDS) -> Claim | None:
    """Claim the best candidate, by priority, then age, in one transaction; None if there is none.

    A blocked thread whose question nobody has answered is not offered, though its lease ran out: its next worker could
    only ask again. It can be claimed by name.
    """
    checks.name("agent", agent)
    checks.seconds("lease-seconds", lease_seconds)
    with store.write() as tx:
        return take_next(tx, agent=agent, lease_seconds=lease_seconds)


def take_next(tx: Transaction, *, agent: str, lease_seconds: float) -> Claim | None:
    best = min((candidate for candidate in _takeable(tx, agent)), key=_urgency, default=None)
    if best is None:
        return None
    thread, lease = messages.locked(tx, best.thread.thread_id)
    return leases.grant(tx, thread, lease, agent=agent, lease_seconds=lease_seconds)


def available(store: Store, *, agent: str) -> tuple[bool, int | None]:
    """Whether there is something to take, and else the instant at which the next lease runs out, if any does."""
    with store.read() as tx:
        if next(iter(_takeable(tx, agent)), None) is not None:
            return True, None
        row = tx.one(tx.sql.lease_next_expiry, now=clock.stamp(tx.now()))
    return False, clock.instant(row[0]) if row and row[0] else None


def _takeable(tx: Transaction, agent: str) -> Iterable[Candidate]:
    for candidate, latest_kind in _lapsed(tx, LAPSED_LOOKED_AT, lock=True):
        if candidate.thread.status != BLOCKED or latest_kind != "question":
            yield candidate
    for priority in PRIORITIES:
        rows = tx.all(tx.sql.threads_waiting_lock, agent=agent, priority=priority, limit=1)
        if rows:
            yield Candidate(Thread(*rows[0]), False, None)
            return


def _own(tx: Transaction, agent: str, wanted: Iterable[str], limit: int) -> Iterable[Candidate]:
    for status in wanted:
        if status == PENDING:
            rows = [row for priority in PRIORITIES for row in tx.all(tx.sql.threads_waiting, agent=agent, priority=priority, limit=limit)]
        else:
            rows = tx.all(tx.sql.threads_assigned, status=status, assigned_to=agent, limit=limit)
        for row in rows:
            yield Candidate(Thread(*row), False, None)


def _lapsed(tx: Transaction, limit: int, *, lock: bool = False) -> Iterable[tuple[Candidate, str]]:
    statement = tx.sql.leases_lapsed_lock if lock else tx.sql.leases_lapsed
    for row in tx.all(statement, now=clock.stamp(tx.now()), limit=limit):
        yield Candidate(Thread(*row[:_FIELDS]), True, row[_FIELDS]), row[_FIELDS + 1]


def _unread(tx: Transaction, agent: str, wanted: tuple[str, ...] | None, limit: int) -> tuple[Candidate, ...]:
    now = clock.stamp(tx.now())
    found = []
    for row in tx.all(tx.sql.threads_unread, agent=agent):
        if wanted is None or row[6] in wanted:
            thread, lease = messages.found(tx, row[0])
            lapsed = lease is not None and lease.held and not lease.live(now)
            found.append(Candidate(thread, lapsed, lease.agent_id if lease and lapsed else None))
            if len(found) == limit:
                break
    return tuple(found)


def _urgency(candidate: Candidate) -> tuple[int, str, str]:
    thread = candidate.thread
    return PRIORITIES.index(thread.priority), thread.created_at, thread.thread_id
