"""Runs, agents and how busy they are, over HTTP, for people."""

from __future__ import annotations

from functools import partial
from typing import Any

import orjson
from starlette.requests import Request
from starlette.responses import Response

from postroom.core import clock
from postroom.core.records import Presence
from postroom.server.answers import Json
from postroom.server.callers import Caller
from postroom.server.requests import Office, whole
from postroom.work import agents, runs

UNNAMED = "~"  # in a path, which has no room for nothing: the run without a name
ALIVE_SECONDS = 300


async def list_runs(request: Request, office: Office, caller: Caller) -> Response:
    found = await office.desk.aside(partial(runs.list_runs, limit=whole(request, "limit", 50)))
    return Json({"runs": [run.plain() for run in found]})


async def show(request: Request, office: Office, caller: Caller) -> Response:
    named = request.path_params["run"]
    run_id = "" if named == UNNAMED else named
    return Json(await office.desk.aside(lambda store: orjson.dumps(runs.show_run(store, run_id).plain())))


async def activity(request: Request, office: Office, caller: Caller) -> Response:
    found = await office.desk.aside(partial(runs.rhythm, hours=whole(request, "hours", 24)))
    counted = {"complete": found.complete, "agents": found.agents, "sessions": found.sessions, "total": found.total}
    return Json({"from": found.start, "step_seconds": found.step_seconds, "buckets": len(found.total), **counted})


async def list_agents(request: Request, office: Office, caller: Caller) -> Response:
    known = await office.desk.aside(agents.list_presences)
    now = clock.now()
    return Json({"agents": [_agent(presence, clock.stamp(now), clock.stamp(now - ALIVE_SECONDS * clock.SECOND)) for presence in known]})


def _agent(presence: Presence, now: str, since: str) -> dict[str, Any]:
    holds = [
        {
            "thread_id": claim.thread.thread_id,
            "subject": claim.thread.subject,
            "status": claim.thread.status,
            "expires_at": claim.lease.expires_at,
            "lapsed": not claim.lease.live(now),
        }
        for claim in presence.holds
    ]
    return {**presence.agent.plain(), "holds": holds, "alive": presence.alive(now, since), "unread": presence.unread}
