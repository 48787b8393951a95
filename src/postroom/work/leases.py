"""Leases: who owns a thread. Of any number of claimers one wins, and one who was replaced is refused."""

from __future__ import annotations

from postroom.core import checks, clock
from postroom.core.errors import InvalidInput, InvalidState, LeaseHeld, LeaseLost
from postroom.core.records import Claim, Lease, Posted, Thread
from postroom.core.states import CLAIMED, PENDING, TERMINAL
from postroom.core.verbs import verb
from postroom.core.words import quoted
from postroom.store.attempts import retried
from postroom.work import messages

TYPE_CHECKING = False
if TYPE_CHECKING:
    from postroom.store.port import Store, Transaction

LEASE_SECONDS = 900.0


@verb
@retried
def claim(store: Store, thread_id: str, *, agent: str, lease_seconds: float = LEASE_SECONDS, takeover: bool = False) -> Claim:
    """Take the one lease on a thread.

    Atomic: of any number of callers, also of one name, one gets the lease. What ran out may be taken by anyone.
    `takeover` replaces a live lease of the same agent, for a worker that lost its token; the old token is then refused.
    Refuses with `LeaseHeld` while a lease is live, `NotFound`, or `InvalidState` once the thread has ended.
    """
    checks.name("agent", agent)
    checks.seconds("lease-seconds", lease_seconds)
    with store.write() as tx:
        thread, lease = messages.locked(tx, checks.name("thread", thread_id))
        if thread.status in TERMINAL:
            raise ended(thread)
        if lease is not None and lease.live(clock.stamp(tx.now())) and not (takeover and lease.agent_id == agent):
            raise _held(lease, agent)
        return grant(tx, thread, lease, agent=agent, lease_seconds=lease_seconds)


def grant(tx: Transaction, thread: Thread, lease: Lease | None, *, agent: str, lease_seconds: float) -> Claim:
    """Write a new lease over the one that was seen, and say so."""
    now = clock.stamp(tx.now())
    granted = Lease(thread.thread_id, agent, tx.fresh("lse"), now, _expiry(tx, lease_seconds), None, lease_seconds)
    tx.must(
        LeaseHeld(f"{thread.thread_id} was claimed by another worker", hint="Take other work with `inbox take`."),
        tx.sql.lease_grant,
        thread_id=thread.thread_id,
        agent_id=agent,
        lease_token=granted.lease_token,
        now=now,
        expires_at=granted.expires_at,
        lease_seconds=lease_seconds,
        priority=thread.priority,
        replaces=lease.lease_token if lease is not None and lease.agent_id == agent else "",
    )
    claimed = thread.replace(status=CLAIMED, assigned_to=agent, updated_at=now)
    messages.move(tx, thread, claimed)
    tx.run(tx.sql.agent_seen, name=agent, now=now)
    replaced = lease.agent_id if lease is not None and lease.held else None
    messages.announce(tx, claimed, event_type="thread.claimed", source=agent, summary=thread.subject, replaced=replaced)
    return Claim(claimed, granted)


@verb
@retried
def renew(store: Store, thread_id: str, *, agent: str, lease_seconds: float | None = None, lease_token: str | None = None) -> Claim:
    """Extend the caller's lease from now, by its own length unless another is given."""
    if lease_seconds is not None:
        checks.seconds("lease-seconds", lease_seconds)
    with store.write() as tx:
        thread, lease = holding(tx, thread_id, agent=agent, lease_token=lease_token)
        tx.run(tx.sql.agent_seen, name=agent, now=clock.stamp(tx.now()))
        return Claim(thread, extend(tx, lease, lease_seconds or lease.lease_seconds))


@verb
@retried
def release(store: Store, thread_id: str, *, agent: str, reason: str = "", to: str | None = None, lease_token: str | None = None) -> Posted:
    """Give a thread back without ending it: pending again, for the same agent or the one named by `to`."""
    said = messages.content(reason, "", "{}", ())
    with store.write() as tx:
        thread, lease = holding(tx, thread_id, agent=agent, lease_token=lease_token)
        successor = thread.assigned_to if to is None else checks.name("to", to)
        drop(tx, lease)
        return messages.post(
            tx, thread, said, kind="event", sender=agent, to=successor, event_type=messages.RELEASED, status=PENDING, assigned_to=successor
        )


