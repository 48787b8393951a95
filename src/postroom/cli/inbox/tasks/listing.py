"""Handlers of `task list` and `task show`. They must not import pydantic: it costs more than the whole command."""

from __future__ import annotations

from postroom.cli.framework.output import Outcome
from postroom.cli.inbox import inputs
from postroom.core.errors import InvalidInput
from postroom.tasks.listing import list_tasks, show_task

TYPE_CHECKING = False
if TYPE_CHECKING:
    from postroom.cli.framework.parser import Arguments


def handle_task_list(args: Arguments) -> Outcome:
    chosen = inputs.given_options(args, "status", "limit", "before_event")
    source = args.values["from"]
    target = args.to if args.to is not None or source is not None else args.agent
    page = list_tasks(inputs.open_store_for(args), agent=target, source=source, **chosen)
    return Outcome(page.to_json(), view="task list")


def handle_task_show(args: Arguments) -> Outcome:
    if not args.task:
        raise InvalidInput("'task' is missing", field="task", hint=f"For example: {args.command.example}")
    store = inputs.open_store_for(args)
    shown = show_task(store, args.task)
    humans = {} if args.json or shown.task.verified else {"humans": inputs.known_humans(store)}
    return Outcome({**shown.to_json(), **humans}, view="task history")
