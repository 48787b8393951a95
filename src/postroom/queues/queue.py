"""A queue: events in a folder, in the order in which they were stored. Pushing, reading, and saying how far one has come."""

from __future__ import annotations

from postroom.core import checks, clock
from postroom.core.errors import InvalidInput, NoStore
from postroom.core.events import Consumer, Progress, QueueEvent, QueueSummary, Subscription, check_draft, consumer_name
from postroom.core.words import shown
from postroom.queues import filters
from postroom.queues.journal import Tracks
from postroom.queues.subscriptions import newest, reached, subscribed
from postroom.store.sqlite import queue_statements as sql
from postroom.store.sqlite.files import QueueFile, init_queue

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from typing import Self

    from postroom.store.sqlite.confined import Confined

__all__ = ["Queue", "ack", "info", "init_queue", "open_queue", "peek", "pop", "push", "push_batch", "wait_for_events"]

EVENTS = ("events",)  # the topic that wakes who waits for more
_FIELDS = frozenset(("source", "type", "subtype", "content", "id", "created_at"))


class Queue:
    """An open queue. Its path, resolved, is its id. Threads may share it; do not carry it across a fork."""

    def __init__(self, path: str, *, door: str = "library", solitary: bool = False, now: Callable[[], int] = clock.now) -> None:
        self.file = QueueFile(path, door=door, solitary=solitary, now=now)
        self.path = self.file.folder
        self.tracks = Tracks(self.file)
        self._confined: Confined | None = None

    @property
    def confined(self) -> Confined:
        """Where filters are run."""
        if self._confined is None:
            from postroom.store.sqlite.confined import Confined

            self._confined = Confined(self.file.place)
        return self._confined

    def close(self) -> None:
        if self._confined is not None:
            self._confined.close()
        self.tracks.close()
        self.file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


def open_queue(path: str, *, now: Callable[[], int] = clock.now) -> Queue:
    """Open a queue that exists. Refuses with `NoStore` if there is none, and makes nothing."""
    return Queue(path, now=now)


def push(queue: Queue, *, source: str, type: str, content: str, subtype: str | None = None) -> QueueEvent:
    """Store one event. Nobody is started: `schedule` does that, after one push or many."""
    draft = check_draft(source, type, subtype, content)
    with queue.file.write() as tx:
        at = clock.brief(tx.now())
        number = tx.append(sql.EVENT_INSERT, EVENTS, created_at=at, source=source, type=type, subtype=subtype, content=content)
    event = QueueEvent(number, at, *draft)
    queue.tracks.pushed((event,), f"push: source={source} type={type} id={number}")
    return event


def push_batch(
    queue: Queue,
    events: Iterable[Mapping[str, object]],
    *,
    source: str | None = None,
    type: str | None = None,
    subtype: str | None = None,
) -> tuple[QueueEvent, ...]:
    """Store many, all or none, in one transaction. What a line lacks is taken from the keywords; what is wrong is named by its line."""
    drafts = []
    for number, event in enumerate(events, start=1):
        try:
            drafts.append(_draft(event, source, type, subtype))
        except InvalidInput as refusal:
            line = getattr(event, "number", number)  # of a file with empty lines in between
            raise InvalidInput(f"line {line}: {refusal}", hint=refusal.hint, **{**refusal.facts, "line": line}) from None
    if not drafts:
        return ()
    with queue.file.write() as tx:
        at = clock.brief(tx.now())
        first = tx.append_all(sql.EVENTS_INSERT, EVENTS, [(at, *draft) for draft in drafts])
    stored = tuple([QueueEvent(first + place, at, *draft) for place, draft in enumerate(drafts)])
    queue.tracks.pushed(stored, f"push: count={len(stored)} id={first}-{stored[-1].id}")
    return stored


def _draft(event: Mapping[str, object], source: str | None, type: str | None, subtype: str | None) -> tuple[str, str, str | None, str]:
    if not hasattr(event, "keys"):
        raise InvalidInput("an event must be an object", hint='Write {"source": "…", "type": "…", "content": "…"}.')
    if not _FIELDS.issuperset(event):
        unknown = next(field for field in event if field not in _FIELDS)
        raise InvalidInput(f"{shown(unknown)} is not a field of an event", field=str(unknown), hint="Use source, type, subtype, content.")
    if "content" not in event:
        raise InvalidInput("content is missing", field="content", hint='Write {"content": "…"}.')
    chosen = event.get("type", type)
    default = subtype if chosen == "record" else None
    return check_draft(event.get("source", source), chosen, event.get("subtype", default), event["content"])


