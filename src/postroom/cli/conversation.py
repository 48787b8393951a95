"""The faces of talking: send, reply, cancel, list, show."""

from __future__ import annotations

from postroom.cli import inputs
from postroom.cli.envelope import Outcome

TYPE_CHECKING = False
if TYPE_CHECKING:
    from postroom.cli.parsing import Arguments


def send(args: Arguments) -> Outcome:
    from postroom.work.threads import send as verb

    said = inputs.texts(args)
    sender = inputs.sender(args)
    ids = {"thread_id": args.thread, "run_id": args.run, "task_id": args.task}
    result = verb(inputs.store(args), sender=sender, **ids, **inputs.given(args, "to", "subject", "kind", "priority"), **said)
    return Outcome(result.plain(), human="sent")


def reply(args: Arguments) -> Outcome:
    from postroom.work.threads import reply as verb

    said = inputs.texts(args)
    result = verb(inputs.store(args), inputs.thread(args), sender=inputs.sender(args), **inputs.given(args, "to", "kind"), **said)
    return Outcome(result.plain(), human="replied")


def cancel(args: Arguments) -> Outcome:
    from postroom.work.progress import cancel as verb

    said = {**inputs.given(args, "reason", "payload_json"), **inputs.artifacts(args)}
    result = verb(inputs.store(args), inputs.thread(args), agent=inputs.agent(args), **said)
    return Outcome(result.plain(), human="cancelled")


def list_(args: Arguments) -> Outcome:
    from postroom.work.threads import list_threads as verb

    # INBOX_AGENT says who we are, not what we ask for: only an --agent on this line narrows the list.
    found = verb(
        inputs.store(args), statuses=args.status, agent=args.values["agent"], **inputs.given(args, "created_by", "assigned_to", "limit")
    )
    return Outcome(found.plain(), human="threads")


def show(args: Arguments) -> Outcome:
    from postroom.work.threads import mark_read
    from postroom.work.threads import show as verb

    reader = inputs.agent(args) if args.mark_read else None
    store = inputs.store(args)
    found = verb(store, inputs.thread(args))
    data = found.plain()
    if not args.json:
        data["humans"] = inputs.humans(store)
    last = found.messages[-1].event_id if found.messages else 0

    def mark() -> None:
        if reader is not None:
            mark_read(store, found.thread.thread_id, agent=reader, event_id=last)

    return Outcome(data, human="conversation", after=mark)
