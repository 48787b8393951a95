"""Open a queue, push and read events, and acknowledge them. A queue is a folder whose events have ascending ids."""

from __future__ import annotations

from postroom.core import checks, clock
from postroom.core.errors import InvalidInput, InvalidState, NoStore
from postroom.core.records.queues import ConsumerProgress, QueueEvent, QueueSummary, check_consumer_name, check_draft
from postroom.core.text import short_repr
from postroom.queues import filters
from postroom.queues.journal import JournalFiles
from postroom.queues.popped import read_popped, record_popped
from postroom.queues.subscriptions import DEAD, check_not_removed, read_newest_id, read_progress, read_retrying_event, require_subscription
from postroom.store.sqlite.queues import queue_statements as sql
from postroom.store.sqlite.queues.queue_databases import QueueDatabase, init_queue

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from typing import Self

    from postroom.store.sqlite.queues.filter_sandbox import FilterSandbox

__all__ = ["Queue", "ack", "ack_events", "info", "init_queue", "open_queue", "peek", "pop", "push", "push_batch", "wait_for_events"]

EVENT_TOPICS = ("events",)  # wakes `wait_for_events`
_EVENT_FIELDS = frozenset(("source", "type", "subtype", "content", "id", "created_at"))


class Queue:
    """An open queue. Its resolved path is its id. Threads may share it. Do not use it after a fork."""

    def __init__(self, path: str, *, door: str = "library", owns_process: bool = False, now: Callable[[], int] = clock.now) -> None:
        self.file = QueueDatabase(path, door=door, owns_process=owns_process, now=now)
        self.path = self.file.folder
        self.journal = JournalFiles(self.file)
        self._filter_sandbox: FilterSandbox | None = None

    @property
    def filter_sandbox(self) -> FilterSandbox:
        """The read-only connection that runs filters, opened on first use."""
        if self._filter_sandbox is None:
            from postroom.store.sqlite.queues.filter_sandbox import FilterSandbox

            self._filter_sandbox = FilterSandbox(self.file.location)
        return self._filter_sandbox

    def close(self) -> None:
        if self._filter_sandbox is not None:
            self._filter_sandbox.close()
        self.file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


def open_queue(path: str, *, now: Callable[[], int] = clock.now) -> Queue:
    """Open an existing queue. Refuses with `NoStore` if there is none, and creates nothing."""
    return Queue(path, now=now)


def push(queue: Queue, *, source: str, type: str, content: str, subtype: str | None = None) -> QueueEvent:
    """Store one event and return it. This starts no handlers: call `schedule` after one or many pushes."""
    draft = check_draft(source, type, subtype, content)
    with queue.file.write() as tx:
        at = clock.format_stamp_milliseconds(tx.now())
        number = tx.insert_event(sql.EVENT_INSERT, EVENT_TOPICS, created_at=at, source=source, type=type, subtype=subtype, content=content)
    event = QueueEvent(number, at, *draft)
    queue.journal.append_events((event,), f"push: source={source} type={type} id={number}")
    return event


def push_batch(
    queue: Queue,
    events: Iterable[Mapping[str, object]],
    *,
    source: str | None = None,
    type: str | None = None,
    subtype: str | None = None,
) -> tuple[QueueEvent, ...]:
    """Store many events, all or none, in one transaction, and return them.

    The keywords are the defaults for fields that an event lacks. Refuses with `InvalidInput`, which names the line of the event.
    """
    drafts = []
    for number, event in enumerate(events, start=1):
        try:
            drafts.append(_check_event(event, source, type, subtype))
        except InvalidInput as refusal:
            line = getattr(event, "number", number)  # the number in the file, which may have empty lines
            raise InvalidInput(f"line {line}: {refusal}", hint=refusal.hint, **{**refusal.facts, "line": line}) from None
    if not drafts:
        return ()
    with queue.file.write() as tx:
        at = clock.format_stamp_milliseconds(tx.now())
        first = tx.insert_queue_events(sql.EVENTS_INSERT, EVENT_TOPICS, [(at, *draft) for draft in drafts])
    stored = tuple([QueueEvent(first + index, at, *draft) for index, draft in enumerate(drafts)])
    queue.journal.append_events(stored, f"push: count={len(stored)} id={first}-{stored[-1].id}")
    return stored


