"""Our protocols assume more of uvicorn than its documentation promises. If one of these fails after an upgrade, see uvicorn_contract.py."""

from __future__ import annotations

import asyncio
import inspect
import socket
from typing import Any

import pytest
import uvicorn
from starlette.types import Receive, Scope, Send
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.server import ServerState

from postroom.server.http.connections import uvicorn_contract
from tests.cli.process import LIMIT

ASKED = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"
CALLS = ("connection_made", "connection_lost", "data_received", "eof_received", "pause_writing", "resume_writing", "shutdown")


async def _answer(scope: Scope, receive: Receive, send: Send) -> None:
    if scope["type"] == "http":
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"0")]})
        await send({"type": "http.response.body", "body": str(scope["state"]).encode()})


def _config(http: Any = "httptools") -> uvicorn.Config:
    config = uvicorn.Config(
        _answer, http=http, interface="asgi3", lifespan="off", log_level="critical", access_log=False, proxy_headers=False
    )
    config.load()
    return config


@pytest.mark.parametrize("name", CALLS)
def test_uvicorns_http_protocol_has_the_methods_that_we_call(name: str) -> None:
    assert callable(getattr(HttpToolsProtocol, name, None)), f"uvicorn's internals changed: HttpToolsProtocol has no {name}"


def test_uvicorn_makes_protocols_as_we_do() -> None:
    found = list(inspect.signature(HttpToolsProtocol).parameters)
    assert found == ["config", "server_state", "app_state", "_loop"], f"uvicorn's internals changed: a protocol is made of {found}"


@pytest.mark.parametrize(
    ("owner", "name"),
    [
        (ServerState(), "connections"),
        (ServerState(), "tasks"),
        (uvicorn.Server(_config()), "server_state"),
        (uvicorn.Server(_config()), "should_exit"),
        (uvicorn.Server(_config()), "force_exit"),
        (_config(), "loaded_app"),
        (_config(), "ws_max_size"),
        (_config(), "ws_ping_interval"),
        (_config(), "ws_ping_timeout"),
    ],
    ids=lambda value: value if isinstance(value, str) else type(value).__name__,
)
def test_uvicorn_has_the_attributes_that_we_use(owner: object, name: str) -> None:
    assert hasattr(owner, name), f"uvicorn's internals changed: {type(owner).__name__} has no {name}"


def test_the_application_that_is_called_is_ours() -> None:
    assert uvicorn_contract.loaded_app(_config()) is _answer, "uvicorn's internals changed: it wraps the application"


def test_a_request_has_a_copy_of_its_connections_state() -> None:
    seen: list[dict[str, Any]] = []

    async def note(scope: Scope, receive: Receive, send: Send) -> None:
        seen.append(scope["state"])
        await _answer({**scope, "state": ""}, receive, send)

    async def ask() -> None:
        config, given = _config(), {"key": "value"}
        config.loaded_app = note
        loop = asyncio.get_running_loop()
        server = await loop.create_server(lambda: uvicorn_contract.make_http_protocol(config, ServerState(), given, None), "127.0.0.1", 0)
        async with asyncio.timeout(LIMIT):
            reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
            writer.write(ASKED)
            await reader.readuntil(b"\r\n\r\n")
        writer.close()
        server.close()
        assert seen == [given], f"uvicorn's internals changed: a request's state is {seen}"
        assert seen[0] is not given, "uvicorn's internals changed: requests share their state"

    asyncio.run(ask())


class ProtocolRecorder(asyncio.Protocol):
    """A connection that ends when the server calls `shutdown`, and not before."""

    made: list[dict[str, Any]] = []

    def __init__(self, **given: Any) -> None:
        self.given = given
        self.made.append(given)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport
        uvicorn_contract.add_connection(self.given["server_state"], self)
        self.given["config"].connected.set()

    def connection_lost(self, exc: Exception | None) -> None:
        uvicorn_contract.remove_connection(self.given["server_state"], self)

    def shutdown(self) -> None:
        self.transport.close()


def test_a_server_that_stops_calls_shutdown_and_waits_for_connections_and_tasks() -> None:
    async def stop() -> None:
        config = _config(ProtocolRecorder)
        config.connected = asyncio.Event()  # type: ignore[attr-defined] # for the protocol, which gets the configuration
        server, finished = uvicorn.Server(config), asyncio.Event()
        with socket.create_server(("127.0.0.1", 0)) as bound:
            serving = asyncio.create_task(server.serve(sockets=[bound]))
            reader, writer = await asyncio.open_connection(*bound.getsockname())
            await config.connected.wait()  # type: ignore[attr-defined]
            task = asyncio.create_task(_finish(finished))
            uvicorn_contract.add_task(uvicorn_contract.server_state(server), task)
            server.should_exit = True
            assert await reader.read() == b"", "uvicorn's internals changed: it does not call shutdown"
            assert not serving.done(), "uvicorn's internals changed: it does not wait for tasks"
            finished.set()
            await serving
            writer.close()
        assert set(ProtocolRecorder.made[0]) == {"config", "server_state", "app_state", "_loop"}, (
            "uvicorn's internals changed: how a protocol is made"
        )

    async def limited() -> None:
        async with asyncio.timeout(LIMIT):
            await stop()

    asyncio.run(limited())


async def _finish(finished: asyncio.Event) -> None:
    await finished.wait()
