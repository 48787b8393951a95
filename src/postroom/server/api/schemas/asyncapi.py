"""The AsyncAPI 3.0 description of the WebSockets. It is served and written to docs/reference/asyncapi.json. Tests verify it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from postroom import __version__
from postroom.core.limits import MAX_CALL_BYTES, MAX_CALLS_PER_SOCKET, MAX_FRAME_BYTES, MAX_ITEMS, MAX_KEY_CHARS, MAX_MAIL_PAYLOAD_BYTES
from postroom.core.rpc.wire import VERB_PROTOCOL
from postroom.server.api.schemas.builders import BOOLEAN, INTEGER, NULLABLE_TEXT, TEXT, Schema, object_of, schema_ref
from postroom.server.http.responses import JsonResponse
from postroom.server.ws.frames import MAX_CREDIT_MESSAGES, MAX_ID_CHARS, MAX_ID_NUMBER, MAX_MALFORMED_FRAMES, PROTOCOL

MAILBOX_CHANNEL, VERB_CHANNEL = "mailbox", "verbs"
_ID: Schema = {
    "oneOf": [
        {"type": "string", "maxLength": MAX_ID_CHARS},
        {"type": "integer", "exclusiveMinimum": -MAX_ID_NUMBER, "exclusiveMaximum": MAX_ID_NUMBER},
        {"type": "null"},
    ],
    "description": "Chosen by the client. The response has the same id",
}
_MSG_ID: Schema = {"type": "string", "minLength": 1, "maxLength": 400}
_TOKEN: Schema = {**NULLABLE_TEXT, "description": "The delivery that is meant. Refused with delivery_lost if a later delivery followed it"}
_SENDER: Schema = {**NULLABLE_TEXT, "description": "The sender of the message. Necessary if several used the id, and no token is given"}
ANY_ARRAY: Schema = {"type": "array", "items": {"type": "object"}}
_PAGE: dict[str, Schema] = {
    "limit": {"type": "integer", "minimum": 1, "maximum": MAX_ITEMS, "description": "Default: 100"},
    "after": {**NULLABLE_TEXT, "description": "`after` of the page before"},
}
_MESSAGE: Schema = {
    **object_of(
        "to payload",
        msg_id={**NULLABLE_TEXT, "description": "One message of its sender. A repeat is not stored again, another message is refused"},
        to=TEXT,
        payload=TEXT,
        created_at={"type": ["integer", "null"], "description": "Unix seconds"},
    ),
    "description": "The format of `mailbox enqueue --json`, in snake_case or camelCase. Unknown fields are kept",
}
_MESSAGE["properties"]["from"] = {"type": "string", "description": "Default: the caller"}
_DELIVERY: Schema = object_of(
    "message delivery_token in_flight_until",
    message={
        **object_of("msg_id from to payload created_at attempt", msg_id=TEXT, to=TEXT, payload=TEXT, created_at=INTEGER, attempt=INTEGER),
        "description": "It has also the other fields that its sender added",
    },
    delivery_token=TEXT,
    in_flight_until={"type": "string", "description": "Ack, nack or extend it by then, else it comes again"},
)
_DELIVERY["properties"]["message"]["properties"]["from"] = TEXT
_RESULTS: dict[str, Schema] = {
    "credit": object_of("credit", credit={"type": "integer", "minimum": 0, "maximum": MAX_CREDIT_MESSAGES}),
    "enqueue": object_of("msg_id queued pending", msg_id=TEXT, queued=BOOLEAN, pending=INTEGER),
    "ack": object_of("msg_id state changed", msg_id=TEXT, state=TEXT, changed=BOOLEAN),
    "nack": object_of("msg_id state changed retry_at", msg_id=TEXT, state=TEXT, changed=BOOLEAN, retry_at=NULLABLE_TEXT),
    "extend": object_of("msg_id in_flight_until", msg_id=TEXT, in_flight_until=TEXT),
    "peek": object_of("messages total more after", messages=ANY_ARRAY, total=INTEGER, more=BOOLEAN, after=NULLABLE_TEXT),
    "purge": object_of("purged", purged=INTEGER),
    "peek_dead_letter": object_of("entries total more after", entries=ANY_ARRAY, total=INTEGER, more=BOOLEAN, after=NULLABLE_TEXT),
    "purge_dead_letter": object_of("purged", purged=INTEGER),
    "ping": object_of(""),
}


def _closed_object(required: str, **properties: Schema) -> Schema:
    return {**object_of(required, **properties), "additionalProperties": False}


def _frame_schema(op: str, required: str = "", **properties: Schema) -> Schema:
    return _closed_object(f"op {required}".strip(), op={"const": op}, **properties)


def _protocol_frame(op: str, required: str = "", /, **properties: Schema) -> Schema:
    """Return the schema of a client's frame of the mailbox protocol. The server ignores unknown fields."""
    return object_of(f"op {required}".strip(), op={"const": op}, id=_ID, **properties)


