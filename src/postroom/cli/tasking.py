"""The faces of tasks: what agents give each other."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from postroom.cli import inputs
from postroom.cli.envelope import NOTHING, Outcome
from postroom.core import jsontext
from postroom.core.errors import InvalidInput
from postroom.tasks import Conductor

if TYPE_CHECKING:
    from postroom.cli.parsing import Arguments
    from postroom.tasks import A2ATask


def register(args: Arguments) -> Outcome:
    card = _conductor(args).register(args.words[0], skills=args.skill, **inputs.given(args, "description"))
    return Outcome({"card": card.model_dump(mode="json")}, human="task card")


def find(args: Arguments) -> Outcome:
    cards = _conductor(args).find(_needed(args, "skill"))
    data = {"cards": [card.model_dump(mode="json") for card in cards]}
    return Outcome(data, human="task cards", exit_code=0 if cards else NOTHING)


def submit(args: Arguments) -> Outcome:
    said = inputs.given(args, "priority", "deadline_seconds", "parent")
    if args.context_json is not None and args.context_file is not None:
        raise InvalidInput("context-json and context-file exclude each other", field="context-json", hint="Leave one of them out.")
    if args.context_json is not None:
        said["context"] = _object(args, "context_json")
    if args.context_file is not None:
        hint = "A context is JSON, and JSON is UTF-8."
        said["context"] = _parsed(inputs.file_text(args.context_file, field="context-file", hint=hint), "context-file")
    if args.job is not None:
        said["source_job_id"] = args.job
    sender, to, description = inputs.sender(args), _needed(args, "to"), _description(args)
    return _told(_conductor(args).submit(sender, to, description, **said), "submitted")


def _description(args: Arguments) -> str:
    if args.description is not None and args.description_file is not None:
        raise InvalidInput("description and description-file exclude each other", field="description", hint="Leave one of them out.")
    if args.description_file is not None:
        return inputs.file_text(args.description_file, field="description-file", hint="A description is text; attach files to the answer.")
    return _needed(args, "description")


def list_(args: Arguments) -> Outcome:
    tasks = _conductor(args).tasks(args.agent, **inputs.given(args, "status", "limit"))
    return Outcome({"tasks": [_plain(task) for task in tasks]}, human="task list")


def show(args: Arguments) -> Outcome:
    return _told(_conductor(args).get(_needed(args, "task")), "shown")


def accept(args: Arguments) -> Outcome:
    conductor, agent = _conductor(args), inputs.agent(args)
    said = inputs.given(args, "lease_seconds")
    taken = conductor.accept_next(agent, **said) if args.task is None else conductor.accept(args.task, agent=agent, **said)
    if taken is None:
        return Outcome({"task": None, "lease_token": None}, human="task none", exit_code=NOTHING)
    return Outcome({"task": _plain(taken.task), "lease_token": taken.lease_token}, human="task accepted")


def complete(args: Arguments) -> Outcome:
    artifacts = _object(args, "artifacts_json") if args.artifacts_json is not None else None
    if args.artifact:
        named = (artifacts or {}).get("files", [])
        if not isinstance(named, list):
            raise InvalidInput("the files in artifacts-json must be a list", field="artifacts-json", hint="Leave it out, or --artifact.")
        artifacts = {**(artifacts or {}), "files": [*named, *args.artifact]}
    task = _needed(args, "task")
    done = _conductor(args).complete(task, agent=inputs.agent(args), artifacts=artifacts, **inputs.given(args, "lease_token"))
    return _told(done, "completed")


def fail(args: Arguments) -> Outcome:
    task, reason = _needed(args, "task"), _needed(args, "reason")
    return _told(_conductor(args).fail(task, reason, agent=inputs.agent(args), **inputs.given(args, "lease_token")), "failed")


def cancel(args: Arguments) -> Outcome:
    return _told(_conductor(args).cancel(_needed(args, "task"), agent=inputs.agent(args), **inputs.given(args, "reason")), "cancelled")


def ack(args: Arguments) -> Outcome:
    return _told(_conductor(args).acknowledge(_needed(args, "task"), agent=inputs.agent(args)), "read")


def render(args: Arguments) -> Outcome:
    shown = _conductor(args).render(inputs.agent(args), **inputs.given(args, "budget"))
    return Outcome({"text": shown.text, "shown": list(shown.shown), "left_out": shown.left_out}, human="text")


def wait(args: Arguments) -> Outcome:
    from postroom.cli.waiting import interruptible

    task_id, conductor = _needed(args, "task"), Conductor(inputs.store(args, solitary=True))
    with interruptible():
        task = conductor.wait(task_id, **inputs.given(args, "timeout_seconds"))
    if task is None:
        return Outcome({"woke": False, "task": _plain(conductor.get(task_id))}, human="nothing", exit_code=NOTHING)
    return Outcome({"woke": True, "task": _plain(task)}, human="task ended")


def open_thread(args: Arguments) -> Outcome:
    conductor, task_id = _conductor(args), _needed(args, "task")
    thread = conductor.open_thread(task_id, agent=inputs.agent(args))
    return Outcome({"task": _plain(conductor.get(task_id)), "thread_id": thread}, human="task thread")


def _conductor(args: Arguments) -> Conductor:
    return Conductor(inputs.store(args))


def _told(task: A2ATask, verb: str) -> Outcome:
    return Outcome({"task": _plain(task)}, human=f"task {verb}")


def _plain(task: A2ATask) -> dict[str, Any]:
    return task.model_dump(mode="json")


def _needed(args: Arguments, key: str) -> str:
    value = args.values[key]
    if not value:
        raise InvalidInput(f"'{key}' is missing", field=key, hint=f"Pass it with --{key.replace('_', '-')}.")
    return str(value)


def _object(args: Arguments, key: str) -> dict[str, Any]:
    field = key.replace("_", "-")
    return _parsed(args.values[key], field)


def _parsed(text: str, field: str) -> dict[str, Any]:
    hint = 'Pass an object such as \'{"key": "value"}\'.'
    try:
        found = jsontext.loads(text)
    except ValueError as error:
        raise InvalidInput(f"{field} is not JSON: {error}", field=field, hint=hint) from None
    if not isinstance(found, dict):
        raise InvalidInput(f"{field} must be a JSON object, not {type(found).__name__}", field=field, hint=hint)
    return found
