"""Candidates: list the threads that an agent could work on now, and take the most urgent one in one transaction."""

from __future__ import annotations

from postroom.core import checks, clock
from postroom.core.errors import StoreBusy
from postroom.core.records.work import Candidate, CandidatePage
from postroom.core.states import HELD_STATUSES, PENDING, PRIORITIES, STATUSES
from postroom.core.verbs import OWN_NAME, OWN_VIEW, READ, WRITE, verb
from postroom.store.retries import retry_on_contention
from postroom.store.tables import NEWEST
from postroom.work import leases, messages
from postroom.work.participation import is_takeable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from postroom.core.records.work import Claim, OfferedThread, Thread
    from postroom.store.interface import Store, Transaction

    Position = tuple[int, str, str]  # of a thread in the order of urgency: its priority, age and id

MAX_TAKE_ATTEMPTS = 100
RECHECK_SECONDS = 0.01
MAX_FARTHEST_LEASES = (
    8  # how many leases, those with the latest end, are checked for an end that is too far ahead, because the clock was set back
)
MAX_COMPARED_THREADS = 1000  # how many lapsed threads of a priority, or threads of a status, `fetch` sorts by urgency
MAX_LAPSED_PER_PRIORITY = 32  # how many lapsed threads `take` compares: those that lapsed first
_CURSOR_SEPARATOR = "/"  # neither a priority nor a time contains one


@verb(caller="agent", access=OWN_VIEW, mode=READ)
def fetch(
    store: Store,
    *,
    agent: str,
    statuses: Iterable[str] | None = None,
    limit: int = 20,
    unread: bool = False,
    after: str | None = None,
) -> CandidatePage:
    """List the threads that an agent could work on: its own pending ones, and all whose lease ran out. Writes nothing.

    `statuses` selects the agent's threads in those statuses instead, held or not. `unread` selects the threads with
    messages to the agent that it has not read. `after` is the cursor of a page. Of lapsed threads, and of those in a status other than
    pending, the first `MAX_COMPARED_THREADS` of each priority or status are listed. The rest appear once some of these were taken. With
    `unread` and `statuses`, a call looks at `MAX_COMPARED_THREADS` unread threads, so that a page may be empty and still have `more`.
    """
    checks.name("agent", agent)
    checks.limit("limit", limit)
    wanted = None if statuses is None else checks.choices("status", statuses, STATUSES)
    with store.read() as tx:
        if unread:
            return _list_unread(tx, agent, wanted, limit, 0 if after is None else _parse_unread_cursor(after))
        start = None if after is None else _parse_cursor(after)
        own = _list_own(tx, agent, wanted or (PENDING,), limit + 1, start)
        by_id = {thread.thread_id: Candidate(thread, False, None) for thread in own}
        by_id |= {candidate.thread.thread_id: candidate for candidate in _list_lapsed(tx, wanted)}
        found = sorted((found for found in by_id.values() if start is None or _position_of(found) > start), key=_position_of)
        more = len(found) > limit
        return CandidatePage(
            tuple(_read_holder(tx, candidate) for candidate in found[:limit]), more, _cursor_of(found[limit - 1]) if more else None
        )


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
    pending = tx.fetch_one(tx.sql.thread_pending, agent=agent, now=clock.format_stamp(tx.now()))
    if pending is not None:  # the statement locked it (on PostgreSQL), and it has no lease to replace
        return leases.grant_lease(tx, pending, None, agent=agent, lease_seconds=lease_seconds)
    for _ in range(MAX_TAKE_ATTEMPTS):
        offered = _list_takeable_ids(tx, agent)
        if not offered:
            return None
        for thread_id in offered:
            if tx.lock_thread(thread_id, wait=False):
                claimed = _take_locked(tx, thread_id, agent, lease_seconds)
                if claimed is not None:
                    return claimed
        tx.lock_thread(offered[0])  # all are locked by others: wait for the first one, then look again
    raise StoreBusy("others took every thread that was offered", hint="Try again.")


def _take_locked(tx: Transaction, thread_id: str, agent: str, lease_seconds: float) -> Claim | None:
    """Claim a thread that this transaction has locked. Returns None if it is not to be taken any more."""
    thread, lease = messages.get_thread(tx, thread_id)
    if not is_takeable(thread, lease, agent, clock.format_stamp(tx.now())):
        return None
    return leases.replace_lease(tx, thread, lease, agent=agent, lease_seconds=lease_seconds)


def peek_next(tx: Transaction, *, agent: str) -> Thread | None:
    """Return the most urgent thread that the agent may take, or None. Another transaction may take it meanwhile."""
    offered = _list_takeable_ids(tx, agent)
    return messages.get_thread(tx, offered[0])[0] if offered else None


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
        expiries = [tx.fetch_one(tx.sql.lease_next_expiry, waiting=0, priority=priority, after=now) for priority in PRIORITIES]
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


