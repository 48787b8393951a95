"""Leases: the ownership of a thread. One claimer wins, and a holder that was replaced is refused.

The command line, the server and the worker call these verbs.
"""

from __future__ import annotations

from postroom.core import checks, clock
from postroom.core.errors import InvalidInput, InvalidState, LeaseHeld, LeaseLost
from postroom.core.records.work import Claim, Lease, PostedMessage, Thread
from postroom.core.states import BLOCKED, CANCELLED, CLAIMED, PENDING, RETRIED_STATUSES, TERMINAL_STATUSES
from postroom.core.text import shell_quote
from postroom.core.verbs import PEOPLE, READ, THREAD_PART, THREAD_TAKE, WRITE, verb
from postroom.store.agents import note_seen
from postroom.store.retries import retry_on_contention
from postroom.work import messages

TYPE_CHECKING = False
if TYPE_CHECKING:
    from postroom.store.interface import Store, Transaction

DEFAULT_LEASE_SECONDS = 900.0


@verb(caller="agent", access=THREAD_TAKE, mode=WRITE)
@retry_on_contention
def claim(store: Store, thread_id: str, *, agent: str, lease_seconds: float = DEFAULT_LEASE_SECONDS, takeover: bool = False) -> Claim:
    """Take the one lease on a thread.

    Atomic: exactly one of several concurrent callers gets the lease, even if all use the same agent name. Any agent may
    claim a thread whose lease ran out. `takeover` replaces a live lease of the same agent, for a worker that lost its
    token. The old token is refused from then on.
    Refuses with `LeaseHeld` while a lease is live, with `NotFound`, or with `InvalidState` once the thread has ended, or if the lapsed
    lease was the last attempt of its task.
    """
    checks.name("agent", agent)
    checks.seconds("lease-seconds", lease_seconds)
    with store.write() as tx:
        thread, lease = messages.lock_thread(tx, checks.name("thread", thread_id))
        if thread.status in TERMINAL_STATUSES:
            raise thread_ended_error(thread)
        if lease is not None and lease.is_live(clock.format_stamp(tx.now())) and not (takeover and lease.agent_id == agent):
            raise lease_held_error(lease, agent)
        claimed = replace_lease(tx, thread, lease, agent=agent, lease_seconds=lease_seconds)
    if claimed is None:  # after the commit: the attempt is counted
        raise thread_ended_error(thread.replace(status=CANCELLED))
    return claimed


def replace_lease(tx: Transaction, thread: Thread, lease: Lease | None, *, agent: str, lease_seconds: float) -> Claim | None:
    """Grant a lease as `grant_lease` does. Returns None if the lease before it was the last attempt of the thread's task."""
    if lease is not None and lease.is_held:
        from postroom.work.lapses import close_lapse

        if not close_lapse(tx, thread, lease):
            return None
    return grant_lease(tx, thread, lease, agent=agent, lease_seconds=lease_seconds)


def grant_lease(tx: Transaction, thread: Thread, lease: Lease | None, *, agent: str, lease_seconds: float) -> Claim:
    """Write a new lease over `lease`, mark the thread as claimed, and append the event.

    Refuses with `LeaseHeld` if another worker replaced `lease` since it was read.
    """
    now = clock.format_stamp(tx.now())
    said, more = messages.read_for_claim(tx, thread.thread_id)
    granted = Lease(thread.thread_id, agent, tx.new_id("lse"), now, _expiry_stamp(tx, lease_seconds), None, lease_seconds)
    tx.execute_exactly_one(
        LeaseHeld(f"{thread.thread_id} was claimed by another worker", hint="Take other work with `inbox take`."),
        tx.sql.lease_grant,
        thread_id=thread.thread_id,
        agent_id=agent,
        lease_token=granted.lease_token,
        now=now,
        expires_at=granted.expires_at,
        lease_seconds=lease_seconds,
        priority=thread.priority,
        replaced_token=lease.lease_token if lease is not None and (lease.agent_id == agent or lease.is_misdated(now)) else "",
    )
    claimed = thread.replace(status=CLAIMED, assigned_to=agent, updated_at=now)
    messages.write_thread_state(tx, thread, claimed)
    note_seen(tx, "agent", agent)
    replaced = lease.agent_id if lease is not None and lease.is_held else None
    messages.announce_thread_event(tx, claimed, event_type="thread.claimed", source=agent, summary=thread.subject, replaced=replaced)
    return Claim(claimed, granted, said, more)


