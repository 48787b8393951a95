"""Handlers of `watch` and `wait-reply`, and the signal handling of all commands that wait."""

from __future__ import annotations

from postroom.cli.framework.output import NOTHING, OK, Outcome
from postroom.cli.inbox import inputs
from postroom.core.errors import Interrupted

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import FrameType, TracebackType

    from postroom.cli.framework.parser import Arguments


class interruptible:  # noqa: N801 - used as `with interruptible()`
    """Context manager that raises `Interrupted` on SIGINT, SIGTERM and SIGHUP."""

    def __enter__(self) -> None:
        import signal

        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, _raise_interrupted)

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        import signal

        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_DFL)


def _raise_interrupted(number: int, frame: FrameType | None) -> None:
    raise Interrupted("the wait was interrupted", hint="Wait again; nothing was lost.", signal=number)


def handle_wait_reply(args: Arguments) -> Outcome:
    from postroom.work.threads import mark_read
    from postroom.work.waiting import wait_reply

    thread = inputs.require_thread(args)
    store = inputs.open_store_for(args, owns_process=True)
    options = inputs.given_options(args, "after_message", "after_event", "kinds", "timeout_seconds", "question")
    with interruptible():
        reply = wait_reply(store, thread, agent=args.agent, lease_token=inputs.lease_token(args), mark=False, **options)
    data: dict[str, object] = {"woke": reply.woke, "next_event_id": reply.next_event_id}
    if reply.message is None:
        return Outcome(data, view="nothing", exit_code=NOTHING)

    def mark_reply_read() -> None:
        if args.agent:
            mark_read(store, thread, agent=args.agent, event_id=reply.next_event_id)

    data["message"] = reply.message.to_json()
    if not args.json:
        data["humans"] = inputs.known_humans(store)
    return Outcome(data, view="woken", exit_code=OK, after=mark_reply_read)


def handle_watch(args: Arguments) -> Outcome:
    from postroom.work.waiting import watch

    store = inputs.open_store_for(args, owns_process=True)
    with interruptible():
        options = inputs.given_options(args, "after_event", "timeout_seconds")
        activity = watch(store, agent=args.agent, statuses=args.status, run_id=args.run, **options)
    data = {"woke": activity.woke, "next_event_id": activity.next_event_id}
    if not activity.woke:
        return Outcome(data, view="nothing", exit_code=NOTHING)
    return Outcome({**data, "events": [event.to_json() for event in activity.events]}, view="activity")
