"""The WebSockets, of a mailbox and of verbs, as a real client uses them. Every frame of either side is held against the AsyncAPI file."""

from __future__ import annotations

import json
import os
import socket
import struct
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from jsonschema import Draft202012Validator
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import ClientConnection, connect, unix_connect

from postroom.core.rpc.wire import VERB_PROTOCOL
from tests.cli.process import LIMIT
from tests.server.mailbox_data import part
from tests.server.running_server import RunningServer

FILE = Path(__file__).parents[2] / "docs" / "reference" / "asyncapi.json"
PROTOCOL = "postroom.mailbox.v1"
MAILBOX, VERBS = "mailbox", "verbs"  # channels
Frame = dict[str, Any]


@cache
def described() -> Frame:
    found: Frame = json.loads(FILE.read_text())
    return found


@cache
def _validator(op: str) -> Draft202012Validator:
    file = described()
    return Draft202012Validator({**file["components"]["messages"][op]["payload"], "components": file["components"]})


def checked(frame: Frame, action: str, channel: str = MAILBOX) -> Frame:
    """A frame that is as the file says, and goes in the direction that it says."""
    operations = [one for one in described()["operations"].values() if one["channel"]["$ref"].endswith(f"/{channel}")]
    known = {message["$ref"].rpartition("/")[2] for one in operations if one["action"] == action for message in one["messages"]}
    if action == "send":
        replies = [one["reply"] for one in operations if "reply" in one]
        known |= {message["$ref"].rpartition("/")[2] for one in replies for message in one["messages"]}
    assert frame["op"] in known & set(described()["channels"][channel]["messages"]), frame
    _validator(frame["op"]).validate(frame)
    return frame


class SocketClient:
    """An open socket. What comes while something else is waited for is kept."""

    answered = "ok"

    def __init__(self, connection: ClientConnection, channel: str = MAILBOX) -> None:
        self.connection = connection
        self.channel = channel
        self._deliveries: deque[Frame] = deque()
        self._answers: deque[Frame] = deque()
        self._number = 0

    def say(self, op: str, **fields: Any) -> int:
        """Send a frame; its id."""
        self._number += 1
        self.connection.send(json.dumps(checked({"op": op, "id": self._number, **fields}, "receive", self.channel)))
        return self._number

    def ask(self, op: str, **fields: Any) -> Frame:
        """Return the answer to a frame; the next call confirms it."""
        number = self.say(op, **fields)
        answer = self.answer()
        assert answer["id"] == number, answer
        return answer

    def ok(self, op: str, **fields: Any) -> Frame:
        answer = self.ask(op, **fields)
        assert answer["op"] == self.answered, answer
        result: Frame = answer["result"]
        return result

    def refused(self, op: str, **fields: Any) -> Frame:
        return error_of(self.ask(op, **fields))

    def answer(self) -> Frame:
        return self._next(self._answers)

    def delivery(self) -> Frame:
        found: Frame = self._next(self._deliveries)["delivery"]
        return found

    def message(self) -> Frame:
        """The message of the next delivery, acknowledged."""
        delivery = self.delivery()
        message: Frame = delivery["message"]
        assert self.ok("ack", msg_id=message["msg_id"], delivery_token=delivery["delivery_token"])["changed"]
        return message

    def raw(self, frame: str | bytes) -> None:
        self.connection.send(frame)

    def _next(self, wanted: deque[Frame]) -> Frame:
        while not wanted:
            frame = checked(json.loads(self.connection.recv(timeout=LIMIT)), "send", self.channel)
            assert frame["op"] != "goodbye", "the server stops"
            (self._deliveries if frame["op"] == "delivery" else self._answers).append(frame)
        return wanted.popleft()

    def last(self) -> tuple[list[Frame], int]:
        """Return the frames until the server closed the socket, and the code of the close."""
        came = [*self._answers, *self._deliveries]
        try:
            while True:
                came.append(checked(json.loads(self.connection.recv(timeout=LIMIT)), "send", self.channel))
        except ConnectionClosed as closed:
            return came, 1006 if closed.rcvd is None else closed.rcvd.code


class VerbSocketClient(SocketClient):
    """An open socket on which verbs are said. The next answer is of whichever is done next."""

    answered = "result"

    def __init__(self, connection: ClientConnection) -> None:
        super().__init__(connection, VERBS)

    def verb(self, name: str, **named: Any) -> int:
        """Say a verb; its id."""
        return self.say("call", verb=name, named=named)

    def does(self, name: str, **named: Any) -> Any:
        return self.ok("call", verb=name, named=named)


def error_of(answer: Frame) -> Frame:
    assert answer["op"] == "refused", answer
    error: Frame = answer["error"]
    assert error["message"]
    assert len(error["message"]) < 1000, "a refusal does not echo pages"
    return error


def place(server: RunningServer, session: str) -> str:
    return f"{server.url.replace('http', 'ws', 1)}/api/mailbox/{part(session)}/socket"


