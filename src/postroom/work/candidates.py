"""Candidates: list the threads that an agent could work on now, and take the most urgent one in one transaction."""

from __future__ import annotations

from postroom.core import checks, clock
from postroom.core.errors import StoreBusy
from postroom.core.records.work import Candidate
from postroom.core.states import HELD_STATUSES, PENDING, PRIORITIES, STATUSES
from postroom.core.verbs import OWN_NAME, OWN_VIEW, READ, WRITE, verb
from postroom.store.retries import retry_on_contention
from postroom.work import leases, messages
from postroom.work.participation import is_takeable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from postroom.core.records.work import Claim, OfferedThread, Thread
    from postroom.store.interface import Store, Transaction

MAX_TAKE_ATTEMPTS = 100
RECHECK_SECONDS = 0.01
MAX_FARTHEST_LEASES = 8  # how many of the leases that end last are compared with their length
MAX_LAPSED_PER_PRIORITY = 32  # how many lapsed threads `take` compares: those that lapsed first


@verb(caller="agent", access=OWN_VIEW, mode=READ)
def fetch(
    store: Store, *, agent: str, statuses: Iterable[str] | None = None, limit: int = 20, unread: bool = False
) -> tuple[Candidate, ...]:
    """List the threads that an agent could work on: its own pending ones, and all whose lease ran out. Writes nothing.

    `statuses` selects the agent's threads in those statuses instead, held or not. `unread` selects the threads with
    messages to the agent that it has not read.
    """
    checks.name("agent", agent)
    checks.limit("limit", limit)
    wanted = None if statuses is None else checks.choices("status", statuses, STATUSES)
    with store.read() as tx:
        if unread:
            return _list_unread(tx, agent, wanted, limit)
        by_id = {candidate.thread.thread_id: candidate for candidate in _list_own(tx, agent, wanted or (PENDING,), limit)}
        by_id |= {candidate.thread.thread_id: candidate for candidate in _list_lapsed(tx, wanted, limit)}
    return tuple(sorted(by_id.values(), key=lambda candidate: _urgency_key(candidate.thread))[:limit])


@verb(caller="agent", access=OWN_NAME, mode=WRITE)
@retry_on_contention
def take(store: Store, *, agent: str, lease_seconds: float = leases.DEFAULT_LEASE_SECONDS) -> Claim | None:
    """Claim the most urgent candidate, by priority, then age, in one transaction. Returns None if there is none.

    Skips a blocked thread without an answer, even if its lease ran out: the next worker could only ask again. `claim`
    can still take it by its id.
    """
    checks.name("agent", agent)
    checks.seconds("lease-seconds", lease_seconds)
    with store.write() as tx:
        return take_next(tx, agent=agent, lease_seconds=lease_seconds)


def take_next(tx: Transaction, *, agent: str, lease_seconds: float) -> Claim | None:
    """Claim the most urgent candidate that no other transaction has locked. Returns None only if there is no candidate.

    Raises `StoreBusy` if other workers took every offered thread `MAX_TAKE_ATTEMPTS` times in a row.
    """
    for _ in range(MAX_TAKE_ATTEMPTS):
        offered = _list_takeable_ids(tx, agent)
        if not offered:
            return None
        for thread_id in offered:
            if tx.lock_thread(thread_id, wait=False):
                thread, lease = messages.get_thread(tx, thread_id)
                if is_takeable(thread, lease, agent, clock.format_stamp(tx.now())):
                    return leases.grant_lease(tx, thread, lease, agent=agent, lease_seconds=lease_seconds)
        tx.lock_thread(offered[0])  # all are locked by others: wait for the first one, then look again
    raise StoreBusy("others took every thread that was offered", hint="Try again.")


@verb(caller="agent", access=OWN_VIEW, mode=READ)
def next_available(store: Store, *, agent: str) -> tuple[bool, float | None]:
    """Return whether an agent has a thread to take. If not, also the seconds until the next lease of any agent runs out."""
    is_available, lapses_at = check_available(store, agent=checks.name("agent", agent))
    return is_available, _seconds_until(store, lapses_at)


def check_available(store: Store, *, agent: str) -> tuple[bool, int | None]:
    """Return whether there is a thread to take. If not, also the instant (microseconds) at which the next lease runs out."""
    with store.read() as tx:
        if _list_takeable_ids(tx, agent):
            return True, None
        now = clock.format_stamp(tx.now())
        expiries = [tx.fetch_one(tx.sql.lease_next_expiry, waiting=0, priority=priority, now=now) for priority in PRIORITIES]
    ends = [expires_at for expires_at in expiries if expires_at]
    return False, clock.parse_stamp(min(ends)) if ends else None


