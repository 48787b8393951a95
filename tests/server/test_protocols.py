"""Connections that cost us something for nothing are ended, whether or not the other end takes notice."""

from __future__ import annotations

import asyncio
import socket

import pytest
from starlette.types import Receive, Scope, Send
from uvicorn.server import ServerState

from postroom.server.http.connections import protocols
from postroom.server.http.connections.protocols import LimitedHttpProtocol, make_config
from tests.cli.process import LIMIT

UPGRADE = (
    "GET / HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
    "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
)
ASK = "GET / HTTP/1.1\r\nHost: x\r\n\r\n"


class Talker:
    """An application that never stops, to whoever comes, until it cannot go on."""

    def __init__(self) -> None:
        self.ended = asyncio.Event()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await receive()
        try:
            await (self._frames(send) if scope["type"] == "websocket" else self._body(receive, send))
        finally:
            self.ended.set()

    async def _frames(self, send: Send) -> None:
        await send({"type": "websocket.accept"})
        while True:
            await send({"type": "websocket.send", "text": "x" * 65536})

    async def _body(self, receive: Receive, send: Send) -> None:
        leaving = asyncio.ensure_future(receive())
        await send({"type": "http.response.start", "status": 200, "headers": []})
        while not leaving.done():
            await send({"type": "http.response.body", "body": b"x" * 65536, "more_body": True})


@pytest.mark.parametrize("said", [UPGRADE, ASK], ids=["a socket", "an answer"])
def test_who_never_reads_is_let_go(said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(protocols, "UNREAD_TIMEOUT_SECONDS", 0.1)

    async def serve() -> None:
        talker, loop = Talker(), asyncio.get_running_loop()
        config = make_config(talker, ws_ping_interval=0.1, ws_ping_timeout=0.1, lifespan="off", log_level="critical", access_log=False)
        config.load()
        state = ServerState()
        server = await loop.create_server(lambda: LimitedHttpProtocol(config, state, {}), "127.0.0.1", 0)
        with socket.socket() as client:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            client.setblocking(False)
            await loop.sock_connect(client, server.sockets[0].getsockname())
            await loop.sock_sendall(client, said.encode())
            async with asyncio.timeout(LIMIT):
                await talker.ended.wait()
        server.close()

    asyncio.run(serve())


def test_a_connection_too_many_is_closed_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(protocols, "HEAD_TIMEOUT_SECONDS", 10 * LIMIT)  # which would close it, too

    async def serve() -> None:
        config = make_config(Answerer(), lifespan="off", log_level="critical", access_log=False)
        config.load()
        state = ServerState()
        server = await asyncio.get_running_loop().create_server(lambda: LimitedHttpProtocol(config, state, {}), "127.0.0.1", 0)
        monkeypatch.setattr(LimitedHttpProtocol, "limit", LimitedHttpProtocol.open_connections + 1)
        address = server.sockets[0].getsockname()
        async with asyncio.timeout(LIMIT):
            reader, writer = await asyncio.open_connection(*address)
            assert await _ask(reader, writer) == b"ok"
            refused, _ = await asyncio.open_connection(*address)
            assert await refused.read() == b""
            writer.close()
            while state.connections:
                await asyncio.sleep(0)
            again = await asyncio.open_connection(*address)
            assert await _ask(*again) == b"ok", "a connection that has ended is still counted"
            again[1].close()
        server.close()

    asyncio.run(serve())


async def _ask(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bytes:
    writer.write(ASK.encode())
    await reader.readuntil(b"\r\n\r\n")
    return await reader.readexactly(2)


class Answerer:
    """An application that answers, and ends a WebSocket when it is told to."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "websocket":
            await receive()
            await send({"type": "websocket.accept"})
            while (await receive())["type"] != "websocket.disconnect":
                pass
        else:
            await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
            await send({"type": "http.response.body", "body": b"ok"})


def test_a_websocket_that_has_ended_is_no_longer_counted() -> None:
    async def serve() -> None:
        config = make_config(Answerer(), lifespan="off", log_level="critical", access_log=False)
        config.load()
        state, before = ServerState(), LimitedHttpProtocol.open_connections
        server = await asyncio.get_running_loop().create_server(lambda: LimitedHttpProtocol(config, state, {}), "127.0.0.1", 0)
        async with asyncio.timeout(LIMIT):
            reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
            assert await _ask(reader, writer) == b"ok"
            writer.write(UPGRADE.encode())
            assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 101 ")
            assert LimitedHttpProtocol.open_connections == before + 1
            writer.close()
            while state.connections or state.tasks:
                await asyncio.sleep(0)
        assert LimitedHttpProtocol.open_connections == before
        server.close()

    asyncio.run(serve())