def _check_event(
    event: Mapping[str, object], source: str | None, type: str | None, subtype: str | None
) -> tuple[str, str, str | None, str]:
    """Return an event's checked source, type, subtype and content. The other arguments are defaults."""
    if not hasattr(event, "keys"):
        raise InvalidInput("an event must be an object", hint='Write {"source": "…", "type": "…", "content": "…"}.')
    if not _EVENT_FIELDS.issuperset(event):
        unknown = next(field for field in event if field not in _EVENT_FIELDS)
        raise InvalidInput(
            f"{short_repr(unknown)} is not a field of an event", field=str(unknown), hint="Use source, type, subtype, content."
        )
    if "content" not in event:
        raise InvalidInput("content is missing", field="content", hint='Write {"content": "…"}.')
    chosen = event.get("type", type)
    default = subtype if chosen == "record" else None
    return check_draft(event.get("source", source), chosen, event.get("subtype", default), event["content"])


def pop(queue: Queue, consumer: str, *, last_event_id: int | None = None, limit: int = 100) -> tuple[QueueEvent, ...]:
    """Return the next events for a consumer, after `last_event_id`.

    `last_event_id` acknowledges every event up to it. A value below the stored progress reads events again, and does not move the
    progress back. Without it, reading continues after the stored progress. Refuses with `InvalidState` if it is above the newest id.
    """
    check_consumer_name(consumer)
    checks.limit("limit", limit)
    with queue.file.read() as tx:
        subscription, progress = require_subscription(tx, consumer), read_progress(tx, consumer)
        head = read_newest_id(tx, last_event_id)
        check_not_removed(tx, last_event_id or 0)
        retrying = read_retrying_event(tx, consumer) if DEAD in tx.fetch_all(sql.ADDED_TABLES) else None
    if retrying is not None and last_event_id == retrying.id:  # it is done: reading continues after the stored progress
        ack(queue, consumer, last_event_id=last_event_id)
        return pop(queue, consumer, limit=limit)
    start = progress.last_acked_id if last_event_id is None else last_event_id
    if retrying is not None and start >= progress.last_acked_id:
        events: tuple[QueueEvent, ...] = (retrying,)
    else:
        events = filters.read_matching_events(queue, subscription, start, head, limit)
    if last_event_id is not None and (start > progress.last_acked_id or not progress.updated_at):
        ack(queue, consumer, last_event_id=start)
    if events:
        record_popped(queue, consumer, events[-1].id)
    return events


def ack(queue: Queue, consumer: str, *, last_event_id: int) -> ConsumerProgress:
    """Acknowledge every event up to `last_event_id` for a consumer, and return its progress.

    A value below the stored progress changes nothing, unless that event was set aside and is tried again: then it is done.
    Refuses with `InvalidState` if it is above the newest id.
    """
    check_consumer_name(consumer)
    with queue.file.write() as tx:
        require_subscription(tx, consumer)
        read_newest_id(tx, last_event_id)
        progress = read_progress(tx, consumer)
        if DEAD in tx.fetch_all(sql.ADDED_TABLES) and tx.fetch_one(sql.DEAD_RETRYING, consumer=consumer) == last_event_id:
            tx.insert_event(sql.DEAD_DELETE, ("progress",), consumer=consumer, event=last_event_id)
        elif last_event_id > progress.last_acked_id or not progress.updated_at:
            progress = ConsumerProgress(consumer, last_event_id, clock.format_stamp_milliseconds(tx.now()))
            tx.insert_event(sql.PROGRESS_ADVANCE, ("progress",), consumer=consumer, acked=last_event_id, now=progress.updated_at)
    return progress