_DELIVERED: dict[str, Schema] = {"msg_id": _MSG_ID, "delivery_token": _TOKEN, "from": _SENDER}


CLIENT_FRAMES: dict[str, tuple[str, Schema]] = {
    "credit": (
        "Allow `n` more deliveries. Without credit the server sends none",
        _protocol_frame("credit", "n", n={"type": "integer", "minimum": 1, "maximum": MAX_CREDIT_MESSAGES}),
    ),
    "enqueue": ("Store a message for any mailbox", _protocol_frame("enqueue", "message", message=schema_ref("Message"))),
    "ack": ("Acknowledge a message as delivered", _protocol_frame("ack", "msg_id", **_DELIVERED)),
    "nack": (
        "Report a message as not delivered. It comes again after its backoff, or is dead after the last retry",
        _protocol_frame("nack", "msg_id", **_DELIVERED, reason=NULLABLE_TEXT),
    ),
    "extend": (
        "Keep a message in flight: its time starts again",
        _protocol_frame(
            "extend",
            "msg_id",
            **_DELIVERED,
            seconds={"type": ["number", "null"], "exclusiveMinimum": 0, "description": "Default: the time in the mailbox's policy"},
        ),
    ),
    "peek": ("List a page of the messages that are not finished, in the order of delivery", _protocol_frame("peek", **_PAGE)),
    "purge": ("Remove every message that is not finished. Their ids stay known", _protocol_frame("purge")),
    "peek_dead_letter": ("List a page of the dead letters, oldest first", _protocol_frame("peek_dead_letter", **_PAGE)),
    "purge_dead_letter": (
        "Delete the dead letters with the given ids, or all that a listing shows, or all",
        _protocol_frame(
            "purge_dead_letter",
            **{"msg_id": {"anyOf": [_MSG_ID, {"type": "array", "items": _MSG_ID}, {"type": "null"}]}, "from": _SENDER, "all": BOOLEAN},
        ),
    ),
    "ping": ("Check the connection", _protocol_frame("ping")),
}
SERVER_FRAMES: dict[str, tuple[str, Schema]] = {
    "delivery": (
        "A message that is due. It uses one credit",
        _frame_schema("delivery", "delivery", delivery=schema_ref("Delivery")),
    ),
    "ok": (
        "A frame was executed and its effect is on disk",
        _frame_schema("ok", "id result", id=_ID, result={"anyOf": [schema_ref(f"{op.title().replace('_', '')}Result") for op in _RESULTS]}),
    ),
    "refused": (
        f"A frame was refused and nothing changed. After {MAX_MALFORMED_FRAMES} malformed frames in a row the socket is closed",
        _frame_schema("refused", "id error", id=_ID, error=schema_ref("Refusal")),
    ),
    "goodbye": ("The server stops and closes with 1001. Connect again", _frame_schema("goodbye")),
}
VERB_CLIENT_FRAMES: dict[str, tuple[str, Schema]] = {
    "call": (
        "Call a verb, like `POST /api/verbs/{room}.{verb}`",
        _frame_schema(
            "call",
            "verb",
            id=_ID,
            verb={"type": "string", "description": "The name in the library, such as mail.enqueue or work.send"},
            args={"type": "array", "description": "The positional arguments without the store"},
            named={"type": "object", "description": "The keyword arguments"},
            traceparent={"type": "string", "description": "The trace of the call (W3C Trace Context)"},
            key={
                "type": ["string", "null"],
                "maxLength": MAX_KEY_CHARS,
                "description": "A call that is sent again with the same key, such as after a lost connection, is executed once",
            },
        ),
    ),
    "ping": CLIENT_FRAMES["ping"],
}
VERB_SERVER_FRAMES: dict[str, tuple[str, Schema]] = {
    "result": (
        "The result of a verb",
        _frame_schema("result", "id result", id=_ID, result={"description": "As in openapi.json. For a ping: null"}),
    ),
    "refused": SERVER_FRAMES["refused"],
    "goodbye": SERVER_FRAMES["goodbye"],
}
_CLOSES = (
    "Closed with 1001 when the server stops, 1003 for binary frames, 1007 for text that is not UTF-8, 1008 when the token is revoked, "
    "for malformed frames, or when 1 MiB of responses was left unread, 1009 for a frame or message that is too large, "
    "1011 when pings are not answered, 1013 when the server receives too much at once. However a connection ends, messages that were "
    "delivered on it and not acknowledged come again "
    "when their time in flight is over."
)
_DESCRIPTION = (
    "Text frames, one JSON object each. Each frame of a client is confirmed by `ok` or `refused`, in the order in which they came. "
    "Deliveries may come between them. A client gives credit and gets one delivery per credit when messages are due, from any sender "
    f"and any interface. Sockets of one mailbox share its messages: each message goes to one of them. A client's frame has at most "
    f"{MAX_FRAME_BYTES // 1024 // 1024} MiB, so that the largest message fits in, "
    f"{MAX_MAIL_PAYLOAD_BYTES // 1024 // 1024} MiB of payload. Field names may be in camelCase. "
    + _CLOSES
    + " Verbs have a separate socket, which "
    f"executes up to {MAX_CALLS_PER_SOCKET} calls at once. Each response has the `id` of its call. Send calls of more than "
    f"{MAX_CALL_BYTES // 1024} KiB over HTTP."
)
SCHEMAS: dict[str, Schema] = {
    "Message": _MESSAGE,
    "Delivery": _DELIVERY,
    "Refusal": object_of("code message hint", code=TEXT, message=TEXT, hint=TEXT),
    **{f"{op.title().replace('_', '')}Result": result for op, result in _RESULTS.items()},
}