@verb(caller="agent", access=THREAD_PART, mode=WRITE)
@retry_on_contention
def renew(store: Store, thread_id: str, *, agent: str, lease_seconds: float | None = None, lease_token: str | None = None) -> Claim:
    """Extend the caller's lease from now, by `lease_seconds` or else by its own length."""
    if lease_seconds is not None:
        checks.seconds("lease-seconds", lease_seconds)
    with store.write() as tx:
        thread, lease = lock_held_thread(tx, thread_id, agent=agent, lease_token=lease_token)
        note_seen(tx, "agent", agent)
        return Claim(thread, extend_lease(tx, lease, lease_seconds or lease.lease_seconds))


@verb(caller="agent", access=THREAD_PART, mode=WRITE)
@retry_on_contention
def release(
    store: Store,
    thread_id: str,
    *,
    agent: str,
    reason: str = "",
    to: str | None = None,
    lease_token: str | None = None,
    until_answered: bool = False,
) -> PostedMessage:
    """Give a thread back without ending it. It is pending again, for the same agent or for `to`.

    With `until_answered`, a thread that waits for an answer stays blocked, and nobody holds it. The answer, or a control message
    to the agent, makes it pending for the same agent. Refuses `to` together with `until_answered`.
    """
    content = messages.check_content(reason, "", "{}", ())
    if until_answered and to is not None:
        raise InvalidInput("to and until_answered exclude each other", field="to", hint="The answer goes to the agent that asked.")
    with store.write() as tx:
        thread, lease = lock_held_thread(tx, thread_id, agent=agent, lease_token=lease_token)
        successor = thread.assigned_to if to is None else checks.name("to", to)
        stays_blocked = until_answered and thread.status == BLOCKED and tx.fetch_one(tx.sql.lease_waiting, thread_id=thread_id) == 1
        end_lease(tx, lease)
        return messages.post(
            tx,
            thread,
            content,
            kind="event",
            sender=agent,
            to=successor,
            event_type=messages.RELEASED_EVENT,
            status=BLOCKED if stays_blocked else PENDING,
            assigned_to=successor,
        )


@verb(caller=PEOPLE, mode=WRITE)
@retry_on_contention
def revoke_lease(store: Store, thread_id: str, *, person: str, reason: str = "") -> PostedMessage:
    """Take a thread from its holder, as a person. It is pending again, for the same agent.

    The holder receives a `control` message and is refused from then on. Its unanswered question is closed. Refuses with
    `InvalidState` if the thread is not held or has ended, and with `InvalidInput` if `person` is not a registered person.
    """
    from postroom.work import lapses

    checks.name("person", person)
    content = messages.check_content(reason, "", "{}", ())
    with store.write() as tx:
        thread, lease = messages.lock_thread(tx, checks.name("thread", thread_id))
        _check_is_person(tx, person)
        if thread.status in TERMINAL_STATUSES:
            raise thread_ended_error(thread)
        if lease is None or not lease.is_held:
            raise InvalidState(f"nobody holds {thread_id}", hint="There is nothing to take back.")
        if lapses.close_lapse(tx, thread, lease):
            end_lease(tx, lease)
            tx.execute(tx.sql.questions_end, thread_id=thread_id, agent=lease.agent_id)
            return messages.post(
                tx, thread, content, kind="control", sender=person, to=lease.agent_id, event_type=messages.RELEASED_EVENT, status=PENDING
            )
    raise thread_ended_error(thread.replace(status=CANCELLED))  # after the commit: the lapse was the last attempt of its task


def _check_is_person(tx: Transaction, person: str) -> None:
    from postroom.store.agents import is_person

    if not is_person(tx, person):
        hint = f"Only a person can take a thread from its holder: `inbox agent add {shell_quote(person)} --kind human` registers one."
        raise InvalidInput(f"{person} is not a person that this store knows", field="person", hint=hint)


