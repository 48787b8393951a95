"""Handlers of the program `notifier`."""

from __future__ import annotations

from postroom.cli.framework.parser import require_flags
from postroom.cli.framework.plain_output import PlainOutcome
from postroom.cli.framework.terminal import indented_lines, one_line
from postroom.processes.command_environment import take_from_environment
from postroom.queues import notifier as verbs

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from postroom.cli.framework.parser import Arguments
    from postroom.core.records.notifier import NotifierRun, NotifierStatus, NotifierTimer
    from postroom.store.sqlite.queues.queue_databases import NotifierDatabase

_STOPPED_NOTE = "the notifier is stopped: tasks and timers wait until `notifier start`, or until a task or a timer is added"


def handle_task_add(args: Arguments) -> PlainOutcome:
    require_flags(args, ("author", "task_id", "command"))
    options = {**_given_options(args, "retries", "timeout_seconds"), "environment": take_from_environment(args.env)}
    task = verbs.add_task(_open_notifier(), args.task_id, author=args.author, command=args.values["command"], **options)
    return PlainOutcome(f"{task.task_id} queued\n", task.to_json())


def handle_task_list(args: Arguments) -> PlainOutcome:
    notifier = _open_and_revive()
    tasks = verbs.list_tasks(notifier)
    rows = [one_line(f"{task.task_id}  {task.state}, attempt {task.attempts}, by {task.author}: {task.command}") + "\n" for task in tasks]
    data = {"tasks": [task.to_json() for task in tasks]}
    return PlainOutcome("".join(rows) or "nothing waits or runs\n", data, only_reads=True, note=_stopped_note(notifier, tasks))


def handle_task_remove(args: Arguments) -> PlainOutcome:
    require_flags(args, ("task_id",))
    removed = verbs.remove_task(_open_notifier(), args.task_id)
    return PlainOutcome(f"{args.task_id} removed\n", {"removed": removed})


def handle_task_runs(args: Arguments) -> PlainOutcome:
    runs = verbs.list_runs(_open_and_revive(), args.task_id, **_given_options(args, "limit"))
    nothing = (
        "nothing was run\n"
        if args.task_id is None
        else f"no run of {one_line(args.task_id)} is kept; `notifier task list` shows what waits\n"
    )
    text = "".join(_render_run(run) for run in runs) or nothing
    return PlainOutcome(text, {"runs": [run.to_json() for run in runs]}, only_reads=True)


def handle_timer_add(args: Arguments) -> PlainOutcome:
    require_flags(args, ("author", "timer_id", "cron", "command"))
    options = {**_given_options(args, "retries", "timeout_seconds", "timezone"), "environment": take_from_environment(args.env)}
    timer = verbs.add_timer(_open_notifier(), args.timer_id, author=args.author, cron=args.cron, command=args.values["command"], **options)
    return PlainOutcome(f"{timer.timer_id} fires {_describe_next(timer)}\n", timer.to_json())


def handle_timer_list(args: Arguments) -> PlainOutcome:
    notifier = _open_and_revive()
    timers = verbs.list_timers(notifier)
    rows = [f"{one_line(timer.timer_id)}  {timer.cron}, {_describe_next(timer)}: {one_line(timer.command)}\n" for timer in timers]
    data = {"timers": [timer.to_json() for timer in timers]}
    return PlainOutcome("".join(rows) or "there are no timers\n", data, only_reads=True, note=_stopped_note(notifier, timers))


def _describe_next(timer: NotifierTimer) -> str:
    if timer.trouble:
        return f"stopped, because {one_line(timer.trouble)}"
    return "next at the start of the machine" if timer.cron == "@reboot" else f"next at {timer.next_at}"


def handle_timer_remove(args: Arguments) -> PlainOutcome:
    require_flags(args, ("timer_id",))
    verbs.remove_timer(_open_notifier(), args.timer_id)
    return PlainOutcome(f"{args.timer_id} removed\n", {"removed": 1})


def handle_start(args: Arguments) -> PlainOutcome:
    return _status_outcome(verbs.start(_open_notifier()))


def handle_run(args: Arguments) -> PlainOutcome:
    verbs.run_here(_open_notifier())
    return PlainOutcome("")


def handle_install(args: Arguments) -> PlainOutcome:
    from postroom.queues.running import boot_start

    if args.undo:
        removed = boot_start.uninstall()
        return PlainOutcome("".join(f"removed {what}\n" for what in removed), {"removed": list(removed)})
    method, written = boot_start.install(args.values["with"])
    note = "A user's units start at login. To start this one with the machine: loginctl enable-linger"
    return PlainOutcome(f"{written}\n", {"method": method, "written": written}, note=note if method == boot_start.SYSTEMD else "")


def handle_stop(args: Arguments) -> PlainOutcome:
    status = verbs.stop(_open_notifier())
    outcome = _status_outcome(status)
    if status.running:
        outcome.text = f"the runner ends when its running commands have ended\n{outcome.text}"
    return outcome


def handle_status(args: Arguments) -> PlainOutcome:
    return _status_outcome(verbs.status(_open_and_revive()), only_reads=True)


def _status_outcome(status: NotifierStatus, *, only_reads: bool = False) -> PlainOutcome:
    runner = "no runner is up: one starts on demand"
    if status.running and status.pid is None:
        runner = "a runner is starting"
    elif status.running:
        runner = f"a runner is up, process {status.pid}{', to stay' if status.resident else ''}"
    elif status.stopped:
        runner = _STOPPED_NOTE
    timers = "1 timer" if status.timers == 1 else f"{status.timers} timers"
    text = f"{runner}\n{status.queued} waiting, {status.running_tasks} running, {timers}\n{status.home}\n"
    return PlainOutcome(text, status.to_json(), only_reads=only_reads)


def _open_notifier() -> NotifierDatabase:
    return verbs.open_notifier(door="cli")


def _open_and_revive() -> NotifierDatabase:
    """Open the notifier for reading, and start a runner if a killed one left tasks behind."""
    notifier = _open_notifier()
    verbs.revive_runner(notifier, looks_at_queues=True)
    return notifier


def _stopped_note(notifier: NotifierDatabase, waiting: tuple[object, ...]) -> str:
    """Say that the notifier is stopped, if it is and something waits for it."""
    return _STOPPED_NOTE if waiting and verbs.status(notifier).stopped else ""


def _given_options(args: Arguments, *keys: str) -> dict[str, Any]:
    return {key: args.values[key] for key in keys if args.values[key] is not None}


def _render_run(run: NotifierRun) -> str:
    if run.signal is not None:
        status = f"signal {run.signal}"
    elif run.exit_status is not None:
        status = f"exit {run.exit_status}"
    else:
        status = "no status"
    head = f"{run.run}  {one_line(run.task_id)}  {run.outcome}, {status}"
    timing = f"{run.seconds:.2f} s, attempt {run.attempt}, ended {run.ended_at}"
    return f"{head}, {timing}\n" + (indented_lines(run.output, "    ") if run.output else "")
