"""Waiting verbs: sleep until a reply, an event or a thread to take arrives.

Each one reads the store, sleeps until it is notified, and reads again. A notification carries no data.
"""

from __future__ import annotations

from time import monotonic

from postroom._fastpath import json_text as jsontext
from postroom.core import checks, clock
from postroom.core.errors import Interrupted, InvalidInput, NotFound, StoreBusy, StoreUnreachable
from postroom.core.records.work import ReplyWaitResult, WatchResult
from postroom.core.states import KINDS, LAPSED, TERMINAL_STATUSES, WAITED_KINDS, WATCHED_STATUSES
from postroom.core.text import shell_quote
from postroom.core.verbs import OWN_NAME, OWN_VIEW, THREAD_SEEN, WAIT, verb
from postroom.store.wait_loop import wait_until
from postroom.work import candidates, lapses, leases, messages, questions
from postroom.work.threads import mark_read

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from postroom.core.records.work import Claim, Event, Lease, Message, Thread
    from postroom.store.interface import Store, Transaction

_EVENTS_PER_SCAN = 500
RETRY_SECONDS = 1.0


@verb(caller="agent", access=THREAD_SEEN, mode=WAIT)
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
    question: str | None = None,
) -> ReplyWaitResult:
    """Wait until a reply arrives, at most `timeout_seconds` (0: without a limit).

    An agent with an open question waits for the message that settles it, or a control message to it. `question` is its id, by default
    of the agent's latest one. Another agent waits for any reply that does not settle someone else's question. Without a cursor, the
    wait starts after that question, or else after the thread's latest one. While the holder of the thread waits, its lease is renewed,
    and `LeaseLost` is raised if another worker takes the thread. Refuses with `InvalidState` if the thread has ended without such a
    reply. The reply is marked as read by `agent`. With `mark=False` the caller does that, after it has delivered the reply.
    """
    kinds_json = jsontext.dumps(list(checks.choices("kinds", kinds, KINDS)))
    checks.seconds("timeout-seconds", timeout_seconds, allow_zero=True)
    with store.read() as tx:
        thread, lease = messages.get_thread(tx, checks.name("thread", thread_id))
        cursor = _check_start_cursor(tx, thread_id, after_message, after_event)
        after, waited = _find_start(tx, thread_id, agent, cursor, question)
    keeper, topics = _make_keeper(store, thread, lease, agent, lease_token), (messages.thread_topic(thread_id),)

    def find_reply() -> Message | None:
        with store.read() as tx:
            reply = questions.find_reply(tx, thread_id, agent=agent, after=after, kinds_json=kinds_json, question=waited)
            if reply is not None:
                return messages.load_artifacts(tx, reply)
            thread, held = messages.get_thread(tx, thread_id)
        if thread.status in TERMINAL_STATUSES:
            raise leases.thread_ended_error(thread)
        keeper.check_not_replaced(held)
        return None

    try:
        reply = wait_until(store, find_reply, timeout_seconds, topics=topics, periodic=keeper, uses_cursor=True)
    except Interrupted as stop:
        stop.facts["next_event_id"] = after
        raise
    if reply is None:
        return ReplyWaitResult(False, after)
    if agent is not None and mark:
        mark_read(store, thread_id, agent=agent, event_id=reply.event_id)
    return ReplyWaitResult(True, reply.event_id, reply)


