"""Mailboxes over HTTP, for people: how many messages are in which state, what waits, and what to do about dead letters."""

from __future__ import annotations

from functools import partial

from starlette.requests import Request
from starlette.responses import Response

from postroom.core import jsontext
from postroom.mail import dead_letters, reading
from postroom.server.answers import Json
from postroom.server.callers import Caller
from postroom.server.requests import Office, body, whole


async def list_mailboxes(request: Request, office: Office, caller: Caller) -> Response:
    found = await office.desk.aside(partial(reading.sessions, limit=whole(request, "limit", 1000)))
    return Json({"mailboxes": [counts.plain() for counts in found]})


async def peek(request: Request, office: Office, caller: Caller) -> Response:
    look = partial(reading.peek, session=request.path_params["session"], limit=whole(request, "limit", 100))
    return Json((await office.desk.aside(look)).plain())


async def dead(request: Request, office: Office, caller: Caller) -> Response:
    look = partial(dead_letters.peek_dead_letter, session=request.path_params["session"], limit=whole(request, "limit", 100))
    entries = [entry.plain() for entry in await office.desk.aside(look)]
    # A sender may have added numbers that are longer than other encoders take.
    return Json(jsontext.dumps({"entries": entries}).encode())


async def purge(request: Request, office: Office, caller: Caller) -> Response:
    session, msg_id = request.path_params["session"], request.query_params.get("msgId")
    purged = await office.desk.aside(partial(dead_letters.purge_dead_letter, session=session, msg_id=msg_id), caller.door)
    return Json({"purged": purged})


async def retry(request: Request, office: Office, caller: Caller) -> Response:
    session, msg_id = request.path_params["session"], (await body(request, msgId=str)).get("msgId")
    retried = await office.desk.aside(partial(dead_letters.retry_dead_letter, session=session, msg_id=msg_id), caller.door)
    return Json({"retried": retried})
