"""Verbs over a WebSocket. One frame calls a verb. Several verbs run at once, and each is answered when it is done."""

from __future__ import annotations

import asyncio
import logging
from hashlib import sha256

from starlette.types import Receive

from postroom._fastpath import json_text as jsontext
from postroom.core.errors import Refusal, TooMany, Unauthenticated
from postroom.core.limits import MAX_CALL_BYTES, MAX_CALLS_PER_SOCKET
from postroom.core.rpc.wire import VERSION_HEADER
from postroom.core.tracing import is_traceparent, use_traceparent
from postroom.server.rpc import dispatch
from postroom.server.ws import frames
from postroom.server.ws.dispatcher import CLOSE_GOING_AWAY, CLOSE_POLICY_VIOLATION
from postroom.server.ws.frames import MAX_MALFORMED_FRAMES, Frame
from postroom.server.ws.socket_endpoint import (
    CLOSE_INTERNAL_ERROR,
    CLOSE_TOO_LARGE,
    CLOSE_UNSUPPORTED_DATA,
    CLOSING_SECONDS,
    SocketConnection,
)

MAX_WAITS = MAX_CALLS_PER_SOCKET - 1  # calls of one socket that may block. One call is left, so that the socket is always read
FINISH_SECONDS = 10.0  # for calls that still run when the client has disconnected
STOP_CHECK_SECONDS = 60.0
_log = logging.getLogger("postroom.server")


async def check_upgrade(upgraded: SocketConnection) -> None:
    """Refuse an upgrade that does not offer this version of the protocol."""
    dispatch.check_subprotocol([one.strip() for one in upgraded.headers.get("sec-websocket-protocol", "").split(",")])


async def serve_socket(upgraded: SocketConnection, receive: Receive) -> None:
    await _Connection(upgraded).run(receive)


class _Connection:
    """One socket. A client that reads no answers delays its own next calls, so that only a few answers are ever kept."""

    def __init__(self, upgraded: SocketConnection) -> None:
        self._state, self._caller = upgraded.state, upgraded.caller
        self._client_version = upgraded.headers.get(VERSION_HEADER, "")
        self._send, self._has_left = upgraded.send, upgraded.has_left
        self._call_slots, self._write_lock = asyncio.Semaphore(MAX_CALLS_PER_SOCKET), asyncio.Lock()
        self._calls: set[asyncio.Task[None]] = set()
        self._client_left = asyncio.Event()
        self._malformed_frames = self._waiting_calls = 0
        self._ended: asyncio.Future[tuple[int | None, str]] = asyncio.get_running_loop().create_future()

    async def run(self, receive: Receive) -> None:
        tasks = [asyncio.create_task(self._read_frames(receive)), asyncio.create_task(self._watch_for_shutdown())]
        try:
            code, reason = await self._ended
            tasks[0].cancel()
            if code is None:  # the client disconnected: its calls finish, but its waits end
                self._client_left.set()
            if self._calls:  # running calls are finished and answered first
                await asyncio.wait(self._calls, timeout=CLOSING_SECONDS if code else FINISH_SECONDS)
            if code is None:
                return
            if code == CLOSE_GOING_AWAY:
                await asyncio.wait_for(self._send_frame(frames.GOODBYE), CLOSING_SECONDS)
            await self._send({"type": "websocket.close", "code": code, "reason": reason})
        except TimeoutError:  # the client reads nothing
            await self._send({"type": "websocket.close", "code": CLOSE_GOING_AWAY, "reason": "the server stops"})
        finally:
            self._client_left.set()
            for task in (*tasks, *self._calls):
                task.cancel()

    def _end_connection(self, code: int | None, reason: str = "") -> None:
        if not self._ended.done():
            self._ended.set_result((code, reason))

    async def _watch_for_shutdown(self) -> None:
        broadcaster = self._state.store_access.broadcaster
        with broadcaster.subscribe(lambda event: False) as subscription:
            while not broadcaster.stopping:
                await subscription.wait(STOP_CHECK_SECONDS)
        self._end_connection(CLOSE_GOING_AWAY, "the server stops")

    async def _read_frames(self, receive: Receive) -> None:
        while True:
            message = await receive()
            if message["type"] != "websocket.receive":
                self._end_connection(None)
                return
            if message.get("text") is None:
                self._end_connection(CLOSE_UNSUPPORTED_DATA, "frames are text")
                return
            if len(message["text"]) > MAX_CALL_BYTES:
                self._end_connection(CLOSE_TOO_LARGE, f"a call has at most {MAX_CALL_BYTES // 1024} KiB; send a larger one over HTTP")
                return
            await self._call_slots.acquire()
            task = asyncio.create_task(self._answer_frame(frames.parse_frame(message["text"], frames.VERB_FIELDS), len(message["text"])))
            self._calls.add(task)
            task.add_done_callback(self._calls.discard)

    async def _answer_frame(self, frame: Frame, size: int) -> None:
        try:
            await self._send_frame(await self._execute_frame(frame, size))
        except OSError:
            pass  # the client disconnected: `_read_frames` ends after its last frame
        except Exception:
            _log.exception("a socket failed")
            self._end_connection(CLOSE_INTERNAL_ERROR, "the server failed")
        finally:
            self._call_slots.release()

    async def _send_frame(self, frame: str) -> None:
        async with self._write_lock:
            await self._send({"type": "websocket.send", "text": frame})

    async def _execute_frame(self, frame: Frame, size: int) -> str:
        try:
            if frame.error is not None:
                self._malformed_frames += 1
                if self._malformed_frames >= MAX_MALFORMED_FRAMES:
                    self._end_connection(CLOSE_POLICY_VIOLATION, f"{MAX_MALFORMED_FRAMES} frames were malformed")
                raise frame.error
            await self._state.wait_for_rate(self._caller, self._has_left, size=size)
            if frame.op == "ping":
                return frames.result_frame(frame.id, b"null")
            name, key = frame.fields.pop("verb"), frame.fields.pop("key", None)
            trace = frame.fields.pop("traceparent", None)
            digest = sha256(jsontext.dumps(frame.fields).encode(errors="surrogatepass")).digest()
            waits = dispatch.may_wait(name, frame.fields)
            if waits and self._waiting_calls >= MAX_WAITS:
                raise TooMany(f"{MAX_WAITS} verbs are waiting here already", hint="Wait on another connection.", retry_after=5)
            has_left = self._client_left.is_set, self._has_left
            call = dispatch.ClientCall(self._caller, name, frame.fields, key, digest, *has_left, self._client_version)
            self._waiting_calls += waits
            try:
                # Shielded: the client may disconnect and send the same key again on another connection.
                with use_traceparent(trace if trace and is_traceparent(trace) else None):
                    running = asyncio.ensure_future(dispatch.execute_call(self._state, call))  # it inherits the trace
                running.add_done_callback(lambda done: done.cancelled() or done.exception())  # retrieved, so that asyncio does not log it
                return frames.result_frame(frame.id, await asyncio.shield(running))
            finally:
                self._waiting_calls -= waits
        except Unauthenticated as refusal:
            self._end_connection(CLOSE_POLICY_VIOLATION, "the token is not valid any more")
            return frames.refused_frame(frame.id, refusal)
        except Refusal as refusal:
            return frames.refused_frame(frame.id, refusal)
