"""HTTP connections with limits: how many are open, how long the head of a request may take, how long an answer may stay unread.

`LimitedHttpProtocol` stands between asyncio and uvicorn's protocol and uses asyncio's public interface only. It learns from
`RequestTracker`, an ASGI middleware, when the head of a request is complete and when the request is done.
"""

from __future__ import annotations

import asyncio
import resource
from typing import Any, cast

import uvicorn
from starlette.types import ASGIApp, Receive, Scope, Send

from postroom.server.http.connections import uvicorn_contract
from postroom.server.http.connections.uvicorn_contract import ServerState
from postroom.server.http.connections.websocket_protocol import CONNECTION_KEY, LimitedWebSocketProtocol

HEAD_TIMEOUT_SECONDS = 5.0  # for the head of a request to be complete
UNREAD_TIMEOUT_SECONDS = 60.0  # within which the client must read some of its answer
RESERVED_FILES = 100  # file descriptors for other uses than connections
UNLIMITED_FILES = 65_536  # assumed if the system sets no limit


def max_connections() -> int:
    """Raise the limit of open files as far as the system permits, and return how many connections that leaves room for."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    files = hard if hard != resource.RLIM_INFINITY else UNLIMITED_FILES
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (files, hard))
    except (OSError, ValueError):
        files = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return max(files - RESERVED_FILES, RESERVED_FILES)


def make_config(app: ASGIApp, **options: Any) -> uvicorn.Config:
    """Return uvicorn's configuration for an application behind the protocols with limits. `options` are uvicorn's own."""
    return uvicorn.Config(RequestTracker(app), interface="asgi3", http=LimitedHttpProtocol, ws=LimitedWebSocketProtocol, **options)


class RequestTracker:
    """ASGI middleware: report to each request's connection when the application begins with the request and when it has finished."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        connection: LimitedHttpProtocol = scope["state"].pop(CONNECTION_KEY)
        scope[CONNECTION_KEY] = connection
        connection.begin_request()
        try:
            await self._app(scope, receive, send)
        finally:
            connection.end_request()


class LimitedHttpProtocol(asyncio.Protocol):
    """An HTTP connection. It is closed at once if there are too many, or if the head of a request is not complete in time."""

    limit = 10_000
    open_connections = 0  # in this process: the system limits open files per process

    def __init__(
        self, config: uvicorn.Config, server_state: ServerState, app_state: dict[str, Any], _loop: asyncio.AbstractEventLoop | None = None
    ) -> None:
        self._inner = uvicorn_contract.make_http_protocol(config, server_state, {**app_state, CONNECTION_KEY: self}, _loop)
        self.is_lost = False
        self._requests = 0  # that the application works on
        self._head_deadline: float | None = None
        self._head_timer: asyncio.TimerHandle | None = None
        self._unread_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's transports have the methods, but not the class
        self._loop = asyncio.get_running_loop()
        LimitedHttpProtocol.open_connections += 1
        self._inner.connection_made(transport)
        if self.open_connections > self.limit:
            self._transport.close()
        else:
            self._expect_head()

    def connection_lost(self, exc: Exception | None) -> None:
        LimitedHttpProtocol.open_connections -= 1
        self.is_lost = True
        self._head_deadline = None
        if self._head_timer is not None:
            self._head_timer.cancel()
        self._stop_unread_timer()
        self._inner.connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        self._inner.data_received(data)
        if not self._requests and self._head_deadline is None:
            self._expect_head()

    def eof_received(self) -> bool | None:
        return self._inner.eof_received()

    # The head of a request

    def begin_request(self) -> None:
        """Note that the head of a request is complete."""
        self._requests += 1
        self._head_deadline = None

    def end_request(self) -> None:
        """Note that a request is done. The next one has uvicorn's keep-alive timeout until its first byte."""
        self._requests -= 1

    @property
    def is_busy(self) -> bool:
        """Return whether the application works on a request."""
        return self._requests > 0

    def stop_expecting(self) -> None:
        """Note that the connection has become a WebSocket, whose protocol passes `connection_lost` on."""
        self._head_deadline = None

    def _expect_head(self) -> None:
        """Start the timeout. The timer is kept when a head is complete: one timer serves all requests of five seconds."""
        self._head_deadline = self._loop.time() + HEAD_TIMEOUT_SECONDS
        if self._head_timer is None:
            self._head_timer = self._loop.call_later(HEAD_TIMEOUT_SECONDS, self._check_head)

    def _check_head(self) -> None:
        self._head_timer = None
        if self._head_deadline is None:
            return
        left = self._head_deadline - self._loop.time()
        if left > 0:
            self._head_timer = self._loop.call_later(left, self._check_head)
        else:
            self._transport.close()

    # An answer that is not read

    def pause_writing(self) -> None:
        self._inner.pause_writing()
        self._unread_timer = self._loop.call_later(UNREAD_TIMEOUT_SECONDS, self._check_unread, self._transport.get_write_buffer_size())

    def resume_writing(self) -> None:
        self._inner.resume_writing()
        self._stop_unread_timer()

    def _check_unread(self, bytes_before: int) -> None:
        """End the connection unless the client has read something since the last check."""
        unread = self._transport.get_write_buffer_size()
        if unread < bytes_before:
            self._unread_timer = self._loop.call_later(UNREAD_TIMEOUT_SECONDS, self._check_unread, unread)
        else:
            self._transport.abort()

    def _stop_unread_timer(self) -> None:
        if self._unread_timer is not None:
            self._unread_timer.cancel()
            self._unread_timer = None