def ack_events(queue: Queue, consumer: str, ids: Sequence[int]) -> ConsumerProgress:
    """Acknowledge exactly these events, which `pop` returned to this consumer, and return its progress. No events change nothing.

    Refuses with `InvalidState` if this consumer did not pop them, or if an unread event before the last of them is not among them: another
    consumer popped them, or wrote into the same file.
    """
    check_consumer_name(consumer)
    newest = max(ids, default=0)
    with queue.file.read() as tx:
        subscription, acked = require_subscription(tx, consumer), read_progress(tx, consumer).last_acked_id
        read_newest_id(tx, newest)
    popped = read_popped(queue, consumer)
    if newest > popped:
        up_to = f"has popped events up to {popped} only" if popped else "has popped no events"
        raise _not_popped(f"{short_repr(consumer)} {up_to}, and these go up to {newest}")
    given, limit = set(ids), len(ids) + 1
    unread = filters.read_matching_events(queue, subscription, acked, newest, limit) if newest > acked else ()
    missing = [event.id for event in unread if event.id <= newest and event.id not in given]
    if missing:
        raise _not_popped(f"event {missing[0]} is unread, and it is not among these events")
    return ack(queue, consumer, last_event_id=newest)


def _not_popped(problem: str) -> InvalidState:
    return InvalidState(problem, hint="Ack the output of `thread pop` of this consumer, and write it into a file of its own.")


def peek(queue: Queue, *, last_event_id: int, limit: int = 100, filter: str | None = None) -> tuple[QueueEvent, ...]:
    """Return the events after `last_event_id` that match `filter`, if given. Changes nothing."""
    checks.event_id("last-event-id", last_event_id)
    checks.limit("limit", limit)
    with queue.file.read() as tx:
        head = read_newest_id(tx)
        check_not_removed(tx, last_event_id)
    if filter is None:
        return filters.read_events_after(queue, last_event_id, limit)
    queue.filter_sandbox.check_filter(filter)
    return tuple(queue.filter_sandbox.read_matching_after(filter, last_event_id, head, limit))


def head(queue: Queue) -> int:
    """Return the id of the newest event, or 0 if there is none."""
    with queue.file.read() as tx:
        return read_newest_id(tx)


def wait_for_events(
    queue: Queue, *, last_event_id: int, limit: int = 100, filter: str | None = None, timeout_seconds: float = 0
) -> tuple[QueueEvent, ...]:
    """Return what `peek` returns, but wait until there is an event. Returns nothing after `timeout_seconds`. 0 waits for ever."""
    from postroom.store.wait_loop import wait_until

    checks.seconds("timeout-seconds", timeout_seconds, allow_zero=True)
    seen = last_event_id

    def read_new_events() -> tuple[QueueEvent, ...] | None:
        nonlocal seen
        with queue.file.read() as tx:
            head = read_newest_id(tx)
        events = peek(queue, last_event_id=seen, limit=limit, filter=filter)
        if not events and (filter is None or queue.filter_sandbox.is_stable(filter)):
            seen = max(seen, head)  # an event that did not match will never match
        return events or None

    try:
        return wait_until(queue.file, read_new_events, timeout_seconds, topics=EVENT_TOPICS, uses_cursor=True) or ()
    except OSError as error:  # the folder of the wake files is missing
        raise NoStore(f"the queue at {queue.path} is gone: {error.strerror}", hint="Look where it went, or init it anew.") from None


def info(queue: Queue) -> QueueSummary:
    """Return a summary of a queue: its number of events, its subscriptions, and the progress and state of each consumer."""
    from postroom.queues.consumer_status import describe_consumer

    with queue.file.read() as tx:
        count, head = tx.fetch_one(sql.EVENT_COUNT) or 0, read_newest_id(tx)
        subscriptions = tx.fetch_all(sql.SUBSCRIPTIONS)
        progress = tuple(tx.fetch_all(sql.PROGRESS_ALL))
    progress_of = {known.consumer_id: known for known in progress}
    consumers = []
    for subscription in subscriptions:
        known = progress_of.get(subscription.consumer_id) or ConsumerProgress(subscription.consumer_id, 0, "")
        consumers.append(describe_consumer(queue, subscription, known))
    return QueueSummary(queue.path, count, head, tuple(consumers), progress)
