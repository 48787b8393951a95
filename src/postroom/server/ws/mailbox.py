"""The mailbox WebSocket: messages are pushed when they fall due, and each frame of the client is answered, in order."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Coroutine
from functools import partial
from typing import Any

from starlette.types import Receive

from postroom.core.errors import InvalidInput, Refusal, Unauthenticated
from postroom.core.records.mail import Delivery
from postroom.server.api import mailbox_access
from postroom.server.http.auth import read_token
from postroom.server.http.large_json import LARGE_BYTES, parse_in_steps
from postroom.server.ws import frames
from postroom.server.ws.dispatcher import CLOSE_GOING_AWAY, CLOSE_POLICY_VIOLATION, MailboxDispatcher
from postroom.server.ws.frames import MAX_MALFORMED_FRAMES, Frame
from postroom.server.ws.socket_endpoint import CLOSE_INTERNAL_ERROR, CLOSE_UNSUPPORTED_DATA, CLOSING_SECONDS, SocketConnection

MAX_UNREAD_ANSWER_BYTES = 1024 * 1024  # answers that a client may leave unread
MAX_UNSENT_DELIVERY_BYTES = 64 * 1024  # the dispatcher dequeues no more until these are sent
MAX_WINDOW_FRAMES, MAX_WINDOW_BYTES = 64, 512 * 1024  # frames that are executed together
_log = logging.getLogger("postroom.server")


async def check_caller(upgraded: SocketConnection) -> None:
    """Refuse a caller that may not receive from the mailbox. An alias is replaced by the session that it stands for."""
    named = upgraded.parameters["session"]
    upgraded.parameters["session"] = await mailbox_access.resolve_receiver(upgraded.state.store_access, upgraded.caller, named)


async def serve_socket(upgraded: SocketConnection, receive: Receive) -> None:
    await MailboxSocket(upgraded).run(receive)


class MailboxSocket:
    """One connection. Three tasks read frames, execute them and write answers. The first call of `end_connection` sets the close code."""

    def __init__(self, upgraded: SocketConnection) -> None:
        caller = upgraded.caller
        self.session, self.receiver_name, self.door = upgraded.parameters["session"], caller.name, caller.door
        self.token = read_token(upgraded.headers)
        self._state, self._dispatchers, self._caller = upgraded.state, upgraded.dispatchers, caller
        self._send, self._has_left = upgraded.send, upgraded.has_left
        self._credit = self._malformed_frames = 0
        # Frames of the client that are not executed yet
        self._unexecuted: deque[str] = deque()
        self._unexecuted_bytes = 0
        self._frame_received, self._frames_taken = asyncio.Event(), asyncio.Event()
        # Frames on their way to the client: the text, and whether it is a delivery
        self._outgoing: deque[tuple[str, bool]] = deque()
        self._unsent_delivery_bytes = self._unsent_answer_bytes = 0
        self._outgoing_changed, self._answers_sent, self._is_draining = asyncio.Event(), asyncio.Event(), False
        self._client_left = False  # frames that came before are still executed
        self._ended: asyncio.Future[tuple[int | None, str]] = asyncio.get_running_loop().create_future()
        self._dispatcher: MailboxDispatcher = self._dispatchers.add_receiver(self)

    async def run(self, receive: Receive) -> None:
        reading, answering, writing = (
            asyncio.create_task(self._run_guarded(work))
            for work in (self._read_frames(receive), self._answer_frames(), self._write_frames())
        )
        code: int | None = None
        reason = ""
        try:
            code, reason = await self._ended
            self._dispatchers.remove_receiver(self)
            reading.cancel()
            if code is not None:  # received frames are executed and answered first
                await asyncio.wait([answering], timeout=CLOSING_SECONDS)
                if code == CLOSE_GOING_AWAY:
                    self._queue_answer(frames.GOODBYE)
                self._is_draining = True
                self._outgoing_changed.set()
                await asyncio.wait([writing], timeout=CLOSING_SECONDS)
        finally:
            self._dispatchers.remove_receiver(self)
            for task in (reading, answering, writing):
                task.cancel()
        if code is not None:
            await self._send({"type": "websocket.close", "code": code, "reason": reason})

    def end_connection(self, code: int | None, reason: str = "") -> None:
        if not self._ended.done():
            self._ended.set_result((code, reason))
            for event in (self._frame_received, self._frames_taken, self._outgoing_changed, self._answers_sent):
                event.set()

    async def _run_guarded(self, work: Coroutine[Any, Any, None]) -> None:
        try:
            await work
        except OSError:
            pass  # the client disconnected: `_read_frames` receives that after the last frame
        except Exception:
            _log.exception("a socket failed")
            self.end_connection(CLOSE_INTERNAL_ERROR, "the server failed")

    # From the client

    async def _read_frames(self, receive: Receive) -> None:
        while not self._ended.done():
            message = await receive()
            if message["type"] != "websocket.receive":
                self._client_left = True
                self._dispatchers.remove_receiver(self)
                self._frame_received.set()
                return
            text = message.get("text")
            if text is None:
                self.end_connection(CLOSE_UNSUPPORTED_DATA, "frames are text")
                return
            self._unexecuted.append(text)
            self._unexecuted_bytes += len(text)
            self._frame_received.set()
            while (len(self._unexecuted) >= MAX_WINDOW_FRAMES or self._unexecuted_bytes > MAX_WINDOW_BYTES) and not self._ended.done():
                self._frames_taken.clear()
                await self._frames_taken.wait()

    async def _answer_frames(self) -> None:
        while not self._ended.done():
            if not self._unexecuted and self._client_left:
                self.end_connection(None)
                return
            if not self._unexecuted:
                self._frame_received.clear()
                await self._frame_received.wait()
                continue
            texts, size = list(self._unexecuted), self._unexecuted_bytes
            self._unexecuted.clear()
            self._unexecuted_bytes = 0
            self._frames_taken.set()
            batch = [await self._parse_frame(text) for text in texts]
            self._count_malformed(batch)
            for part in _split_at_reads(batch):
                await self._wait_until_answers_are_read()
                for answer in await self._execute_batch(part, size):
                    self._queue_answer(answer)
                size = 0  # counted once
            if self._malformed_frames >= MAX_MALFORMED_FRAMES:
                self.end_connection(CLOSE_POLICY_VIOLATION, f"{MAX_MALFORMED_FRAMES} frames were malformed")

    async def _parse_frame(self, text: str) -> Frame:
        if len(text) <= LARGE_BYTES:
            return frames.parse_frame(text)
        return await self._state.store_access.run_off_loop(partial(frames.parse_frame, text, loads=parse_in_steps))

    def _count_malformed(self, batch: list[Frame]) -> None:
        """Count the malformed frames since the last good one. Drop the frames behind the last one that the socket allows."""
        for number, frame in enumerate(batch):
            self._malformed_frames = 0 if frame.error is None else self._malformed_frames + 1
            if self._malformed_frames >= MAX_MALFORMED_FRAMES:
                del batch[number + 1 :]

    async def _wait_until_answers_are_read(self) -> None:
        """Wait while the client has not read large answers, so that their size is bounded. A client that reads nothing is disconnected."""
        while self._unsent_answer_bytes > MAX_UNREAD_ANSWER_BYTES and not self._ended.done():
            self._answers_sent.clear()
            await self._answers_sent.wait()

    async def _execute_batch(self, batch: list[Frame], size: int) -> list[str]:
        """Execute frames and return their answers in order. They are started in order and run together, so that many share one commit."""
        await self._state.wait_for_rate(self._caller, self._has_left, len(batch), size)
        started = [asyncio.create_task(self._answer_frame(frame)) for frame in batch]
        return [await task for task in started]

    async def _answer_frame(self, frame: Frame) -> str:
        try:
            if frame.error is not None:
                raise frame.error
            return frames.ok_frame(frame.id, await self._execute_frame(frame))
        except Unauthenticated as refusal:
            self.end_connection(CLOSE_POLICY_VIOLATION, "the token is not valid any more")
            return frames.refused_frame(frame.id, refusal)
        except Refusal as refusal:
            return frames.refused_frame(frame.id, refusal)

    async def _execute_frame(self, frame: Frame) -> dict[str, Any]:
        store_access, caller, fields = self._state.store_access, self._caller, frame.fields
        if frame.op == "enqueue":
            return await mailbox_access.enqueue(store_access, caller, fields["message"])
        if frame.op == "ack":
            return await mailbox_access.ack(store_access, caller, self.session, **fields)
        if frame.op == "nack":
            return await mailbox_access.nack(store_access, caller, self.session, **fields)
        if frame.op == "extend":
            return await mailbox_access.extend(store_access, caller, self.session, **fields)
        if frame.op == "peek":
            return await mailbox_access.peek(store_access, caller, self.session, **fields)
        if frame.op == "purge":
            return await mailbox_access.purge(store_access, caller, self.session)
        if frame.op == "peek_dead_letter":
            return await mailbox_access.peek_dead_letter(store_access, caller, self.session, **fields)
        if frame.op == "purge_dead_letter":
            return await mailbox_access.purge_dead_letter(store_access, caller, self.session, **fields)
        return self._add_credit(fields["n"]) if frame.op == "credit" else {}

    def _add_credit(self, n: int) -> dict[str, Any]:
        """Allow `n` more deliveries."""
        if not 1 <= n <= frames.MAX_CREDIT_MESSAGES - self._credit:
            most = frames.MAX_CREDIT_MESSAGES
            raise InvalidInput(f"n must be at least 1; credit is limited to {most}, and {self._credit} is in use", field="n")
        self._credit += n
        self._dispatcher.wake()
        return {"credit": self._credit}

    # To the client

    def free_credit(self) -> int:
        return self._credit if self._unsent_delivery_bytes < MAX_UNSENT_DELIVERY_BYTES and not self._ended.done() else 0

    def queue_delivery(self, delivery: Delivery) -> None:
        self._credit -= 1
        frame = frames.delivery_frame(delivery)
        self._unsent_delivery_bytes += len(frame)
        self._outgoing.append((frame, True))
        self._outgoing_changed.set()

    def _queue_answer(self, answer: str) -> None:
        if self._client_left:
            return
        unread = self._unsent_answer_bytes
        self._unsent_answer_bytes += len(answer)
        self._outgoing.append((answer, False))
        self._outgoing_changed.set()
        if unread > MAX_UNREAD_ANSWER_BYTES:  # without this answer, which may be large
            self.end_connection(CLOSE_POLICY_VIOLATION, f"more than {MAX_UNREAD_ANSWER_BYTES // 1024} KiB were not read")

    async def _write_frames(self) -> None:
        while self._outgoing or not self._is_draining:
            if not self._outgoing:
                self._outgoing_changed.clear()
                await self._outgoing_changed.wait()
                continue
            frame, is_delivery = self._outgoing[0]
            await self._send({"type": "websocket.send", "text": frame})
            self._outgoing.popleft()
            if is_delivery:
                was_full = self._unsent_delivery_bytes >= MAX_UNSENT_DELIVERY_BYTES
                self._unsent_delivery_bytes -= len(frame)
                if was_full and self._unsent_delivery_bytes < MAX_UNSENT_DELIVERY_BYTES:
                    self._dispatcher.wake()
            else:
                self._unsent_answer_bytes -= len(frame)
                self._answers_sent.set()


def _split_at_reads(batch: list[Frame]) -> list[list[Frame]]:
    """Return the frames in parts, so that a frame with a large answer is alone in its part."""
    parts: list[list[Frame]] = [[]]
    for frame in batch:
        if frame.op in frames.READING_OPS:
            parts += [[frame], []]
        else:
            parts[-1].append(frame)
    return [part for part in parts if part]
