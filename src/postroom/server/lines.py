"""Lines: how many connections there may be, how long one may be open without a word, and what one may have us hold for it."""

from __future__ import annotations

import asyncio
import resource
from http import HTTPStatus
from typing import Any

import orjson
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.frames import Frame
from websockets.http11 import Request

PATIENCE = 5.0
UNREAD = 60.0  # seconds in which somebody who is answered must read some of it
LAST_WORD = 1.0  # seconds that a client has to answer a goodbye
PIECE = 8192  # bytes of frames that are read in one turn
MOST_PARTS = 1000  # of one message
MOST_PONGS = 1000  # that a client may leave unread
SPARE = 100  # files that the server needs for itself


def most() -> int:
    """As many as the system lets this process have, once it has asked for all that it may."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = hard if hard != resource.RLIM_INFINITY else 65_536
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    except (OSError, ValueError):
        wanted = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return max(wanted - SPARE, SPARE)


class Line(HttpToolsProtocol):
    """A connection. One too many is closed at once, and one on which a request is begun and not told, after a while."""

    bound = 10_000
    _patience: asyncio.TimerHandle | None = None
    _unread: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        if len(self.connections) > type(self).bound:
            transport.close()
        else:
            self._wait()

    def _wait(self) -> None:
        """For the head of a request, or the rest of one that is answered already."""
        if self._patience is None:
            self._patience = self.loop.call_later(PATIENCE, self._give_up)

    def _heard(self) -> None:
        if self._patience is not None:
            self._patience.cancel()
            self._patience = None

    def _give_up(self) -> None:
        self._patience = None
        if self.cycle is not None and not self.cycle.response_complete:
            self._wait()  # what was asked before is not answered yet
        elif not self.transport.is_closing():
            self.transport.close()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self.timeout_keep_alive_task is None and (self.cycle is None or self.cycle.response_complete) and self._is_ours():
            self._wait()  # something came, and no request

    def _is_ours(self) -> bool:
        return self.transport.get_protocol() is self and not self.transport.is_closing()

    def on_headers_complete(self) -> None:
        self._heard()
        super().on_headers_complete()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if self.cycle.more_body and not self.transport.is_closing():
            self._wait()

    def handle_websocket_upgrade(self) -> None:
        self._heard()
        if self.cycle is None or self.cycle.response_complete:
            super().handle_websocket_upgrade()
        else:  # two cannot speak on one line
            self.transport.close()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._unread = self.loop.call_later(UNREAD, self._look, self.transport.get_write_buffer_size())

    def resume_writing(self) -> None:
        super().resume_writing()
        self._read()

    def _look(self, before: int) -> None:
        """Whether an answer is being read: who does not is not waited for."""
        left = self.transport.get_write_buffer_size()
        if left < before:
            self._unread = self.loop.call_later(UNREAD, self._look, left)
        else:
            self.transport.abort()

    def _read(self) -> None:
        if self._unread is not None:
            self._unread.cancel()
            self._unread = None

    def connection_lost(self, exc: Exception | None) -> None:
        self._heard()
        self._read()
        super().connection_lost(exc)


class Cable(WebSocketsSansIOProtocol):
    """A WebSocket. What one client sends or leaves unread costs nobody else a turn, and us no more than so much."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.close_timeout = LAST_WORD
        self._rest, self._turn = bytearray(), False
        self._pongs = 0

    # What comes, a piece in a turn of the loop: thousands of empty frames fit into one read

    def data_received(self, data: bytes) -> None:
        if self.handshake_initiated:
            self._rest += data
            self._feed()
            return
        super().data_received(data)
        if not self.handshake_initiated:  # the library has refused the head, and uvicorn does not send what it says
            self._refuse(431 if any(self.conn.writes) else 400)

    def _feed(self) -> None:
        if self._rest and self._hungry():
            piece = bytes(self._rest[:PIECE])
            del self._rest[:PIECE]
            super().data_received(piece)
        if self._rest and self._hungry() and not self._turn:
            self._turn = True
            self.loop.call_soon(self._next)
        if self._rest and not self.read_paused:
            self.read_paused = True
            self.transport.pause_reading()
        elif self.read_paused and not self._rest and self._hungry():
            self.read_paused = False
            self.transport.resume_reading()

    def _next(self) -> None:
        self._turn = False
        self._feed()

    def _hungry(self) -> bool:
        return (self.queue.empty() or self.close_sent) and not self.transport.is_closing()

    async def receive(self) -> Any:
        message = await self.queue.get()
        self._feed()
        return message

    def handle_connect(self, event: Request) -> None:
        answer = self.conn.accept(event)
        if answer.status_code == 101:
            super().handle_connect(event)
        else:
            self.handshake_initiated = True
            self._refuse(answer.status_code)

    def _refuse(self, status: int) -> None:
        """What is no handshake is refused as everything is."""
        said = {"code": "invalid_input", "message": "this is no handshake of a WebSocket", "hint": "See /api/asyncapi.json."}
        body = orjson.dumps({"ok": False, "error": said})
        lines = [f"HTTP/1.1 {status} {HTTPStatus(status).phrase}", "content-type: application/json", f"content-length: {len(body)}"]
        lines += ["connection: close", "upgrade: websocket", "sec-websocket-version: 13", "allow: GET", "cache-control: no-store", "", ""]
        self.handshake_complete = self.close_sent = True
        self.transport.write("\r\n".join(lines).encode() + body)
        self._close()

    def handle_cont(self, event: Frame) -> None:
        if len(self.frames) >= MOST_PARTS:
            self._fail(1009, f"a message has at most {MOST_PARTS} parts")
        elif not self.close_sent:
            super().handle_cont(event)

    def send_receive_event_to_app(self) -> None:
        try:
            if self.curr_msg_data_type == "text":
                b"".join(self.frames).decode()
        except UnicodeDecodeError:
            self._fail(1007, "text is UTF-8")
        else:
            super().send_receive_event_to_app()

    def _fail(self, code: int, reason: str) -> None:
        self.frames = []
        if not self.close_sent:
            self.conn.fail(code, reason)
            self.handle_parser_exception()

    # What goes out

    def handle_ping(self) -> None:
        super().handle_ping()
        self._pongs = 0 if self.writable.is_set() else self._pongs + 1
        if self._pongs > MOST_PONGS:
            self.transport.abort()

    async def send(self, message: Any) -> None:
        if message["type"] == "websocket.close" and not self.writable.is_set():
            self.transport.abort()  # who reads nothing does not read this either
        else:
            await super().send(message)
        if message["type"] == "websocket.http.response.body" and self.close_sent:
            self.handshake_complete = True  # refused is answered, too

    def handle_close(self, event: Frame) -> None:
        super().handle_close(event)
        if self.transport.is_closing():
            self._close()

    def keepalive_timeout(self) -> None:
        super().keepalive_timeout()
        self._close()

    def shutdown(self) -> None:
        """The server stops. Who is connected is told so by the application, and has a moment to hear it."""
        if self.handshake_complete and not self.close_sent:
            self.loop.call_later(LAST_WORD, self.transport.abort)
        else:
            super().shutdown()
            self._close()

    def on_task_complete(self, task: asyncio.Task[None]) -> None:
        super().on_task_complete(task)
        self.loop.call_later(2 * LAST_WORD, self.transport.abort)

    def _close(self) -> None:
        """Whether or not the other end reads what is left for it."""
        self.transport.close()
        self.loop.call_later(2 * LAST_WORD, self.transport.abort)
