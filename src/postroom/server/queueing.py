"""Watched queues over HTTP, for people: how fast each grows, how far its consumers are, and when they were last started."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response

from postroom.people import watched
from postroom.server.answers import Json
from postroom.server.callers import Caller
from postroom.server.requests import Office


async def list_queues(request: Request, office: Office, caller: Caller) -> Response:
    reports = await office.reports.of(await office.desk.ask(watched.list_queues))
    return Json({"queues": [report.plain() for report in reports]})
