"""The face of `inbox work`."""

from __future__ import annotations

from postroom.cli import inputs
from postroom.cli.envelope import Outcome, write

TYPE_CHECKING = False
if TYPE_CHECKING:
    from postroom.cli.parsing import Arguments
    from postroom.core.records import Thread


def work(args: Arguments) -> Outcome:
    import signal

    from postroom.core.errors import InvalidInput
    from postroom.work.worker import Worker

    if args.values["command"] is None:
        raise InvalidInput("'command' is missing", field="command", hint="For example: --command './build.sh'")
    keys = inputs.given(args, "jobs", "lease_seconds")
    tell = None if args.json else _tell
    worker = Worker(inputs.store(args), agent=inputs.agent(args), command=args.values["command"], tell=tell, **keys)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda *_: worker.stop())
    return Outcome(worker.run(until_empty=args.until_empty).plain(), human="worked")


def _tell(what: str, thread: Thread, says: str) -> None:
    from postroom.cli.human import line, paint

    write(1, f"{paint('bold', f'{what:8}')} {thread.thread_id}  {line(says)}\n")
