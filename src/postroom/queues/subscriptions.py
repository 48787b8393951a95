"""Who wants which events, and how each of them stands."""

from __future__ import annotations

from postroom.core import checks, clock
from postroom.core.errors import Conflict, InvalidInput, InvalidState, NotFound
from postroom.core.events import Progress, Subscription, consumer_name
from postroom.core.records import Record
from postroom.core.words import quoted, shown
from postroom.queues import filters
from postroom.store.sqlite import queue_statements as sql

TYPE_CHECKING = False
if TYPE_CHECKING:
    from postroom.queues.queue import Queue
    from postroom.store.sqlite.engine import Transaction


class Standing(Record):
    """How far a consumer has come, and whether there is more for it."""

    subscription: Subscription
    acked: int
    unread: bool
    head: int


def subscribe(queue: Queue, consumer: str, *, handler: str, filter: str | None = None, last_event_id: int | None = None) -> Subscription:
    """Have a handler started for a consumer whenever there are events that it wants.

    Begins after `last_event_id`; without one, where a consumer of that name was, or at the first event. Refuses with `Conflict`
    if the name is taken.
    """
    consumer_name(consumer)
    if not checks.text("handler", handler).strip():
        raise InvalidInput("handler is empty", field="handler", hint="Pass a shell line: the command to start.")
    if filter is not None:
        queue.confined.check(filter)
    if last_event_id is not None:
        checks.event("last-event-id", last_event_id)
    with queue.file.write() as tx:
        if tx.one(sql.SUBSCRIPTION_GET, consumer=consumer) is not None:
            hint = f"Unsubscribe it first: thread unsubscribe --thread {quoted(queue.path)} --consumer {quoted(consumer)}"
            raise Conflict(f"{shown(consumer)} is subscribed already", hint=hint)
        if last_event_id is not None:
            newest(tx, last_event_id)
            tx.run(sql.PROGRESS_SET, consumer=consumer, acked=last_event_id, now=clock.brief(tx.now()))
        tx.append(sql.SUBSCRIPTION_INSERT, ("progress",), consumer=consumer, handler=handler, filter=filter)
    return Subscription(consumer, handler, filter)


def unsubscribe(queue: Queue, consumer: str) -> None:
    """Start no more handlers for a consumer. How far it came is kept, for when it comes back."""
    consumer_name(consumer)
    with queue.file.write() as tx:
        subscribed(tx, consumer, hint=f"See who is: thread info --thread {quoted(queue.path)}")
        tx.append(sql.SUBSCRIPTION_DELETE, ("progress",), consumer=consumer)


def standing(queue: Queue, consumer: str) -> Standing | None:
    """How a consumer stands now; None if it is not subscribed. Refuses with `FilterFailed` if its filter cannot be applied."""
    with queue.file.read() as tx:
        row = tx.one(sql.SUBSCRIPTION_GET, consumer=consumer)
        acked, head = reached(tx, consumer).last_acked_id, newest(tx)
    if row is None:
        return None
    subscription = Subscription(*row)
    unread = head > acked and bool(filters.matching(queue, subscription, acked, head, 1))
    return Standing(subscription, acked, unread, head)


def newest(tx: Transaction, said: int | None = None) -> int:
    """The newest event's id; who says that it is done with a newer one is refused."""
    row = tx.one(sql.EVENT_HEAD)
    head: int = row[0] if row else 0
    if said is not None and checks.event("last-event-id", said) > head:
        raise InvalidState(f"event {said} does not exist yet: the newest is {head}", hint="Pass the id of an event that you have seen.")
    return head


def subscribed(tx: Transaction, consumer: str, *, hint: str = "Subscribe it first, with `thread subscribe`.") -> Subscription:
    row = tx.one(sql.SUBSCRIPTION_GET, consumer=consumer)
    if row is None:
        raise NotFound(f"{shown(consumer)} is not subscribed", hint=hint)
    return Subscription(*row)


def reached(tx: Transaction, consumer: str) -> Progress:
    row = tx.one(sql.PROGRESS_GET, consumer=consumer)
    return Progress(*row) if row else Progress(consumer, 0, "")
