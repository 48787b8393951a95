"""Requests: how a handler gets its caller, its query and its body, checked; and how its refusals become answers."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any
from urllib.parse import unquote

import orjson
from starlette.datastructures import Headers
from starlette.requests import ClientDisconnect, HTTPConnection, Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from postroom.core.errors import InvalidInput, Refusal, Unauthenticated
from postroom.core.words import shown
from postroom.server.answers import refused
from postroom.server.callers import Buckets, Caller, Token, identify, token_of
from postroom.server.desk import Desk
from postroom.server.local import DOOR, is_local
from postroom.server.painting import Painter
from postroom.server.patience import Patience
from postroom.server.reports import Reports

FLAGS = {"true": True, "1": True, "false": False, "0": False}


class Office:
    """What all handlers of one server share."""

    def __init__(self, desk: Desk, *, person: str, dev: bool, rate: float, secure: bool, proxied: bool) -> None:
        self.desk = desk
        self.person = person
        self.dev = dev
        self.secure = secure
        self._proxied = proxied
        self.rates = Buckets(rate, rate * 2)
        self.strangers = Buckets(10, 100)
        self.painter = Painter()
        self.patience = Patience()
        self.reports = Reports()
        self._later: set[asyncio.Task[Any]] = set()

    def later(self, chore: Coroutine[Any, Any, Any]) -> None:
        """Something that nobody waits for, and that may fail."""
        task = asyncio.create_task(chore)
        self._later.add(task)
        task.add_done_callback(self._done)

    def _done(self, task: asyncio.Task[Any]) -> None:
        self._later.discard(task)
        if not task.cancelled():
            task.exception()  # looked at, so that nobody is told of it

    def address(self, request: HTTPConnection) -> str:
        """Where a request comes from: behind a proxy, as that says."""
        forwarded = request.headers.get("x-forwarded-for", "") if self._proxied else ""
        return forwarded.rpartition(",")[2].strip() or (request.client.host if request.client else "")

    async def asks(self, request: HTTPConnection, *, again: bool = False) -> Caller:
        """Who asks. Nobody may ask too often, least of all those who guess; who is looked at `again` does not ask."""
        return await self._caller(request.headers, self.address(request), local=is_local(request.scope), again=again)

    async def again(self, caller: Caller, brought: Token | None, frames: int = 1) -> Caller:
        """Who says so many frames on a socket, by the token that it came with. Who says more than it may is read more slowly."""
        if brought is None:
            return caller
        for _ in range(frames):
            while pause := self.rates.pause(caller.name):
                await asyncio.sleep(pause)
        return await self.desk.read(lambda tx: identify(tx, *brought))

    async def _caller(self, headers: Headers, client: str, *, local: bool, again: bool) -> Caller:
        brought = token_of(headers)
        if brought is None:
            if local:
                return Caller(self.person, DOOR)
            if self.dev:
                return Caller(self.person, "web")
            self.strangers.take(client)
            raise Unauthenticated(
                "this needs a sign-in or a token", hint="`inbox sign-in` prints a link; scripts send `Authorization: Bearer …`."
            )
        try:
            caller = await self.desk.read(lambda tx: identify(tx, *brought))
        except Unauthenticated:
            self.strangers.take(client)
            raise
        if not again:
            self.rates.take(caller.name)
        return caller


Handler = Callable[[Request, Office, Caller], Awaitable[Response]]


class Endpoint:
    """A handler as Starlette calls it: the caller is known before it runs, and what it refuses is answered in one shape."""

    def __init__(self, handler: Handler, *, agents: bool = False) -> None:
        self._handler = handler
        self._agents = agents

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive, send)
        office: Office = scope["app"].state.office
        try:
            caller = await office.asks(request)
            if not self._agents:
                caller.person()
            # Routed by the quoted path, so what a parameter holds is unquoted here, once.
            scope["path_params"] = {name: unquote(value) for name, value in scope["path_params"].items()}
            response = await self._handler(request, office, caller)
        except Refusal as refusal:
            response = refused(refusal)
        except ClientDisconnect:  # in the middle of a body: there is nobody to answer
            return
        await response(scope, receive, send)


def whole(request: Request, name: str, default: int) -> int:
    value = request.query_params.get(name)
    if value is None:
        return default
    if not value.isascii() or not value.isdigit() or len(value) > 18:
        raise InvalidInput(f"{name} must be a whole number, not {shown(value)}", field=name)
    return int(value)


def flag(request: Request, name: str) -> bool:
    value = request.query_params.get(name)
    if value is not None and value not in FLAGS:
        raise InvalidInput(f"{name} must be true or false, not {shown(value)}", field=name)
    return value is not None and FLAGS[value]


async def json_object(request: Request, loads: Callable[[str], Any] = orjson.loads) -> dict[str, Any]:
    """The JSON object that a request brings, whatever is in it."""
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
        raise InvalidInput("the body must be JSON", field="body", hint="Send `Content-Type: application/json`.")
    try:
        found = loads((await request.body()).decode())
    except ValueError as error:
        raise InvalidInput(f"the body is not JSON: {error}", field="body") from None
    if not isinstance(found, dict):
        raise InvalidInput("the body must be a JSON object", field="body")
    return found


async def body(request: Request, **fields: type | tuple[type, ...]) -> dict[str, Any]:
    """The JSON object that a request brings: these fields, each of its type, and no others."""
    return checked(await json_object(request), **fields)


async def body_if_any(request: Request, **fields: type | tuple[type, ...]) -> dict[str, Any]:
    """The same of a request that may as well bring nothing."""
    return await body(request, **fields) if await request.body() else {}


def known(request: Request, *names: str) -> None:
    """Refuses what a query has no name for: it may be misspelt, and mean less than all."""
    for name in request.query_params:
        if name not in names:
            hint = f"Known: {', '.join(names)}." if names else "It takes none."
            raise InvalidInput(f"there is no parameter {shown(name)}", field=name, hint=hint)


def checked(found: dict[str, Any], **fields: type | tuple[type, ...]) -> dict[str, Any]:
    for name, value in found.items():
        if name not in fields:
            raise InvalidInput(f"there is no field {shown(name)}", field=name, hint=f"Known: {', '.join(fields)}.")
        if not isinstance(value, fields[name]) or (isinstance(value, bool) and fields[name] is int):
            raise InvalidInput(f"{name} is of the wrong type", field=name)
    return found
