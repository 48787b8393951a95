"""Threads over HTTP, for people: look, answer, take back, cancel."""

from __future__ import annotations

from functools import partial

from starlette.requests import Request
from starlette.responses import Response

from postroom.core.errors import InvalidInput
from postroom.people import replying
from postroom.server.answers import Json
from postroom.server.callers import Caller
from postroom.server.requests import Office, body, flag, whole
from postroom.work import leases, progress, threads


async def list_threads(request: Request, office: Office, caller: Caller) -> Response:
    statuses = request.query_params.get("status")
    look = partial(
        threads.list_threads,
        statuses=None if statuses is None else statuses.split(","),
        agent=request.query_params.get("agent"),
        run_id=request.query_params.get("run"),
        limit=whole(request, "limit", 50),
    )
    return Json((await office.desk.ask(look)).plain())


async def show(request: Request, office: Office, caller: Caller) -> Response:
    html = flag(request, "html")
    found = await office.desk.ask(lambda store: threads.show(store, request.path_params["id"]))
    if not html:
        return Json(found.plain())
    said = [message for message in found.messages if message.body]
    painted = await office.painter.texts([message.body for message in said])
    return Json({**found.plain(), "html": {message.message_id: text for message, text in zip(said, painted)}})


async def reply(request: Request, office: Office, caller: Caller) -> Response:
    given = await body(request, body=str)
    said = given.get("body", "")
    if not said.strip():
        raise InvalidInput("'body' is missing", field="body", hint="Say something.")
    words = {"sender": caller.name, "summary": replying.summary_of(said), "body": said, "key": request.headers.get("idempotency-key")}
    posted = await office.desk.write(lambda store: threads.reply(store, request.path_params["id"], **words), caller.door)
    return Json({"thread": posted.thread.plain(), "message": posted.message.plain()}, 201)


async def cancel(request: Request, office: Office, caller: Caller) -> Response:
    given = await body(request, reason=str)
    posted = await office.desk.write(
        lambda store: progress.cancel(store, request.path_params["id"], agent=caller.name, reason=given.get("reason", "")), caller.door
    )
    return Json({"thread": posted.thread.plain(), "message": posted.message.plain()})


async def release(request: Request, office: Office, caller: Caller) -> Response:
    given = await body(request, reason=str)
    posted = await office.desk.write(
        lambda store: leases.take_back(store, request.path_params["id"], person=caller.name, reason=given.get("reason", "")), caller.door
    )
    return Json({"thread": posted.thread.plain(), "message": posted.message.plain()})
