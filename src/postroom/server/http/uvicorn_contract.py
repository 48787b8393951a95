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

__all__ = ["ServerState", "add_connection", "add_task", "loaded_app", "make_http_protocol", "remove_connection", "server_state"]


def make_http_protocol(
    config: uvicorn.Config, state: ServerState, app_state: dict[str, Any], loop: asyncio.AbstractEventLoop | None
) -> asyncio.Protocol:
    """Make the protocol that uvicorn itself uses for HTTP. It puts a copy of `app_state` into the scope of each request."""
    return HttpToolsProtocol(config, state, app_state, loop)


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
