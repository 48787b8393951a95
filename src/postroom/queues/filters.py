"""Which events a subscription wants. Its filter decides both whom to start and what `pop` gives.

Events never change, so what a filter did not want it never will, if it looks at one event at a time: up to where that was found is
noted in `run/<consumer>.clear`, and a filter that fits seldom is not asked about the same million events at every push.
"""

from __future__ import annotations

import os

from postroom.core.errors import FilterFailed, InvalidInput
from postroom.core.events import QueueEvent
from postroom.core.jsontext import dumps, loads
from postroom.core.words import file_name
from postroom.store.sqlite import queue_statements as sql

TYPE_CHECKING = False
if TYPE_CHECKING:
    from postroom.core.events import Subscription
    from postroom.queues.queue import Queue

_WORTH_NOTING = 1000  # events; fewer are looked at again faster than the note is written


def all_after(queue: Queue, start: int, limit: int) -> tuple[QueueEvent, ...]:
    with queue.file.read() as tx:
        return tuple([QueueEvent(*row) for row in tx.all(sql.EVENTS_AFTER, after=start, limit=limit)])


def matching(queue: Queue, subscription: Subscription, start: int, head: int, limit: int) -> tuple[QueueEvent, ...]:
    """The events after `start` that a subscription wants."""
    if subscription.filter is None:
        return all_after(queue, start, limit)
    begin = start
    if head - start > _WORTH_NOTING:
        begin = _skipping(queue, subscription, start)
    try:
        queue.confined.check(subscription.filter)
        rows = queue.confined.after(subscription.filter, begin, head, limit)
    except InvalidInput as refusal:  # it was let in by an older version, or by another program
        raise FilterFailed(str(refusal), hint="Unsubscribe the consumer, and subscribe it with another filter.") from None
    if not rows and head - begin > _WORTH_NOTING and queue.confined.lasting(subscription.filter):
        _note(queue, subscription, start, head)
    return tuple([QueueEvent(*row) for row in rows])


def trouble(queue: Queue, subscription: Subscription, acked: int, head: int) -> str | None:
    """Why a subscription's filter cannot be used, if so."""
    try:
        if subscription.filter is not None:
            matching(queue, subscription, acked, head, 1)
    except FilterFailed as refusal:
        return str(refusal)
    return None


def _skipping(queue: Queue, subscription: Subscription, start: int) -> int:
    try:
        with open(_path(queue, subscription), encoding="utf-8") as file:
            noted = loads(file.read())
        same = noted["filter"] == subscription.filter and noted["after"] <= start
        if same and noted["stored_at"] == _stored_at(queue, int(noted["up_to"])):  # else the events are others by now
            return max(start, int(noted["up_to"]))
    except (OSError, ValueError, KeyError, TypeError):
        pass  # no note, or not one of ours: everything is looked at
    return start


def _note(queue: Queue, subscription: Subscription, after: int, up_to: int) -> None:
    path = _path(queue, subscription)
    draft = f"{path}.{os.getpid()}"
    try:
        with open(draft, "w", encoding="utf-8") as file:
            file.write(dumps({"filter": subscription.filter, "after": after, "up_to": up_to, "stored_at": _stored_at(queue, up_to)}))
        os.replace(draft, path)
    except OSError:
        pass  # it is only a note


def _stored_at(queue: Queue, event_id: int) -> str:
    with queue.file.read() as tx:
        row = tx.one(sql.EVENT_TIME, id=event_id)
    return str(row[0]) if row else ""


def _path(queue: Queue, subscription: Subscription) -> str:
    return os.path.join(queue.path, "run", file_name(subscription.consumer_id) + ".clear")
