"""Handler of `inbox work`."""

from __future__ import annotations

from postroom.cli.framework.output import Outcome, write_all
from postroom.cli.inbox import inputs

TYPE_CHECKING = False
if TYPE_CHECKING:
    from postroom.cli.framework.parser import Arguments
    from postroom.core.records.work import Thread


def handle_work(args: Arguments) -> Outcome:
    import signal

    from postroom.core.errors import InvalidInput
    from postroom.work.worker import Worker

    if args.values["command"] is None:
        raise InvalidInput("'command' is missing", field="command", hint="For example: --command './build.sh'")
    options = inputs.given_options(args, "jobs", "lease_seconds")
    tell = None if args.json else _print_progress
    worker = Worker(
        inputs.open_store_for(args), agent=inputs.require_agent(args), command=args.values["command"], report_step=tell, **options
    )
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda *_: worker.stop())
    return Outcome(worker.run(until_empty=args.until_empty).to_json(), view="worked")


def _print_progress(step: str, thread: Thread, text: str) -> None:
    from postroom.cli.framework.terminal import colour_text, one_line

    write_all(1, f"{colour_text('bold', f'{step:8}')} {thread.thread_id}  {one_line(text)}\n")
