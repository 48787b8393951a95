"""Send alerts by HTTP: signed webhooks and ntfy. One request, no redirects, bounded time and size."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from postroom.core import clock
from postroom.outbound import rendering
from postroom.people.channels.targets import decode_webhook_secret, split_url

if TYPE_CHECKING:
    from postroom.core.records.channels import AlertContent

REQUEST_SECONDS = 15.0  # to connect, and between two parts of the answer
MAX_ANSWER_BYTES = 64 * 1024


class SendFailure(Exception):
    """A message that was not accepted, with the reason. It holds no secret."""


def send_webhook(content: AlertContent, secret: str | None) -> None:
    """Post an alert as a webhook that is signed by Standard Webhooks."""
    body = json.dumps(rendering.to_json(content), ensure_ascii=False).encode()
    seconds = clock.now() // clock.MICROSECONDS_PER_SECOND
    headers = sign(content.alert.alert_id, seconds, body, secret or "")
    post_json(content.channel.target, body, headers)


def sign(message_id: str, seconds: int, body: bytes, secret: str) -> dict[str, str]:
    """Return the headers of Standard Webhooks: the id, the time in Unix seconds, and the signature."""
    import base64
    import hmac

    signed = f"{message_id}.{seconds}.".encode() + body
    signature = base64.b64encode(hmac.digest(decode_webhook_secret(secret), signed, "sha256")).decode()
    return {"webhook-id": message_id, "webhook-timestamp": str(seconds), "webhook-signature": f"v1,{signature}"}


def send_ntfy(content: AlertContent, secret: str | None) -> None:
    """Publish an alert to a topic of an ntfy server. The secret is its access token."""
    server, _, topic = content.channel.target.rstrip("/").rpartition("/")
    headers = {} if secret is None else {"Authorization": f"Bearer {secret}"}
    post_json(f"{server}/", json.dumps(rendering.to_ntfy_json(content, topic)).encode(), headers)


def post_json(url: str, body: bytes, headers: dict[str, str]) -> None:
    """Post a body. Raises `SendFailure` unless the answer is a 2xx."""
    from http.client import HTTPConnection, HTTPException, HTTPSConnection

    parts = split_url("target", url, ("https", "http"))
    connection_class = HTTPSConnection if parts.scheme == "https" else HTTPConnection
    connection = connection_class(parts.hostname, parts.port, timeout=REQUEST_SECONDS)
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    try:
        connection.request("POST", path, body, {"Content-Type": "application/json", "User-Agent": "postroom", **headers})
        answer = connection.getresponse()
        answer.read(MAX_ANSWER_BYTES)
    except (OSError, HTTPException) as error:
        raise SendFailure(f"{parts.hostname} could not be reached: {type(error).__name__}: {error}") from None
    finally:
        connection.close()
    if not 200 <= answer.status < 300:
        note = ". Redirects are not followed" if 300 <= answer.status < 400 else ""
        raise SendFailure(f"{parts.hostname} answered {answer.status}{note}")
