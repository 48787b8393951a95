"""Handlers of `task …`, `agent register` and `agent find`."""

from __future__ import annotations

from time import monotonic
from typing import TYPE_CHECKING, Any

from postroom._fastpath import json_text as jsontext
from postroom.cli.framework.output import NOTHING, Outcome
from postroom.cli.inbox import inputs
from postroom.cli.inbox.tasks import kept_tokens
from postroom.cli.inbox.waiting import interruptible
from postroom.core.errors import InvalidInput
from postroom.tasks import Conductor

if TYPE_CHECKING:
    from postroom.cli.framework.parser import Arguments
    from postroom.store.interface import Store
    from postroom.tasks import A2ATask
    from postroom.tasks.a2a.models import Accepted


def handle_agent_register(args: Arguments) -> Outcome:
    card = open_conductor(args).register(args.words[0], skills=args.skill, **inputs.given_options(args, "description"))
    return Outcome({"card": card.model_dump(mode="json")}, view="task card")


def handle_agent_find(args: Arguments) -> Outcome:
    page = open_conductor(args).find(require_option(args, "skill"), **inputs.given_options(args, "limit", "after"))
    data = {"cards": [card.model_dump(mode="json") for card in page.cards], "more": page.more, "after": page.after}
    return Outcome(data, view="task cards", exit_code=0 if page.cards else NOTHING)


def handle_task_submit(args: Arguments) -> Outcome:
    options = inputs.given_options(args, "priority", "deadline_seconds", "parent")
    if args.context_json is not None and args.context_file is not None:
        raise InvalidInput("context-json and context-file exclude each other", field="context-json", hint="Leave one of them out.")
    if args.context_json is not None:
        options["context"] = _parse_object_option(args, "context_json")
    if args.context_file is not None:
        hint = "A context is JSON, and JSON is UTF-8."
        text = inputs.read_file_text(args.context_file, field="context-file", hint=hint)
        options["context"] = _parse_object(text, "context-file")
    if args.job is not None:
        options["source_job_id"] = args.job
    sender, description = inputs.require_sender(args), _require_description(args)
    store = inputs.open_store_for(args)
    to = _choose_receiver(store, args, sender)
    return _task_outcome(Conductor(store).submit(sender, to, description, **options), "submitted")


def _choose_receiver(store: Store, args: Arguments, sender: str) -> str:
    """Return the agent of --to, or one with the skill of --skill."""
    if args.skill is None:
        return require_option(args, "to")
    if args.to is not None:
        raise InvalidInput("to and skill exclude each other", field="skill", hint="Leave one of them out.")
    from postroom.tasks.skills import choose_agent

    return choose_agent(store, args.skill, without=sender)


def _require_description(args: Arguments) -> str:
    if args.description is not None and args.description_file is not None:
        raise InvalidInput("description and description-file exclude each other", field="description", hint="Leave one of them out.")
    if args.description_file is not None:
        return inputs.read_file_text(
            args.description_file, field="description-file", hint="A description is text; attach files to the answer."
        )
    return require_option(args, "description")


def handle_task_accept(args: Arguments) -> Outcome:
    store, agent = inputs.open_store_for(args), inputs.require_agent(args)
    conductor = Conductor(store)
    lease = inputs.given_options(args, "lease_seconds")
    if args.job is not None:
        lease["job_id"] = args.job
    if args.task is not None and args.wait:
        raise InvalidInput("task and wait exclude each other", field="wait", hint="Leave one of them out.")
    if args.task is not None:
        accepted: Accepted | None = conductor.accept(args.task, agent=agent, **lease)
    elif args.wait:
        with interruptible():
            accepted = conductor.wait_accept(agent, **lease, **inputs.given_options(args, "timeout_seconds"))
    else:
        accepted = conductor.accept_next(agent, **lease)
    if accepted is None:
        return Outcome({"task": None, "lease_token": None}, view="task none", exit_code=NOTHING)
    kept_tokens.keep_token(args, (accepted.task.task_id,), accepted.lease_token)
    humans = {} if args.json or accepted.task.verified else {"humans": inputs.known_humans(store)}
    return Outcome({"task": task_json(accepted.task), "lease_token": accepted.lease_token, **humans}, view="task accepted")


def handle_task_renew(args: Arguments) -> Outcome:
    task, lease = require_option(args, "task"), inputs.given_options(args, "lease_seconds")
    token = kept_tokens.lease_token(args, task)
    renewed = open_conductor(args).renew(task, agent=inputs.require_agent(args), lease_token=token, **lease)
    return _task_outcome(renewed, "renewed")


def handle_task_complete(args: Arguments) -> Outcome:
    artifacts = _parse_object_option(args, "artifacts_json") if args.artifacts_json is not None else None
    if args.artifact:
        files = (artifacts or {}).get("files", [])
        if not isinstance(files, list):
            raise InvalidInput("the files in artifacts-json must be a list", field="artifacts-json", hint="Leave it out, or --artifact.")
        artifacts = {**(artifacts or {}), "files": [*files, *args.artifact]}
    task = require_option(args, "task")
    token = kept_tokens.lease_token(args, task)
    done = open_conductor(args).complete(task, agent=inputs.require_agent(args), artifacts=artifacts, lease_token=token)
    kept_tokens.forget_token(args, task)
    return _task_outcome(done, "completed")


