"""HTTP routes of runs, agents and their activity, for people. `server.app` mounts them."""

from __future__ import annotations

from typing import Any

import orjson
from starlette.requests import Request
from starlette.responses import Response

from postroom.core import clock
from postroom.core.records.work import AgentPresence, PresencePage
from postroom.server.http.auth import Caller
from postroom.server.http.endpoint import query_integer, refuse_unknown_parameters
from postroom.server.http.responses import JsonResponse
from postroom.server.http.state import AppState
from postroom.server.rpc.calls import make_call
from postroom.work import agents, runs

UNNAMED_RUN = "~"  # the run with an empty id, which cannot be a path segment
ALIVE_SECONDS = 300


async def list_runs(request: Request, state: AppState, caller: Caller) -> Response:
    refuse_unknown_parameters(request, "limit", "after")
    limit = query_integer(request, "limit", 50)
    list_latest = make_call(caller, runs.list_runs, limit=limit, after=request.query_params.get("after"))
    return JsonResponse(await state.store_access.read_in_thread(lambda store: orjson.dumps(list_latest(store).to_json())))


async def show_run(request: Request, state: AppState, caller: Caller) -> Response:
    refuse_unknown_parameters(request)
    segment = request.path_params["run"]
    run_id = "" if segment == UNNAMED_RUN else segment
    read_run = make_call(caller, runs.show_run, run_id=run_id)
    return JsonResponse(await state.store_access.read_in_thread(lambda store: orjson.dumps(read_run(store).to_json())))


async def show_activity(request: Request, state: AppState, caller: Caller) -> Response:
    refuse_unknown_parameters(request, "hours")
    histogram = await state.store_access.read_in_thread(
        make_call(caller, runs.activity_histogram, hours=query_integer(request, "hours", 24))
    )
    return JsonResponse(
        {
            "from": histogram.start,
            "step_seconds": histogram.step_seconds,
            "buckets": len(histogram.total),
            "complete": histogram.complete,
            "agents": histogram.agents,
            "sessions": histogram.sessions,
            "total": histogram.total,
        }
    )


async def list_agents(request: Request, state: AppState, caller: Caller) -> Response:
    refuse_unknown_parameters(request, "limit", "after")
    limit = query_integer(request, "limit", 1000)
    list_presences = make_call(caller, agents.list_presences, limit=limit, after=request.query_params.get("after", ""))
    return JsonResponse(await state.store_access.read_in_thread(lambda store: _encode_agents(list_presences(store))))


def _encode_agents(page: PresencePage) -> bytes:
    now = clock.now()
    since = clock.format_stamp(now - ALIVE_SECONDS * clock.MICROSECONDS_PER_SECOND)
    shown = [_agent_json(presence, clock.format_stamp(now), since) for presence in page.presences]
    return orjson.dumps({"agents": shown, "more": page.more, "after": page.after})


def _agent_json(presence: AgentPresence, now: str, since: str) -> dict[str, Any]:
    holds = [
        {
            "thread_id": claim.thread.thread_id,
            "subject": claim.thread.subject,
            "status": claim.thread.status,
            "expires_at": claim.lease.expires_at,
            "lapsed": not claim.lease.is_live(now),
        }
        for claim in presence.holds
    ]
    return {**presence.agent.to_json(), "holds": holds, "alive": presence.is_alive(now, since), "unread": presence.unread}
