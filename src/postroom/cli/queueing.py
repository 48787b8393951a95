"""The faces of queues: what `thread` does."""

from __future__ import annotations

import os

from postroom.cli.plain import Answer
from postroom.core.errors import InvalidInput, Refusal
from postroom.core.events import FAILED, NONE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from postroom.cli.parsing import Arguments
    from postroom.core.events import Consumer, QueueEvent
    from postroom.queues.queue import Queue


def init(args: Arguments) -> Answer:
    from postroom.queues.queue import init_queue

    path = init_queue(args.words[0])
    return Answer(f"{path}\n", {"thread": path})


def push(args: Arguments) -> Answer:
    from postroom.queues.queue import push as verb

    if args.batch:
        return _push_batch(args)
    _need(args, "source", "type")
    content = _content(args)
    queue = _queue(args)
    event = verb(queue, source=args.source, type=args.type, subtype=args.subtype, content=content)
    dispatch, trouble = _schedule(queue, event)
    return Answer(f"{event.id}\n", {**event.plain(), "dispatch": dispatch}, trouble=trouble)


def _content(args: Arguments) -> str:
    if args.content is not None and args.content_file is not None:
        raise InvalidInput("content and content-file exclude each other", field="content", hint="Leave one of them out.")
    if args.content_file is not None:
        from postroom.cli.inputs import file_text

        return file_text(args.content_file, field="content-file", hint="An event's content is text: push the path of the file instead.")
    if args.content is None:
        raise InvalidInput("content is missing", field="content", hint="Pass it with --content, or many events with --batch.")
    return str(args.content)


def _push_batch(args: Arguments) -> Answer:
    from postroom.cli.inputs import standard_input
    from postroom.queues.queue import push_batch

    queue = _queue(args)
    stored = push_batch(queue, _objects(standard_input()), source=args.source, type=args.type, subtype=args.subtype)
    dispatch, trouble = _schedule(queue, stored[-1]) if stored else (NONE, None)
    ids = [event.id for event in stored]
    return Answer("".join(f"{number}\n" for number in ids), {"ids": ids, "count": len(ids), "dispatch": dispatch}, trouble=trouble)


def _objects(data: bytes) -> Iterator[dict[str, Any]]:
    from postroom.core.jsontext import loads

    for number, line in enumerate(data.removeprefix(b"\xef\xbb\xbf").split(b"\n"), start=1):
        if not line.strip():
            continue
        try:
            found = loads(line.decode())
        except UnicodeDecodeError:
            raise InvalidInput(f"line {number} is not UTF-8 text", field="batch", hint="Send one JSON object a line, in UTF-8.") from None
        except ValueError as error:
            raise InvalidInput(f"line {number} is not JSON: {error}", field="batch", hint="Send one JSON object a line.") from None
        if not isinstance(found, dict):
            raise InvalidInput(f"line {number} is not a JSON object", field="batch", hint='Write {"content": "…"}.')
        yield Line(found, number)


class Line(dict):  # type: ignore[type-arg]
    """An event of a batch, and the line that it stands on."""

    def __init__(self, found: dict[str, Any], number: int) -> None:
        super().__init__(found)
        self.number = number


def _schedule(queue: Queue, event: QueueEvent) -> tuple[str, Refusal | None]:
    """Have the consumers started. The event is stored, whatever comes of that, and nobody is to push it again."""
    from postroom.core.words import quoted
    from postroom.queues.notifier import schedule, task_for

    task = task_for(queue.path)
    try:
        outcome = schedule(queue, author=event.source)
        queue.tracks.say(f"push: task={task} {outcome}")
        return outcome, None
    except (Refusal, OSError) as error:
        reason = " ".join(str(error).split("\n"))
        queue.tracks.say(f"push: task={task} failed: {reason}", "WARN")
        hint = f"Do not push it again; start its consumers with: thread dispatch --thread {quoted(queue.path)}"
        return FAILED, Refusal(f"event {event.id} is stored, but its dispatch could not be scheduled: {reason}", hint=hint)


def pop(args: Arguments) -> Answer:
    from postroom.queues.queue import pop as verb

    queue = _queue(args, "consumer")
    return _events(verb(queue, args.consumer, last_event_id=args.last_event_id, **_limit(args)))


def ack(args: Arguments) -> Answer:
    from postroom.queues.queue import ack as verb

    if args.last_event_id is not None and args.events is not None:
        raise InvalidInput("last-event-id and events exclude each other", field="events", hint="Leave one of them out.")
    if args.events is not None:
        args.values["last_event_id"] = _newest_in(args.events)
    queue = _queue(args, "consumer", "last_event_id")
    progress = verb(queue, args.consumer, last_event_id=args.last_event_id)
    return Answer(f"{progress.last_acked_id}\n", progress.plain())


def _newest_in(path: str) -> int:
    """The newest event among those that `pop` printed into a file; 0 if there is none."""
    from postroom.cli.inputs import file_text

    text, newest = file_text(path, field="events", hint="Pass what `thread pop` printed."), 0
    for event in _objects(text.encode()):
        number = event.get("id")
        if not isinstance(number, int):
            raise InvalidInput(f"{path} holds something else than events", field="events", hint="Pass what `thread pop` printed.")
        newest = max(newest, number)
    return newest


def peek(args: Arguments) -> Answer:
    from postroom.queues.queue import peek as verb

    queue = _queue(args, "last_event_id")
    return _events(verb(queue, last_event_id=args.last_event_id, filter=args.filter, **_limit(args)))