@contextmanager
def speaking(server: RunningServer, token: str | None = None, **more: Any) -> Iterator[VerbSocketClient]:
    """A socket for verbs; by default with the person's token."""
    with wired(server, "", token, url=f"{server.url.replace('http', 'ws', 1)}/api/verbs", subprotocols=[VERB_PROTOCOL], **more) as wire:
        yield VerbSocketClient(wire.connection)


@contextmanager
def wired(server: RunningServer, session: str, token: str | None = None, **more: Any) -> Iterator[SocketClient]:
    """A socket of a session; by default with the person's token."""
    headers = {"Authorization": f"Bearer {server.ready['token'] if token is None else token}"} if token != "" else {}
    headers |= more.pop("headers", {})
    url = more.pop("url", place(server, session))
    settings = {"proxy": None, "open_timeout": LIMIT, "close_timeout": 5, "max_size": None, **more}
    with connect(url, additional_headers=headers, **settings) as connection:
        yield SocketClient(connection)


@contextmanager
def wired_locally(path: Path, session: str, token: str = "") -> Iterator[SocketClient]:
    """The same over a Unix socket."""
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    address = f"ws://localhost/api/mailbox/{part(session)}/socket"
    with unix_connect(str(path), address, additional_headers=headers, open_timeout=LIMIT, max_size=None) as connection:
        yield SocketClient(connection)


def unwelcome(server: RunningServer, session: str, status: int, code: str, **more: Any) -> Frame:
    """How an upgrade is refused: before it, in the one shape."""
    with pytest.raises(InvalidStatus) as refused, wired(server, session, **more):
        pass
    response = refused.value.response
    assert response.status_code == status, (response.status_code, response.body)
    assert response.headers["content-type"].startswith("application/json")
    said = json.loads(response.body or b"")
    assert (said["ok"], said["error"]["code"]) == (False, code), said
    error: Frame = said["error"]
    return error


# Clients that keep to no rules


class RawConnection:
    """A TCP connection on which anything can be said."""

    def __init__(self, server: RunningServer, *, small: bool = False) -> None:
        address = urlsplit(server.url)
        self.netloc = address.netloc
        self.socket = socket.socket()
        if small:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        self.socket.settimeout(LIMIT)
        self.socket.connect((address.hostname, address.port))

    def head(self, server: RunningServer, session: str, *more: str, token: str | None = None) -> bytes:
        lines = [
            f"GET /api/mailbox/{part(session)}/socket HTTP/1.1",
            f"Host: {self.netloc}",
            "Connection: Upgrade",
            "Upgrade: websocket",
            "Sec-WebSocket-Version: 13",
            "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==",
            f"Authorization: Bearer {server.ready['token'] if token is None else token}",
            *more,
        ]
        return "\r\n".join([*lines, "", ""]).encode()

    def send(self, data: bytes) -> bool:
        """Whether the other end still takes it."""
        try:
            self.socket.sendall(data)
        except OSError:
            return False
        return True

    def until(self, mark: bytes) -> bytes:
        came = b""
        while mark not in came:
            piece = self.socket.recv(65536)
            assert piece, came
            came += piece
        return came

    def rest(self) -> bytes:
        """Everything until the end."""
        came = b""
        try:
            while piece := self.socket.recv(65536):
                came += piece
        except ConnectionResetError:
            pass
        return came

    def vanish(self) -> None:
        """Without a word, not even of TCP's farewell."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.socket.close()

    def __enter__(self) -> RawConnection:
        return self

    def __exit__(self, *exc: object) -> None:
        self.socket.close()


@contextmanager
def raw(server: RunningServer, session: str, *, small: bool = False, token: str | None = None) -> Iterator[RawConnection]:
    """A connection after its upgrade, at the level of frames."""
    with RawConnection(server, small=small) as line:
        line.send(line.head(server, session, token=token))
        assert b" 101 " in line.until(b"\r\n\r\n").splitlines()[0]
        yield line


def frame(opcode: int, payload: bytes = b"", *, last: bool = True, masked: bool = True, size: int | None = None) -> bytes:
    """A frame, as its header says it is."""
    length = len(payload) if size is None else size
    head = bytes([opcode | (0x80 if last else 0)])
    flag = 0x80 if masked else 0
    if length < 126:
        head += bytes([flag | length])
    elif length < 65536:
        head += struct.pack("!BH", flag | 126, length)
    else:
        head += struct.pack("!BQ", flag | 127, length)
    if not masked:
        return head + payload
    mask = os.urandom(4)
    return head + mask + bytes(byte ^ mask[number % 4] for number, byte in enumerate(payload))


def code_in(came: bytes) -> int | None:
    """The code with which the server closed, in what it said last."""
    at = came.rfind(b"\x88")
    return None if at < 0 else int(struct.unpack("!H", came[at + 2 : at + 4])[0])


TEXT, BINARY, CONTINUED, CLOSE, PING, PONG = 1, 2, 0, 8, 9, 10