@verb(caller="agent", access=OWN_VIEW, mode=WAIT)
def watch(
    store: Store,
    *,
    agent: str | None = None,
    statuses: Iterable[str] | None = None,
    run_id: str | None = None,
    after_event: int | None = None,
    timeout_seconds: float = 0,
) -> WatchResult:
    """Wait until an event of a thread happens, at most `timeout_seconds` (0: without a limit). Without a cursor, start now.

    `agent` selects the events that other agents cause in the threads that it created or that are assigned to it, and the
    messages to it. `statuses` selects the events that leave a thread in one of these statuses, and with `lapsed` those of
    leases that ran out. `run_id` selects the events of one run.
    """
    wanted = None if statuses is None else checks.choices("status", statuses, WATCHED_STATUSES)
    checks.seconds("timeout-seconds", timeout_seconds, allow_zero=True)
    if agent is not None:
        checks.name("agent", agent)
    if run_id is not None:
        checks.line("run", run_id)
    with store.read() as tx:
        cursor = _latest_event_id(tx) if after_event is None else _check_cursor(tx, after_event)

    def find_events() -> tuple[Event, ...] | None:
        nonlocal cursor
        while True:
            with store.read() as tx:
                events = tx.fetch_all(tx.sql.events_after, after=cursor, limit=_EVENTS_PER_SCAN)
            if not events:
                return None
            cursor = events[-1].event_id
            matching = tuple(event for event in events if _matches_filter(event, agent, wanted, run_id))
            if matching:
                return matching

    try:
        topics, lapse_watch = _watched_topics(agent, run_id, wanted), lapses.LapseWatch(store)
        events = wait_until(store, find_events, timeout_seconds, topics=topics, periodic=lapse_watch, uses_cursor=True)
    except Interrupted as stop:
        stop.facts["next_event_id"] = cursor
        raise
    return WatchResult(events is not None, cursor, events or ())


@verb(caller="agent", access=OWN_NAME, mode=WAIT)
def wait_take(store: Store, *, agent: str, lease_seconds: float = leases.DEFAULT_LEASE_SECONDS, timeout_seconds: float = 0) -> Claim | None:
    """Take the next thread. If there is none, wait until one is sent, given back or lapses. Returns None on a timeout."""
    checks.name("agent", agent)
    checks.seconds("lease-seconds", lease_seconds)
    checks.seconds("timeout-seconds", timeout_seconds, allow_zero=True)
    timer = _LapseTimer(store, agent)

    def take_next() -> Claim | None:
        # Another worker may win between the check and the take. Then check again: None must mean that there is no work.
        while timer.has_work():
            taken = candidates.take(store, agent=agent, lease_seconds=lease_seconds)
            if taken is not None:
                return taken
        return None

    return wait_until(store, take_next, timeout_seconds, topics=(messages.agent_topic(agent),), periodic=timer)


class _LeaseKeeper:
    """The periodic task that renews a waiting holder's lease, and raises `LeaseLost` when it was replaced.

    Does nothing if the waiting agent holds no lease.
    """

    def __init__(self, store: Store, lease: Lease | None, agent: str | None) -> None:
        self._store = store
        self._lease = lease if lease is not None and lease.is_held and lease.agent_id == agent else None
        self._renew_at = 0.0

    def has_token(self, lease_token: str) -> bool:
        return self._lease is not None and self._lease.lease_token == lease_token

    def seconds_until_due(self) -> float | None:
        return None if self._lease is None else max(self._renew_at - monotonic(), 0)

    def run(self) -> None:
        if self._lease is None or monotonic() < self._renew_at:
            return
        try:
            with self._store.write() as tx:
                thread, lease = messages.lock_thread(tx, self._lease.thread_id)
                if thread.status in TERMINAL_STATUSES:
                    return  # the next read of the waiter raises the refusal
                self.check_not_replaced(lease)
                leases.extend_lease(tx, self._lease)
                tx.execute(tx.sql.agent_seen, name=self._lease.agent_id, now=clock.format_stamp(tx.now()))
            self._renew_at = monotonic() + self._lease.lease_seconds / 3
        except (StoreBusy, StoreUnreachable):  # a lapsed lease still belongs to its holder: go on waiting
            self._renew_at = monotonic() + RETRY_SECONDS

    def check_not_replaced(self, lease: Lease | None) -> None:
        if self._lease is not None and (lease is None or lease.lease_token != self._lease.lease_token or not lease.is_held):
            raise leases.lease_lost_error(self._lease.thread_id)


def _make_keeper(store: Store, thread: Thread, lease: Lease | None, agent: str | None, lease_token: str | None) -> _LeaseKeeper:
    """Return the keeper of a waiting holder's lease. Refuses with `LeaseLost` if `lease_token` is not the current one."""
    has_ended = thread.status in TERMINAL_STATUSES
    keeper = _LeaseKeeper(store, None if has_ended else lease, agent)
    if lease_token is not None and not has_ended and not keeper.has_token(lease_token):
        raise leases.lease_lost_error(thread.thread_id)
    return keeper