def follow(args: Arguments) -> Answer:
    from time import monotonic

    from postroom.cli.envelope import write
    from postroom.cli.waiting import interruptible
    from postroom.core import checks
    from postroom.queues.queue import head, wait_for_events

    queue = _queue(args, solitary=True)
    seconds = checks.seconds("timeout-seconds", args.timeout_seconds or 0, zero=True)
    left = args.limit if args.limit is None else checks.limit("limit", args.limit)
    deadline = monotonic() + seconds
    with interruptible():
        seen = head(queue) if args.last_event_id is None else args.last_event_id
        while left is None or left > 0:
            wait = max(deadline - monotonic(), 0.000001) if seconds else 0.0
            most = 1000 if left is None else min(left, 1000)
            found = wait_for_events(queue, last_event_id=seen, limit=most, filter=args.filter, timeout_seconds=wait)
            if not found:
                break
            if not write(1, _events(found).text):
                break
            seen, left = found[-1].id, left if left is None else left - len(found)
    return Answer("")


def subscribe(args: Arguments) -> Answer:
    from postroom.queues.subscriptions import standing
    from postroom.queues.subscriptions import subscribe as verb

    queue = _queue(args, "consumer", "handler")
    made = verb(queue, args.consumer, handler=args.handler, filter=args.filter, last_event_id=args.last_event_id)
    now, trouble = standing(queue, args.consumer), None
    if now is not None and now.unread:
        trouble = _schedule_for(queue, args.consumer)
    return Answer(f"{made.consumer_id}\n", made.plain(), trouble=trouble)


def _schedule_for(queue: Queue, consumer: str) -> Refusal | None:
    from postroom.core.words import quoted
    from postroom.queues.notifier import schedule

    try:
        schedule(queue, author=consumer)
        return None
    except (Refusal, OSError) as error:
        hint = f"Start it with: thread dispatch --thread {quoted(queue.path)}"
        return Refusal(f"{consumer} is subscribed, but its dispatch could not be scheduled: {error}", hint=hint)


def unsubscribe(args: Arguments) -> Answer:
    from postroom.queues.subscriptions import unsubscribe as verb

    queue = _queue(args, "consumer")
    verb(queue, args.consumer)
    return Answer(f"{args.consumer}\n", {"consumer_id": args.consumer})


def dispatch_(args: Arguments) -> Answer:
    from postroom.cli.human import line
    from postroom.queues.dispatching import dispatch

    starts = dispatch(_queue(args), at_once=True)
    lines = [line(f"{start.consumer_id}: {start.outcome}{f' ({start.detail})' if start.detail else ''}") + "\n" for start in starts]
    return Answer("".join(lines), {"consumers": [start.plain() for start in starts]})


def info(args: Arguments) -> Answer:
    from postroom.queues.queue import info as verb

    summary = verb(_queue(args))
    events = "1 event" if summary.total_events == 1 else f"{summary.total_events} events"
    lines = [
        f"{summary.thread}\n{events}, the newest is {summary.last_event_id}\n" if summary.total_events else f"{summary.thread}\nno events\n"
    ]
    lines += [_consumer(consumer, summary.last_event_id) for consumer in summary.subscriptions]
    if not summary.subscriptions:
        lines.append("nobody is subscribed\n")
    return Answer("".join(lines), summary.plain())


def _consumer(consumer: Consumer, newest: int) -> str:
    from postroom.cli.human import line

    wants = consumer.subscription
    state = "running" if consumer.running else "idle"
    done = f"done up to {consumer.last_acked_id} of {newest}, {state}"
    rest = [f"  filter   {line(wants.filter)}\n"] if wants.filter is not None else []
    rest += [f"  trouble  {line(consumer.trouble)}\n"] if consumer.trouble else []
    return f"{line(wants.consumer_id)}  {done}\n  handler  {line(wants.handler_cmd)}\n{''.join(rest)}"


def completion(args: Arguments) -> Answer:
    from postroom.cli.completion import script

    return Answer(script(args.program, args.words[0]))


def version(args: Arguments) -> Answer:
    from postroom import __version__

    return Answer(f"postroom {__version__}\n", {"version": __version__})


def help_(args: Arguments) -> Answer:
    from postroom.cli.manual import page

    return Answer(page(args.program, "help", args.words, verbose=args.verbose))


def _queue(args: Arguments, *needed: str, solitary: bool = False) -> Queue:
    """The queue that is meant, once every flag that must be there is. A handler of ours need not say which, nor who it is."""
    from postroom.queues.queue import Queue

    _need(args, *needed)
    return Queue(args.thread, door="cli", solitary=solitary)


def _need(args: Arguments, *needed: str) -> None:
    for key, name in (("thread", "THREAD_DIR"), ("consumer", "THREAD_CONSUMER")):
        if args.values.get(key, "") is None:
            args.values[key] = os.environ.get(name)
    for key in ("thread", *needed):
        if args.values[key] is None:
            flag = "--" + key.replace("_", "-")
            raise InvalidInput(f"{flag} is missing", field=flag[2:], hint=f"For example: {args.command.example}")


def _limit(args: Arguments) -> dict[str, int]:
    return {} if args.limit is None else {"limit": args.limit}


def _events(events: tuple[QueueEvent, ...]) -> Answer:
    from postroom.queues.journal import line

    return Answer("".join([line(event) for event in events]))
