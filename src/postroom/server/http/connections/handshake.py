"""The handshake of a WebSocket: its ASGI scope, and the HTTP responses that refuse it."""

from __future__ import annotations

import asyncio
from http import HTTPStatus
from typing import Any
from urllib.parse import unquote

import orjson
from starlette.types import Scope
from websockets.datastructures import Headers
from websockets.http11 import Request, Response


def make_scope(request: Request, transport: asyncio.Transport, app_state: dict[str, Any]) -> Scope:
    """Return the ASGI scope of a handshake."""
    path, _, query = request.path.partition("?")
    return {
        "type": "websocket",
        "asgi": {"version": "3.0", "spec_version": "2.4"},
        "http_version": "1.1",
        "scheme": "wss" if transport.get_extra_info("sslcontext") else "ws",
        "server": _server_address(transport.get_extra_info("sockname")),
        "client": _client_address(transport.get_extra_info("peername")),
        "root_path": "",
        "path": unquote(path),
        "raw_path": path.encode("ascii"),
        "query_string": query.encode("ascii"),
        "headers": [(name.lower().encode("ascii"), value.encode("latin-1")) for name, value in request.headers.raw_items()],
        "subprotocols": [word.strip() for line in request.headers.get_all("Sec-WebSocket-Protocol") for word in line.split(",")],
        "state": app_state,
        "extensions": {"websocket.http.response": {}},
    }


def make_refusal(status: int) -> Response:
    """Return the response to a request that is no valid handshake: a JSON error, as for every refusal."""
    error = {"code": "invalid_input", "message": "this is not a WebSocket handshake", "hint": "See /api/asyncapi.json."}
    body = orjson.dumps({"ok": False, "error": error})
    headers = Headers({"content-type": "application/json", "content-length": str(len(body)), "connection": "close"})
    headers.update({"upgrade": "websocket", "sec-websocket-version": "13", "allow": "GET", "cache-control": "no-store"})
    return Response(status, HTTPStatus(status).phrase, headers, body)


def make_denial(rejection: Response, headers: list[tuple[bytes, bytes]], body: bytes) -> Response:
    """Return the response with which the application refuses a handshake. The headers that every response needs come from `rejection`."""
    response_headers = Headers(decode_headers(headers))
    for name in ("Date", "Connection"):
        response_headers.setdefault(name, rejection.headers[name])
    response_headers.setdefault("Content-Length", str(len(body)))
    return Response(rejection.status_code, rejection.reason_phrase, response_headers, body)


def decode_headers(headers: list[tuple[bytes, bytes]]) -> list[tuple[str, str]]:
    """Convert headers from ASGI to `websockets`."""
    return [(name.decode("latin-1"), value.decode("latin-1")) for name, value in headers]


def _server_address(name: Any) -> tuple[str, int | None] | None:
    """Return host and port, or the path of a Unix socket and None."""
    if isinstance(name, tuple):
        return str(name[0]), int(name[1])
    return (name, None) if isinstance(name, str) else None


def _client_address(name: Any) -> tuple[str, int] | None:
    return (str(name[0]), int(name[1])) if isinstance(name, tuple) else None
