"""Handlers of `send`, `reply`, `cancel`, `reassign`, `retry`, `list` and `show`."""

from __future__ import annotations

from postroom.cli.framework.output import Outcome
from postroom.cli.inbox import inputs

TYPE_CHECKING = False
if TYPE_CHECKING:
    from postroom.cli.framework.parser import Arguments
    from postroom.store.interface import Store

MAX_NOTED_RUNS = 5


def handle_send(args: Arguments) -> Outcome:
    if args.batch is not None:
        from postroom.cli.inbox.batches import handle_send_batch

        return handle_send_batch(args)
    from postroom.work.threads import send

    text = inputs.text_options(args)
    sender = inputs.require_sender(args)
    ids = {"thread_id": args.thread, "run_id": args.run, "task_id": args.task}
    result = send(
        inputs.open_store_for(args),
        sender=sender,
        strict=args.strict,
        **ids,
        **inputs.given_options(args, "to", "subject", "kind", "priority", "key"),
        **text,
    )
    return Outcome(result.to_json(), view="sent")


def handle_reply(args: Arguments) -> Outcome:
    from postroom.work.threads import reply

    text = inputs.text_options(args)
    result = reply(
        inputs.open_store_for(args),
        inputs.require_thread(args),
        sender=inputs.require_sender(args, more_hint=" An entry is answered with `inbox entry reply ENTRY --body TEXT`."),
        **inputs.given_options(args, "to", "kind", "question", "key"),
        **text,
    )
    return Outcome(result.to_json(), view="replied")


def handle_cancel(args: Arguments) -> Outcome:
    from postroom.work.progress import cancel

    options = {**inputs.given_options(args, "reason", "payload_json"), **inputs.artifact_options(args)}
    result = cancel(inputs.open_store_for(args), inputs.require_thread(args), agent=inputs.require_agent(args), **options)
    return Outcome(result.to_json(), view="cancelled")


def handle_reassign(args: Arguments) -> Outcome:
    from postroom.core.errors import InvalidInput
    from postroom.work.recovery import reassign

    agent, thread = inputs.require_agent(args), inputs.require_thread(args)
    if args.to is None:
        raise InvalidInput("'to' is missing", field="to", hint="Name the agent that should work on it now: --to AGENT.")
    result = reassign(inputs.open_store_for(args), thread, agent=agent, to=args.to, **inputs.given_options(args, "reason"))
    return Outcome(result.to_json(), view="reassigned")


def handle_retry(args: Arguments) -> Outcome:
    from postroom.work.recovery import retry_thread

    agent, thread = inputs.require_agent(args), inputs.require_thread(args)
    result = retry_thread(inputs.open_store_for(args), thread, agent=agent, **inputs.given_options(args, "reason"))
    return Outcome(result.to_json(), view="retried")


def handle_list(args: Arguments) -> Outcome:
    from postroom.work.listing import list_threads

    # Only an --agent on the command line filters the list. INBOX_AGENT names the caller, which is no filter.
    store = inputs.open_store_for(args)
    page = list_threads(
        store,
        statuses=args.status,
        agent=args.values["agent"],
        run_id=args.run,
        task_id=args.task,
        **inputs.given_options(args, "created_by", "assigned_to", "limit", "after"),
    )
    # A filter is not completed: the run may be one that will begin soon, and a script must not read another one's threads.
    note = {} if page.threads or not args.run else _note_runs(store, args.run)
    return Outcome({**page.to_json(), **note}, view="threads")


def _note_runs(store: Store, beginning: str) -> dict[str, str]:
    """Return a note with the runs whose id begins so, if there are any."""
    from postroom.work.runs import list_runs

    found = [run.run_id for run in list_runs(store) if run.run_id.startswith(beginning) and run.run_id != beginning]
    more = ", …" if len(found) > MAX_NOTED_RUNS else ""
    return {"note": f"runs that begin so: {', '.join(found[:MAX_NOTED_RUNS])}{more}"} if found else {}


def handle_show(args: Arguments) -> Outcome:
    from postroom.work.threads import mark_read, show

    reader = inputs.require_agent(args) if args.mark_read else None
    store = inputs.open_store_for(args)
    conversation = show(store, inputs.require_thread(args), **inputs.given_options(args, "limit", "before_event", "after_event"))
    data = conversation.to_json()
    if not args.json:
        data["humans"] = inputs.known_humans(store)
    last_event_id = conversation.messages[-1].event_id if conversation.messages else 0

    def mark_shown() -> None:
        if reader is not None:
            mark_read(store, conversation.thread.thread_id, agent=reader, event_id=last_event_id)

    return Outcome(data, view="conversation", after=mark_shown)
