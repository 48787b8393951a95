"""Handlers of the program `thread`."""

from __future__ import annotations

import os

from postroom.cli.framework.parser import require_flags
from postroom.cli.framework.plain_output import PlainOutcome
from postroom.cli.thread import output
from postroom.core import limits
from postroom.core.errors import InvalidInput, Refusal, StorageFailure
from postroom.core.records.queues import FAILED, LEFT_TO_OWNER, NONE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from postroom.cli.framework.parser import Arguments
    from postroom.core.records.queues import Consumer, QueueEvent
    from postroom.queues.queue import Queue

MAX_FOLLOW_EVENTS_PER_READ = 1000  # a long backlog is printed in parts


def handle_init(args: Arguments) -> PlainOutcome:
    from postroom.queues.queue import Queue, head, init_queue

    path = init_queue(args.words[0], shared=args.shared)
    with Queue(path, door="cli") as queue:
        adopted = head(queue)
    if adopted:
        note = f"Its events.jsonl was there already: the events in it, up to event {adopted}, are in the new queue."
        return PlainOutcome(f"{path}\n", {"thread": path, "last_event_id": adopted}, note=note)
    return PlainOutcome(f"{path}\n", {"thread": path})


def handle_push(args: Arguments) -> PlainOutcome:
    from postroom.queues.queue import push

    if args.batch:
        return _push_batch(args)
    _require_flags(args, "source", "type")
    content = _read_content(args)
    queue = open_queue(args)
    event = push(queue, source=args.source, type=args.type, subtype=args.subtype, content=content)
    dispatch, trouble = _schedule_dispatch(queue, event)
    data = {**event.to_json(), "dispatch": dispatch, **_warnings(queue)}
    return PlainOutcome(f"{event.id}\n", data, trouble=trouble, note=_describe_push(queue, dispatch))


def _read_content(args: Arguments) -> str:
    if args.content is not None and args.content_file is not None:
        raise InvalidInput("content and content-file exclude each other", field="content", hint="Leave one of them out.")
    if args.content_file is not None:
        from postroom.cli.inbox.inputs import read_file_text

        return read_file_text(
            args.content_file,
            field="content-file",
            hint="An event's content is text: push the path of the file instead.",
            max_bytes=limits.MAX_EVENT_BYTES,
        )
    if args.content is None:
        raise InvalidInput("content is missing", field="content", hint="Pass it with --content, or many events with --batch.")
    return str(args.content)


def _push_batch(args: Arguments) -> PlainOutcome:
    from postroom.cli.inbox.inputs import read_file_bytes
    from postroom.queues.queue import push_batch

    queue = open_queue(args)
    lines = _parse_json_lines(read_file_bytes("-", field="batch", max_bytes=limits.MAX_BATCH_FILE_BYTES))
    events = push_batch(queue, lines, source=args.source, type=args.type, subtype=args.subtype)
    dispatch, trouble = _schedule_dispatch(queue, events[-1]) if events else (NONE, None)
    ids = [event.id for event in events]
    data = {"ids": ids, "count": len(ids), "dispatch": dispatch, **_warnings(queue)}
    text = "".join(f"{number}\n" for number in ids)
    return PlainOutcome(text, data, trouble=trouble, note=_describe_push(queue, dispatch))


def _warnings(queue: Queue) -> dict[str, list[str]]:
    return {"warnings": queue.journal.warnings} if queue.journal.warnings else {}


def _describe_push(queue: Queue, outcome: str) -> str:
    """Return a note for people if the journal has a problem, or if the handlers of a queue are not started by this user."""
    from postroom.store.files.ownership import find_other_owner

    notes = [f"Warning: {warning}" for warning in queue.journal.warnings]
    if outcome == LEFT_TO_OWNER:
        owner = find_other_owner(queue.file.location)
        notes.append(
            f"Its handlers run as {owner}: a runner of {owner} that stays up (`notifier start`) starts them, or the next push of {owner}."
        )
    return "\n".join(notes)


