"""Handler of `inbox work`."""

from __future__ import annotations

from postroom.cli.framework.output import OK, Outcome, write_all
from postroom.cli.inbox import inputs

TYPE_CHECKING = False
if TYPE_CHECKING:
    from postroom.cli.framework.parser import Arguments
    from postroom.core.records.work import Thread


FAILED = 1  # a thread failed. The codes of document 000 are about the command itself


def handle_work(args: Arguments) -> Outcome:
    import signal

    from postroom.cli.framework.step_log import choose_reporter
    from postroom.core.errors import InvalidInput
    from postroom.tasks import taking
    from postroom.work.worker import Worker

    if args.values["command"] is None:
        raise InvalidInput("'command' is missing", field="command", hint="For example: --command './build.sh'")
    options = inputs.given_options(args, "jobs", "lease_seconds", "retries", "backoff_seconds", "timeout_seconds")
    tell = choose_reporter(args, "work", print_progress, name_thread)
    store, agent = inputs.open_store_for(args), inputs.require_agent(args)
    worker = Worker(store, agent=agent, command=args.values["command"], report_step=tell, source=taking, **options)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda *_: worker.stop())
    totals = worker.run(until_empty=args.until_empty)
    return Outcome(totals.to_json(), view="worked", exit_code=FAILED if totals.failed else OK)


def print_progress(step: str, thread: Thread, text: str) -> None:
    from postroom.cli.framework.terminal import colour_text, one_line

    write_all(1, f"{colour_text('bold', f'{step:8}')} {thread.thread_id}  {one_line(text)}\n")


def name_thread(thread: Thread) -> dict[str, str]:
    """Return the fields by which a log line names a thread."""
    return {"thread_id": thread.thread_id, "run_id": thread.run_id, "agent": thread.assigned_to}
