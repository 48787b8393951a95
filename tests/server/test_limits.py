"""Limits of a server: bodies, rates, listeners and waiting calls are bounded."""

from __future__ import annotations

import asyncio
import json
import socket
from collections import Counter
from collections.abc import Callable, Iterator
from urllib.parse import urlsplit

import httpx
import pytest
from starlette.types import Message

from postroom.core.errors import InvalidInput
from postroom.server.http import security
from tests.cli.process import LIMIT, eventually
from tests.server.agents import answered, at
from tests.server.running_server import JSON, RunningServer, WorkspaceClient, refusal
from tests.server.verb_calls import post_verb

Found = Callable[..., RunningServer]
HUGE = 8 << 20


def _endless() -> Iterator[bytes]:
    """A body that does not say how long it is."""
    yield b'{"comments": "'
    for _ in range(HUGE >> 16):
        yield b"x" * (1 << 16)
    yield b'"}'


def _refused(post: Callable[[], httpx.Response]) -> None:
    """Too large: said so, or, to who goes on sending regardless, cut off."""
    try:
        refusal(post(), 413, "too_large")
    except (httpx.WriteError, httpx.RemoteProtocolError, httpx.ReadError):
        pass


@pytest.mark.parametrize("path", ["/api/inbox/push", "/api/inbox/3d8f7a34-6d0c-4e0e-9b43-1d7c8a4e1a11/reply"])
def test_a_body_that_is_too_large_is_refused(server: RunningServer, workspace: WorkspaceClient, path: str) -> None:
    client = workspace.http if path.endswith("push") else server.person
    _refused(lambda: client.post(path, content=b'{"comments": "' + b"x" * HUGE + b'"}', headers=JSON))
    _refused(lambda: client.post(path, content=_endless(), headers=JSON))
    assert workspace.entries() == []
    workspace.push(comments="Still served")


def test_a_body_with_too_many_values_is_refused_and_large_ones_with_few_are_taken(workspace: WorkspaceClient) -> None:
    message = {"from": workspace.agent, "to": workspace.agent, "payload": "x", "msg_id": "m"}
    many = json.dumps({"named": {"messages": [message] * 30_000}}).encode()
    refusal(post_verb(workspace.http, "mail.enqueue_all", many), 413, "too_large")
    refusal(workspace.http.post("/api/mailbox", json={**message, "extra": [0] * 200_000}), 413, "too_large")
    deep = b'{"named": {"message": ' + b"[" * 300_000
    refusal(post_verb(workspace.http, "mail.enqueue", deep), 400, "invalid_input")
    large = json.dumps({"named": {"message": {**message, "payload": '{"a": [1, "é"]}' * 50_000}}}).encode()
    assert post_verb(workspace.http, "mail.enqueue", large).status_code == 200
    found = workspace.http.get(f"/api/mailbox/{workspace.agent}").json()
    assert [one["msg_id"] for one in found["messages"]] == ["m"]


def test_a_body_that_says_it_is_too_large_is_refused_before_it_comes(server: RunningServer, workspace: WorkspaceClient) -> None:
    place = urlsplit(server.url)
    head = f"POST /api/inbox/push HTTP/1.1\r\nHost: {place.netloc}\r\nAuthorization: Bearer {workspace.token}\r\n"
    head += f"Content-Length: {1 << 40}\r\n\r\n"
    with socket.create_connection((place.hostname, place.port), timeout=LIMIT) as line:
        line.sendall(head.encode())
        assert line.recv(1 << 16).split(b"\r\n")[0].startswith(b"HTTP/1.1 413")
    assert workspace.entries() == []


