"""WebSocket connections with limits, on the public sans-I/O interface of `websockets`.

One client can neither block the event loop nor use unlimited memory. Frames are parsed a chunk at a time, and only while the
application keeps up. A client that answers no ping, or reads no pong, is disconnected.
"""

from __future__ import annotations

import asyncio
import logging
from http import HTTPStatus
from typing import Any, Protocol, cast

import uvicorn
from starlette.types import Message, Scope
from websockets.exceptions import InvalidState
from websockets.frames import Close, CloseCode, Frame, Opcode
from websockets.http11 import Request, Response
from websockets.protocol import SEND_EOF
from websockets.server import ServerProtocol

from postroom.core.limits import MAX_PARTIAL_FRAMES_BYTES
from postroom.server.http.connections import uvicorn_contract
from postroom.server.http.connections.handshake import decode_headers, make_denial, make_refusal, make_scope
from postroom.server.http.connections.keepalive import Keepalive
from postroom.server.http.connections.uvicorn_contract import ServerState
from postroom.server.http.connections.websocket_input import InputBuffer, InvalidMessage, MessageAssembler

CLOSE_TIMEOUT_SECONDS = 1.0  # for the client to answer a close frame
ABORT_TIMEOUT_SECONDS = 2 * CLOSE_TIMEOUT_SECONDS  # for the client to read the rest after the connection is closed
MAX_UNREAD_PONGS = 1000
ALWAYS_ACCEPTED_BYTES = 256 * 1024  # a message up to this size is accepted even if the others fill the memory
CONNECTION_KEY = "postroom.connection"  # in the state of a scope: the connection that a request came on
_log = logging.getLogger("uvicorn.error")


class ClientDisconnected(OSError):
    """The client has disconnected or closed the connection."""


class HttpConnection(Protocol):
    """The HTTP connection that the handshake of the WebSocket came on."""

    @property
    def is_busy(self) -> bool: ...
    def stop_expecting(self) -> None: ...
    def connection_lost(self, exc: Exception | None) -> None: ...