@verb
@retried
def take_back(store: Store, thread_id: str, *, person: str, reason: str = "") -> Posted:
    """Take a thread from whoever holds it, as a person: pending again, for the same agent.

    Its holder is told by a `control` message and refused from then on; what it asked and nobody answered has ended. Refuses with
    `InvalidState` if nobody holds the thread, or once it has ended; with `InvalidInput` anyone who is not known as a person.
    """
    checks.name("person", person)
    said = messages.content(reason, "", "{}", ())
    with store.write() as tx:
        thread, lease = messages.locked(tx, checks.name("thread", thread_id))
        _human(tx, person)
        if thread.status in TERMINAL:
            raise ended(thread)
        if lease is None or not lease.held:
            raise InvalidState(f"nobody holds {thread_id}", hint="There is nothing to take back: it waits for a worker.")
        drop(tx, lease)
        return messages.post(
            tx, thread, said, kind="control", sender=person, to=lease.agent_id, event_type=messages.RELEASED, status=PENDING
        )


def _human(tx: Transaction, person: str) -> None:
    known = tx.one(tx.sql.agent_find, name=person)
    if known is None or known[1] != "human":
        hint = f"Only a person takes a thread from its holder: `inbox agent add {quoted(person)} --kind human` makes one known."
        raise InvalidInput(f"{person} is not a person that this store knows", field="person", hint=hint)


@verb
def still_holds(store: Store, thread_id: str, *, agent: str, lease_token: str) -> bool:
    """Whether a thread that was claimed is still in the hands of who claimed it. Nothing is renewed."""
    checks.name("agent", agent)
    with store.read() as tx:
        thread, lease = messages.found(tx, checks.name("thread", thread_id))
    return thread.status not in TERMINAL and lease is not None and lease.held and lease.lease_token == lease_token


def holding(tx: Transaction, thread_id: str, *, agent: str, lease_token: str | None) -> tuple[Thread, Lease]:
    """The thread and the caller's lease on it, or the refusal that says why it is not the caller's.

    A lease that ran out is still its holder's, until someone else takes the thread.
    """
    checks.name("agent", agent)
    thread, lease = messages.locked(tx, checks.name("thread", thread_id))
    if thread.status in TERMINAL:
        raise ended(thread)
    if lease is None or not lease.held:
        raise _unheld(thread_id, lease, agent)
    if lease.agent_id != agent:
        raise _held(lease, agent)
    if lease_token is not None and lease_token != lease.lease_token:
        raise lost(thread_id)
    return thread, lease


def extend(tx: Transaction, lease: Lease, lease_seconds: float | None = None) -> Lease:
    """Renew a lease that the transaction has found to be the caller's."""
    length = lease_seconds or lease.lease_seconds
    extended = lease.replace(expires_at=_expiry(tx, length), lease_seconds=length)
    tx.run(
        tx.sql.lease_renew,
        thread_id=lease.thread_id,
        lease_token=lease.lease_token,
        expires_at=extended.expires_at,
        lease_seconds=extended.lease_seconds,
    )
    return extended


def drop(tx: Transaction, lease: Lease | None) -> None:
    """End a lease, if there is one."""
    if lease is not None and lease.held:
        tx.run(tx.sql.lease_release, thread_id=lease.thread_id, lease_token=lease.lease_token, now=clock.stamp(tx.now()))


def lost(thread_id: str) -> LeaseLost:
    return LeaseLost(
        f"the lease on {thread_id} was replaced by a newer one", hint="Stop: another process owns the thread now.", thread_id=thread_id
    )


def ended(thread: Thread) -> InvalidState:
    return InvalidState(
        f"{thread.thread_id} has ended: it is {thread.status}",
        hint="Stop working on it; for anything more, send a new thread.",
        status=thread.status,
    )


def _unheld(thread_id: str, lease: Lease | None, agent: str) -> InvalidState:
    hint = f"Claim it first: `inbox claim --agent {quoted(agent)} --thread {quoted(thread_id)}`."
    if lease is not None and lease.agent_id == agent:
        hint = f"It was yours, and was given back or taken back: stop, and see `inbox show --thread {quoted(thread_id)}`."
    return InvalidState(f"nobody holds {thread_id}", hint=hint)


def _held(lease: Lease, agent: str) -> LeaseHeld:
    facts = {"thread_id": lease.thread_id, "held_by": lease.agent_id, "expires_at": lease.expires_at}
    if lease.agent_id == agent:
        hint = "If it is yours, go on with `inbox renew`; if you lost its token, `inbox claim --takeover`."
        return LeaseHeld(f"{lease.thread_id} is already claimed by {agent} itself until {lease.expires_at}", hint=hint, **facts)
    hint = "Take other work with `inbox take`, or wait until the lease runs out."
    return LeaseHeld(f"{lease.thread_id} is held by {lease.agent_id} until {lease.expires_at}", hint=hint, **facts)


def _expiry(tx: Transaction, seconds: float) -> str:
    return clock.stamp(tx.now() + int(seconds * clock.SECOND))
