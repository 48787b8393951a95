"""Read the events that match a subscription's filter. Dispatch, `pop` and `info` call it.

Events never change. If a filter depends on one event at a time, an event that did not match will never match. The file
`run/<consumer>.clear` stores the id up to which no event matched, so that a filter that rarely matches does not scan the same
million events at every push.
"""

from __future__ import annotations

import os

from postroom._fastpath.json_text import dumps, loads
from postroom.core.errors import FilterFailed, InvalidInput
from postroom.core.records.queues import QueueEvent
from postroom.core.text import to_file_name
from postroom.store.files.private_files import file_mode_beside, write_private_file
from postroom.store.sqlite.queues import queue_statements as sql

TYPE_CHECKING = False
if TYPE_CHECKING:
    from postroom.core.records.queues import Subscription
    from postroom.queues.queue import Queue

_MIN_EVENTS_TO_SKIP = 1000  # scanning fewer events again is faster than writing the file


def read_events_after(queue: Queue, start: int, limit: int) -> tuple[QueueEvent, ...]:
    """Return up to `limit` events with an id above `start`, unfiltered."""
    with queue.file.read() as tx:
        return tuple(tx.fetch_all(sql.EVENTS_AFTER, after=start, limit=limit))


def read_matching_events(queue: Queue, subscription: Subscription, start: int, head: int, limit: int) -> tuple[QueueEvent, ...]:
    """Return up to `limit` events after `start` and up to `head` that match the subscription's filter.

    Refuses with `FilterFailed` if the filter is not valid or fails.
    """
    if subscription.filter is None:
        return read_events_after(queue, start, limit)
    begin = start
    if head - start > _MIN_EVENTS_TO_SKIP:
        begin = _read_skip_position(queue, subscription, start)
    try:
        queue.filter_sandbox.check_filter(subscription.filter)
        events = queue.filter_sandbox.read_matching_after(subscription.filter, begin, head, limit)
    except InvalidInput as refusal:  # an older version or another program stored it
        raise FilterFailed(str(refusal), hint="Unsubscribe the consumer, and subscribe it with another filter.") from None
    if not events and head - begin > _MIN_EVENTS_TO_SKIP and queue.filter_sandbox.is_stable(subscription.filter):
        _write_skip_position(queue, subscription, start, head)
    return tuple(events)


def find_filter_problem(queue: Queue, subscription: Subscription, acked: int, head: int) -> str | None:
    """Return why a subscription's filter cannot be used, or None if it can."""
    try:
        if subscription.filter is not None:
            read_matching_events(queue, subscription, acked, head, 1)
    except FilterFailed as refusal:
        return str(refusal)
    return None


def _read_skip_position(queue: Queue, subscription: Subscription, start: int) -> int:
    """Return the id after which to scan: the stored one if it still applies, else `start`."""
    try:
        with open(_skip_file_path(queue, subscription), encoding="utf-8") as file:
            saved = loads(file.read())
        applies = saved["filter"] == subscription.filter and saved["after"] <= start
        # A different time means that the queue was deleted and made again since.
        if applies and saved["stored_at"] == _read_stored_at(queue, int(saved["up_to"])):
            return max(start, int(saved["up_to"]))
    except (OSError, ValueError, KeyError, TypeError):
        pass  # no file, or not one of ours: scan every event
    return start


def _write_skip_position(queue: Queue, subscription: Subscription, after: int, up_to: int) -> None:
    """Store that no event after `after` and up to `up_to` matches. A failure is ignored: the file only saves time."""
    position = {"filter": subscription.filter, "after": after, "up_to": up_to, "stored_at": _read_stored_at(queue, up_to)}
    try:
        write_private_file(_skip_file_path(queue, subscription), dumps(position), mode=file_mode_beside(queue.file.location))
    except OSError:
        pass


def _read_stored_at(queue: Queue, event_id: int) -> str:
    with queue.file.read() as tx:
        return tx.fetch_one(sql.EVENT_TIME, id=event_id) or ""


def _skip_file_path(queue: Queue, subscription: Subscription) -> str:
    return os.path.join(queue.path, "run", to_file_name(subscription.consumer_id) + ".clear")
