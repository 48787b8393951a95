"""Waiting: sleep until something happens. A waiter looks, waits for the bell, and looks again; the store is the truth."""

from __future__ import annotations

from time import monotonic

from postroom.core import checks, clock, jsontext
from postroom.core.errors import Interrupted, InvalidInput, NotFound, StoreAway, StoreBusy
from postroom.core.records import Activity, Claim, Event, Lease, Message, Reply
from postroom.core.states import KINDS, STATUSES, TERMINAL, WAITED_KINDS
from postroom.core.verbs import verb
from postroom.core.words import quoted
from postroom.store.waking import until
from postroom.work import candidates, leases, messages
from postroom.work.threads import mark_read

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from postroom.store.port import Store, Transaction

_SCANNED_AT_ONCE = 500


@verb
def wait_reply(
    store: Store,
    thread_id: str,
    *,
    agent: str | None = None,
    after_message: str | None = None,
    after_event: int | None = None,
    kinds: Iterable[str] = WAITED_KINDS,
    timeout_seconds: float = 0,
    lease_token: str | None = None,
    mark: bool = True,
) -> Reply:
    """Sleep until a reply comes, at most `timeout_seconds` (0: for ever).

    Without a cursor it starts after the thread's latest question. When `agent` holds the thread, its lease is renewed
    as long as this waits, and `LeaseLost` is raised if somebody takes the thread meanwhile. A thread that has ended and
    holds no such reply refuses with `InvalidState`: none can come any more. The reply counts as read by `agent`; with
    `mark` off that is left to the caller, who may still fail to show it.
    """
    wanted = checks.choices("kinds", kinds, KINDS)
    checks.seconds("timeout-seconds", timeout_seconds, zero=True)
    with store.read() as tx:
        thread, lease = messages.found(tx, checks.name("thread", thread_id))
        after = _cursor(tx, thread_id, after_message, after_event)
    keep = _Keeping(store, None if thread.status in TERMINAL else lease, agent)
    if lease_token is not None and thread.status not in TERMINAL and not keep.by(lease_token):
        raise leases.lost(thread_id)
    kinds_json = jsontext.dumps(list(wanted))

    def look() -> Message | None:
        with store.read() as tx:
            row = tx.one(tx.sql.message_after, thread_id=thread_id, after=after, kinds=kinds_json)
            if row is not None:
                return messages.message(tx, row)
            thread, held = messages.found(tx, thread_id)
        if thread.status in TERMINAL:
            raise leases.ended(thread)
        keep.check(held)
        return None

    try:
        found = until(store, look, timeout_seconds, topics=(messages.of_thread(thread_id),), chore=keep)
    except Interrupted as stop:
        stop.facts["next_event_id"] = after
        raise
    if found is None:
        return Reply(False, after)
    if agent is not None and mark:
        mark_read(store, thread_id, agent=agent, event_id=found.event_id)
    return Reply(True, found.event_id, found)


@verb
def watch(
    store: Store,
    *,
    agent: str | None = None,
    statuses: Iterable[str] | None = None,
    after_event: int | None = None,
    timeout_seconds: float = 0,
) -> Activity:
    """Sleep until something happens, at most `timeout_seconds` (0: for ever). Without a cursor it starts now.

    With `agent`: what others do in the threads that it created, that are assigned to it, or in messages to it.
    With `statuses`: what leaves a thread in one of them.
    """
    wanted = None if statuses is None else checks.choices("status", statuses, STATUSES)
    checks.seconds("timeout-seconds", timeout_seconds, zero=True)
    if agent is not None:
        checks.name("agent", agent)
    with store.read() as tx:
        cursor = _latest(tx) if after_event is None else _known(tx, after_event)

    def look() -> tuple[Event, ...] | None:
        nonlocal cursor
        while True:
            with store.read() as tx:
                rows = tx.all(tx.sql.events_after, after=cursor, limit=_SCANNED_AT_ONCE)
            if not rows:
                return None
            cursor = rows[-1][0]
            matching = tuple(event for event in (Event(*row) for row in rows) if _concerns(event, agent, wanted))
            if matching:
                return matching

    topics = (messages.of_agent(agent),) if agent else tuple(map(messages.of_status, wanted or ()))
    try:
        found = until(store, look, timeout_seconds, topics=topics)
    except Interrupted as stop:
        stop.facts["next_event_id"] = cursor
        raise
    return Activity(found is not None, cursor, found or ())


