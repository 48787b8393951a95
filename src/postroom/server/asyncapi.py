"""The description of the sockets, AsyncAPI 3.0. Served, written to docs/reference/asyncapi.json, and held to by tests."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from postroom import __version__
from postroom.core.wire import MOST_FRAME, VERB_PROTOCOL
from postroom.server.answers import Json
from postroom.server.describing import MAYBE, TEXT, TRUTH, WHOLE, Schema, ref, shape
from postroom.server.frames import ID_LENGTH, LARGEST_ID, MOST_CREDIT, MOST_WRONG, PROTOCOL
from postroom.server.verb_sockets import AT_ONCE
from postroom.server.verbs import KEY_LENGTH

CHANNEL, VERB_CHANNEL = "mailbox", "verbs"
_ID: Schema = {
    "oneOf": [
        {"type": "string", "maxLength": ID_LENGTH},
        {"type": "integer", "exclusiveMinimum": -LARGEST_ID, "exclusiveMaximum": LARGEST_ID},
        {"type": "null"},
    ],
    "description": "Whatever the client likes: the answer has the same",
}
_MSG_ID: Schema = {"type": "string", "minLength": 1, "maxLength": 400}
_TOKEN: Schema = {**MAYBE, "description": "Of the delivery that is meant: refused with delivery_lost if another followed it"}
_MESSAGE: Schema = {
    **shape(
        "to payload",
        msg_id={**MAYBE, "description": "Known for ever: the same again is not stored again"},
        to=TEXT,
        payload=TEXT,
        created_at={"type": ["integer", "null"], "description": "Unix seconds"},
    ),
    "description": "As `mailbox enqueue --json` takes it, in snake_case or camelCase; unknown fields are kept",
}
_MESSAGE["properties"]["from"] = {"type": "string", "description": "Absent: who sends"}
_TAKEN: Schema = shape(
    "message delivery_token in_flight_until",
    message={
        **shape("msg_id from to payload created_at attempt", msg_id=TEXT, to=TEXT, payload=TEXT, created_at=WHOLE, attempt=WHOLE),
        "description": "With whatever else its sender added",
    },
    delivery_token=TEXT,
    in_flight_until={"type": "string", "description": "Ack, nack or extend it by then: else it comes again"},
)
_TAKEN["properties"]["message"]["properties"]["from"] = TEXT
_RESULT: dict[str, Schema] = {
    "credit": shape("credit", credit={"type": "integer", "minimum": 0, "maximum": MOST_CREDIT}),
    "enqueue": shape("msg_id queued pending", msg_id=TEXT, queued=TRUTH, pending=WHOLE),
    "ack": shape("msg_id state changed", msg_id=TEXT, state=TEXT, changed=TRUTH),
    "nack": shape("msg_id state changed retry_at", msg_id=TEXT, state=TEXT, changed=TRUTH, retry_at=MAYBE),
    "extend": shape("msg_id in_flight_until", msg_id=TEXT, in_flight_until=TEXT),
    "ping": shape(""),
}


def _closed(required: str, **properties: Schema) -> Schema:
    return {**shape(required, **properties), "additionalProperties": False}


def _frame(op: str, required: str = "", **properties: Schema) -> Schema:
    return _closed(f"op {required}".strip(), op={"const": op}, **properties)


SAID: dict[str, tuple[str, Schema]] = {  # by clients
    "credit": (
        "So many more deliveries will be taken; without credit none come",
        _frame("credit", "n", id=_ID, n={"type": "integer", "minimum": 1, "maximum": MOST_CREDIT}),
    ),
    "enqueue": ("Store a message for any mailbox", _frame("enqueue", "message", id=_ID, message=ref("Message"))),
    "ack": ("Delivered", _frame("ack", "msg_id", id=_ID, msg_id=_MSG_ID, delivery_token=_TOKEN)),
    "nack": (
        "Not delivered: it comes again after its backoff, or is dead",
        _frame("nack", "msg_id", id=_ID, msg_id=_MSG_ID, delivery_token=_TOKEN, reason=MAYBE),
    ),
    "extend": (
        "Still at it: the time in flight starts anew",
        _frame(
            "extend",
            "msg_id",
            id=_ID,
            msg_id=_MSG_ID,
            delivery_token=_TOKEN,
            seconds={"type": ["number", "null"], "exclusiveMinimum": 0, "description": "Absent: as the mailbox's policy has it"},
        ),
    ),
    "ping": ("Are you there?", _frame("ping", id=_ID)),
}
TOLD: dict[str, tuple[str, Schema]] = {  # to clients
    "delivery": (
        "A message that fell due; it costs one credit, and no more than that",
        _frame("delivery", "delivery", delivery=ref("Delivery")),
    ),
    "ok": (
        "A frame was carried out, and is on disk",
        _frame("ok", "id result", id=_ID, result={"anyOf": [ref(f"{op.title()}Result") for op in _RESULT]}),
    ),
    "refused": (
        f"A frame was not carried out, and nothing changed. After {MOST_WRONG} that make no sense the socket is closed",
        _frame("refused", "id error", id=_ID, error=ref("Refusal")),
    ),
    "goodbye": ("The server stops, and closes with 1001: connect again", _frame("goodbye")),
}
VERB_SAID: dict[str, tuple[str, Schema]] = {
    "say": (
        "Say a verb: the same as `POST /api/verbs/{room}.{verb}`",
        _frame(
            "say",
            "verb",
            id=_ID,
            verb={"type": "string", "description": "As in the library: mail.enqueue, work.send"},
            args={"type": "array", "description": "What it is given by place, but for the store"},
            named={"type": "object", "description": "What it is given by name"},
            key={
                "type": ["string", "null"],
                "maxLength": KEY_LENGTH,
                "description": "Said again with the same key, as after a lost connection, it is done once",
            },
        ),
    ),
    "ping": SAID["ping"],
}
VERB_TOLD: dict[str, tuple[str, Schema]] = {
    "said": ("What a verb gave", _frame("said", "id result", id=_ID, result={"description": "As the wire has it; of a ping, null"})),
    "refused": TOLD["refused"],
    "goodbye": TOLD["goodbye"],
}
_CLOSES = (
    "Closed with 1001 when the server stops, 1003 for binary frames, 1007 for text that is not UTF-8, 1008 when the token is revoked, "
    "for frames that make no sense, or when 1 MiB of answers was left unread, 1009 for a frame or message that is too large, "
    "1011 when pings are not answered. Whatever ends a connection, what was delivered on it and not acknowledged comes again when its "
    "time in flight is over."
)
_DESCRIPTION = (
    "Text frames, one JSON object each. Each frame of a client is confirmed by `ok` or `refused`, in the order in which they came; "
    "deliveries come between. A client gives credit, and gets one delivery for each as messages fall due, whoever stored them and "
    f"however. Sockets of one mailbox share its messages: each goes to one of them. A client's frame has at most {MOST_FRAME // 1024} KiB; "
    "a delivery may be as large as the largest message, 10 MiB of payload. " + _CLOSES + " Verbs have a socket of their own, on which "
    f"up to {AT_ONCE} are done at once, each answered with its `id` when it is done; what is larger than a frame is said over HTTP."
)
SCHEMAS: dict[str, Schema] = {
    "Message": _MESSAGE,
    "Delivery": _TAKEN,
    "Refusal": shape("code message hint", code=TEXT, message=TEXT, hint=TEXT),
    **{f"{op.title()}Result": result for op, result in _RESULT.items()},
}


def _messages(frames: dict[str, tuple[str, Schema]]) -> dict[str, Schema]:
    return {
        op: {"name": op, "title": op, "summary": summary, "contentType": "application/json", "payload": payload}
        for op, (summary, payload) in frames.items()
    }


def _operation(channel: str, op: str, summary: str, answer: str | None = None) -> Schema:
    """What a client says, which is answered, or what it is told."""
    where = f"#/channels/{channel}"
    message = {"$ref": f"{where}/messages/{op}"}
    action = "send" if answer is None else "receive"
    made: dict[str, Any] = {"action": action, "channel": {"$ref": where}, "summary": summary, "messages": [message]}
    if answer is not None:
        made["reply"] = {"channel": {"$ref": where}, "messages": [{"$ref": f"{where}/messages/{one}"} for one in (answer, "refused")]}
    return made


def _channel(address: str, protocol: str, messages: Iterable[str], **more: Any) -> Schema:
    return {
        "address": address,
        "description": f"The subprotocol `{protocol}` is chosen if it is offered",
        **more,
        "messages": {op: {"$ref": f"#/components/messages/{op}"} for op in messages},
        "bindings": {"ws": {"method": "GET", "bindingVersion": "0.1.0"}},
    }


def description() -> Schema:
    session = {"session": {"description": "Whose mailbox: an agent's own, or any for a person; percent-encoded"}}
    return {
        "asyncapi": "3.0.0",
        "id": "urn:postroom",
        "info": {"title": "Postroom: mailboxes and verbs as WebSockets", "version": __version__, "description": _DESCRIPTION},
        "defaultContentType": "application/json",
        "servers": {
            "local": {
                "host": "127.0.0.1:8420",
                "protocol": "ws",
                "description": "Also over the Unix socket of `inbox serve --uds`",
                "security": [{"$ref": "#/components/securitySchemes/bearer"}, {"$ref": "#/components/securitySchemes/cookie"}],
            }
        },
        "channels": {
            CHANNEL: _channel("/api/mailbox/{session}/socket", PROTOCOL, (*SAID, *TOLD), parameters=session),
            VERB_CHANNEL: _channel("/api/verbs", VERB_PROTOCOL, (*VERB_SAID, *VERB_TOLD)),
        },
        "operations": {
            **{op: _operation(CHANNEL, op, summary, "ok") for op, (summary, _) in SAID.items()},
            **{op: _operation(CHANNEL, op, TOLD[op][0]) for op in ("delivery", "goodbye")},
            "say": _operation(VERB_CHANNEL, "say", VERB_SAID["say"][0], "said"),
            "verbs_ping": _operation(VERB_CHANNEL, "ping", VERB_SAID["ping"][0], "said"),
            "verbs_goodbye": _operation(VERB_CHANNEL, "goodbye", VERB_TOLD["goodbye"][0]),
        },
        "components": {
            "schemas": SCHEMAS,
            "messages": _messages({**SAID, **TOLD, **VERB_SAID, **VERB_TOLD}),
            "securitySchemes": {
                "bearer": {"type": "http", "scheme": "bearer"},
                "cookie": {"type": "httpApiKey", "in": "cookie", "name": "postroom_session"},
            },
        },
    }


async def serve(request: Request) -> Response:
    return Json(description())
