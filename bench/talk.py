"""Small raw clients of a mailbox and of its peers, with many connections at once, in a process of their own.

Each is a conversation: what it says first, and what it says to what it hears. `done` counts what was confirmed. Nothing is said before
the answer is whole, but by those who are pushed to, which is what they are for.
"""

from __future__ import annotations

import base64
import json
import os
import select
import socket
import struct
import subprocess
import sys
from time import monotonic
from typing import Any

from bench.load import HOST, WARM, answered, request
from postroom import __version__
from postroom.core.rpc.wire import CONTENT_TYPE, VERSION_HEADER

PATIENCE = 60.0
PAYLOAD = "analyze the auth module"
Facts = dict[str, Any]


class Conversation:
    """One line. `facts` say where, as whom and with which mailbox."""

    def __init__(self, facts: Facts, number: int) -> None:
        self.facts, self.number = facts, number
        self.done = 0
        self.came = b""
        self.line = self._connected()

    def _connected(self) -> socket.socket:
        if "path" in self.facts:
            line = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            line.settimeout(PATIENCE)
            line.connect(self.facts["path"])
            return line
        line = socket.create_connection((HOST, self.facts["port"]), timeout=PATIENCE)
        line.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return line

    def begin(self) -> bytes:
        raise NotImplementedError

    def hear(self) -> bytes:
        """Return the answer to what arrived, or nothing if it is not complete yet."""
        raise NotImplementedError

    def turn(self) -> None:
        piece = self.line.recv(262144)
        if not piece:
            raise ConnectionError("the server hung up")
        self.came += piece
        while said := self.hear():
            self.line.sendall(said)


# Postroom over HTTP


class Http(Conversation):
    def ask(self, path: str, body: Facts | None) -> bytes:
        headers = {} if body is not None else {"Content-Length": "0"}
        return request("POST", path, self.facts.get("port", 80), self.facts.get("token", ""), body, headers)

    def answer(self) -> Facts | None:
        found = answered(self.came)
        if found is None:
            return None
        if not 200 <= found[0] < 204:
            raise ValueError(f"{found[0]}: {found[1][:300]!r}")
        self.came = b""
        told: Facts = json.loads(found[1])
        return told


class HttpPut(Http):
    def begin(self) -> bytes:
        self.said = self.ask("/api/mailbox", {"to": self.facts["session"], "payload": PAYLOAD})
        return self.said

    def hear(self) -> bytes:
        if self.answer() is None:
            return b""
        self.done += 1
        return self.said


class VerbPut(Http):
    """The same message as a verb, with a new key for each call, as the library sends it."""

    def begin(self) -> bytes:
        message = {"from": "user", "to": self.facts["session"], "payload": PAYLOAD}
        self.key = f"{os.urandom(8).hex()}{0:016x}"  # and then counted: random numbers would cost the client more than the rest
        headers = {"Content-Type": CONTENT_TYPE, VERSION_HEADER: __version__, "Idempotency-Key": self.key}
        body = {"args": [], "named": {"message": message}}
        self.said = request("POST", "/api/verbs/mail.enqueue", self.facts.get("port", 80), self.facts.get("token", ""), body, headers)
        return self.said

    def hear(self) -> bytes:
        if self.answer() is None:
            return b""
        self.done += 1
        return self.said.replace(self.key.encode(), f"{self.key[:16]}{self.done:016x}".encode(), 1)


class VerbReply(VerbPut):
    """A message of an agent in a thread in which it takes part, as a verb. Each client speaks in a thread of its own."""

    def begin(self) -> bytes:
        self.key = f"{os.urandom(8).hex()}{0:016x}"
        headers = {"Content-Type": CONTENT_TYPE, VERSION_HEADER: __version__, "Idempotency-Key": self.key}
        named = {"thread_id": self.facts["threads"][self.number], "sender": self.facts["agent"], "summary": PAYLOAD}
        body = {"args": [], "named": named}
        self.said = request("POST", "/api/verbs/work.reply", self.facts.get("port", 80), self.facts.get("token", ""), body, headers)
        return self.said