def pop(queue: Queue, consumer: str, *, last_event_id: int | None = None, limit: int = 100) -> tuple[QueueEvent, ...]:
    """The next events for a consumer. `last_event_id` says up to where it is done, and moves its progress; never back.

    Without it: from where the consumer was. A lower one reads again. One beyond the newest event is refused with `InvalidState`.
    """
    consumer_name(consumer)
    checks.limit("limit", limit)
    with queue.file.read() as tx:
        subscription, progress = subscribed(tx, consumer), reached(tx, consumer)
        head = newest(tx, last_event_id)
    start = progress.last_acked_id if last_event_id is None else last_event_id
    found = filters.matching(queue, subscription, start, head, limit)
    if last_event_id is not None and (start > progress.last_acked_id or not progress.updated_at):
        ack(queue, consumer, last_event_id=start)
    return found


def ack(queue: Queue, consumer: str, *, last_event_id: int) -> Progress:
    """Say that a consumer is done with every event up to this one. A lower one changes nothing."""
    consumer_name(consumer)
    with queue.file.write() as tx:
        subscribed(tx, consumer)
        newest(tx, last_event_id)
        progress = reached(tx, consumer)
        if last_event_id > progress.last_acked_id or not progress.updated_at:
            progress = Progress(consumer, last_event_id, clock.brief(tx.now()))
            tx.append(sql.PROGRESS_ADVANCE, ("progress",), consumer=consumer, acked=last_event_id, now=progress.updated_at)
    return progress


def peek(queue: Queue, *, last_event_id: int, limit: int = 100, filter: str | None = None) -> tuple[QueueEvent, ...]:
    """Events after a cursor, as they are. Changes nothing."""
    checks.event("last-event-id", last_event_id)
    checks.limit("limit", limit)
    if filter is None:
        return filters.all_after(queue, last_event_id, limit)
    queue.confined.check(filter)
    with queue.file.read() as tx:
        head = newest(tx)
    return tuple(QueueEvent(*row) for row in queue.confined.after(filter, last_event_id, head, limit))


def head(queue: Queue) -> int:
    """The id of the newest event."""
    with queue.file.read() as tx:
        return newest(tx)


def wait_for_events(
    queue: Queue, *, last_event_id: int, limit: int = 100, filter: str | None = None, timeout_seconds: float = 0
) -> tuple[QueueEvent, ...]:
    """As `peek`, but sleeps until there is something. Empty when the time is over; 0 waits for ever."""
    from postroom.store.waking import until

    checks.seconds("timeout-seconds", timeout_seconds, zero=True)
    seen = last_event_id

    def look() -> tuple[QueueEvent, ...] | None:
        nonlocal seen
        with queue.file.read() as tx:
            head = newest(tx)
        found = peek(queue, last_event_id=seen, limit=limit, filter=filter)
        if not found and (filter is None or queue.confined.lasting(filter)):
            seen = max(seen, head)  # what did not fit then will not fit later
        return found or None

    try:
        return until(queue.file, look, timeout_seconds, topics=EVENTS) or ()
    except OSError as error:  # the folder of the bells
        raise NoStore(f"the queue at {queue.path} is gone: {error.strerror}", hint="Look where it went, or init it anew.") from None


def info(queue: Queue) -> QueueSummary:
    """A queue in numbers: how many events, who subscribed, and how far each has come."""
    from postroom.queues import locks

    with queue.file.read() as tx:
        count, head = tx.one(sql.EVENT_COUNT), newest(tx)
        subscriptions = [Subscription(*row) for row in tx.all(sql.SUBSCRIPTIONS)]
        progress = tuple(Progress(*row) for row in tx.all(sql.PROGRESS_ALL))
    reached_by = {known.consumer_id: known for known in progress}
    consumers = []
    for subscription in subscriptions:
        known = reached_by.get(subscription.consumer_id) or Progress(subscription.consumer_id, 0, "")
        running, slow = locks.look(queue.path, subscription.consumer_id)
        trouble = filters.trouble(queue, subscription, known.last_acked_id, head) or slow
        consumers.append(Consumer(subscription, known.last_acked_id, known.updated_at or None, running, trouble))
    return QueueSummary(queue.path, count[0] if count else 0, head, tuple(consumers), progress)
