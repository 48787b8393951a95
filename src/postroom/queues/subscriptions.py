"""Subscribe and unsubscribe consumers, and read their progress. Called by `thread`, dispatch and the supervisor."""

from __future__ import annotations

from postroom.core import checks, clock
from postroom.core.errors import Conflict, CursorExpired, InvalidInput, InvalidState, NotFound
from postroom.core.records import Record
from postroom.core.records.queues import ConsumerProgress, HandlerLimits, QueueEvent, Subscription, check_consumer_name
from postroom.core.text import shell_quote, short_repr
from postroom.processes.command_environment import check_environment
from postroom.queues import filters
from postroom.store.sqlite.queues import queue_statements as sql
from postroom.store.sqlite.queues.queue_databases import run_scripts

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from postroom.queues.queue import Queue
    from postroom.store.sqlite.engine import SqliteTransaction


DEFAULT_MAX_TRIES = 20  # about an hour, with the pauses between them
MAX_TRIES = 10_000


ENVIRONMENT, LIMITS, DEAD = sql.ENVIRONMENT_TABLE.name, sql.LIMITS_TABLE.name, sql.DEAD_TABLE.name  # the last two are made together


class SubscriptionState(Record):
    """A consumer's subscription, the id that it acknowledged, its next event, the newest event id, and what its handler gets.

    `next_event` is None if it has no unread event. After `max_tries` runs that acknowledge nothing it is set aside, unless that is 0.
    """

    subscription: Subscription
    acked: int
    next_event: QueueEvent | None
    head: int
    environment: Mapping[str, str]
    timeout_seconds: float | None
    max_tries: int
    is_retrying: bool  # the next event was set aside before, and is tried again

    @property
    def unread(self) -> bool:
        return self.next_event is not None


def subscribe(
    queue: Queue,
    consumer: str,
    *,
    handler: str,
    filter: str | None = None,
    last_event_id: int | None = None,
    environment: Mapping[str, str] | None = None,
    timeout_seconds: float | None = None,
    max_tries: int | None = None,
    replace: bool = False,
) -> Subscription:
    """Subscribe a consumer: its handler, a shell line, is started whenever events match its filter.

    The handler has a short environment and the variables in `environment`, which are stored in the queue. It is stopped after
    `timeout_seconds`. An event that `max_tries` runs (20) did not acknowledge is set aside. 0 tries without end.
    Reading begins after `last_event_id`. Without it, it continues after the stored progress of that name, or at the first event.
    `replace` subscribes a consumer anew in one step, and stops its running handler. Without it, a consumer that is subscribed already is
    refused with `Conflict`. Refuses with `InvalidState` if `last_event_id` is above the newest id.
    """
    check_consumer_name(consumer)
    if not checks.text("handler", handler).strip():
        raise InvalidInput("handler is empty", field="handler", hint="Pass a shell line: the command to start.")
    if filter is not None:
        queue.filter_sandbox.check_filter(filter)
    if last_event_id is not None:
        checks.event_id("last-event-id", last_event_id)
    _check_limits(timeout_seconds, max_tries)
    variables = check_environment(environment or {})
    with queue.file.write() as tx:
        if replace:
            tx.execute(sql.SUBSCRIPTION_DELETE, consumer=consumer)
        elif tx.fetch_one(sql.SUBSCRIPTION_GET, consumer=consumer) is not None:
            raise _subscribed_already(queue, consumer)
        if last_event_id is not None:
            read_newest_id(tx, last_event_id)
            tx.execute(sql.PROGRESS_SET, consumer=consumer, acked=last_event_id, now=clock.format_stamp_milliseconds(tx.now()))
        tx.insert_event(sql.SUBSCRIPTION_INSERT, ("progress",), consumer=consumer, handler=handler, filter=filter)
        _store_environment(tx, consumer, variables)
        _store_limits(tx, consumer, timeout_seconds, max_tries)
    return Subscription(consumer, handler, filter)


def _check_limits(timeout_seconds: float | None, max_tries: int | None) -> None:
    if timeout_seconds is not None:
        checks.seconds("timeout-seconds", timeout_seconds)
    if max_tries is not None and not 0 <= max_tries <= MAX_TRIES:
        raise InvalidInput(f"max-tries must be from 0 to {MAX_TRIES}, not {max_tries}", field="max-tries", hint="0 tries without end.")


def _subscribed_already(queue: Queue, consumer: str) -> Conflict:
    names = f"--thread {shell_quote(queue.path)} --consumer {shell_quote(consumer)}"
    hint = f"Unsubscribe it first (its progress is kept): thread unsubscribe {names}. Or subscribe with --replace, which does both."
    return Conflict(f"{short_repr(consumer)} is subscribed already", hint=hint)


def unsubscribe(queue: Queue, consumer: str) -> None:
    """Remove a consumer's subscription, and stop its handler if it runs. Its progress is kept.

    Refuses with `NotFound` if it is not subscribed.
    """
    check_consumer_name(consumer)
    with queue.file.write() as tx:
        require_subscription(tx, consumer, hint=f"See who is: thread info --thread {shell_quote(queue.path)}")
        tx.insert_event(sql.SUBSCRIPTION_DELETE, ("progress",), consumer=consumer)
        _store_environment(tx, consumer, {})
        _store_limits(tx, consumer, None, None)