class HttpTake(Http):
    def begin(self) -> bytes:
        return self.ask(f"/api/mailbox/{self.facts['session']}/dequeue", None)

    def hear(self) -> bytes:
        told = self.answer()
        if told is None:
            return b""
        if "delivery_token" in told:
            path = f"/api/mailbox/{self.facts['session']}/{told['message']['msg_id']}/ack"
            return self.ask(path, {"delivery_token": told["delivery_token"]})
        self.done += 1
        return self.begin()


# Postroom over a WebSocket


class Wire(Conversation):
    def frame(self, **said: Any) -> bytes:
        data = json.dumps(said).encode()
        assert len(data) < 65536
        head = struct.pack("!BB", 0x81, 0x80 | len(data)) if len(data) < 126 else struct.pack("!BBH", 0x81, 0xFE, len(data))
        return head + bytes(4) + data  # a mask of zeros: the bytes are as they are

    def upgrade(self) -> None:
        key = base64.b64encode(os.urandom(16)).decode()
        head = {"Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "13", "Sec-WebSocket-Key": key}
        path = f"/api/mailbox/{self.facts['session']}/socket"
        self.line.sendall(request("GET", path, self.facts.get("port", 80), self.facts.get("token", ""), None, head))
        came = b""
        while b"\r\n\r\n" not in came:
            came += self.line.recv(65536)
        if b" 101 " not in came.splitlines()[0]:
            raise ValueError(came[:300])
        self.came = came.partition(b"\r\n\r\n")[2]

    def frames(self) -> list[Facts]:
        """Those that came whole."""
        found, at = [], 0
        while len(self.came) >= at + 2:
            size, start = self.came[at + 1] & 0x7F, at + 2
            if size == 126:
                if len(self.came) < start + 2:
                    break
                size, start = struct.unpack_from("!H", self.came, start)[0], start + 2
            if len(self.came) < start + size:
                break
            if self.came[at] == 0x81:
                found.append(json.loads(self.came[start : start + size]))
            at = start + size
        self.came = self.came[at:]
        for one in found:
            if one["op"] not in ("ok", "delivery"):
                raise ValueError(one)
        return found


class WirePut(Wire):
    def begin(self) -> bytes:
        self.upgrade()
        self.said = self.frame(op="enqueue", id=1, message={"to": self.facts["session"], "payload": PAYLOAD})
        return self.said

    def hear(self) -> bytes:
        told = self.frames()
        self.done += len(told)
        return self.said * len(told)


class WireTake(Wire):
    """It has so much credit at a time, and gives one for each that it has acknowledged."""

    def begin(self) -> bytes:
        self.upgrade()
        return self.frame(op="credit", n=self.facts["credit"], id="credit")

    def hear(self) -> bytes:
        said = b""
        for told in self.frames():
            if told["op"] == "delivery":
                one = told["delivery"]
                said += self.frame(op="ack", id="ack", msg_id=one["message"]["msg_id"], delivery_token=one["delivery_token"])
                said += self.frame(op="credit", n=1, id="credit")
            else:
                self.done += told["id"] == "ack"
        return said


# Redis streams


class Redis(Conversation):
    @staticmethod
    def command(*words: str) -> bytes:
        return b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%b\r\n" % (len(word.encode()), word.encode()) for word in words)

    def reply(self) -> Any:
        """The next reply, or None if it is not whole."""
        try:
            value, at = self._parse(0)
        except IndexError:
            return None
        self.came = self.came[at:]
        return value

    def _parse(self, at: int) -> tuple[Any, int]:
        end = self.came.find(b"\r\n", at)
        if end < 0:
            raise IndexError
        kind, text, at = self.came[at : at + 1], self.came[at + 1 : end], end + 2
        if kind == b"-":
            raise ValueError(text)
        if kind == b"$":
            if len(self.came) < at + int(text) + 2:
                raise IndexError
            return self.came[at : at + int(text)].decode(), at + int(text) + 2
        if kind == b"*":
            items = []
            for _ in range(int(text)):
                item, at = self._parse(at)
                items.append(item)
            return items, at
        return text.decode(), at


class RedisPut(Redis):
    def begin(self) -> bytes:
        self.said = self.command("XADD", "put", "*", "from", "user", "payload", PAYLOAD)
        return self.said

    def hear(self) -> bytes:
        if self.reply() is None:
            return b""
        self.done += 1
        return self.said


class RedisTake(Redis):
    def begin(self) -> bytes:
        self.said = self.command("XREADGROUP", "GROUP", "workers", f"worker-{self.number}", "COUNT", "1", "STREAMS", "take", ">")
        return self.said

    def hear(self) -> bytes:
        told = self.reply()
        if told is None:
            return b""
        if isinstance(told, list):
            return self.command("XACK", "take", "workers", told[0][1][0][0])
        self.done += 1
        return self.said


# NATS JetStream


class Nats(Conversation):
    def publish(self, subject: str, text: str = "") -> bytes:
        return f"PUB {subject} inbox.{self.facts['run']}.{self.number} {len(text)}\r\n{text}\r\n".encode()

    def connect(self) -> bytes:
        return b'CONNECT {"verbose":false,"pedantic":false}\r\n' + f"SUB inbox.{self.facts['run']}.{self.number} 1\r\n".encode()

    def messages(self) -> list[tuple[str, bytes]]:
        """Return a complete message: the subject to answer to, and its text."""
        found = []
        while (end := self.came.find(b"\r\n")) >= 0:
            words = self.came[:end].decode().split(" ")
            if words[0] == "PING":
                self.line.sendall(b"PONG\r\n")
            if words[0] == "-ERR":
                raise ValueError(words)
            size = int(words[-1]) if words[0] in ("MSG", "HMSG") else -2
            if len(self.came) < end + 2 + size + 2:
                break
            if words[0] == "HMSG":
                raise ValueError(self.came[:200])
            if words[0] == "MSG":
                found.append((words[3] if len(words) == 5 else "", self.came[end + 2 : end + 2 + size]))
            self.came = self.came[end + 2 + size + 2 :]
        return found


class NatsPut(Nats):
    def begin(self) -> bytes:
        self.said = self.publish("put", PAYLOAD)
        return self.connect() + self.said

    def hear(self) -> bytes:
        told = self.messages()
        for _, text in told:
            if b'"error"' in text:
                raise ValueError(text)
        self.done += len(told)
        return self.said * len(told)


class NatsTake(Nats):
    def begin(self) -> bytes:
        self.said = self.publish("$JS.API.CONSUMER.MSG.NEXT.take.workers")
        return self.connect() + self.said

    def hear(self) -> bytes:
        said = b""
        for answer, _ in self.messages():
            if answer:
                said += self.publish(answer, "+ACK")
            else:
                self.done += 1
                said += self.said
        return said


KINDS: dict[str, type[Conversation]] = {
    one.__name__: one for one in (HttpPut, VerbPut, VerbReply, HttpTake, WirePut, WireTake, RedisPut, RedisTake, NatsPut, NatsTake)
}


def talk(kind: str, facts: Facts, *, lines: int, seconds: float) -> float:
    """How many a second, in one round, in a process of its own."""
    argv = [sys.executable, "-m", "bench.talk", kind, str(lines), str(seconds)]
    done = subprocess.run(argv, input=json.dumps(facts), stdout=subprocess.PIPE, text=True, check=True, timeout=seconds + PATIENCE)
    return float(done.stdout)


def _talk(kind: str, facts: Facts, lines: int, seconds: float) -> float:
    poll = select.epoll()
    all_of_them = {}
    for number in range(lines):
        one = KINDS[kind](facts, number)
        all_of_them[one.line.fileno()] = one
        poll.register(one.line.fileno(), select.EPOLLIN)
        one.line.sendall(one.begin())
    before, began, counting = 0, monotonic(), False
    until = began + WARM
    while (now := monotonic()) < until or not counting or sum(one.done for one in all_of_them.values()) == before:
        if now >= until and not counting:
            counting, before, began, until = True, sum(one.done for one in all_of_them.values()), now, now + seconds
        ready = poll.poll(1)
        for number, _ in ready:
            all_of_them[number].turn()
    return (sum(one.done for one in all_of_them.values()) - before) / (now - began)


if __name__ == "__main__":
    print(_talk(sys.argv[1], json.load(sys.stdin), int(sys.argv[2]), float(sys.argv[3])))