@pytest.mark.parametrize("path", ["/api/inbox/push", "/api/mailbox", "/api/mailbox/{agent}/dequeue", "/api/mailbox/{agent}/m/ack"])
def test_who_leaves_in_the_middle_of_a_body_is_no_failure(found: Found, path: str) -> None:
    server = found().open()
    workspace, place = server.add_workspace(), urlsplit(server.url)
    head = f"POST {path.format(agent=workspace.agent)} HTTP/1.1\r\nHost: {place.netloc}\r\nAuthorization: Bearer {workspace.token}\r\n"
    with socket.create_connection((place.hostname, place.port), timeout=LIMIT) as line:
        line.sendall(f"{head}Content-Type: application/json\r\nContent-Length: 100\r\nExpect: 100-continue\r\n\r\n".encode())
        assert line.recv(1 << 16).startswith(b"HTTP/1.1 100")  # the body is being read
        line.sendall(b"{")
    workspace.push(comments="Still served")
    assert server.close() == 0


def test_a_call_that_is_too_large_is_refused(workspace: WorkspaceClient) -> None:
    headers = {**JSON, "Accept": "application/json, text/event-stream"}
    try:
        assert workspace.http.post(workspace.mcp_url, content=b"x" * HUGE, headers=headers).status_code == 413
    except (httpx.WriteError, httpx.RemoteProtocolError, httpx.ReadError):
        pass
    assert workspace.entries() == []


@pytest.mark.parametrize(
    "head", [b"X: " + b"x" * 600_000, b"A: 1\r\n" * 101 + b"\r\n", b"A: " + b"x" * 40_000 + b"\r\nB: " + b"x" * 40_000 + b"\r\n\r\n"]
)
def test_a_head_that_is_too_large_is_refused_and_closed(server: RunningServer, head: bytes) -> None:
    place = urlsplit(server.url)
    request = b"GET /health HTTP/1.1\r\nHost: %b\r\n" % place.netloc.encode()
    for before in (b"", request + b"\r\n"):  # also if it follows another one on its connection
        answer = b""
        with socket.create_connection((place.hostname, place.port), timeout=LIMIT) as line:
            line.sendall(before + request + head)
            try:
                while part := line.recv(1 << 16):
                    answer += part
            except ConnectionResetError:  # it closed with some of the head unread
                continue
        assert b"HTTP/1.1 431 " in answer
    assert server.stranger.get("/health").status_code == 200


def _hurried(ask: Callable[[], httpx.Response]) -> httpx.Response:
    """Ask until it is too much."""
    for _ in range(500):
        answer = ask()
        if answer.status_code == 429:
            return answer
    raise AssertionError("five hundred requests were not too many")


def test_who_asks_too_often_is_told_when_to_come_back(found: Found) -> None:
    server = found("--rate", "5").open()
    workspace = server.add_workspace()
    accepted = []

    def push() -> httpx.Response:
        answer = workspace.try_push(comments="Again")
        if answer.status_code == 201:
            accepted.append(answer.json()["entryId"])
        return answer

    refusal(_hurried(push), 429, "too_many")
    assert server.person.get("/api/inbox/history").status_code == 200, "one agent's haste holds up the person"
    answer = _hurried(lambda: server.person.get("/api/inbox/history"))
    refusal(answer, 429, "too_many")
    assert int(answer.headers["retry-after"]) >= 1
    refusal(_hurried(lambda: server.client("prw_guess").get("/api/inbox/history")), 429)  # guesses are slowed down
    eventually(lambda: server.person.get("/api/inbox/history").status_code == 200)
    entries = server.inbox.ok("entries", "--limit", "500")["entries"]
    assert sorted(entry["id"] for entry in entries) == sorted(accepted)
    assert server.close() == 0


def test_a_field_that_is_no_text_is_refused_by_its_name(server: RunningServer, workspace: WorkspaceClient) -> None:
    answer = post_verb(server.person, "mail.peek", b'{"\\ud800": 1}')
    refusal(answer, 400, "invalid_input")


