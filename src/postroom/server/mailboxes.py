"""Mailboxes over HTTP. Agents have their own: they send, take, and say what became of it. People see all, and decide about dead letters."""

from __future__ import annotations

import asyncio
import re
from functools import partial
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from postroom.core import jsontext
from postroom.core.errors import InvalidInput
from postroom.core.words import shown
from postroom.mail import dead_letters, reading, sweeping
from postroom.server import post
from postroom.server.answers import Json
from postroom.server.callers import Caller
from postroom.server.desk import LONGEST_WAIT
from postroom.server.patience import gone
from postroom.server.requests import Office, body_if_any, json_object, known, whole

_SECONDS = re.compile(r"[0-9]{1,6}(\.[0-9]{1,9})?")


def _told(answer: dict[str, Any]) -> bytes:
    """A sender may have added numbers that are longer than other encoders take."""
    return jsontext.dumps(answer).encode()


async def list_mailboxes(request: Request, office: Office, caller: Caller) -> Response:
    found = await office.desk.aside(partial(reading.sessions, limit=whole(request, "limit", 1000)))
    return Json({"mailboxes": [counts.plain() for counts in found]})


# For agents, each in its own mailbox, and for people


async def enqueue(request: Request, office: Office, caller: Caller) -> Response:
    answer = await post.enqueue(office.desk, caller, await json_object(request, jsontext.loads))
    return Json(answer, 201 if answer["queued"] else 200)


async def dequeue(request: Request, office: Office, caller: Caller) -> Response:
    """Who leaves while waiting takes nothing."""
    session, wait = request.path_params["session"], _wait(request)
    await request.body()  # so that all that can come after is the end
    taking = asyncio.ensure_future(post.dequeue(office.desk, caller, session, wait, partial(office.asks, request, again=True)))
    leaving = asyncio.ensure_future(gone(request.receive))
    try:
        await asyncio.wait((taking, leaving), return_when=asyncio.FIRST_COMPLETED)
        if not taking.done():
            taking.cancel()
            return Response(status_code=204)  # to nobody
        found = taking.result()
    finally:
        leaving.cancel()
    return Response(status_code=204) if found is None else Json(_told(found))


def _wait(request: Request) -> float:
    known(request, "wait")
    given = request.query_params.get("wait", "0")
    if not _SECONDS.fullmatch(given) or float(given) > LONGEST_WAIT:
        raise InvalidInput(f"wait must be from 0 to {LONGEST_WAIT:g} seconds, not {shown(given)}", field="wait")
    return float(given)


async def ack(request: Request, office: Office, caller: Caller) -> Response:
    return Json(await post.ack(office.desk, caller, **await _about(request)))


async def nack(request: Request, office: Office, caller: Caller) -> Response:
    return Json(await post.nack(office.desk, caller, **await _about(request, "reason")))


async def extend(request: Request, office: Office, caller: Caller) -> Response:
    return Json(await post.extend(office.desk, caller, **await _about(request, "seconds")))


async def _about(request: Request, *more: str) -> dict[str, Any]:
    """Which message is spoken of, and what else is said; the types are looked at where it is done."""
    given = await body_if_any(request, **dict.fromkeys(("delivery_token", *more), object))
    return {"session": request.path_params["session"], "msg_id": request.path_params["msg_id"], **given}


async def peek(request: Request, office: Office, caller: Caller) -> Response:
    known(request, "limit")
    session = post.may_take(caller, request.path_params["session"])
    look = partial(reading.peek, session=session, limit=whole(request, "limit", 100))
    return Json((await office.desk.aside(look, caller.door)).plain())


async def dead(request: Request, office: Office, caller: Caller) -> Response:
    known(request, "limit")
    session = post.may_take(caller, request.path_params["session"])
    look = partial(dead_letters.peek_dead_letter, session=session, limit=whole(request, "limit", 100))
    told = await office.desk.aside(lambda store: _told({"entries": [entry.plain() for entry in look(store)]}), caller.door)
    return Json(told)


# For people


async def purge(request: Request, office: Office, caller: Caller) -> Response:
    known(request)
    purged = await office.desk.aside(partial(sweeping.purge, session=request.path_params["session"]), caller.door)
    return Json({"purged": purged})


async def purge_dead(request: Request, office: Office, caller: Caller) -> Response:
    known(request, "msg_id")
    session, msg_id = request.path_params["session"], request.query_params.get("msg_id")
    purged = await office.desk.aside(partial(dead_letters.purge_dead_letter, session=session, msg_id=msg_id), caller.door)
    return Json({"purged": purged})


async def retry(request: Request, office: Office, caller: Caller) -> Response:
    known(request)
    session, msg_id = request.path_params["session"], (await body_if_any(request, msg_id=str)).get("msg_id")
    retried = await office.desk.aside(partial(dead_letters.retry_dead_letter, session=session, msg_id=msg_id), caller.door)
    return Json({"retried": retried})
