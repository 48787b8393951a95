"""The faces of sleeping: watch and wait-reply. A signal ends them with the cursor to go on from."""

from __future__ import annotations

from postroom.cli import inputs
from postroom.cli.envelope import NOTHING, OK, Outcome
from postroom.core.errors import Interrupted

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import FrameType, TracebackType

    from postroom.cli.parsing import Arguments


class interruptible:  # noqa: N801 - reads as a word in `with`
    """Turns Ctrl-C, SIGTERM and a closed terminal into a refusal that says how to go on."""

    def __enter__(self) -> None:
        import signal

        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, _interrupt)

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        import signal

        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_DFL)


def _interrupt(number: int, frame: FrameType | None) -> None:
    raise Interrupted("the wait was interrupted", hint="Wait again; nothing was lost.", signal=number)


def wait_reply(args: Arguments) -> Outcome:
    from postroom.work.threads import mark_read
    from postroom.work.waiting import wait_reply as verb

    thread, store = inputs.thread(args), inputs.store(args, solitary=True)
    keys = inputs.given(args, "after_message", "after_event", "kinds", "timeout_seconds")
    with interruptible():
        reply = verb(store, thread, agent=args.agent, lease_token=inputs.lease_token(args), mark=False, **keys)
    data: dict[str, object] = {"woke": reply.woke, "next_event_id": reply.next_event_id}
    if reply.message is None:
        return Outcome(data, human="nothing", exit_code=NOTHING)

    def mark() -> None:
        if args.agent:
            mark_read(store, thread, agent=args.agent, event_id=reply.next_event_id)

    data["message"] = reply.message.plain()
    if not args.json:
        data["humans"] = inputs.humans(store)
    return Outcome(data, human="woken", exit_code=OK, after=mark)


def watch(args: Arguments) -> Outcome:
    from postroom.work.waiting import watch as verb

    store = inputs.store(args, solitary=True)
    with interruptible():
        activity = verb(store, agent=args.agent, statuses=args.status, **inputs.given(args, "after_event", "timeout_seconds"))
    data = {"woke": activity.woke, "next_event_id": activity.next_event_id}
    if not activity.woke:
        return Outcome(data, human="nothing", exit_code=NOTHING)
    return Outcome({**data, "events": [event.plain() for event in activity.events]}, human="activity")