def test_a_request_that_is_begun_and_not_told_is_not_waited_for(server: RunningServer) -> None:
    """Neither at first, nor after one that was answered."""
    place = urlsplit(server.url)
    head = f"GET /health HTTP/1.1\r\nHost: {place.netloc}\r\n"
    with (
        socket.create_connection((place.hostname, place.port), timeout=LIMIT) as first,
        socket.create_connection((place.hostname, place.port), timeout=LIMIT) as second,
        socket.create_connection((place.hostname, place.port), timeout=LIMIT) as third,
    ):
        first.sendall(head.encode())
        for line in (second, third):
            line.sendall(f"{head}\r\n".encode())
            while not line.recv(1 << 16).endswith(b'{"ok":true}'):
                pass
        second.sendall(head.encode())
        third.sendall(b"\r\n")
        assert [line.recv(1 << 16) for line in (first, second, third)] == [b"", b"", b""]


def test_a_body_that_stops_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(security, "BODY_STALL_SECONDS", 0.01)

    async def stalled() -> Message:
        if not begun:
            begun.append(True)
            return {"type": "http.request", "body": b"{", "more_body": True}
        return await asyncio.Future[Message]()

    async def read() -> None:
        held: Counter[str] = Counter()
        receive = security.BodyLimiter(stalled, {"path": "/api", security.CALLER_KEY: "who"}, held)
        await receive()
        assert held == {"who": 1}
        with pytest.raises(InvalidInput):
            await receive()
        receive.release_bytes()
        assert not held

    begun: list[bool] = []
    asyncio.run(read())


def test_only_so_many_may_listen_at_once(found: Found) -> None:
    server = found("--max-listeners", "2").open()
    # The first is kept by name: a listener that nobody holds is collected, and its connection closed.
    with server.listen() as first, server.listen() as second, server.person.stream("GET", "/api/events") as third:
        assert third.status_code == 429, "a third one was let in"
        third.read()
        refusal(third, 429, "too_many")
        assert int(third.headers["retry-after"]) >= 1
        server.add_workspace().push(comments="Meanwhile")
        for listener in (first, second):
            listener.until("entry.created")
    eventually(lambda: _may_listen(server))
    assert server.close() == 0


def _may_listen(server: RunningServer) -> bool:
    with server.person.stream("GET", "/api/events") as response:
        return response.status_code == 200


def test_only_so_many_calls_may_wait_at_once(found: Found) -> None:
    server = found("--max-waits", "1").open()
    workspace = server.add_workspace()
    with at(workspace) as agent:
        waiting = agent.waiting("inbox_read")
        for tool in ("inbox_read", "work_fetch"):
            assert agent.refused(tool, waitSeconds=5)["code"] == "too_many"
        assert agent.ok("inbox_read")["messages"] == []
        identity = agent.ok("inbox_push", comments="Talk to me")["entryId"]
        server.reply(identity, "Here I am")
        assert [message["body"] for message in answered(waiting.result(LIMIT))["messages"]] == ["Here I am"]
        assert agent.ok("inbox_read", waitSeconds=0.01)["messages"] == []
    assert server.close() == 0


def test_many_waiting_calls_leave_room_for_others_and_share_what_comes(
    server: RunningServer, workspace: WorkspaceClient, other: WorkspaceClient
) -> None:
    with at(workspace) as agent:
        waiting = [agent.begin("inbox_read", waitSeconds=2, limit=1) for _ in range(40)]
        identity = other.push(comments="Meanwhile")
        assert server.entry(identity)["comments"] == "Meanwhile"
        told = workspace.push(comments="Talk to me")
        for number in range(5):
            server.reply(told, f"Number {number}")
        results = [answered(call.result(LIMIT)) for call in waiting] + [agent.ok("inbox_read")]
    bodies = [message["body"] for result in results for message in result["messages"]]
    assert sorted(bodies) == [f"Number {number}" for number in range(5)]


def test_a_line_on_which_nothing_is_asked_is_closed(server: RunningServer) -> None:
    host, port = server.url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port))) as line:
        line.settimeout(60)
        assert line.recv(1) == b""