def read_subscription_state(queue: Queue, consumer: str) -> SubscriptionState | None:
    """Return a consumer's state, or None if it is not subscribed. Refuses with `FilterFailed` if its filter cannot be applied."""
    with queue.file.read() as tx:
        subscription = tx.fetch_one(sql.SUBSCRIPTION_GET, consumer=consumer)
        acked, head = read_progress(tx, consumer).last_acked_id, read_newest_id(tx)
        added = tx.fetch_all(sql.ADDED_TABLES)
        environment = dict(tx.fetch_all(sql.ENVIRONMENT_OF, consumer=consumer)) if ENVIRONMENT in added else {}
        limits = (tx.fetch_one(sql.LIMITS_OF, consumer=consumer) if LIMITS in added else None) or HandlerLimits()
        retrying = read_retrying_event(tx, consumer) if LIMITS in added else None
    if subscription is None:
        return None
    unread = filters.read_matching_events(queue, subscription, acked, head, 1) if head > acked and retrying is None else ()
    tries = DEFAULT_MAX_TRIES if limits.max_tries is None else limits.max_tries
    next_event = retrying or (unread[0] if unread else None)
    return SubscriptionState(subscription, acked, next_event, head, environment, limits.timeout_seconds, tries, retrying is not None)


def read_retrying_event(tx: SqliteTransaction, consumer: str) -> QueueEvent | None:
    """Return the oldest event that was set aside for a consumer and is to be tried again. The table of dead events must exist."""
    event_id = tx.fetch_one(sql.DEAD_RETRYING, consumer=consumer)
    return tx.fetch_one(sql.EVENTS_AFTER, after=event_id - 1, limit=1) if event_id is not None else None


def _store_environment(tx: SqliteTransaction, consumer: str, variables: Mapping[str, str]) -> None:
    """Replace the stored variables of a consumer."""
    if not variables and ENVIRONMENT not in tx.fetch_all(sql.ADDED_TABLES):
        return
    add_table(tx, ENVIRONMENT)
    tx.execute(sql.ENVIRONMENT_DELETE, consumer=consumer)
    for name, value in variables.items():
        tx.execute(sql.ENVIRONMENT_INSERT, consumer=consumer, name=name, value=value)


def _store_limits(tx: SqliteTransaction, consumer: str, timeout_seconds: float | None, max_tries: int | None) -> None:
    if timeout_seconds is not None or max_tries is not None:
        add_table(tx, LIMITS)
        tx.execute(sql.LIMITS_SET, consumer=consumer, timeout=timeout_seconds, tries=max_tries)
    elif LIMITS in tx.fetch_all(sql.ADDED_TABLES):
        tx.execute(sql.LIMITS_DELETE, consumer=consumer)


def add_table(tx: SqliteTransaction, table: str) -> None:
    """Create a table that the queue document does not know, and that this queue needs for the first time."""
    if table not in tx.fetch_all(sql.ADDED_TABLES):
        number = 2 if table == ENVIRONMENT else 3
        run_scripts(tx.store.connection, "queue", range(number, number + 1))


def read_newest_id(tx: SqliteTransaction, last_event_id: int | None = None) -> int:
    """Return the newest event's id, or 0. Refuses with `InvalidState` if `last_event_id` is above it."""
    head = tx.fetch_one(sql.EVENT_HEAD) or 0
    if last_event_id is not None and checks.event_id("last-event-id", last_event_id) > head:
        raise InvalidState(
            f"event {last_event_id} does not exist yet: the newest is {head}", hint="Pass the id of an event that you have seen."
        )
    return head


def check_not_removed(tx: SqliteTransaction, last_event_id: int) -> None:
    """Refuse with `CursorExpired` if events after `last_event_id` were removed. 0 is not refused: it means the oldest event there is."""
    oldest = (tx.fetch_one(sql.EVENT_OLDEST) or 1) if last_event_id else 1
    if 0 < last_event_id < oldest - 1:
        hint = f"Go on after event {oldest - 1}: what happened before is not known any more."
        raise CursorExpired(f"events after {last_event_id} were removed, up to {oldest - 1}", hint=hint, next_event_id=oldest - 1)


def require_subscription(
    tx: SqliteTransaction, consumer: str, *, hint: str = "Subscribe it first, with `thread subscribe`."
) -> Subscription:
    """Return a consumer's subscription. Refuses with `NotFound` if there is none."""
    subscription = tx.fetch_one(sql.SUBSCRIPTION_GET, consumer=consumer)
    if subscription is None:
        raise NotFound(f"{short_repr(consumer)} is not subscribed", hint=hint)
    return subscription


def read_progress(tx: SqliteTransaction, consumer: str) -> ConsumerProgress:
    """Return a consumer's stored progress, or one at event 0 without a time."""
    return tx.fetch_one(sql.PROGRESS_GET, consumer=consumer) or ConsumerProgress(consumer, 0, "")