def seconds_until_takeable(store: Store, *, agent: str) -> float | None:
    """Return the seconds until a lease runs out and leaves a thread to take, or None if no lease is live.

    Returns `RECHECK_SECONDS` if a thread is there already: it appeared after the caller's own check.
    """
    is_available, lapses_at = check_available(store, agent=agent)
    return RECHECK_SECONDS if is_available else _seconds_until(store, lapses_at)


def _seconds_until(store: Store, instant: int | None) -> float | None:
    if instant is None:
        return None
    with store.read() as tx:
        return max((instant - tx.now()) / clock.MICROSECONDS_PER_SECOND, 0.001)


def _list_takeable_ids(tx: Transaction, agent: str) -> list[str]:
    """List the ids of the threads that the agent may take, the most urgent first."""
    offered = tx.fetch_all(
        tx.sql.threads_takeable, agent=agent, now=clock.format_stamp(tx.now()), limit=tx.candidate_limit, lapsed=MAX_LAPSED_PER_PRIORITY
    )
    if offered:
        return [thread.thread_id for thread in sorted(offered, key=_urgency_key)]
    return [claim.thread.thread_id for claim in _list_misdated(tx, 0)]


def _list_misdated(tx: Transaction, waiting: int) -> list[Claim]:
    """List leases that were granted before the clock was set back, the most urgent first.

    Only those that end last are read, so that the cost does not grow with the number of leases. Others are found after these are taken.
    """
    now = clock.format_stamp(tx.now())
    key = {"waiting": waiting, "now": now, "limit": MAX_FARTHEST_LEASES}
    farthest = [claim for priority in PRIORITIES for claim in tx.fetch_all(tx.sql.leases_farthest, priority=priority, **key)]
    return [claim for claim in farthest if claim.lease.is_misdated(now)]


def _list_own(tx: Transaction, agent: str, wanted: Iterable[str], limit: int) -> Iterable[Candidate]:
    for status in wanted:
        if status == PENDING:
            for priority in PRIORITIES:
                waiting = tx.fetch_all(tx.sql.threads_waiting, agent=agent, priority=priority, limit=limit)
                yield from (Candidate(thread, False, None) for thread in waiting)
        else:
            for thread in tx.fetch_all(tx.sql.threads_assigned, status=status, assigned_to=agent, limit=limit):
                yield _read_candidate(tx, thread.thread_id)


def _list_lapsed(tx: Transaction, wanted: tuple[str, ...] | None, limit: int) -> Iterable[Candidate]:
    now = clock.format_stamp(tx.now())
    for waiting in (0, 1):
        misdated = [claim for claim in _list_misdated(tx, waiting) if wanted is None or claim.thread.status in wanted]
        yield from (Candidate(claim.thread, True, claim.lease.agent_id) for claim in misdated)
        for priority in PRIORITIES:
            key = {"waiting": waiting, "priority": priority, "now": now, "limit": limit}
            if wanted is None:
                yield from tx.fetch_all(tx.sql.leases_lapsed, **key)
            else:
                for status in wanted:
                    if status in HELD_STATUSES:
                        yield from tx.fetch_all(tx.sql.leases_lapsed_of_status, status=status, **key)


def _list_unread(tx: Transaction, agent: str, wanted: tuple[str, ...] | None, limit: int) -> tuple[Candidate, ...]:
    if wanted is None:
        unread = tx.fetch_all(tx.sql.threads_unread, agent=agent, limit=limit)
    else:
        unread = [
            thread for status in wanted for thread in tx.fetch_all(tx.sql.threads_unread_of_status, agent=agent, status=status, limit=limit)
        ]
    return tuple(_read_candidate(tx, thread.thread_id) for thread in unread[:limit])


def _read_candidate(tx: Transaction, thread_id: str) -> Candidate:
    thread, lease = messages.get_thread(tx, thread_id)
    if lease is None or not lease.is_held:
        return Candidate(thread, False, None)
    return Candidate(thread, not lease.is_live(clock.format_stamp(tx.now())), lease.agent_id)


def _urgency_key(thread: Thread | OfferedThread) -> tuple[int, str, str]:
    return PRIORITIES.index(thread.priority), thread.created_at, thread.thread_id
