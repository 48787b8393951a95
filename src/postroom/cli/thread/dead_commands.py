"""Handlers of `thread dead`: events that were set aside."""

from __future__ import annotations

from postroom.cli.framework.plain_output import PlainOutcome
from postroom.cli.framework.terminal import one_line
from postroom.cli.thread.commands import open_queue, schedule_consumer
from postroom.queues import dead_events

TYPE_CHECKING = False
if TYPE_CHECKING:
    from postroom.cli.framework.parser import Arguments


def handle_list(args: Arguments) -> PlainOutcome:
    dead = dead_events.list_dead(open_queue(args), args.consumer)
    rows = []
    for event in dead:
        state = "is tried again" if event.retrying else f"set aside at {event.set_aside_at}"
        rows.append(one_line(f"{event.consumer_id}  event {event.event_id}, {event.tries} tries, {state}: {event.reason}") + "\n")
    text = "".join(rows) or "no event is set aside\n"
    return PlainOutcome(text, {"dead_events": [event.to_json() for event in dead]}, only_reads=True)


def handle_retry(args: Arguments) -> PlainOutcome:
    queue = open_queue(args, "consumer")
    ids = dead_events.retry_dead(queue, args.consumer, args.event_id)
    trouble = schedule_consumer(queue, args.consumer)
    return PlainOutcome("".join(f"{number}\n" for number in ids), {"retried": list(ids)}, trouble=trouble)


def handle_drop(args: Arguments) -> PlainOutcome:
    ids = dead_events.drop_dead(open_queue(args, "consumer"), args.consumer, args.event_id)
    return PlainOutcome("".join(f"{number}\n" for number in ids), {"dropped": list(ids)})
