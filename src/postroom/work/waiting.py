"""Waiting verbs: sleep until a reply, an event or a thread to take arrives.

Each one reads the store, sleeps until it is notified, and reads again. A notification carries no data.
"""

from __future__ import annotations

from time import monotonic

from postroom._fastpath import json_text as jsontext
from postroom.core import checks, clock
from postroom.core.errors import Interrupted, InvalidInput, NotFound, StoreBusy, StoreUnreachable
from postroom.core.records.work import ReplyWaitResult, WatchResult
from postroom.core.states import KINDS, LAPSED, TERMINAL_STATUSES, THREAD_STATUS_OF_TASK, WAITED_KINDS, WATCHED_STATUSES
from postroom.core.text import shell_quote
from postroom.core.verbs import OWN_NAME, OWN_VIEW, THREAD_SEEN, WAIT, verb
from postroom.store import event_log
from postroom.store.agents import note_seen
from postroom.store.wait_loop import wait_until
from postroom.work import candidates, lapses, leases, messages, questions
from postroom.work.threads import mark_read

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from postroom.core.records import Event
    from postroom.core.records.work import Claim, Lease, Message, Thread
    from postroom.store.interface import Store, Transaction

_EVENTS_PER_SCAN = 500
RETRY_SECONDS = 1.0
TASK_EVENT_PREFIX = "task.A2ATask"


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
    """Wait until an event of a thread or a task happens, at most `timeout_seconds` (0: without a limit). Without a cursor, start now.

    `agent` selects the events that other agents cause in the threads that it created or that are assigned to it, in the tasks that it
    gave or got, and the messages to it. `statuses` selects the events that leave a thread in one of these statuses, and with `lapsed`
    those of leases that ran out. An accepted task counts as claimed, a completed one as done. `run_id` selects the events of one run.
    Refuses with `CursorExpired` if events after the cursor were removed.
    """
    wanted = None if statuses is None else checks.choices("status", statuses, WATCHED_STATUSES)
    checks.seconds("timeout-seconds", timeout_seconds, allow_zero=True)
    if agent is not None:
        checks.name("agent", agent)
    if run_id is not None:
        checks.line("run", run_id)
    with store.read() as tx:
        cursor = _latest_event_id(tx) if after_event is None else _check_cursor(tx, after_event)
        event_log.check_not_removed(tx, cursor)

    wanted_events = _EventFilter(agent, wanted, run_id)

    def find_events() -> tuple[Event, ...] | None:
        nonlocal cursor
        while True:
            with store.read() as tx:
                end, events = wanted_events.read_page(tx, cursor)
            if end == cursor:
                return None
            cursor = end
            if events:
                return events

    try:
        topics, lapse_watch = wanted_events.wake_topics(), lapses.LapseWatch(store)
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
                note_seen(tx, "agent", self._lease.agent_id)
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
    newest = tx.fetch_one(tx.sql.event_newest) or 0
    if event_id > newest:
        raise InvalidInput(
            f"event {event_id} has not happened yet: the latest is {newest}",
            field="after-event",
            hint="Pass the next_event_id of an earlier answer, unchanged.",
        )
    return event_id


def _latest_event_id(tx: Transaction) -> int:
    return tx.fetch_one(tx.sql.event_latest) or 0


class _EventFilter:
    """The events that a `watch` returns: of threads and tasks, in the run and the statuses, and by another agent but about this one."""

    def __init__(self, agent: str | None, statuses: tuple[str, ...] | None, run_id: str | None) -> None:
        self._agent = agent
        self._statuses = statuses
        self._run_id = run_id

    def wake_topics(self) -> tuple[str, ...]:
        """Return the narrowest topics of notifications that cover every matching event."""
        if self._agent is not None:
            return (messages.agent_topic(self._agent),)
        return (messages.run_topic(self._run_id),) if self._run_id else tuple(map(messages.status_topic, self._statuses or ()))

    def read_page(self, tx: Transaction, after: int) -> tuple[int, tuple[Event, ...]]:
        """Return the matching events of the next page, and the id up to which the log was searched. At the end, that is `after`.

        Old events are found by the summaries of their blocks, so that the cost does not depend on the number of events in between.
        """
        summarised = event_log.last_summarised_event(tx)
        if after >= summarised:
            events = tx.fetch_all(tx.sql.events_after, after=after, limit=_EVENTS_PER_SCAN)
            if events and events[-1].event_id - after != len(events):  # a gap
                event_log.check_not_removed(tx, after)
            return (events[-1].event_id if events else after), self._select(tx, events)
        event_log.check_not_removed(tx, after)
        block = self._find_block(tx, first=(after + 1) // event_log.BLOCK_EVENTS)
        if block is None:
            return summarised, ()
        first = block * event_log.BLOCK_EVENTS
        end = first + event_log.BLOCK_EVENTS - 1
        return end, self._select(tx, tx.fetch_all(tx.sql.events_in_block, after=max(after, first - 1), until=end))

    def _find_block(self, tx: Transaction, *, first: int) -> int | None:
        """Return the first block that has events of the agent and of the run, or None."""
        subjects = [f"agent:{self._agent}"] * (self._agent is not None) + [f"run:{self._run_id}"] * (self._run_id is not None)
        topic_sets = [self._with_statuses(subject) for subject in subjects] or [self._with_statuses("")]
        while True:
            blocks = [event_log.find_block(tx, topics, first=first) for topics in topic_sets]
            found = [block for block in blocks if block is not None]
            if len(found) < len(blocks):
                return None
            first = max(found)
            if first == min(found):
                return first

    def _with_statuses(self, subject: str) -> list[str]:
        if self._statuses is None:
            return [subject or "any"]
        return [f"status:{status} {subject}".rstrip() for status in self._statuses]

    def _select(self, tx: Transaction, events: Iterable[Event]) -> tuple[Event, ...]:
        return tuple(event for event in events if self._matches(tx, event))

    def _matches(self, tx: Transaction, event: Event) -> bool:
        is_of_task = event.event_type.startswith(TASK_EVENT_PREFIX)
        if not (event.thread_id or is_of_task) or self._run_id not in (None, event.run_id):
            return False
        facts = _load_facts(tx, event)
        if facts is None:
            return False
        is_lapse = event.event_type == messages.LAPSED_EVENT and self._statuses is not None and LAPSED in self._statuses
        status = str(facts.get("status"))
        if self._statuses is not None and THREAD_STATUS_OF_TASK.get(status, status) not in self._statuses and not is_lapse:
            return False
        concerned = (facts.get("assigned_to"), facts.get("created_by"), facts.get("to"))
        return self._agent is None or (event.source != self._agent and self._agent in concerned)


def _load_facts(tx: Transaction, event: Event) -> dict[str, object] | None:
    """Return the fields by which `watch` selects an event.

    An event that another program inserted lacks some of them. Then they are those of its thread now. Returns None for such an event if it
    belongs to a message, which has an event of its own.
    """
    facts = event.payload
    if "status" in facts:
        return facts
    if event.message_id is not None and tx.fetch_one(tx.sql.event_message, message_id=event.message_id) not in (None, event.event_id):
        return None
    found = tx.fetch_one(tx.sql.thread_find, thread_id=event.thread_id)
    return facts if found is None else {**dict(found.thread.items()), **facts}