@verb
def wait_take(store: Store, *, agent: str, lease_seconds: float = leases.LEASE_SECONDS, timeout_seconds: float = 0) -> Claim | None:
    """Take the next thread, sleeping until there is one: sent, given back, or lapsed. None when the time is over."""
    checks.name("agent", agent)
    checks.seconds("lease-seconds", lease_seconds)
    checks.seconds("timeout-seconds", timeout_seconds, zero=True)
    lapse = _Lapse(store, agent)

    def look() -> Claim | None:
        # Another taker may win between the look and the take: then look again. Only an empty look means "nothing".
        while lapse.look():
            taken = candidates.take(store, agent=agent, lease_seconds=lease_seconds)
            if taken is not None:
                return taken
        return None

    return until(store, look, timeout_seconds, topics=(messages.of_agent(agent),), chore=lapse)


class _Keeping:
    """Renews the lease of a holder that waits, and notices when it was taken."""

    def __init__(self, store: Store, lease: Lease | None, agent: str | None) -> None:
        self._store = store
        self._lease = lease if lease is not None and lease.held and lease.agent_id == agent else None
        self._next = 0.0

    def by(self, lease_token: str) -> bool:
        return self._lease is not None and self._lease.lease_token == lease_token

    def due(self) -> float | None:
        return None if self._lease is None else max(self._next - monotonic(), 0)

    def perform(self) -> None:
        if self._lease is None or monotonic() < self._next:
            return
        try:
            with self._store.write() as tx:
                thread, lease = messages.locked(tx, self._lease.thread_id)
                if thread.status in TERMINAL:
                    return  # the next look finds out how it ended
                self.check(lease)
                leases.extend(tx, self._lease)
                tx.run(tx.sql.agent_seen, name=self._lease.agent_id, now=clock.stamp(tx.now()))
            self._next = monotonic() + self._lease.lease_seconds / 3
        except (StoreBusy, StoreAway):  # a waiter outlives a busy store: a lapsed lease is still its holder's
            self._next = monotonic() + 1

    def check(self, lease: Lease | None) -> None:
        if self._lease is not None and (lease is None or lease.lease_token != self._lease.lease_token or not lease.held):
            raise leases.lost(self._lease.thread_id)


class _Lapse:
    """Wakes a taker when the next lease runs out: nobody rings a bell for that."""

    def __init__(self, store: Store, agent: str) -> None:
        self._store = store
        self._agent = agent
        self._at: int | None = None

    def look(self) -> bool:
        found, self._at = candidates.available(self._store, agent=self._agent)
        return found

    def due(self) -> float | None:
        if self._at is None:
            return None
        with self._store.read() as tx:
            return max((self._at - tx.now()) / clock.SECOND, 0.001)

    def perform(self) -> None:
        pass


def _cursor(tx: Transaction, thread_id: str, after_message: str | None, after_event: int | None) -> int:
    if after_message is not None and after_event is not None:
        raise InvalidInput("after-message and after-event exclude each other", field="after-event", hint="Leave one of them out.")
    if after_event is not None:
        return _known(tx, after_event)
    if after_message is not None:
        row = tx.one(tx.sql.message_find, message_id=checks.name("after-message", after_message))
        if row is None or row[1] != thread_id:
            raise NotFound(f"there is no message {after_message} in {thread_id}", hint=f"See `inbox show --thread {quoted(thread_id)}`.")
        return int(row[9])
    question = tx.one(tx.sql.question_latest, thread_id=thread_id)
    return 0 if question is None else int(question[0])


def _known(tx: Transaction, event_id: int) -> int:
    """A cursor that this store has given out. One from elsewhere would sleep for ever."""
    checks.event("after-event", event_id)
    latest = _latest(tx)
    if event_id > latest:
        raise InvalidInput(
            f"event {event_id} has not happened yet: the latest is {latest}",
            field="after-event",
            hint="Pass the next_event_id of an earlier answer, unchanged.",
        )
    return event_id


def _latest(tx: Transaction) -> int:
    row = tx.one(tx.sql.event_latest)
    return int(row[0]) if row else 0


def _concerns(event: Event, agent: str | None, statuses: tuple[str, ...] | None) -> bool:
    if not event.event_type.startswith("thread."):
        return False
    facts = jsontext.loads(event.payload_json)
    if statuses is not None and facts.get("status") not in statuses:
        return False
    return agent is None or (event.source != agent and agent in (facts.get("assigned_to"), facts.get("created_by"), facts.get("to")))