def handle_task_fail(args: Arguments) -> Outcome:
    task, reason = require_option(args, "task"), require_option(args, "reason")
    token = kept_tokens.lease_token(args, task)
    failed = open_conductor(args).fail(task, reason, agent=inputs.require_agent(args), lease_token=token)
    kept_tokens.forget_token(args, task)
    return _task_outcome(failed, "failed")


def handle_task_cancel(args: Arguments) -> Outcome:
    return _task_outcome(
        open_conductor(args).cancel(require_option(args, "task"), agent=inputs.require_agent(args), **inputs.given_options(args, "reason")),
        "cancelled",
    )


def handle_task_ack(args: Arguments) -> Outcome:
    conductor, agent = open_conductor(args), inputs.require_agent(args)
    if args.all:
        if args.task is not None:
            raise InvalidInput("task and all exclude each other", field="all", hint="Leave one of them out.")
        return Outcome({"read": conductor.acknowledge_all(agent=agent)}, view="task read all")
    return _task_outcome(conductor.acknowledge(require_option(args, "task"), agent=agent), "read")


def handle_task_render(args: Arguments) -> Outcome:
    page = open_conductor(args).render(inputs.require_agent(args), **inputs.given_options(args, "budget"))
    return Outcome({"text": page.text, "shown": list(page.shown), "left_out": page.left_out}, view="text")


def handle_task_wait(args: Arguments) -> Outcome:
    conductor, wanted = (
        Conductor(inputs.open_store_for(args, owns_process=True)),
        [task_id for task_id in dict.fromkeys(args.task) if task_id],
    )
    if not wanted:
        raise InvalidInput("'task' is missing", field="task", hint=f"For example: {args.command.example}")
    with interruptible():
        woke = _wait_for_tasks(conductor, wanted, wait_all=not args.any, **inputs.given_options(args, "timeout_seconds"))
    tasks = [task_json(conductor.get(task_id)) for task_id in wanted]
    data = {"woke": woke, "task": tasks[0]} if len(tasks) == 1 else {"woke": woke, "tasks": tasks}
    if not woke:
        return Outcome(data, view="task time over", exit_code=NOTHING)
    return Outcome(data, view="task ended" if len(tasks) == 1 else "task list")


def _wait_for_tasks(conductor: Conductor, task_ids: list[str], *, wait_all: bool, timeout_seconds: float = 0) -> bool:
    """Wait until all tasks, or one of them, have ended. Return False if the time was over before."""
    waiting, started_at, seconds_left = set(task_ids), monotonic(), timeout_seconds
    while waiting:
        ended = conductor.wait_any(sorted(waiting), timeout_seconds=seconds_left)
        if ended is None or not wait_all:
            return ended is not None
        waiting -= {task.task_id for task in ended}
        if timeout_seconds:
            seconds_left = max(started_at + timeout_seconds - monotonic(), 0.001)
    return True


def handle_task_open_thread(args: Arguments) -> Outcome:
    conductor, task_id = open_conductor(args), require_option(args, "task")
    thread = conductor.open_thread(task_id, agent=inputs.require_agent(args))
    return Outcome({"task": task_json(conductor.get(task_id)), "thread_id": thread}, view="task thread")


def open_conductor(args: Arguments) -> Conductor:
    """Return the conductor of the store that a command names."""
    return Conductor(inputs.open_store_for(args))


def _task_outcome(task: A2ATask, view: str) -> Outcome:
    return Outcome({"task": task_json(task)}, view=f"task {view}")


def task_json(task: A2ATask) -> dict[str, Any]:
    """Return a task as it is printed."""
    return {**task.model_dump(mode="json"), "verified": task.verified}


def require_option(args: Arguments, key: str) -> str:
    """Return the value of an option. Refuses with `InvalidInput` if it is missing."""
    value = args.values[key]
    if not value:
        raise InvalidInput(f"'{key}' is missing", field=key, hint=f"For example: {args.command.example}")
    return str(value)


def _parse_object_option(args: Arguments, key: str) -> dict[str, Any]:
    field = key.replace("_", "-")
    return _parse_object(args.values[key], field)


def _parse_object(text: str, field: str) -> dict[str, Any]:
    """Parse a JSON object. Refuses any other text, naming `field`."""
    hint = 'Pass an object such as \'{"key": "value"}\'.'
    try:
        value = jsontext.loads(text)
    except ValueError as error:
        raise InvalidInput(f"{field} is not JSON: {error}", field=field, hint=hint) from None
    if not isinstance(value, dict):
        raise InvalidInput(f"{field} must be a JSON object, not {type(value).__name__}", field=field, hint=hint)
    return value
