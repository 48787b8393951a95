"""Subscribe and unsubscribe consumers, and read their progress. Called by `thread`, dispatch and the supervisor."""

from __future__ import annotations

from postroom.core import checks, clock
from postroom.core.errors import Conflict, InvalidInput, InvalidState, NotFound
from postroom.core.records import Record
from postroom.core.records.queues import ConsumerProgress, Subscription, check_consumer_name
from postroom.core.text import shell_quote, short_repr
from postroom.processes.command_environment import check_environment
from postroom.queues import filters
from postroom.store.sqlite import queue_statements as sql
from postroom.store.sqlite.queue_databases import run_scripts

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from postroom.queues.queue import Queue
    from postroom.store.sqlite.engine import SqliteTransaction


class SubscriptionState(Record):
    """A consumer's subscription, the id it acknowledged, whether it has unread events, the newest event id, and its variables."""

    subscription: Subscription
    acked: int
    unread: bool
    head: int
    environment: Mapping[str, str]


def subscribe(
    queue: Queue,
    consumer: str,
    *,
    handler: str,
    filter: str | None = None,
    last_event_id: int | None = None,
    environment: Mapping[str, str] | None = None,
) -> Subscription:
    """Subscribe a consumer: its handler, a shell line, is started whenever events match its filter.

    The handler has a short environment and the variables in `environment`, which are stored in the queue.
    Reading begins after `last_event_id`. Without it, it continues after the stored progress of that name, or at the first event.
    Refuses with `Conflict` if the consumer is subscribed already, and with `InvalidState` if `last_event_id` is above the newest id.
    """
    check_consumer_name(consumer)
    if not checks.text("handler", handler).strip():
        raise InvalidInput("handler is empty", field="handler", hint="Pass a shell line: the command to start.")
    if filter is not None:
        queue.filter_sandbox.check_filter(filter)
    if last_event_id is not None:
        checks.event_id("last-event-id", last_event_id)
    variables = check_environment(environment or {})
    with queue.file.write() as tx:
        if tx.fetch_one(sql.SUBSCRIPTION_GET, consumer=consumer) is not None:
            hint = f"Unsubscribe it first: thread unsubscribe --thread {shell_quote(queue.path)} --consumer {shell_quote(consumer)}"
            raise Conflict(f"{short_repr(consumer)} is subscribed already", hint=hint)
        if last_event_id is not None:
            read_newest_id(tx, last_event_id)
            tx.execute(sql.PROGRESS_SET, consumer=consumer, acked=last_event_id, now=clock.format_stamp_milliseconds(tx.now()))
        tx.insert_event(sql.SUBSCRIPTION_INSERT, ("progress",), consumer=consumer, handler=handler, filter=filter)
        _store_environment(tx, consumer, variables)
    return Subscription(consumer, handler, filter)


def unsubscribe(queue: Queue, consumer: str) -> None:
    """Remove a consumer's subscription. Its progress is kept. Refuses with `NotFound` if it is not subscribed."""
    check_consumer_name(consumer)
    with queue.file.write() as tx:
        require_subscription(tx, consumer, hint=f"See who is: thread info --thread {shell_quote(queue.path)}")
        tx.insert_event(sql.SUBSCRIPTION_DELETE, ("progress",), consumer=consumer)
        _store_environment(tx, consumer, {})


def read_subscription_state(queue: Queue, consumer: str) -> SubscriptionState | None:
    """Return a consumer's state, or None if it is not subscribed. Refuses with `FilterFailed` if its filter cannot be applied."""
    with queue.file.read() as tx:
        subscription = tx.fetch_one(sql.SUBSCRIPTION_GET, consumer=consumer)
        acked, head = read_progress(tx, consumer).last_acked_id, read_newest_id(tx)
        environment = dict(tx.fetch_all(sql.ENVIRONMENT_OF, consumer=consumer)) if tx.fetch_one(sql.ENVIRONMENT_EXISTS) else {}
    if subscription is None:
        return None
    unread = head > acked and bool(filters.read_matching_events(queue, subscription, acked, head, 1))
    return SubscriptionState(subscription, acked, unread, head, environment)


def _store_environment(tx: SqliteTransaction, consumer: str, variables: Mapping[str, str]) -> None:
    """Replace the stored variables of a consumer. Their table is made when it is first needed: the document does not know it."""
    if tx.fetch_one(sql.ENVIRONMENT_EXISTS):
        tx.execute(sql.ENVIRONMENT_DELETE, consumer=consumer)
    elif variables:
        run_scripts(tx.store.connection, "queue", range(2, 3))
    for name, value in variables.items():
        tx.execute(sql.ENVIRONMENT_INSERT, consumer=consumer, name=name, value=value)


def read_newest_id(tx: SqliteTransaction, last_event_id: int | None = None) -> int:
    """Return the newest event's id, or 0. Refuses with `InvalidState` if `last_event_id` is above it."""
    head = tx.fetch_one(sql.EVENT_HEAD) or 0
    if last_event_id is not None and checks.event_id("last-event-id", last_event_id) > head:
        raise InvalidState(
            f"event {last_event_id} does not exist yet: the newest is {head}", hint="Pass the id of an event that you have seen."
        )
    return head


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
