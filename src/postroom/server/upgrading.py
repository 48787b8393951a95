"""Upgrades: how a request becomes a WebSocket. Who may not is refused before, in the one shape."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from urllib.parse import unquote

from starlette.requests import HTTPConnection, Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from postroom.core.errors import Refusal
from postroom.server.answers import refused, said
from postroom.server.callers import Caller
from postroom.server.carriers import Carriers
from postroom.server.requests import Office

LAST_WORDS = 0.4  # seconds for what is still to be done, and again for what is still to be said
NOT_TEXT, FAILED = 1003, 1011  # codes with which a socket is closed


class Upgraded:
    """A connection that was let in, and what it came with."""

    def __init__(self, office: Office, carriers: Carriers, caller: Caller, connection: HTTPConnection, send: Send) -> None:
        self.office = office
        self.carriers = carriers
        self.caller = caller
        self.headers = connection.headers
        self.parameters = {name: unquote(value) for name, value in connection.path_params.items()}
        self.send = send


class SocketEndpoint:
    """A socket as Starlette calls it: `check` refuses who may not, and `talk` goes on until it is over."""

    def __init__(self, protocol: str, check: Callable[[Upgraded], object], talk: Callable[[Upgraded, Receive], Awaitable[None]]) -> None:
        self._protocol = protocol
        self._check = check
        self._talk = talk

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        connection = HTTPConnection(scope)
        office: Office = scope["app"].state.office
        carriers: Carriers = scope["app"].state.carriers
        try:
            upgraded = Upgraded(office, carriers, await office.asks(connection), connection, send)
            self._check(upgraded)
            carriers.enter(upgraded.caller)
        except Refusal as refusal:
            await refused(refusal)(scope, receive, send)
            return
        try:
            await receive()  # that it connects
            await send({"type": "websocket.accept", "subprotocol": self._protocol if self._protocol in scope["subprotocols"] else None})
            await self._talk(upgraded, receive)
        except OSError:
            pass  # it went away
        finally:
            carriers.leave(upgraded.caller)


async def plain(request: Request) -> Response:
    """The same address without an upgrade."""
    return said("invalid_input", "this is a WebSocket", "Ask for an upgrade; see /api/asyncapi.json.", 426, Upgrade="websocket")


class Nowhere:
    """An upgrade at an address that has none."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await said("not_found", "there is no WebSocket at this address", "See /api/asyncapi.json.", 404)(scope, receive, send)
