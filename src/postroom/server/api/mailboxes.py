"""HTTP routes of mailboxes. Agents send, and take from and manage their own mailbox. People see every mailbox."""

from __future__ import annotations

import asyncio
import re
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from postroom._fastpath import json_text as jsontext
from postroom.core.errors import InvalidInput
from postroom.core.text import short_repr
from postroom.mail import reading
from postroom.mail.drafts import known_fields
from postroom.server.api import mailbox_access
from postroom.server.http.auth import Caller
from postroom.server.http.endpoint import json_object, query_flag, query_integer, refuse_unknown_parameters
from postroom.server.http.responses import JsonResponse
from postroom.server.http.state import AppState
from postroom.server.rpc.calls import make_call
from postroom.server.runtime.store_access import MAX_WAIT_SECONDS
from postroom.server.runtime.wait_pool import wait_for_disconnect

_SECONDS_PATTERN = re.compile(r"[0-9]{1,6}(\.[0-9]{1,9})?")


def _encode_answer(answer: dict[str, Any]) -> bytes:
    """Encode with `jsontext`: a sender may have added integers that are too large for orjson."""
    return jsontext.dumps(answer).encode()


async def list_mailboxes(request: Request, state: AppState, caller: Caller) -> Response:
    list_sessions = make_call(caller, reading.sessions, **_page_of(request, 1000))
    answer = (await state.store_access.run_in_thread(list_sessions)).to_json()
    return JsonResponse(_encode_answer({"mailboxes": answer.pop("sessions"), **answer}))


def _page_of(request: Request, default_limit: int) -> dict[str, Any]:
    """Return the limit and the cursor in the query of a request, as arguments of a verb."""
    refuse_unknown_parameters(request, "limit", "after")
    return {"limit": query_integer(request, "limit", default_limit), "after": request.query_params.get("after")}


# For agents, each in its own mailbox, and for people.


async def enqueue_message(request: Request, state: AppState, caller: Caller) -> Response:
    answer = await mailbox_access.enqueue(state.store_access, caller, await json_object(request, jsontext.loads))
    return JsonResponse(answer, 201 if answer["queued"] else 200)


async def dequeue_message(request: Request, state: AppState, caller: Caller) -> Response:
    """Take the next message, waiting for one if asked to. If the client disconnects while waiting, no message is taken."""
    session, wait = request.path_params["session"], _wait_seconds(request)
    await request.body()  # so that the next event can only be the disconnect
    taking = asyncio.ensure_future(mailbox_access.dequeue(state.store_access, caller, session, wait))
    leaving = asyncio.ensure_future(wait_for_disconnect(request.receive))
    try:
        await asyncio.wait((taking, leaving), return_when=asyncio.FIRST_COMPLETED)
        if not taking.done():
            taking.cancel()
            return Response(status_code=204)  # the client is gone and does not get it
        delivery = taking.result()
    finally:
        leaving.cancel()
    return Response(status_code=204) if delivery is None else JsonResponse(_encode_answer(delivery))


def _wait_seconds(request: Request) -> float:
    refuse_unknown_parameters(request, "wait")
    wait = request.query_params.get("wait", "0")
    if not _SECONDS_PATTERN.fullmatch(wait) or float(wait) > MAX_WAIT_SECONDS:
        raise InvalidInput(f"wait must be from 0 to {MAX_WAIT_SECONDS:g} seconds, not {short_repr(wait)}", field="wait")
    return float(wait)


async def ack_message(request: Request, state: AppState, caller: Caller) -> Response:
    return JsonResponse(await mailbox_access.ack(state.store_access, caller, **await _read_settlement(request)))


async def nack_message(request: Request, state: AppState, caller: Caller) -> Response:
    return JsonResponse(await mailbox_access.nack(state.store_access, caller, **await _read_settlement(request, "reason")))


async def extend_message(request: Request, state: AppState, caller: Caller) -> Response:
    return JsonResponse(await mailbox_access.extend(state.store_access, caller, **await _read_settlement(request, "seconds")))


async def _read_settlement(request: Request, *more: str) -> dict[str, Any]:
    """Return the session, the message id, and the fields of the body. `mailbox_access` checks their types."""
    fields = await _read_protocol_body(request, "delivery_token", "from", *more)
    return {"session": request.path_params["session"], "msg_id": request.path_params["msg_id"], **fields}


async def _read_protocol_body(request: Request, *names: str) -> dict[str, Any]:
    """Return the known fields of a body, in either spelling. The protocol requires that unknown fields are ignored."""
    return known_fields(await json_object(request, jsontext.loads), names) if await request.body() else {}


async def peek_mailbox(request: Request, state: AppState, caller: Caller) -> Response:
    page = await mailbox_access.peek(state.store_access, caller, request.path_params["session"], **_page_of(request, 100))
    return JsonResponse(_encode_answer(page))


async def list_dead_letters(request: Request, state: AppState, caller: Caller) -> Response:
    page = await mailbox_access.peek_dead_letter(state.store_access, caller, request.path_params["session"], **_page_of(request, 100))
    return JsonResponse(_encode_answer(page))


async def purge_mailbox(request: Request, state: AppState, caller: Caller) -> Response:
    refuse_unknown_parameters(request)
    return JsonResponse(await mailbox_access.purge(state.store_access, caller, request.path_params["session"]))


async def purge_dead_letters(request: Request, state: AppState, caller: Caller) -> Response:
    """Delete dead letters. `msg_id` may be repeated. Without it, `all` also removes what a listing does not show."""
    refuse_unknown_parameters(request, "msg_id", "from", "all")
    query = request.query_params
    given = {"msg_id": query.getlist("msg_id") or None, "from": query.get("from"), "all": query_flag(request, "all")}
    return JsonResponse(await mailbox_access.purge_dead_letter(state.store_access, caller, request.path_params["session"], **given))


async def retry_dead_letters(request: Request, state: AppState, caller: Caller) -> Response:
    refuse_unknown_parameters(request)
    given = await _read_protocol_body(request, "msg_id", "from")
    return JsonResponse(await mailbox_access.retry_dead_letter(state.store_access, caller, request.path_params["session"], **given))