class LimitedWebSocketProtocol(asyncio.Protocol):
    """A WebSocket connection for an ASGI application. uvicorn's HTTP protocol creates it when a client requests an upgrade."""

    partial_bytes = 0  # of all connections of this process

    def __init__(
        self, config: uvicorn.Config, server_state: ServerState, app_state: dict[str, Any], _loop: asyncio.AbstractEventLoop | None = None
    ) -> None:
        self._app = uvicorn_contract.loaded_app(config)
        self._server_state = server_state
        self._app_state = dict(app_state)
        self._http: HttpConnection = self._app_state.pop(CONNECTION_KEY)
        self._websocket = ServerProtocol(max_size=config.ws_max_size, logger=_log)
        self._keepalive = Keepalive(config.ws_ping_interval, config.ws_ping_timeout, self._send_ping, self._fail_keepalive)
        # The handshake: its head, the response that accepts it, and its progress
        self._head: bytes | None = None
        self._response: Response | None = None
        self._accepted = self._closing = self._lost = False
        self.is_lost = False  # without an orderly end: the client does not expect that its last frames are executed
        self._denial: Message | None = None
        self._denial_body = b""
        # Messages on their way to the application
        self._assembler = MessageAssembler()
        self._own_partial_bytes = 0
        self._events: asyncio.Queue[Message] = asyncio.Queue()
        # Bytes on their way to the client
        self._writable = asyncio.Event()
        self._writable.set()
        self._unread_pongs = 0

    # Called by asyncio and uvicorn

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's transports have the methods, but not the class
        self._loop = asyncio.get_running_loop()
        self._input = InputBuffer(self._transport, self._may_parse, self._receive_frames)
        uvicorn_contract.add_connection(self._server_state, self)

    def connection_lost(self, exc: Exception | None) -> None:
        self._keepalive.stop()
        self._release_partial_bytes()
        self._lost = True
        self.is_lost = not (self._closing or self._websocket.close_rcvd is not None or self._input.has_bytes)
        self._queue_disconnect(CloseCode.NO_STATUS_RCVD if self._accepted else CloseCode.ABNORMAL_CLOSURE)
        self._writable.set()  # asyncio does not call `resume_writing` on a connection that is lost
        uvicorn_contract.remove_connection(self._server_state, self)
        self._http.connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._head is None:  # uvicorn passes on the whole head in the first call
            self._head = data
            # The task of an earlier request in the same read has not started yet. It runs next, and the handshake after it.
            self._loop.call_soon(self._begin_handshake)
        else:
            self._input.add_bytes(data)

    def pause_writing(self) -> None:
        self._writable.clear()

    def resume_writing(self) -> None:
        self._writable.set()

    def shutdown(self) -> None:
        """Stop with the server. The application sends a goodbye frame to a connected client, which has a moment to receive it."""
        if self._accepted and not self._closing:
            self._loop.call_later(CLOSE_TIMEOUT_SECONDS, self._transport.abort)
        else:
            self._reject_failure()
            self._close_transport()

    # The handshake

    def _begin_handshake(self) -> None:
        """Answer the handshake, unless another request is still being answered: two cannot write to one connection."""
        assert self._head is not None
        if self._lost or self._transport.is_closing():
            return
        if self._http.is_busy:
            self._transport.close()
            return
        self._http.stop_expecting()
        self._websocket.receive_data(self._head)
        requests = self._websocket.events_received()
        if requests:
            self._start_application(cast(Request, requests[0]))
        else:  # the library answers a head that is too large, and no other malformed head
            self._refuse_handshake(431 if any(self._websocket.data_to_send()) else 400)

    def _start_application(self, request: Request) -> None:
        response = self._websocket.accept(request)
        if response.status_code != 101:
            self._refuse_handshake(response.status_code)
            return
        self._response = response
        self._events.put_nowait({"type": "websocket.connect"})
        scope = {**make_scope(request, self._transport, self._app_state), CONNECTION_KEY: self}
        task = self._loop.create_task(self._run_application(scope))
        uvicorn_contract.add_task(self._server_state, task)

    def _refuse_handshake(self, status: int) -> None:
        self._closing = True
        self._transport.write(make_refusal(status).serialize())
        self._close_transport()

    # From the client to the application

    def _may_parse(self) -> bool:
        return self._accepted and (self._events.empty() or self._closing) and not self._transport.is_closing()

    def _receive_frames(self, data: bytes) -> None:
        self._own_partial_bytes += len(data)
        LimitedWebSocketProtocol.partial_bytes += len(data)
        if self._own_partial_bytes > ALWAYS_ACCEPTED_BYTES and self.partial_bytes > MAX_PARTIAL_FRAMES_BYTES:
            self._fail_connection(CloseCode.TRY_AGAIN_LATER, "too much is being sent at once")
        self._websocket.receive_data(data)
        for event in self._websocket.events_received():
            self._receive_frame(cast(Frame, event))
        self._flush_frames()

    def _receive_frame(self, frame: Frame) -> None:
        if frame.opcode is Opcode.PING:  # `websockets` has made the pong
            self._unread_pongs = 0 if self._writable.is_set() else self._unread_pongs + 1
            if self._unread_pongs > MAX_UNREAD_PONGS:
                self._transport.abort()
        elif frame.opcode is Opcode.PONG:
            self._keepalive.receive_pong(bytes(frame.data))
        elif frame.opcode is Opcode.CLOSE:
            close = Close.parse(frame.data)
            self._queue_disconnect(close.code, close.reason)
        elif not self._closing:
            self._receive_data_frame(frame)

    def _receive_data_frame(self, frame: Frame) -> None:
        try:
            message = self._assembler.add_frame(frame)
        except InvalidMessage as error:
            self._fail_connection(error.code, error.reason)
            return
        if message is not None:
            self._release_partial_bytes()
            self._events.put_nowait(message)

    def _release_partial_bytes(self) -> None:
        LimitedWebSocketProtocol.partial_bytes -= self._own_partial_bytes
        self._own_partial_bytes = 0

    async def _receive_event(self) -> Message:
        message = await self._events.get()
        if self._input.has_bytes:
            self._input.parse_next_chunk()
        return message

    def _queue_disconnect(self, code: int, reason: str = "") -> None:
        self._events.put_nowait({"type": "websocket.disconnect", "code": code, "reason": reason})

    # From the application to the client

    async def _run_application(self, scope: Scope) -> None:
        try:
            await self._app(scope, self._receive_event, self._send_event)
        except ClientDisconnected:
            pass
        except Exception:  # the application's own failure must not end the server
            _log.exception("Exception in ASGI application\n")
        finally:
            self._reject_failure()
            if not self._closing:
                self._transport.close()
            self._loop.call_later(ABORT_TIMEOUT_SECONDS, self._transport.abort)

    async def _send_event(self, message: Message) -> None:
        if message["type"] == "websocket.close" and not self._writable.is_set():
            self._transport.abort()  # a client that reads nothing does not read the close frame either
            return
        await self._writable.wait()
        if self._lost or self._transport.is_closing():
            raise ClientDisconnected
        if self._closing:
            raise RuntimeError(f"{message['type']} was sent after the connection was closed")
        if self._accepted:
            self._send_frame(message)
        else:
            self._send_answer(message)

    def _send_answer(self, message: Message) -> None:
        """Send the application's answer to the handshake."""
        assert self._response is not None
        kind = message["type"]
        if kind == "websocket.accept":
            self._accept_handshake(self._response, message)
        elif kind == "websocket.close":
            self._reject_handshake(HTTPStatus.FORBIDDEN, "")
        elif kind == "websocket.http.response.start":
            self._denial = message
        elif kind == "websocket.http.response.body" and self._denial is not None:
            self._denial_body += message.get("body", b"")
            if not message.get("more_body"):
                rejection = self._websocket.reject(self._denial["status"], "")
                self._answer_finally(make_denial(rejection, list(self._denial.get("headers", [])), self._denial_body))
        else:
            raise RuntimeError(f"{kind} was sent before the handshake was answered")

    def _accept_handshake(self, response: Response, message: Message) -> None:
        response.headers.update(decode_headers(list(message.get("headers", []))))
        if message.get("subprotocol"):
            response.headers["Sec-WebSocket-Protocol"] = message["subprotocol"]
        self._accepted = True
        self._websocket.send_response(response)
        self._flush_frames()
        self._keepalive.start()
        self._input.parse_next_chunk()

    def _reject_handshake(self, status: HTTPStatus, text: str) -> None:
        self._answer_finally(self._websocket.reject(status, text))

    def _reject_failure(self) -> None:
        """Answer a handshake that the application has not answered."""
        if self._response is not None and not (self._accepted or self._closing or self._lost):
            self._reject_handshake(HTTPStatus.INTERNAL_SERVER_ERROR, "Internal Server Error")

    def _answer_finally(self, response: Response) -> None:
        self._closing = True
        self._queue_disconnect(CloseCode.ABNORMAL_CLOSURE)
        self._websocket.send_response(response)
        self._flush_frames()

    def _send_frame(self, message: Message) -> None:
        try:
            if message["type"] == "websocket.send":
                self._send_message(message)
            elif message["type"] == "websocket.close":
                self._send_close(message.get("code", CloseCode.NORMAL_CLOSURE), message.get("reason") or "")
            else:
                raise RuntimeError(f"{message['type']} was sent to an open connection")
        except InvalidState:
            raise ClientDisconnected from None

    def _send_message(self, message: Message) -> None:
        if message.get("bytes") is not None:
            self._websocket.send_binary(message["bytes"])
        else:
            self._websocket.send_text(message["text"].encode())
        self._flush_frames()

    def _send_close(self, code: int, reason: str) -> None:
        self._websocket.send_close(code, reason)
        self._flush_frames()
        self._closing = True
        self._queue_disconnect(code, reason)
        self._loop.call_later(CLOSE_TIMEOUT_SECONDS, self._close_transport)
        self._input.parse_next_chunk()  # the client's close frame may be behind messages that the application will not take

    def _send_ping(self, payload: bytes) -> None:
        if not self._closing and not self._transport.is_closing():
            self._websocket.send_ping(payload)
            self._flush_frames()

    def _fail_keepalive(self) -> None:
        self._fail_connection(CloseCode.INTERNAL_ERROR, "keepalive ping timeout")
        self._flush_frames()

    def _fail_connection(self, code: CloseCode, reason: str) -> None:
        """End the connection because of an error of the client. The caller flushes."""
        self._assembler.discard_parts()
        if not self._closing and not self._transport.is_closing():
            self._closing = True
            self._queue_disconnect(code, reason)
            self._websocket.fail(code, reason)

    def _flush_frames(self) -> None:
        """Write the bytes that `websockets` has to send. After an end of file the connection is over."""
        chunks = self._websocket.data_to_send()
        if chunks and not self._transport.is_closing():
            self._transport.write(b"".join(chunks))
            if SEND_EOF in chunks:
                self._close_transport()

    def _close_transport(self) -> None:
        """Close the connection, and abort it if the client does not read the rest in time."""
        self._transport.close()
        self._loop.call_later(ABORT_TIMEOUT_SECONDS, self._transport.abort)
