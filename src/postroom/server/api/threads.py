"""HTTP routes of threads, for people: list, send, show, reply, release, cancel. `server.app` mounts them."""

from __future__ import annotations

import asyncio
from typing import Any

import orjson
from starlette.requests import Request
from starlette.responses import Response

from postroom.core import limits
from postroom.core.errors import InvalidInput
from postroom.core.records.work import Conversation, PostedMessage
from postroom.people import replying
from postroom.server.http.auth import Caller
from postroom.server.http.endpoint import json_body, query_flag, query_integer, refuse_unknown_parameters
from postroom.server.http.responses import JsonResponse
from postroom.server.http.state import AppState
from postroom.server.rpc.calls import make_call
from postroom.work import leases, listing, progress, threads

MAX_RENDERED_CHARS = limits.MAX_PAGE_CHARS  # a longer message is shown as plain text
CURSOR_PARAMETERS = ("before_event", "after_event")


async def list_threads(request: Request, state: AppState, caller: Caller) -> Response:
    refuse_unknown_parameters(request, "status", "agent", "run", "task", "limit", "after")
    statuses = request.query_params.get("status")
    list_page = make_call(
        caller,
        listing.list_threads,
        statuses=None if statuses is None else statuses.split(","),
        agent=request.query_params.get("agent"),
        run_id=request.query_params.get("run"),
        task_id=request.query_params.get("task"),
        limit=query_integer(request, "limit", 50),
        after=request.query_params.get("after"),
    )
    return JsonResponse(await state.store_access.read_in_thread(lambda store: orjson.dumps(list_page(store).to_json())))


async def show_thread(request: Request, state: AppState, caller: Caller) -> Response:
    """Return one page of a thread: the newest, or the one before or after an event. With `html`, also its bodies as HTML."""
    refuse_unknown_parameters(request, "html", "limit", *CURSOR_PARAMETERS)
    html, limit = query_flag(request, "html"), query_integer(request, "limit", limits.MAX_PAGE_MESSAGES)
    cursors: dict[str, Any] = {name: query_integer(request, name, 0) for name in CURSOR_PARAMETERS if name in request.query_params}

    read_page = make_call(caller, threads.show, thread_id=request.path_params["id"], limit=limit, **cursors)
    if not html:
        return JsonResponse(await state.store_access.read_in_thread(lambda store: orjson.dumps(read_page(store).to_json())))
    page = await state.store_access.read_in_thread(read_page)
    page_messages = page.messages if page.first_message is None else (page.first_message, *page.messages)
    bodies = {message.message_id: message.body for message in page_messages if 0 < len(message.body) <= MAX_RENDERED_CHARS}
    rendered = await state.renderer.render_texts(list(bodies.values()))
    return JsonResponse(await asyncio.to_thread(_encode_page, page, dict(zip(bodies, rendered))))


def _encode_page(page: Conversation, html: dict[str, str]) -> bytes:
    return orjson.dumps({**page.to_json(), "html": html})


def _posted_json(posted: PostedMessage) -> dict[str, Any]:
    return {name: value for name, value in posted.to_json().items() if name != "next_event_id"}


async def send_thread(request: Request, state: AppState, caller: Caller) -> Response:
    """Begin a thread: work that a person gives to an agent."""
    fields = await json_body(request, to=str, subject=str, body=str, priority=str, run=str)
    content = {"to": fields.get("to", ""), "subject": fields.get("subject", ""), "body": fields.get("body", "")}
    content |= {"priority": fields.get("priority"), "run_id": fields.get("run"), "key": request.headers.get("idempotency-key")}
    call = make_call(caller, threads.send, sender=caller.name, **content)
    posted = await state.store_access.write(call, call.door)
    return JsonResponse(_posted_json(posted), 201)


async def reply_to_thread(request: Request, state: AppState, caller: Caller) -> Response:
    fields = await json_body(request, body=str, question=str)
    body = fields.get("body", "")
    if not body.strip():
        raise InvalidInput("'body' is missing", field="body", hint="Write some text.")
    content = {"sender": caller.name, "summary": replying.summary_of(body), "body": body, "question": fields.get("question")}
    content["key"] = request.headers.get("idempotency-key")
    call = make_call(caller, threads.reply, thread_id=request.path_params["id"], **content)
    posted = await state.store_access.write(call, call.door)
    return JsonResponse(_posted_json(posted), 201)


async def cancel_thread(request: Request, state: AppState, caller: Caller) -> Response:
    fields = await json_body(request, reason=str)
    call = make_call(caller, progress.cancel, thread_id=request.path_params["id"], agent=caller.name, reason=fields.get("reason", ""))
    posted = await state.store_access.write(call, call.door)
    return JsonResponse(_posted_json(posted))


async def release_thread(request: Request, state: AppState, caller: Caller) -> Response:
    fields = await json_body(request, reason=str)
    call = make_call(caller, leases.revoke_lease, thread_id=request.path_params["id"], person=caller.name, reason=fields.get("reason", ""))
    posted = await state.store_access.write(call, call.door)
    return JsonResponse(_posted_json(posted))
