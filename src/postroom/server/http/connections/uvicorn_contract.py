"""Everything of uvicorn that this server uses beyond its documentation.

`uvicorn.Config(http=..., ws=...)` accepts protocol classes, but uvicorn documents neither how it calls them nor how they take part
in its shutdown. Our own protocols need that, so these names are used here and nowhere else. pyproject.toml admits only the minor
versions that were read, and tests/server/test_uvicorn_contract.py fails with the name that has changed.
"""

from __future__ import annotations

import asyncio
from typing import Any, cast

import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.server import ServerState

from postroom.core.limits import MAX_HEAD_BYTES, MAX_HEADERS

__all__ = ["ServerState", "add_connection", "add_task", "loaded_app", "make_http_protocol", "remove_connection", "server_state"]


class HeadLimitedProtocol(HttpToolsProtocol):
    """uvicorn's HTTP protocol, with a limit for the head of each request, also of pipelined ones: the parser itself has none.

    The parser calls `on_…`. An exception of a callback makes uvicorn call `send_400_response` and close the connection.
    """

    _head_bytes = 0  # received since the head began, in whole reads
    _header_bytes = 0
    _in_body = False
    _is_head_too_large = False

    def data_received(self, data: bytes) -> None:
        if not self._in_body:
            self._head_bytes += len(data)
        super().data_received(data)
        if not self._in_body and self._head_bytes > MAX_HEAD_BYTES and not self.transport.is_closing():
            self._refuse_head()  # one name or value without end: no callback was called

    def on_message_begin(self) -> None:
        self._header_bytes = 0
        super().on_message_begin()

    def on_header(self, name: bytes, value: bytes) -> None:
        self._header_bytes += len(name) + len(value)
        if self._header_bytes > MAX_HEAD_BYTES or len(self.headers) >= MAX_HEADERS:
            self._is_head_too_large = True
            raise ValueError("the head of the request is too large")
        super().on_header(name, value)

    def on_headers_complete(self) -> None:
        self._in_body = True
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        self._in_body = False
        self._head_bytes = 0
        super().on_message_complete()

    def send_400_response(self, msg: str) -> None:
        if self._is_head_too_large:
            self._refuse_head()
        else:
            super().send_400_response(msg)

    def _refuse_head(self) -> None:
        self.transport.write(_HEAD_TOO_LARGE)
        self.transport.close()


_HEAD_TOO_LARGE_BODY = (
    b'{"ok":false,"error":{"code":"too_large","message":"the head of a request has at most %d KiB and %d headers",'
    b'"hint":"Send fewer and shorter headers."}}' % (MAX_HEAD_BYTES // 1024, MAX_HEADERS)
)
_HEAD_TOO_LARGE = (
    b"HTTP/1.1 431 Request Header Fields Too Large\r\ncontent-type: application/json\r\ncontent-length: %d\r\n"
    b"connection: close\r\n\r\n%b" % (len(_HEAD_TOO_LARGE_BODY), _HEAD_TOO_LARGE_BODY)
)


def make_http_protocol(
    config: uvicorn.Config, state: ServerState, app_state: dict[str, Any], loop: asyncio.AbstractEventLoop | None
) -> asyncio.Protocol:
    """Make the protocol for HTTP. It puts a copy of `app_state` into the scope of each request."""
    return HeadLimitedProtocol(config, state, app_state, loop)


def loaded_app(config: uvicorn.Config) -> ASGIApp:
    """Return the application that a protocol calls."""
    return cast(ASGIApp, config.loaded_app)


def server_state(server: uvicorn.Server) -> ServerState:
    """Return the state that all protocols of a server share."""
    return server.server_state


def add_connection(state: ServerState, protocol: asyncio.Protocol) -> None:
    """Have the server call `protocol.shutdown()` when it stops, and wait until the connection is removed."""
    state.connections.add(cast(Any, protocol))


def remove_connection(state: ServerState, protocol: asyncio.Protocol) -> None:
    """Remove a connection that has ended, so that the server does not wait for it."""
    state.connections.discard(cast(Any, protocol))


def add_task(state: ServerState, task: asyncio.Task[None]) -> None:
    """Have the server wait for the task when it stops."""
    state.tasks.add(task)
    task.add_done_callback(state.tasks.discard)
