"""JSON responses, and the one table from refusals to HTTP status codes."""

from __future__ import annotations

import json
from hashlib import sha256
from typing import Any

import orjson
from starlette.requests import Request
from starlette.responses import Response

from postroom.core import errors

# The first row that matches counts. A test walks the tree of refusals and fails if one has no row.
STATUS_CODES: tuple[tuple[type[errors.Refusal], int], ...] = (
    (errors.Unauthenticated, 401),
    (errors.Forbidden, 403),
    (errors.TooLarge, 413),
    (errors.TooMany, 429),
    (errors.Conflict, 409),
    (errors.InvalidState, 409),
    (errors.CursorExpired, 410),
    (errors.Invalid, 400),
    (errors.NoStore, 503),
    (errors.Missing, 404),
    (errors.WrongVersion, 400),
    (errors.StoreTrouble, 503),
    (errors.Interrupted, 503),
)
RETRY_SECONDS = 1
TAG_DIGITS = 32


class JsonResponse(Response):
    """A JSON response, encoded by orjson. Content of type bytes is JSON already."""

    media_type = "application/json"

    def render(self, content: Any) -> bytes:
        return content if isinstance(content, bytes) else orjson.dumps(content)


class TaggedResponse(JsonResponse):
    """A JSON response with its ETag. It may be sent several times."""

    def __init__(self, body: bytes) -> None:
        self.tag = f'"{sha256(body).hexdigest()[:TAG_DIGITS]}"'
        super().__init__(body, headers={"ETag": self.tag})

    def unless_known(self, request: Request) -> Response:
        """Return this response, or 304 if the client has it already."""
        if request.headers.get("if-none-match") == self.tag:
            return Response(status_code=304, headers={"ETag": self.tag})
        return self


def status_of(refusal: errors.Refusal) -> int:
    return next((status for kind, status in STATUS_CODES if isinstance(refusal, kind)), 500)


def refusal_json(refusal: errors.Refusal) -> dict[str, Any]:
    """Return a refusal in the shape that the commands print."""
    error: dict[str, Any] = {"code": refusal.code, "message": str(refusal), "hint": refusal.hint}
    error.update((name, value) for name, value in refusal.facts.items() if name not in error)
    return {"ok": False, "error": error}


def encode_json(answer: dict[str, Any]) -> bytes:
    """Encode JSON. Text with lone surrogates, which orjson rejects, is escaped: a refusal or a stored event may quote such input."""
    try:
        return orjson.dumps(answer, default=str)
    except (TypeError, ValueError, RecursionError):
        return json.dumps(answer, default=str).encode()


def refusal_response(refusal: errors.Refusal) -> JsonResponse:
    status = status_of(refusal)
    headers = {}
    if status in (429, 503):
        headers["Retry-After"] = str(refusal.facts.get("retry_after", RETRY_SECONDS))
    if status == 401:
        headers["WWW-Authenticate"] = "Bearer"
    return JsonResponse(encode_json(refusal_json(refusal)), status, headers)


def error_response(code: str, message: str, hint: str, status: int, **headers: str) -> JsonResponse:
    """Return an error of the protocol itself, which no verb raised."""
    return JsonResponse({"ok": False, "error": {"code": code, "message": message, "hint": hint}}, status, headers)
