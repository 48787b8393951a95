"""The upgrade of a request to a WebSocket. A caller without permission is refused before the upgrade, with a JSON error."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from urllib.parse import unquote

from starlette.requests import HTTPConnection, Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from postroom import __version__
from postroom.core.errors import Refusal
from postroom.core.rpc.wire import VERSION_HEADER
from postroom.server.http.auth import Caller
from postroom.server.http.connections.websocket_protocol import CONNECTION_KEY
from postroom.server.http.responses import error_response, refusal_response
from postroom.server.http.state import AppState
from postroom.server.ws.dispatcher import MailboxDispatchers

CLOSING_SECONDS = 0.4  # for running operations to finish, and again for their answers to be sent
VERSION_HEADERS = [(VERSION_HEADER.lower().encode(), __version__.encode())]
CLOSE_UNSUPPORTED_DATA, CLOSE_TOO_LARGE, CLOSE_INTERNAL_ERROR = 1003, 1009, 1011  # WebSocket close codes


class SocketConnection:
    """A connection whose caller is known, with the headers and path parameters of its handshake."""

    def __init__(self, state: AppState, dispatchers: MailboxDispatchers, caller: Caller, connection: HTTPConnection, send: Send) -> None:
        self.state = state
        self.dispatchers = dispatchers
        self.caller = caller
        self.headers = connection.headers
        self.protocol = connection.scope[CONNECTION_KEY]
        self.parameters = {name: unquote(value) for name, value in connection.path_params.items()}
        self.send = send

    def has_left(self) -> bool:
        """Return whether the connection was lost. After an orderly end it was not: frames that came before are still executed."""
        return bool(self.protocol.is_lost)


class SocketEndpoint:
    """An ASGI endpoint for a socket. `check` raises a refusal before the upgrade. `serve` runs until the socket has closed."""

    def __init__(
        self,
        protocol: str,
        check: Callable[[SocketConnection], Awaitable[object]],
        serve: Callable[[SocketConnection, Receive], Awaitable[None]],
    ) -> None:
        self._protocol = protocol
        self._check = check
        self._serve = serve

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        connection = HTTPConnection(scope)
        state: AppState = scope["app"].state.app_state
        dispatchers: MailboxDispatchers = scope["app"].state.dispatchers
        try:
            upgraded = SocketConnection(state, dispatchers, await state.authenticate(connection), connection, send)
            await self._check(upgraded)
            dispatchers.acquire_slot(upgraded.caller)
        except Refusal as refusal:
            await refusal_response(refusal)(scope, receive, send)
            return
        try:
            await receive()  # websocket.connect
            chosen = self._protocol if self._protocol in scope["subprotocols"] else None
            await send({"type": "websocket.accept", "subprotocol": chosen, "headers": VERSION_HEADERS})
            await self._serve(upgraded, receive)
        except OSError:
            pass  # the client disconnected
        finally:
            dispatchers.release_slot(upgraded.caller)


async def refuse_without_upgrade(request: Request) -> Response:
    """Answer a request without an upgrade at the address of a WebSocket."""
    return error_response("invalid_input", "this is a WebSocket", "Ask for an upgrade; see /api/asyncapi.json.", 426, Upgrade="websocket")


class NotFoundSocket:
    """An ASGI endpoint that refuses an upgrade at an address without a WebSocket."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await error_response("not_found", "there is no WebSocket at this address", "See /api/asyncapi.json.", 404)(scope, receive, send)
