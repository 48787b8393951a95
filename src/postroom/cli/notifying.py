"""The faces of the notifier."""

from __future__ import annotations

from postroom.cli.human import line, lines
from postroom.cli.plain import Answer
from postroom.core.errors import InvalidInput
from postroom.queues import notifier as verbs

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from postroom.cli.parsing import Arguments
    from postroom.core.chores import NotifierStatus, Run
    from postroom.store.sqlite.files import NotifierFile


def task_add(args: Arguments) -> Answer:
    _need(args, "author", "task_id", "command")
    said = _given(args, "retries", "timeout_seconds")
    task = verbs.add_task(_open(), args.task_id, author=args.author, command=args.values["command"], **said)
    return Answer(f"{task.task_id} queued\n", task.plain())


def task_list(args: Arguments) -> Answer:
    tasks = verbs.list_tasks(_looking())
    rows = [line(f"{task.task_id}  {task.state}, attempt {task.attempts}, by {task.author}: {task.command}") + "\n" for task in tasks]
    return Answer("".join(rows) or "nothing waits or runs\n", {"tasks": [task.plain() for task in tasks]})


def task_remove(args: Arguments) -> Answer:
    _need(args, "task_id")
    removed = verbs.remove_task(_open(), args.task_id)
    return Answer(f"{args.task_id} removed\n", {"removed": removed})


def task_runs(args: Arguments) -> Answer:
    runs = verbs.list_runs(_looking(), args.task_id, **_given(args, "limit"))
    return Answer("".join(_run(run) for run in runs) or "nothing was run\n", {"runs": [run.plain() for run in runs]})


def timer_add(args: Arguments) -> Answer:
    _need(args, "author", "timer_id", "cron", "command")
    said = _given(args, "retries", "timeout_seconds", "timezone")
    timer = verbs.add_timer(_open(), args.timer_id, author=args.author, cron=args.cron, command=args.values["command"], **said)
    return Answer(f"{timer.timer_id} fires next at {timer.next_at}\n", timer.plain())


def timer_list(args: Arguments) -> Answer:
    timers = verbs.list_timers(_looking())
    rows = [f"{line(timer.timer_id)}  {timer.cron}, next at {timer.next_at}: {line(timer.command)}\n" for timer in timers]
    return Answer("".join(rows) or "there are no timers\n", {"timers": [timer.plain() for timer in timers]})


def timer_remove(args: Arguments) -> Answer:
    _need(args, "timer_id")
    verbs.remove_timer(_open(), args.timer_id)
    return Answer(f"{args.timer_id} removed\n", {"removed": 1})


def start(args: Arguments) -> Answer:
    return _status(verbs.start(_open()))


def stop(args: Arguments) -> Answer:
    answer = _status(now := verbs.stop(_open()))
    if now.running:
        answer.text = f"the runner ends when what it runs has ended\n{answer.text}"
    return answer


def status(args: Arguments) -> Answer:
    return _status(verbs.status(_looking()))


def _status(now: NotifierStatus) -> Answer:
    up = (
        f"a runner is up, process {now.pid}{', to stay' if now.resident else ''}"
        if now.running
        else "no runner is up: one starts on demand"
    )
    return Answer(
        f"{up}\n{now.queued} waiting, {now.running_tasks} running, {now.timers} {'timer' if now.timers == 1 else 'timers'}\n{now.home}\n",
        now.plain(),
    )


def _open() -> NotifierFile:
    return verbs.open_notifier(door="cli")


def _looking() -> NotifierFile:
    """For who only looks: what a runner left behind that was killed is taken up again."""
    notifier = _open()
    verbs.revive(notifier)
    return notifier


def _need(args: Arguments, *keys: str) -> None:
    for key in keys:
        if args.values[key] is None:
            flag = "--" + key.replace("_", "-")
            raise InvalidInput(f"{flag} is missing", field=flag[2:], hint=f"For example: {args.command.example}")


def _given(args: Arguments, *keys: str) -> dict[str, Any]:
    return {key: args.values[key] for key in keys if args.values[key] is not None}


def _run(run: Run) -> str:
    how = f"signal {run.signal}" if run.signal is not None else f"exit {run.exit_status}" if run.exit_status is not None else "no status"
    head = f"{run.run}  {line(run.task_id)}  {run.outcome}, {how}, {run.seconds:.2f} s, attempt {run.attempt}, ended {run.ended_at}\n"
    return head + (lines(run.output, "    ") if run.output else "")