def _parse_json_lines(data: bytes) -> Iterator[dict[str, Any]]:
    """Yield one JSON object for each line that is not blank. Refusals name the line number."""
    from postroom._fastpath.json_text import loads

    for number, line in enumerate(data.removeprefix(b"\xef\xbb\xbf").split(b"\n"), start=1):
        if not line.strip():
            continue
        try:
            event = loads(line.decode())
        except UnicodeDecodeError:
            raise InvalidInput(f"line {number} is not UTF-8 text", field="batch", hint="Send one JSON object a line, in UTF-8.") from None
        except ValueError as error:
            raise InvalidInput(f"line {number} is not JSON: {error}", field="batch", hint="Send one JSON object a line.") from None
        if not isinstance(event, dict):
            raise InvalidInput(f"line {number} is not a JSON object", field="batch", hint='Write {"content": "…"}.')
        yield InputLine(event, number)


class InputLine(dict):  # type: ignore[type-arg]
    """An event of a batch, with the number of its line for error messages."""

    def __init__(self, event: dict[str, Any], number: int) -> None:
        super().__init__(event)
        self.number = number


def _schedule_dispatch(queue: Queue, event: QueueEvent) -> tuple[str, Refusal | None]:
    """Schedule the start of the consumers. Return the outcome, and a refusal if that failed.

    The event is stored in any case. The refusal therefore warns against pushing it again.
    """
    from postroom.core.text import shell_quote
    from postroom.queues.notifier import dispatch_task_id, schedule

    task = dispatch_task_id(queue.path)
    try:
        outcome = schedule(queue, author=event.source)
        queue.journal.append_log(f"push: task={task} {outcome}")
        return outcome, None
    except (Refusal, OSError) as error:
        reason = " ".join(str(error).split("\n"))
        queue.journal.append_log(f"push: task={task} failed: {reason}", "WARN")
        hint = f"Do not push it again; start its consumers with: thread dispatch --thread {shell_quote(queue.path)}"
        return FAILED, Refusal(f"event {event.id} is stored, but its dispatch could not be scheduled: {reason}", hint=hint)


def handle_pop(args: Arguments) -> PlainOutcome:
    from postroom.queues.queue import pop

    queue = open_queue(args, "consumer")
    events = pop(queue, args.consumer, last_event_id=args.last_event_id, **_pop_limit(args))
    return PlainOutcome(_events_text(events), only_reads=args.last_event_id is None)


def handle_ack(args: Arguments) -> PlainOutcome:
    from postroom.queues.queue import ack, ack_events

    if args.last_event_id is not None and args.events is not None:
        raise InvalidInput("last-event-id and events exclude each other", field="events", hint="Leave one of them out.")
    if args.events is not None:
        progress = ack_events(open_queue(args, "consumer"), args.consumer, _read_event_ids(args.events))
    else:
        progress = ack(open_queue(args, "consumer", "last_event_id"), args.consumer, last_event_id=args.last_event_id)
    return PlainOutcome(f"{progress.last_acked_id}\n", progress.to_json())


def _read_event_ids(path: str) -> list[int]:
    """Return the event ids in a file with the output of `thread pop`."""
    from postroom.cli.inbox.inputs import read_file_text

    text = read_file_text(path, field="events", hint="Pass the output of `thread pop`.", max_bytes=limits.MAX_BATCH_FILE_BYTES)
    ids = []
    for event in _parse_json_lines(text.encode()):
        if not isinstance(event.get("id"), int):
            raise InvalidInput(f"{path} does not contain only events", field="events", hint="Pass the output of `thread pop`.")
        ids.append(event["id"])
    return ids


def handle_peek(args: Arguments) -> PlainOutcome:
    from postroom.queues.queue import peek

    queue = open_queue(args, "last_event_id")
    events = peek(queue, last_event_id=args.last_event_id, filter=args.filter, **_limit_option(args))
    return PlainOutcome(_events_text(events), only_reads=True)


