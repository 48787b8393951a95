"""Compress whole answers for clients that accept gzip. Streams, and answers that are small or compressed already, pass as they are."""

from __future__ import annotations

import asyncio
from zlib import compressobj

from starlette.types import ASGIApp, Message, Receive, Scope, Send

MIN_COMPRESSED_BYTES = 2048
MIN_THREADED_BYTES = 64 * 1024  # compressing more would delay other requests
COMPRESSED_TYPES = (b"application/json", b"text/", b"image/svg+xml")
_GZIP_WINDOW_BITS = 31
_LEVEL = 4  # twice as fast as the usual 6, and 5 % larger


class CompressionMiddleware:
    """Middleware that compresses an answer which comes as one body."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        is_accepted = scope["type"] == "http" and any(
            name == b"accept-encoding" and b"gzip" in value for name, value in scope.get("headers", ())
        )
        await self._app(scope, receive, _CompressingSend(send) if is_accepted else send)


class _CompressingSend:
    """Holds the start of an answer back until its first body, which decides whether the answer is compressed."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self._start: Message | None = None

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start" and _is_compressible(message):
            self._start = message
            return
        if self._start is not None:
            start, self._start = self._start, None
            body = message.get("body", b"")
            if message["type"] == "http.response.body" and not message.get("more_body") and len(body) >= MIN_COMPRESSED_BYTES:
                message = {**message, "body": await _compress(body)}
                start = {**start, "headers": _compressed_headers(start["headers"], len(message["body"]))}
            await self._send(start)
        await self._send(message)


def _is_compressible(start: Message) -> bool:
    headers = dict(start.get("headers", ()))
    return headers.get(b"content-type", b"").startswith(COMPRESSED_TYPES) and b"content-encoding" not in headers


async def _compress(body: bytes) -> bytes:
    return gzip_body(body) if len(body) < MIN_THREADED_BYTES else await asyncio.to_thread(gzip_body, body)


def gzip_body(body: bytes, level: int = _LEVEL) -> bytes:
    compressor = compressobj(level, wbits=_GZIP_WINDOW_BITS)
    return compressor.compress(body) + compressor.flush()


def _compressed_headers(headers: list[tuple[bytes, bytes]], length: int) -> list[tuple[bytes, bytes]]:
    kept = [(name, value) for name, value in headers if name.lower() != b"content-length"]
    return [*kept, (b"content-encoding", b"gzip"), (b"vary", b"Accept-Encoding"), (b"content-length", str(length).encode())]