def _message_components(frames: dict[str, tuple[str, Schema]]) -> dict[str, Schema]:
    return {
        op: {"name": op, "title": op, "summary": summary, "contentType": "application/json", "payload": payload}
        for op, (summary, payload) in frames.items()
    }


def _describe_operation(channel: str, op: str, summary: str, answer: str | None = None) -> Schema:
    """Return the operation of a frame. With `answer`, a client sends it and the server responds. Else the server sends it."""
    where = f"#/channels/{channel}"
    message = {"$ref": f"{where}/messages/{op}"}
    action = "send" if answer is None else "receive"
    operation: dict[str, Any] = {"action": action, "channel": {"$ref": where}, "summary": summary, "messages": [message]}
    if answer is not None:
        responses = [{"$ref": f"{where}/messages/{name}"} for name in (answer, "refused")]
        operation["reply"] = {"channel": {"$ref": where}, "messages": responses}
    return operation


def _describe_channel(address: str, protocol: str, messages: Iterable[str], *, required: bool = False, **more: Any) -> Schema:
    return {
        "address": address,
        "description": f"The subprotocol `{protocol}` {'must be offered' if required else 'is chosen if it is offered'}",
        **more,
        "messages": {op: {"$ref": f"#/components/messages/{op}"} for op in messages},
        "bindings": {"ws": {"method": "GET", "bindingVersion": "0.1.0"}},
    }


def build_description() -> Schema:
    session = {"session": {"description": "The mailbox: an agent's own, or any for a person; percent-encoded"}}
    return {
        "asyncapi": "3.0.0",
        "id": "urn:postroom",
        "info": {"title": "Postroom: mailboxes and verbs as WebSockets", "version": __version__, "description": _DESCRIPTION},
        "defaultContentType": "application/json",
        "servers": {
            "local": {
                "host": "127.0.0.1:8420",
                "protocol": "ws",
                "description": "Also on the Unix socket of `inbox serve --uds`",
                "security": [{"$ref": "#/components/securitySchemes/bearer"}],
            }
        },
        "channels": {
            MAILBOX_CHANNEL: _describe_channel(
                "/api/mailbox/{session}/socket", PROTOCOL, (*CLIENT_FRAMES, *SERVER_FRAMES), parameters=session
            ),
            VERB_CHANNEL: _describe_channel("/api/verbs", VERB_PROTOCOL, (*VERB_CLIENT_FRAMES, *VERB_SERVER_FRAMES), required=True),
        },
        "operations": {
            **{op: _describe_operation(MAILBOX_CHANNEL, op, summary, "ok") for op, (summary, _) in CLIENT_FRAMES.items()},
            **{op: _describe_operation(MAILBOX_CHANNEL, op, SERVER_FRAMES[op][0]) for op in ("delivery", "goodbye")},
            "call": _describe_operation(VERB_CHANNEL, "call", VERB_CLIENT_FRAMES["call"][0], "result"),
            "verbs_ping": _describe_operation(VERB_CHANNEL, "ping", VERB_CLIENT_FRAMES["ping"][0], "result"),
            "verbs_goodbye": _describe_operation(VERB_CHANNEL, "goodbye", VERB_SERVER_FRAMES["goodbye"][0]),
        },
        "components": {
            "schemas": SCHEMAS,
            "messages": _message_components({**CLIENT_FRAMES, **SERVER_FRAMES, **VERB_CLIENT_FRAMES, **VERB_SERVER_FRAMES}),
            "securitySchemes": {
                "bearer": {"type": "http", "scheme": "bearer"},
            },
        },
    }


async def serve_description(request: Request) -> Response:
    return JsonResponse(build_description())