def _list_own(tx: Transaction, agent: str, wanted: Iterable[str], limit: int, start: Position | None) -> Iterator[Thread]:
    for status in wanted:
        if status == PENDING:
            for number, priority in enumerate(PRIORITIES):
                if start is None or number >= start[0]:
                    at, thread_id = ("", "") if start is None or number > start[0] else start[1:]
                    place = {"after_at": at, "after_id": thread_id}
                    yield from tx.fetch_all(tx.sql.threads_waiting, agent=agent, priority=priority, limit=limit, **place)
        else:
            key = {"status": status, "assigned_to": agent, "limit": MAX_COMPARED_THREADS}
            yield from tx.fetch_all(tx.sql.threads_assigned, **key, **NEWEST)


def _list_lapsed(tx: Transaction, wanted: tuple[str, ...] | None) -> Iterator[Candidate]:
    now = clock.format_stamp(tx.now())
    for waiting in (0, 1):
        misdated = [claim for claim in _list_misdated(tx, waiting) if wanted is None or claim.thread.status in wanted]
        yield from (Candidate(claim.thread, True, claim.lease.agent_id) for claim in misdated)
        for priority in PRIORITIES:
            key = {"waiting": waiting, "priority": priority, "now": now, "limit": MAX_COMPARED_THREADS}
            if wanted is None:
                yield from tx.fetch_all(tx.sql.leases_lapsed, **key)
            else:
                for status in wanted:
                    if status in HELD_STATUSES:
                        yield from tx.fetch_all(tx.sql.leases_lapsed_of_status, status=status, **key)


def _list_unread(tx: Transaction, agent: str, wanted: tuple[str, ...] | None, limit: int, after: int) -> CandidatePage:
    key = {"agent": agent, "after": after, "limit": limit + 1}
    last_examined = None
    if wanted is None:
        found = tx.fetch_all(tx.sql.threads_unread, **key)
    else:
        last_examined = _find_last_examined(tx, agent, after)
        key["until"] = checks.AFTER_ALL_IDS if last_examined is None else last_examined
        marks = (mark for status in wanted for mark in tx.fetch_all(tx.sql.threads_unread_of_status, status=status, **key))
        found = sorted(marks, key=lambda mark: mark.latest_event_id)
    page = found[:limit]
    last = page[-1].latest_event_id if len(found) > limit else last_examined
    return CandidatePage(tuple(_read_candidate(tx, mark.thread_id) for mark in page), last is not None, None if last is None else str(last))


def _find_last_examined(tx: Transaction, agent: str, after: int) -> int | None:
    """Return the event id of the last unread thread of which a call compares the status, or None if it compares all of them."""
    place = {"limit": 2, "skipped": MAX_COMPARED_THREADS - 1}
    event_ids = tx.fetch_all(tx.sql.unread_event_ids, agent=agent, after=after, **place)
    return min(event_ids) if len(event_ids) == 2 else None


def _parse_cursor(after: str) -> Position:
    """Return the urgency of the thread behind which a page starts. Refuses a text that no listing gave."""
    priority, _, place = after.partition(_CURSOR_SEPARATOR) if isinstance(after, str) else ("", "", "")
    created_at, _, thread_id = place.partition(_CURSOR_SEPARATOR)
    if priority not in PRIORITIES or not thread_id:
        raise checks.wrong_cursor_error(after)
    return PRIORITIES.index(priority), checks.name("after", created_at), checks.name("after", thread_id)


def _parse_unread_cursor(after: str) -> int:
    if not (isinstance(after, str) and after.isascii() and after.isdigit()):
        raise checks.wrong_cursor_error(after)
    return checks.event_id("after", int(after))


def _read_holder(tx: Transaction, candidate: Candidate) -> Candidate:
    """Return a candidate with its holder, which the lists of an agent's own threads do not have."""
    is_complete = candidate.lapsed or candidate.thread.status not in HELD_STATUSES
    return candidate if is_complete else _read_candidate(tx, candidate.thread.thread_id)


def _read_candidate(tx: Transaction, thread_id: str) -> Candidate:
    thread, lease = messages.get_thread(tx, thread_id)
    if lease is None or not lease.is_held:
        return Candidate(thread, False, None)
    return Candidate(thread, not lease.is_live(clock.format_stamp(tx.now())), lease.agent_id)


def _position_of(candidate: Candidate) -> Position:
    return _urgency_key(candidate.thread)


def _cursor_of(candidate: Candidate) -> str:
    thread = candidate.thread
    return _CURSOR_SEPARATOR.join((thread.priority, thread.created_at, thread.thread_id))


def _urgency_key(thread: Thread | OfferedThread) -> tuple[int, str, str]:
    return PRIORITIES.index(thread.priority), thread.created_at, thread.thread_id
