"""HTTP routes of tasks, for people and agents: list, show, give, cancel. `server.app` mounts them."""

from __future__ import annotations

import orjson
from starlette.requests import Request
from starlette.responses import Response

from postroom.core.errors import InvalidInput
from postroom.server.http.auth import Caller
from postroom.server.http.endpoint import json_body, query_integer, refuse_unknown_parameters
from postroom.server.http.responses import JsonResponse
from postroom.server.http.state import AppState
from postroom.server.rpc.calls import make_call, make_task_call
from postroom.tasks import listing, skills

LIST_PARAMETERS = ("agent", "from", "status", "limit", "before_event")


async def list_tasks(request: Request, state: AppState, caller: Caller) -> Response:
    refuse_unknown_parameters(request, *LIST_PARAMETERS)
    query = request.query_params
    before = query_integer(request, "before_event", 0) if "before_event" in query else None
    chosen = {"agent": query.get("agent"), "source": query.get("from"), "status": query.get("status")}
    list_page = make_call(caller, listing.list_tasks, limit=query_integer(request, "limit", 50), before_event=before, **chosen)
    return JsonResponse(await state.store_access.read_in_thread(lambda store: orjson.dumps(list_page(store).to_json())))


async def show_task(request: Request, state: AppState, caller: Caller) -> Response:
    """Return one task and its history."""
    read_task = make_call(caller, listing.show_task, task_id=request.path_params["id"])
    return JsonResponse(await state.store_access.read_in_thread(lambda store: orjson.dumps(read_task(store).to_json())))


async def give_task(request: Request, state: AppState, caller: Caller) -> Response:
    """Give a task to an agent, by its name or by a skill."""
    number = (int, float)
    fields = await json_body(request, to=str, skill=str, description=str, context=dict, priority=str, deadline_seconds=number, parent=str)
    target, skill = fields.pop("to", None), fields.pop("skill", None)
    if (target is None) == (skill is None):
        raise InvalidInput("name an agent with `to`, or a skill with `skill`", field="to", hint="One of the two.")
    if skill is not None:
        choose = make_call(caller, skills.choose_agent, skill=skill, without=caller.name)
        target = await state.store_access.read_in_thread(choose)
    arguments = {"source_agent": caller.name, "target_agent": target, "description": fields.pop("description", ""), **fields}
    return JsonResponse(await _run_on_task(state, caller, "submit", arguments), 201)


async def cancel_task(request: Request, state: AppState, caller: Caller) -> Response:
    """Cancel a task. A person cancels it in the name of the agent that gave it."""
    task_id = request.path_params["id"]
    reason = (await json_body(request, reason=str)).get("reason", "")
    shown = await state.store_access.read_in_thread(make_call(caller, listing.show_task, task_id=task_id))
    giver = caller.name if caller.agent else shown.task.source_agent
    arguments = {"task_id": task_id, "agent": giver, "reason": reason or f"cancelled by {caller.name}"}
    return JsonResponse(await _run_on_task(state, caller, "cancel", arguments))


async def _run_on_task(state: AppState, caller: Caller, verb: str, arguments: dict[str, object]) -> dict[str, object]:
    """Run a verb of the conductor that returns a task, and return the task as JSON."""
    call = make_task_call(caller, verb, **arguments)
    task = await state.store_access.write(call, call.door)
    return {"task": {**task.model_dump(mode="json"), "verified": task.verified}}
