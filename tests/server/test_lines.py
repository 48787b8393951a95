"""Connections that cost us something for nothing are ended, whether or not the other end takes notice."""

from __future__ import annotations

import asyncio
import socket

import pytest
import uvicorn
from starlette.types import Receive, Scope, Send
from uvicorn.server import ServerState

from postroom.server import lines
from postroom.server.lines import Cable, Line
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
    monkeypatch.setattr(lines, "UNREAD", 0.1)

    async def serve() -> None:
        talker, loop = Talker(), asyncio.get_running_loop()
        config = uvicorn.Config(
            talker, http=Line, ws=Cable, ws_ping_interval=0.1, ws_ping_timeout=0.1, lifespan="off", log_level="critical", access_log=False
        )
        config.load()
        state = ServerState()
        server = await loop.create_server(lambda: Line(config, state, {}), "127.0.0.1", 0)
        with socket.socket() as client:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            client.setblocking(False)
            await loop.sock_connect(client, server.sockets[0].getsockname())
            await loop.sock_sendall(client, said.encode())
            async with asyncio.timeout(LIMIT):
                await talker.ended.wait()
        server.close()

    asyncio.run(serve())
