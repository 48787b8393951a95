"""HTTP route of the watched queues, for people: the rate of each, the lag of its consumers, and their latest runs."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response

from postroom.people import watched_queues
from postroom.server.http.auth import Caller
from postroom.server.http.endpoint import refuse_unknown_parameters
from postroom.server.http.responses import JsonResponse
from postroom.server.http.state import AppState
from postroom.server.rpc.calls import make_call


async def list_queues(request: Request, state: AppState, caller: Caller) -> Response:
    refuse_unknown_parameters(request)
    queues = await state.store_access.read_verb(make_call(caller, watched_queues.list_queues))
    reports = await state.queue_reports.read_reports(queues)
    return JsonResponse({"queues": [report.to_json() for report in reports]})
