"""An agent that uses its mailbox over HTTP, for tests."""

from __future__ import annotations

import socket
from collections.abc import Callable
from itertools import count
from select import select
from typing import Any

import httpx

from postroom import people
from tests.cli.process import eventually
from tests.server.mailbox_data import opened, part
from tests.server.running_server import RunningServer

NAMES = count(1)


class MailboxAgent:
    """An agent without a workspace: its name, its token, and what it says over HTTP."""

    def __init__(self, server: RunningServer, name: str = "") -> None:
        self.server = server
        self.name = name or f"session of {next(NAMES)}"
        with opened(server) as store:
            self.token = people.issue_agent_token(store, name=self.name)

    @property
    def http(self) -> httpx.Client:
        return self.server.client(self.token)

    @property
    def place(self) -> str:
        named = self.name.replace(".", "%2E") if self.name in (".", "..") else part(self.name)  # clients walk up and down on dots
        return f"/api/mailbox/{named}"

    def enqueue(self, **message: Any) -> httpx.Response:
        return self.http.post("/api/mailbox", json=message)

    def send(self, to: str, payload: str = "Hello", **more: Any) -> str:
        answer = self.enqueue(to=to, payload=payload, **more)
        assert answer.status_code == 201, answer.text
        msg_id: str = answer.json()["msg_id"]
        return msg_id

    def dequeue(self, wait: str = "") -> httpx.Response:
        return self.http.post(f"{self.place}/dequeue{f'?wait={wait}' if wait else ''}")

    def take(self) -> dict[str, Any]:
        answer = self.dequeue()
        assert answer.status_code == 200, answer.text
        found: dict[str, Any] = answer.json()
        return found

    def say(self, step: str, msg_id: str, **said: Any) -> httpx.Response:
        return self.http.post(f"{self.place}/{part(msg_id)}/{step}", json=said)


def begin_to_wait(connect: Callable[[], socket.socket], request: bytes, other: Callable[[], httpx.Response]) -> socket.socket:
    """Return a connection whose request is known to wait, where only one may: it is the reason why another is refused."""

    def is_answered() -> bool:
        return bool(select([line], [], [], 0)[0])

    line = connect()
    line.sendall(request)
    eventually(lambda: is_answered() or other().status_code == 429)
    if not is_answered():
        return line
    with line:
        assert line.recv(1 << 16).startswith(b"HTTP/1.1 429")  # the other came first
    return begin_to_wait(connect, request, other)