class _LapseTimer:
    """The periodic task that wakes a waiter when the next lease that it may take runs out."""

    def __init__(self, store: Store, agent: str) -> None:
        self._store = store
        self._agent = agent
        self._next_lapse_at: int | None = None

    def has_work(self) -> bool:
        is_available, self._next_lapse_at = candidates.check_available(self._store, agent=self._agent)
        return is_available

    def seconds_until_due(self) -> float | None:
        if self._next_lapse_at is None:
            return None
        with self._store.read() as tx:
            return max((self._next_lapse_at - tx.now()) / clock.MICROSECONDS_PER_SECOND, 0.001)

    def run(self) -> None:
        """Do nothing: the waiter's next read finds the lapsed thread."""


def _find_start(
    tx: Transaction, thread_id: str, agent: str | None, after: int | None, question_id: str | None
) -> tuple[int, Message | None]:
    """Return the event id after which a wait for a reply starts, and the question whose answer it is for, if there is one."""
    asked = None if question_id is None else questions.get_question(tx, thread_id, question_id)
    if after is None:
        asked = asked or (tx.fetch_one(tx.sql.question_latest, thread_id=thread_id, agent=agent) if agent else None)
        latest = asked or tx.fetch_one(tx.sql.question_latest, thread_id=thread_id, agent="")
        after = 0 if latest is None else latest.event_id
    waited = asked or questions.find_waited_question(tx, thread_id, agent=agent, after=after)
    if waited is None or waited.is_open:
        return after, waited
    answer = tx.fetch_one(tx.sql.message_in_reply_to, message_id=waited.message_id)
    if answer is None:  # it ended, or was answered before answers named their question
        return after, None
    return min(after, answer.event_id - 1), waited


def _check_start_cursor(tx: Transaction, thread_id: str, after_message: str | None, after_event: int | None) -> int | None:
    """Return the event id of the given cursor, or None if none is given."""
    if after_message is not None and after_event is not None:
        raise InvalidInput("after-message and after-event exclude each other", field="after-event", hint="Leave one of them out.")
    if after_event is not None:
        return _check_cursor(tx, after_event)
    if after_message is not None:
        message = tx.fetch_one(tx.sql.message_find, message_id=checks.name("after-message", after_message))
        if message is None or message.thread_id != thread_id:
            raise NotFound(
                f"there is no message {after_message} in {thread_id}", hint=f"See `inbox show --thread {shell_quote(thread_id)}`."
            )
        return message.event_id
    return None


def _check_cursor(tx: Transaction, event_id: int) -> int:
    """Return a cursor unchanged. Refuses with `InvalidInput` one beyond the latest event: such a wait would never end."""
    checks.event_id("after-event", event_id)
    latest = _latest_event_id(tx)
    if event_id > latest:
        raise InvalidInput(
            f"event {event_id} has not happened yet: the latest is {latest}",
            field="after-event",
            hint="Pass the next_event_id of an earlier answer, unchanged.",
        )
    return event_id


def _latest_event_id(tx: Transaction) -> int:
    return tx.fetch_one(tx.sql.event_latest) or 0


def _watched_topics(agent: str | None, run_id: str | None, statuses: tuple[str, ...] | None) -> tuple[str, ...]:
    """Return the narrowest topics that cover every event that matches a filter."""
    if agent is not None:
        return (messages.agent_topic(agent),)
    return (messages.run_topic(run_id),) if run_id else tuple(map(messages.status_topic, statuses or ()))


def _matches_filter(event: Event, agent: str | None, statuses: tuple[str, ...] | None, run_id: str | None) -> bool:
    """Return whether `watch` returns an event: of a thread, in the run and the statuses, and by another agent but about this one."""
    if not event.event_type.startswith("thread.") or run_id not in (None, event.run_id):
        return False
    facts = jsontext.loads(event.payload_json)
    is_lapse = event.event_type == messages.LAPSED_EVENT and statuses is not None and LAPSED in statuses
    if statuses is not None and facts.get("status") not in statuses and not is_lapse:
        return False
    return agent is None or (event.source != agent and agent in (facts.get("assigned_to"), facts.get("created_by"), facts.get("to")))
