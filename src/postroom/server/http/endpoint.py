"""The endpoint around each handler, and the checked query and body of a request."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any
from urllib.parse import unquote

import orjson
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from postroom.core.errors import InvalidInput, Refusal, Unauthenticated
from postroom.core.text import short_repr
from postroom.server.http.auth import Caller
from postroom.server.http.large_json import LARGE_BYTES, parse_in_steps
from postroom.server.http.responses import refusal_response
from postroom.server.http.security import REFUSAL_KEY
from postroom.server.http.state import AppState

FLAGS = {"true": True, "1": True, "false": False, "0": False}


Handler = Callable[[Request, AppState, Caller], Awaitable[Response]]


class Endpoint:
    """An ASGI endpoint for a handler: authenticates the caller, and turns refusals into JSON errors.

    `agents`: agents may call it too. `verifies`: the handler verifies the token in its own transaction, so that a known token needs no
    look into the store before it.
    """

    def __init__(self, handler: Handler, *, agents: bool = False, verifies: bool = False) -> None:
        self._handler = handler
        self._agents = agents
        self._verifies = verifies

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive, send)
        state: AppState = scope["app"].state.app_state
        try:
            caller = await (state.presume(request) if self._verifies else state.authenticate(request))
            if not self._agents:
                caller.require_person()
            # Routing uses the quoted path, so path parameters are unquoted here, once.
            scope["path_params"] = {name: unquote(value) for name, value in scope["path_params"].items()}
            response = await self._run_handler(request, state, caller)
        except Refusal as refusal:
            scope[REFUSAL_KEY] = refusal.code
            response = refusal_response(refusal)
        except ClientDisconnect:  # in the middle of the body: nothing to answer
            return
        await response(scope, receive, send)

    async def _run_handler(self, request: Request, state: AppState, caller: Caller) -> Response:
        try:
            return await self._handler(request, state, caller)
        except Unauthenticated:  # the token was valid when it was last looked at
            state.forget(request)
            raise


def query_integer(request: Request, name: str, default: int) -> int:
    value = request.query_params.get(name)
    if value is None:
        return default
    if not value.isascii() or not value.isdigit() or len(value) > 18:
        raise InvalidInput(f"{name} must be a whole number, not {short_repr(value)}", field=name)
    return int(value)


def query_flag(request: Request, name: str) -> bool:
    value = request.query_params.get(name)
    if value is not None and value not in FLAGS:
        raise InvalidInput(f"{name} must be true or false, not {short_repr(value)}", field=name)
    return value is not None and FLAGS[value]


async def json_object(request: Request, loads: Callable[[str], Any] = orjson.loads) -> dict[str, Any]:
    """Return the JSON object in the body of a request, with any fields."""
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
        raise InvalidInput("the body must be JSON", field="body", hint="Send `Content-Type: application/json`.")
    content = await request.body()
    if len(content) <= LARGE_BYTES:
        return parse_object(content, loads)
    state: AppState = request.app.state.app_state
    return await state.store_access.run_off_loop(partial(parse_object, content))


def parse_object(content: bytes, loads: Callable[[str], Any] = parse_in_steps) -> dict[str, Any]:
    """Parse a body as a JSON object. Refuses with `InvalidInput`. A large one has to be parsed in a thread, by `parse_in_steps`."""
    try:
        parsed = loads(content.decode())
    except ValueError as error:
        raise InvalidInput(f"the body is not JSON: {error}", field="body") from None
    if not isinstance(parsed, dict):
        raise InvalidInput("the body must be a JSON object", field="body")
    return parsed


async def json_body(request: Request, **fields: type | tuple[type, ...]) -> dict[str, Any]:
    """Return the JSON object in the body of a request. Refuses fields that are not listed, and values of another type."""
    return check_fields(await json_object(request), **fields)


def refuse_unknown_parameters(request: Request, *names: str) -> None:
    """Refuse a query parameter that is not listed. A misspelt filter would otherwise return too much."""
    for name in request.query_params:
        if name not in names:
            hint = f"Known: {', '.join(names)}." if names else "It takes none."
            raise InvalidInput(f"there is no parameter {short_repr(name)}", field=name, hint=hint)


def check_fields(given: dict[str, Any], **fields: type | tuple[type, ...]) -> dict[str, Any]:
    """Return the object. Refuses fields that are not listed, and values of another type."""
    for name, value in given.items():
        if name not in fields:
            raise InvalidInput(f"there is no field {short_repr(name)}", field=name, hint=f"Known: {', '.join(fields)}.")
        if not isinstance(value, fields[name]) or (isinstance(value, bool) and fields[name] is int):
            raise InvalidInput(f"{name} is of the wrong type", field=name)
    return given