def handle_follow(args: Arguments) -> PlainOutcome:
    from time import monotonic

    from postroom.cli.framework.output import write_text
    from postroom.cli.inbox.waiting import interruptible
    from postroom.core import checks
    from postroom.queues.queue import head, wait_for_events

    queue = open_queue(args, owns_process=True)
    seconds = checks.seconds("timeout-seconds", args.timeout_seconds or 0, allow_zero=True)
    left = args.limit if args.limit is None else checks.limit("limit", args.limit)
    deadline = monotonic() + seconds
    with interruptible():
        seen = head(queue) if args.last_event_id is None else args.last_event_id
        while left is None or left > 0:
            wait = max(deadline - monotonic(), 0.000001) if seconds else 0.0
            limit = MAX_FOLLOW_EVENTS_PER_READ if left is None else min(left, MAX_FOLLOW_EVENTS_PER_READ)
            events = wait_for_events(queue, last_event_id=seen, limit=limit, filter=args.filter, timeout_seconds=wait)
            if not events:
                break
            error = write_text(1, _events_text(events))
            if isinstance(error, BrokenPipeError):  # the reader has seen what it wanted
                break
            if error is not None:
                hint = f"Follow again with --last-event-id {seen}."
                raise StorageFailure(f"the events could not be printed: {error.strerror}", hint=hint)
            seen = events[-1].id
            if left is not None:
                left -= len(events)
    return PlainOutcome("")


def handle_subscribe(args: Arguments) -> PlainOutcome:
    from postroom.processes.command_environment import take_from_environment
    from postroom.queues.subscriptions import read_subscription_state, subscribe

    queue = open_queue(args, "consumer", "handler")
    options = {name: args.values[name] for name in ("filter", "last_event_id", "timeout_seconds", "max_tries", "replace")}
    subscription = subscribe(queue, args.consumer, handler=args.handler, environment=take_from_environment(args.env), **options)
    progress = read_subscription_state(queue, args.consumer)
    has_unread = progress is not None and progress.unread
    _remember_queue(queue.path)
    trouble = schedule_consumer(queue, args.consumer) if has_unread else None
    note = _describe_missing_program(queue, args.consumer, args.handler)
    return PlainOutcome(f"{subscription.consumer_id}\n", subscription.to_json(), trouble=trouble, note=note)


def _describe_missing_program(queue: Queue, consumer: str, handler: str) -> str:
    """Return a note if a handler names a program by a relative path, which is not in the folder of the handler."""
    from postroom.queues.handler_process import work_folder_path

    program, folder = handler.split(maxsplit=1)[0], work_folder_path(queue.path, consumer)
    if not program.startswith(("./", "../")) or os.path.exists(os.path.join(folder, program)):
        return ""
    found = os.path.abspath(program) if os.path.exists(program) else "its absolute path"
    return f"The handler runs in {folder}, where there is no {program}. Name it by {found}."


def _remember_queue(path: str) -> None:
    """Add a queue to `thread list`, and to those that the runner looks after. A failure is ignored: the next push tries again."""
    from postroom.queues.notifier import remember_queue

    if not os.environ.get("THREAD_NOTIFIER"):
        try:
            remember_queue(path)
        except (Refusal, OSError):
            pass


def handle_list(args: Arguments) -> PlainOutcome:
    from postroom.cli.framework.terminal import one_line
    from postroom.queues.consumer_status import summarize_known_queues

    known = summarize_known_queues()
    rows = [one_line(f"{queue['thread']}  {_describe_queue(queue)}") + "\n" for queue in known]
    return PlainOutcome("".join(rows) or "no queue has been used\n", {"threads": list(known)}, only_reads=True)


def _describe_queue(queue: dict[str, Any]) -> str:
    if queue["trouble"]:
        return str(queue["trouble"])
    consumers = "1 consumer" if queue["consumers"] == 1 else f"{queue['consumers']} consumers"
    return f"newest event {queue['last_event_id']}, {consumers}, {queue['waiting']} with unread events, {queue['running']} running"


def schedule_consumer(queue: Queue, consumer: str) -> Refusal | None:
    """Schedule the start of a new consumer. Return a refusal if that failed. The subscription is stored in any case."""
    from postroom.core.text import shell_quote
    from postroom.queues.notifier import schedule

    try:
        schedule(queue, author=consumer)
        return None
    except (Refusal, OSError) as error:
        hint = f"Start it with: thread dispatch --thread {shell_quote(queue.path)}"
        return Refusal(f"{consumer} is subscribed, but its dispatch could not be scheduled: {error}", hint=hint)


def handle_unsubscribe(args: Arguments) -> PlainOutcome:
    from postroom.queues.subscriptions import unsubscribe

    queue = open_queue(args, "consumer")
    unsubscribe(queue, args.consumer)
    return PlainOutcome(f"{args.consumer}\n", {"consumer_id": args.consumer})


