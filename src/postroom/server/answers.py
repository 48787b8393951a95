"""How the server answers: JSON, and one table from refusals to HTTP status."""

from __future__ import annotations

import json
from typing import Any

import orjson
from starlette.responses import Response

from postroom.core import errors

# The first row that fits. A test walks the tree of refusals and fails if one has no row.
STATUS: tuple[tuple[type[errors.Refusal], int], ...] = (
    (errors.Unauthenticated, 401),
    (errors.Forbidden, 403),
    (errors.TooLarge, 413),
    (errors.TooMany, 429),
    (errors.Conflict, 409),
    (errors.InvalidState, 409),
    (errors.Invalid, 400),
    (errors.NoStore, 503),
    (errors.Missing, 404),
    (errors.StoreTrouble, 503),
    (errors.Interrupted, 503),
)
RETRY_SECONDS = 1


class Json(Response):
    """JSON, encoded fast."""

    media_type = "application/json"

    def render(self, content: Any) -> bytes:
        return content if isinstance(content, bytes) else orjson.dumps(content)


def status_of(refusal: errors.Refusal) -> int:
    return next((status for kind, status in STATUS if isinstance(refusal, kind)), 500)


def failure(refusal: errors.Refusal) -> dict[str, Any]:
    """The same shape as the commands print."""
    error: dict[str, Any] = {"code": refusal.code, "message": str(refusal), "hint": refusal.hint}
    error.update((name, value) for name, value in refusal.facts.items() if name not in error)
    return {"ok": False, "error": error}


def encoded(answer: dict[str, Any]) -> bytes:
    """As JSON, also if somebody said what is no text, and it is named."""
    try:
        return orjson.dumps(answer, default=str)
    except TypeError:
        return json.dumps(answer, default=str).encode()


def refused(refusal: errors.Refusal) -> Json:
    status = status_of(refusal)
    headers = {}
    if status in (429, 503):
        headers["Retry-After"] = str(refusal.facts.get("retry_after", RETRY_SECONDS))
    if status == 401:
        headers["WWW-Authenticate"] = "Bearer"
    return Json(encoded(failure(refusal)), status, headers)


def said(code: str, message: str, hint: str, status: int, **headers: str) -> Json:
    """A refusal of the protocol itself, which no verb raised."""
    return Json({"ok": False, "error": {"code": code, "message": message, "hint": hint}}, status, headers)
