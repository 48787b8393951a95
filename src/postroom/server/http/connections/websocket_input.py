"""The receiving side of a WebSocket: bytes that wait to be parsed, and frames that form a message. `websocket_protocol` uses both."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from starlette.types import Message
from websockets.frames import CloseCode, Frame, Opcode

PARSE_CHUNK_BYTES = 8192  # in one turn of the event loop: thousands of empty frames fit into one read
MAX_MESSAGE_PARTS = 1000


class InputBuffer:
    """The bytes of a client that are not parsed yet. Reading is paused while there are any.

    `may_parse` returns False while the application has messages to take. `parse` parses the bytes of one chunk.
    """

    def __init__(self, transport: asyncio.Transport, may_parse: Callable[[], bool], parse: Callable[[bytes], None]) -> None:
        self._transport = transport
        self._may_parse = may_parse
        self._parse = parse
        self._unparsed = bytearray()
        self._is_scheduled = self._is_reading_paused = False

    @property
    def has_bytes(self) -> bool:
        return bool(self._unparsed)

    def add_bytes(self, data: bytes) -> None:
        """Parse the bytes now if that is quick and nothing is before them. Otherwise keep them."""
        if not self._unparsed and len(data) <= PARSE_CHUNK_BYTES and self._may_parse():
            self._parse(data)
        else:
            self._unparsed += data
            self.parse_next_chunk()

    def parse_next_chunk(self) -> None:
        """Parse one chunk if the application has taken all earlier messages. The next chunk is parsed in a later turn of the loop."""
        if self._unparsed and self._may_parse():
            chunk = bytes(self._unparsed[:PARSE_CHUNK_BYTES])
            del self._unparsed[:PARSE_CHUNK_BYTES]
            self._parse(chunk)
            if self._unparsed and not self._is_scheduled and self._may_parse():
                self._is_scheduled = True
                asyncio.get_running_loop().call_soon(self._parse_scheduled_chunk)
        if self.has_bytes is not self._is_reading_paused and not self._transport.is_closing():
            self._is_reading_paused = self.has_bytes
            if self._is_reading_paused:
                self._transport.pause_reading()
            else:
                self._transport.resume_reading()

    def _parse_scheduled_chunk(self) -> None:
        self._is_scheduled = False
        self.parse_next_chunk()


class InvalidMessage(Exception):
    """The client sent a message that ends the connection, with this close code and reason."""

    def __init__(self, code: CloseCode, reason: str) -> None:
        super().__init__(reason)
        self.code = code
        self.reason = reason


class MessageAssembler:
    """Joins data frames to messages."""

    def __init__(self) -> None:
        self._parts: list[Any] = []
        self._is_text = False

    def add_frame(self, frame: Frame) -> Message | None:
        """Return the ASGI event of a message that is complete, else None. Raises `InvalidMessage` for too many parts or invalid UTF-8."""
        if frame.opcode is not Opcode.CONT:
            self._is_text = frame.opcode is Opcode.TEXT
            self._parts = []
        if len(self._parts) >= MAX_MESSAGE_PARTS:
            raise InvalidMessage(CloseCode.MESSAGE_TOO_BIG, f"a message has at most {MAX_MESSAGE_PARTS} parts")
        self._parts.append(frame.data)
        if not frame.fin:
            return None
        data = b"".join(self._parts)
        self.discard_parts()
        return self._make_event(data)

    def discard_parts(self) -> None:
        self._parts = []

    def _make_event(self, data: bytes) -> Message:
        if not self._is_text:
            return {"type": "websocket.receive", "bytes": data}
        try:
            return {"type": "websocket.receive", "text": data.decode()}
        except UnicodeDecodeError:
            raise InvalidMessage(CloseCode.INVALID_DATA, "text is UTF-8") from None