def handle_dispatch(args: Arguments) -> PlainOutcome:
    from postroom.cli.framework.terminal import one_line
    from postroom.queues.dispatching import dispatch

    starts = dispatch(open_queue(args), at_once=True)
    lines = [one_line(f"{start.consumer_id}: {start.outcome}{f' ({start.detail})' if start.detail else ''}") + "\n" for start in starts]
    return PlainOutcome("".join(lines), {"consumers": [start.to_json() for start in starts]})


def handle_info(args: Arguments) -> PlainOutcome:
    from postroom.queues.queue import info

    summary = info(open_queue(args))
    events = "1 event" if summary.total_events == 1 else f"{summary.total_events} events"
    count = f"{events}, the newest is {summary.last_event_id}" if summary.total_events else "no events"
    lines = [f"{summary.thread}\n{count}\n"]
    lines += [_render_consumer(consumer, summary.last_event_id) for consumer in summary.subscriptions]
    if not summary.subscriptions:
        lines.append("no consumer is subscribed\n")
    return PlainOutcome("".join(lines), summary.to_json(), only_reads=True)


def _render_consumer(consumer: Consumer, newest: int) -> str:
    from postroom.cli.framework.terminal import one_line

    subscription = consumer.subscription
    state = f"running since {consumer.running_since}, process {consumer.pid}" if consumer.running else "idle"
    progress = f"done up to {consumer.last_acked_id} of {newest}, {state}"
    facts = {
        "filter": subscription.filter,
        "waiting": _describe_waiting(consumer),
        "trouble": consumer.trouble,
        "dead": f"{consumer.dead_events} set aside: thread dead list" if consumer.dead_events else None,
        "last run": consumer.last_run,
        "output": consumer.output,
    }
    rest = [f"  {name:<8} {one_line(value)}\n" for name, value in facts.items() if value is not None]
    return f"{one_line(subscription.consumer_id)}  {progress}\n  handler  {one_line(subscription.handler_cmd)}\n{''.join(rest)}"


def _describe_waiting(consumer: Consumer) -> str | None:
    if not consumer.waiting_since or consumer.running:
        return None
    return f"since {consumer.waiting_since}" + (f", because {consumer.waiting_because}" if consumer.waiting_because else "")


def handle_completion(args: Arguments) -> PlainOutcome:
    from postroom.cli.framework.completion import completion_script

    return PlainOutcome(completion_script(args.program, args.words[0]), only_reads=True)


def handle_version(args: Arguments) -> PlainOutcome:
    from postroom import __version__

    return PlainOutcome(f"postroom {__version__}\n", {"version": __version__}, only_reads=True)


def handle_help(args: Arguments) -> PlainOutcome:
    from postroom.cli.framework.help import help_page

    return PlainOutcome(help_page(args.program, "help", args.words, verbose=args.verbose), only_reads=True)


def open_queue(args: Arguments, *required: str, owns_process: bool = False) -> Queue:
    """Open the queue in `--thread` or `THREAD_DIR`, after a check that the required flags are given."""
    from postroom.queues.queue import Queue

    _require_flags(args, *required)
    output.opened_folder = os.path.realpath(args.thread)
    return Queue(args.thread, door="cli", owns_process=owns_process)


def _require_flags(args: Arguments, *required: str) -> None:
    """Refuse if a required flag is missing. In a handler, the environment supplies `--thread` and `--consumer`."""
    for key, name in (("thread", "THREAD_DIR"), ("consumer", "THREAD_CONSUMER")):
        if args.values.get(key, "") is None:
            args.values[key] = os.environ.get(name)
    require_flags(args, ("thread", *required))


def _limit_option(args: Arguments) -> dict[str, int]:
    return {} if args.limit is None else {"limit": args.limit}


def _pop_limit(args: Arguments) -> dict[str, int]:
    """Return the limit of `pop`. In a handler that made no progress, THREAD_LIMIT lowers it, to find the event that it cannot take."""
    given, bound = _limit_option(args), os.environ.get("THREAD_LIMIT", "")
    return {"limit": min(given.get("limit", int(bound)), int(bound))} if bound.isdecimal() and int(bound) else given


def _events_text(events: tuple[QueueEvent, ...]) -> str:
    from postroom.cli.framework.output import json_line

    return "".join([json_line(event.__dict__) for event in events])
