"""Candidates: what an agent could work on now, and taking the best of it in one step."""

from __future__ import annotations

from postroom.core import checks, clock
from postroom.core.errors import StoreBusy
from postroom.core.records import Candidate, Claim, Lease, Thread
from postroom.core.states import HELD, PENDING, PRIORITIES, STATUSES
from postroom.core.verbs import verb
from postroom.store.attempts import retried
from postroom.work import leases, messages

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from postroom.store.port import Row, Store, Transaction

ATTEMPTS = 100
SOON = 0.01  # seconds
LAPSED = 32  # of each priority, those that lapsed first: the oldest of them goes first
_FIELDS = len(Thread.__fields__)


@verb
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
        found |= {candidate.thread.thread_id: candidate for candidate in _lapsed(tx, wanted, limit)}
    return tuple(sorted(found.values(), key=_urgency)[:limit])


@verb
@retried
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
    """Claim the best candidate that nobody else is taking at this moment; None only when there is none."""
    for _ in range(ATTEMPTS):
        offered = _takeable(tx, agent)
        if not offered:
            return None
        for thread_id in offered:
            if tx.hold(thread_id, wait=False):
                thread, lease = messages.found(tx, thread_id)
                if _free(thread, lease, agent, clock.stamp(tx.now())):
                    return leases.grant(tx, thread, lease, agent=agent, lease_seconds=lease_seconds)
        tx.hold(offered[0])  # others are taking all of these: see what is left when one of them is done
    raise StoreBusy("others took every thread that was offered", hint="Try again.")


def _free(thread: Thread, lease: Lease | None, agent: str, now: str) -> bool:
    """Whether a thread that was offered is still to be had, now that nobody else can change it."""
    if thread.status == PENDING:
        return thread.assigned_to == agent
    return thread.status in HELD and lease is not None and lease.held and not lease.live(now)


@verb
def outlook(store: Store, *, agent: str) -> tuple[bool, float | None]:
    """Whether there is something to take for an agent, and else the seconds until the next lease of anybody runs out, if one does."""
    found, at = available(store, agent=checks.name("agent", agent))
    return found, _until(store, at)


def available(store: Store, *, agent: str) -> tuple[bool, int | None]:
    """Whether there is something to take, and else the instant at which the next lease runs out, if any does."""
    with store.read() as tx:
        if _takeable(tx, agent):
            return True, None
        now = clock.stamp(tx.now())
        rows = [tx.one(tx.sql.lease_next_expiry, priority=priority, now=now) for priority in PRIORITIES]
    ends = [row[0] for row in rows if row and row[0]]
    return False, clock.instant(min(ends)) if ends else None


def next_lapse(store: Store, *, agent: str) -> float | None:
    """Seconds until a lease that runs out leaves something to take. Whoever looked before one did looks again at once."""
    found, at = available(store, agent=agent)
    return SOON if found else _until(store, at)


def _until(store: Store, at: int | None) -> float | None:
    with store.read() as tx:
        return None if at is None else max((at - tx.now()) / clock.SECOND, 0.001)


def _takeable(tx: Transaction, agent: str) -> list[str]:
    """The ids of what may be taken: the best first."""
    rows = tx.all(tx.sql.threads_takeable, agent=agent, now=clock.stamp(tx.now()), limit=tx.rivals, lapsed=LAPSED)
    return [row[0] for row in sorted(rows, key=lambda row: (PRIORITIES.index(row[1]), row[2], row[0]))]


def _own(tx: Transaction, agent: str, wanted: Iterable[str], limit: int) -> Iterable[Candidate]:
    for status in wanted:
        if status == PENDING:
            for priority in PRIORITIES:
                rows = tx.all(tx.sql.threads_waiting, agent=agent, priority=priority, limit=limit)
                yield from (Candidate(Thread(*row), False, None) for row in rows)
        else:
            for row in tx.all(tx.sql.threads_assigned, status=status, assigned_to=agent, limit=limit):
                yield _with_holder(tx, row[0])


def _lapsed(tx: Transaction, wanted: tuple[str, ...] | None, limit: int) -> Iterable[Candidate]:
    now = clock.stamp(tx.now())
    for waiting in (0, 1):
        for priority in PRIORITIES:
            key = {"waiting": waiting, "priority": priority, "now": now, "limit": limit}
            if wanted is None:
                rows = tx.all(tx.sql.leases_lapsed, **key)
            else:
                held = [status for status in wanted if status in HELD]
                rows = [row for status in held for row in tx.all(tx.sql.leases_lapsed_of_status, status=status, **key)]
            yield from map(_given_up, rows)


def _given_up(row: Row) -> Candidate:
    return Candidate(Thread(*row[:_FIELDS]), True, row[_FIELDS])


def _unread(tx: Transaction, agent: str, wanted: tuple[str, ...] | None, limit: int) -> tuple[Candidate, ...]:
    rows = tx.all(tx.sql.threads_unread, agent=agent)
    chosen = [row[0] for row in rows if wanted is None or row[6] in wanted]
    return tuple(_with_holder(tx, thread_id) for thread_id in chosen[:limit])


def _with_holder(tx: Transaction, thread_id: str) -> Candidate:
    thread, lease = messages.found(tx, thread_id)
    if lease is None or not lease.held:
        return Candidate(thread, False, None)
    return Candidate(thread, not lease.live(clock.stamp(tx.now())), lease.agent_id)


def _urgency(candidate: Candidate) -> tuple[int, str, str]:
    thread = candidate.thread
    return PRIORITIES.index(thread.priority), thread.created_at, thread.thread_id