@verb(caller="agent", access=THREAD_PART, mode=READ)
def holds_lease(store: Store, thread_id: str, *, agent: str, lease_token: str) -> bool:
    """Return whether an agent still owns a thread by this lease token. Does not renew the lease."""
    checks.name("agent", agent)
    with store.read() as tx:
        thread, lease = messages.get_thread(tx, checks.name("thread", thread_id))
    if thread.status in TERMINAL_STATUSES or lease is None or not lease.is_held:
        return False
    return (lease.agent_id, lease.lease_token) == (agent, lease_token)


def lock_held_thread(tx: Transaction, thread_id: str, *, agent: str, lease_token: str | None) -> tuple[Thread, Lease]:
    """Lock a thread that the caller holds, and return it with the caller's lease.

    A lease that ran out still belongs to its holder until another worker takes the thread. Refuses with `InvalidState`
    if the thread has ended or is not held, with `LeaseHeld` if another agent holds it, and with `LeaseLost` if
    `lease_token` is not the current one.
    """
    checks.name("agent", agent)
    thread, lease = messages.lock_thread(tx, checks.name("thread", thread_id))
    if thread.status in TERMINAL_STATUSES:
        raise thread_ended_error(thread)
    if lease is None or not lease.is_held:
        raise _not_held_error(thread_id, lease, agent)
    if lease.agent_id != agent:
        raise lease_held_error(lease, agent)
    if lease_token is not None and lease_token != lease.lease_token:
        raise lease_lost_error(thread_id)
    return thread, lease


def extend_lease(tx: Transaction, lease: Lease, lease_seconds: float | None = None) -> Lease:
    """Extend a lease from now and return it. The caller has checked, under the thread's lock, that it owns the lease."""
    length = lease_seconds or lease.lease_seconds
    extended = lease.replace(expires_at=_expiry_stamp(tx, length), lease_seconds=length)
    tx.execute(
        tx.sql.lease_renew,
        thread_id=lease.thread_id,
        lease_token=lease.lease_token,
        expires_at=extended.expires_at,
        lease_seconds=extended.lease_seconds,
    )
    return extended


def end_lease(tx: Transaction, lease: Lease | None) -> None:
    """End a lease if it is held."""
    if lease is not None and lease.is_held:
        tx.execute(tx.sql.lease_release, thread_id=lease.thread_id, lease_token=lease.lease_token, now=clock.format_stamp(tx.now()))


def lease_lost_error(thread_id: str) -> LeaseLost:
    return LeaseLost(
        f"the lease on {thread_id} was replaced by a newer one", hint="Stop: another process owns the thread now.", thread_id=thread_id
    )


def thread_ended_error(thread: Thread) -> InvalidState:
    hint = "Stop working on it; for anything more, send a new thread."
    if thread.status in RETRIED_STATUSES and not thread.task_id:  # a thread of a task is not reopened
        hint = f"Stop working on it. `inbox retry {shell_quote(thread.thread_id)}` reopens it; for anything else, send a new thread."
    return InvalidState(f"{thread.thread_id} has ended: it is {thread.status}", hint=hint, status=thread.status)


def _not_held_error(thread_id: str, lease: Lease | None, agent: str) -> InvalidState:
    hint = f"Claim it first: `inbox claim --agent {shell_quote(agent)} --thread {shell_quote(thread_id)}`."
    if lease is not None and lease.agent_id == agent:
        hint = f"It was yours, and was given back or taken back: stop, and see `inbox show --thread {shell_quote(thread_id)}`."
    return InvalidState(f"nobody holds {thread_id}", hint=hint)


def lease_held_error(lease: Lease, agent: str, *, hint: str = "") -> LeaseHeld:
    facts = {"thread_id": lease.thread_id, "held_by": lease.agent_id, "expires_at": lease.expires_at}
    if lease.agent_id == agent:
        hint = hint or "If it is yours, go on with `inbox renew`; if you lost its token, `inbox claim --takeover`."
        return LeaseHeld(f"{lease.thread_id} is already claimed by {agent} itself until {lease.expires_at}", hint=hint, **facts)
    hint = hint or "Take other work with `inbox take`, or wait until the lease runs out."
    return LeaseHeld(f"{lease.thread_id} is held by {lease.agent_id} until {lease.expires_at}", hint=hint, **facts)


def _expiry_stamp(tx: Transaction, seconds: float) -> str:
    return clock.format_stamp(tx.now() + int(seconds * clock.MICROSECONDS_PER_SECOND))
