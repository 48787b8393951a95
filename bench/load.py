"""Requests as bytes, and who sends them: one keep-alive line, or many at once from a process of their own.

A client library would cost more than the server that it measures. This one sends the same bytes again as soon as an answer is whole,
never before (no pipelining), and says what it cost itself.
"""

from __future__ import annotations

import json
import select
import socket
import subprocess
import sys
from collections.abc import Mapping
from time import monotonic, process_time
from typing import Any, NamedTuple

HOST = "127.0.0.1"
MCP_VERSION = "2026-07-28"
WARM = 0.3  # seconds that do not count
PATIENCE = 20.0
_END = b"\r\n\r\n"
_LENGTH = b"content-length: "


def request(
    method: str, path: str, port: int, token: str = "", body: Mapping[str, Any] | None = None, headers: Mapping[str, str] | None = None
) -> bytes:
    """A request of HTTP/1.1, whole."""
    lines = [f"{method} {path} HTTP/1.1", f"Host: {HOST}:{port}", *(f"{name}: {value}" for name, value in (headers or {}).items())]
    if token:
        lines.append(f"Authorization: Bearer {token}")
    data = b"" if body is None else json.dumps(body).encode()
    if body is not None:
        kind = "" if headers and "Content-Type" in headers else "Content-Type: application/json"
        lines += [*filter(None, [kind]), f"Content-Length: {len(data)}"]
    return "\r\n".join([*lines, "", ""]).encode() + data


def mcp_request(tool: str, arguments: Mapping[str, Any], port: int, workspace: str, token: str) -> bytes:
    """A call of a tool as the current protocol has it: one POST, no handshake."""
    key = "io.modelcontextprotocol/"
    envelope = {f"{key}protocolVersion": MCP_VERSION, f"{key}clientCapabilities": {}, f"{key}clientInfo": {"name": "bench", "version": "0"}}
    called = {"name": tool, "arguments": arguments, "_meta": envelope}
    headers = {
        "Accept": "application/json, text/event-stream",
        "MCP-Protocol-Version": MCP_VERSION,
        "Mcp-Method": "tools/call",
        "Mcp-Name": tool,
    }
    return request("POST", f"/mcp/{workspace}", port, token, {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": called}, headers)


def answered(data: bytes) -> tuple[int, bytes] | None:
    """The status and the body of an answer, once it is whole."""
    head = data.find(_END)
    if head < 0:
        return None
    at = data.find(_LENGTH, 0, head)
    if at < 0:
        raise ValueError(f"an answer without a length: {data[:200]!r}")
    size = int(data[at + len(_LENGTH) : data.find(b"\r", at)])
    if len(data) < head + 4 + size:
        return None
    return int(data[9:12]), data[head + 4 :]


def connected(port: int) -> socket.socket:
    line = socket.create_connection((HOST, port), timeout=PATIENCE)
    line.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return line


class Line:
    """One keep-alive connection, asked and answered in turns."""

    def __init__(self, port: int) -> None:
        self._socket = connected(port)
        self.number = self._socket.fileno()

    def send(self, data: bytes) -> None:
        self._socket.sendall(data)

    def until(self, mark: bytes) -> bytes:
        """Return the bytes that arrived, up to and including this ending."""
        data = b""
        while not data.endswith(mark):
            data += self.received()
        return data

    def answer(self) -> bytes:
        data = self.received()
        while (found := answered(data)) is None:
            data += self.received()
        status, body = found
        if status >= 300:
            raise ValueError(f"{status}: {body[:300]!r}")
        return body

    def ask(self, data: bytes) -> bytes:
        self.send(data)
        return self.answer()

    def close(self) -> None:
        self._socket.close()

    def received(self) -> bytes:
        data = self._socket.recv(262144)
        if not data:
            raise ConnectionError("the server hung up")
        return data


class Crowd:
    """Lines that have all asked the same, and wait for something with this mark."""

    def __init__(self, port: int, size: int, data: bytes, hello: bytes, mark: bytes) -> None:
        self.size, self._mark = size, mark
        self._lines = {(line := Line(port)).number: line for _ in range(size)}
        self._parts = dict.fromkeys(self._lines, b"")
        self._data = data
        self.told: list[float] = []  # after how many seconds each had it
        self.ask()
        for line in self._lines.values():
            line.until(hello)

    def ask(self) -> None:
        """Send the question on every line."""
        for line in self._lines.values():
            line.send(self._data)

    def forget(self) -> None:
        """Forget what came, for another round."""
        self.told = []
        self._parts = dict.fromkeys(self._lines, b"")

    def watch(self, poll: select.epoll) -> None:
        for number in self._lines:
            poll.register(number, select.EPOLLIN)

    def hear(self, number: int, after: float) -> bool:
        """Whether this line is one of ours, and has the whole by now."""
        if number not in self._lines:
            return False
        came = self._parts[number] = self._parts[number] + self._lines[number].received()
        if self._mark in came:
            self.told.append(after)
        return self._mark in came

    def close(self) -> None:
        for line in self._lines.values():
            line.close()


def tell(crowds: list[Crowd], line: Line, data: bytes) -> None:
    """Send something, and wait until everybody was told of it, or the time is over."""
    poll = select.epoll()
    for crowd in crowds:
        crowd.watch(poll)
    began = monotonic()
    line.send(data)
    while monotonic() - began < PATIENCE and any(len(crowd.told) < crowd.size for crowd in crowds):
        for number, _ in poll.poll(0.1):
            if any(crowd.hear(number, monotonic() - began) for crowd in crowds):
                poll.unregister(number)
    line.answer()
    poll.close()


class Driven(NamedTuple):
    """The result of a round: requests a second, how many this client could have sent in a second of its own CPU, and their number."""

    rate: float
    capacity: float
    total: int


def drive(port: int, data: bytes, *, connections: int, seconds: float) -> Driven:
    """One round, in a process of its own."""
    argv = [sys.executable, "-m", "bench.load", str(port), str(connections), str(seconds)]
    done = subprocess.run(argv, input=data, stdout=subprocess.PIPE, check=True, timeout=seconds + PATIENCE)
    return Driven(*json.loads(done.stdout))


def _drive(port: int, data: bytes, connections: int, seconds: float) -> Driven:
    poll = select.epoll()
    lines = {line.fileno(): line for line in (connected(port) for _ in range(connections))}
    for number, line in lines.items():
        line.setblocking(False)
        poll.register(number, select.EPOLLIN)
        line.send(data)
    parts: dict[int, bytes] = {}
    done, warm, cpu, began = 0, 0, process_time(), monotonic()
    counting, until = False, began + WARM
    while (now := monotonic()) < until or not counting or done == 0:  # at least one, also while the disk stalls
        if now >= until and not counting:
            counting, warm, done, cpu, began, until = True, done, 0, process_time(), now, now + seconds
        for number, _ in poll.poll(1):
            came = parts.pop(number, b"") + (piece := lines[number].recv(262144))
            found = answered(came)
            if found is None:
                if not piece:
                    raise ConnectionError("the server hung up")
                parts[number] = came
                continue
            if found[0] >= 300:
                raise ValueError(f"{found[0]}: {found[1][:300]!r}")
            done += 1
            lines[number].send(data)
    return Driven(done / (now - began), done / (process_time() - cpu), warm + done)


if __name__ == "__main__":
    print(json.dumps(_drive(int(sys.argv[1]), sys.stdin.buffer.read(), int(sys.argv[2]), float(sys.argv[3]))))
