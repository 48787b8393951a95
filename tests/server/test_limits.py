"""Nobody can ask for more than there is: bodies, rates, listeners and waiting calls are bounded."""

from __future__ import annotations

import asyncio
import socket
from collections import Counter
from collections.abc import Callable, Iterator
from urllib.parse import urlsplit

import httpx
import pytest
from starlette.types import Message

from postroom.core.errors import InvalidInput
from postroom.server import guard
from tests.cli.process import LIMIT, eventually
from tests.server.agents import answered, at
from tests.server.office import JSON, Desk, Office, refusal

Found = Callable[..., Office]
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
def test_a_body_that_is_too_large_is_refused(office: Office, desk: Desk, path: str) -> None:
    client = desk.http if path.endswith("push") else office.person
    _refused(lambda: client.post(path, content=b'{"comments": "' + b"x" * HUGE + b'"}', headers=JSON))
    _refused(lambda: client.post(path, content=_endless(), headers=JSON))
    assert desk.entries() == []
    desk.push(comments="Still served")


def test_a_body_that_says_it_is_too_large_is_refused_before_it_comes(office: Office, desk: Desk) -> None:
    place = urlsplit(office.url)
    head = (
        f"POST /api/inbox/push HTTP/1.1\r\nHost: {place.netloc}\r\nAuthorization: Bearer {desk.token}\r\nContent-Length: {1 << 40}\r\n\r\n"
    )
    with socket.create_connection((place.hostname, place.port), timeout=LIMIT) as line:
        line.sendall(head.encode())
        assert line.recv(1 << 16).split(b"\r\n")[0].startswith(b"HTTP/1.1 413")
    assert desk.entries() == []


@pytest.mark.parametrize("path", ["/api/inbox/push", "/api/mailbox", "/api/mailbox/{agent}/dequeue", "/api/mailbox/{agent}/m/ack"])
def test_who_leaves_in_the_middle_of_a_body_is_no_failure(found: Found, path: str) -> None:
    office = found().open()
    desk, place = office.desk(), urlsplit(office.url)
    head = f"POST {path.format(agent=desk.agent)} HTTP/1.1\r\nHost: {place.netloc}\r\nAuthorization: Bearer {desk.token}\r\n"
    with socket.create_connection((place.hostname, place.port), timeout=LIMIT) as line:
        line.sendall(f"{head}Content-Type: application/json\r\nContent-Length: 100\r\nExpect: 100-continue\r\n\r\n".encode())
        assert line.recv(1 << 16).startswith(b"HTTP/1.1 100")  # the body is being read
        line.sendall(b"{")
    desk.push(comments="Still served")
    assert office.close() == 0


def test_a_call_that_is_too_large_is_refused(desk: Desk) -> None:
    headers = {**JSON, "Accept": "application/json, text/event-stream"}
    try:
        assert desk.http.post(desk.mcp_url, content=b"x" * HUGE, headers=headers).status_code == 413
    except (httpx.WriteError, httpx.RemoteProtocolError, httpx.ReadError):
        pass
    assert desk.entries() == []


def test_a_head_that_is_too_large_is_refused(office: Office) -> None:
    for answer in (
        office.person.get("/api/inbox/search", params={"q": "x" * 60_000}),
        office.person.get("/api/inbox/history", headers={"X-Long": "x" * 60_000}),
    ):
        assert 400 <= answer.status_code < 500 or answer.headers["content-type"].startswith("application/json")
    assert office.stranger.get("/health").status_code == 200


def _hurried(ask: Callable[[], httpx.Response]) -> httpx.Response:
    """Ask until it is too much."""
    for _ in range(500):
        answer = ask()
        if answer.status_code == 429:
            return answer
    raise AssertionError("five hundred requests were not too many")


def test_who_asks_too_often_is_told_when_to_come_back(found: Found) -> None:
    office = found("--rate", "5").open()
    desk = office.desk()
    accepted = []

    def push() -> httpx.Response:
        answer = desk.try_push(comments="Again")
        if answer.status_code == 201:
            accepted.append(answer.json()["entryId"])
        return answer

    refusal(_hurried(push), 429, "too_many")
    assert office.person.get("/api/inbox/history").status_code == 200, "one agent's haste holds up the person"
    answer = _hurried(lambda: office.person.get("/api/inbox/history"))
    refusal(answer, 429, "too_many")
    assert int(answer.headers["retry-after"]) >= 1
    refusal(_hurried(lambda: office.client("prw_guess").get("/api/inbox/history")), 429)  # guesses are slowed down
    eventually(lambda: office.person.get("/api/inbox/history").status_code == 200)
    entries = office.inbox.ok("entries", "--limit", "500")["entries"]
    assert sorted(entry["id"] for entry in entries) == sorted(accepted)
    assert office.close() == 0


def test_a_field_that_is_no_text_is_refused_by_its_name(office: Office, desk: Desk) -> None:
    answer = office.person.post("/api/verbs/mail.peek", content=b'{"\\ud800": 1}', headers=JSON)
    refusal(answer, 400, "invalid_input")


def test_a_request_that_is_begun_and_not_told_is_not_waited_for(office: Office) -> None:
    """Neither at first, nor after one that was answered."""
    place = urlsplit(office.url)
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
    monkeypatch.setattr(guard, "STALLED", 0.01)

    async def stalled() -> Message:
        if not begun:
            begun.append(True)
            return {"type": "http.request", "body": b"{", "more_body": True}
        return await asyncio.Future[Message]()

    async def read() -> None:
        held: Counter[bytes] = Counter()
        receive = guard.Bounded(stalled, 100, held, b"who")
        await receive()
        assert held == {b"who": 1}
        with pytest.raises(InvalidInput):
            await receive()
        receive.done()
        assert not held

    begun: list[bool] = []
    asyncio.run(read())


def test_only_so_many_may_listen_at_once(found: Found) -> None:
    office = found("--max-listeners", "2").open()
    # The first is kept by name: a listener that nobody holds is collected, and its connection closed.
    with office.listen() as first, office.listen() as second, office.person.stream("GET", "/api/events") as third:
        assert third.status_code == 429, "a third one was let in"
        third.read()
        refusal(third, 429, "too_many")
        assert int(third.headers["retry-after"]) >= 1
        office.desk().push(comments="Meanwhile")
        for listener in (first, second):
            listener.until("entry.created")
    eventually(lambda: _may_listen(office))
    assert office.close() == 0


def _may_listen(office: Office) -> bool:
    with office.person.stream("GET", "/api/events") as response:
        return response.status_code == 200


def test_only_so_many_calls_may_wait_at_once(found: Found) -> None:
    office = found("--max-waits", "1").open()
    desk = office.desk()
    with at(desk) as agent:
        waiting = agent.waiting("inbox_read")
        for tool in ("inbox_read", "work_fetch"):
            assert agent.refused(tool, waitSeconds=5)["code"] == "too_many"
        assert agent.ok("inbox_read")["messages"] == []
        identity = agent.ok("inbox_push", comments="Talk to me")["entryId"]
        office.reply(identity, "Here I am")
        assert [message["body"] for message in answered(waiting.result(LIMIT))["messages"]] == ["Here I am"]
        assert agent.ok("inbox_read", waitSeconds=0.01)["messages"] == []
    assert office.close() == 0


def test_many_waiting_calls_leave_room_for_others_and_share_what_comes(office: Office, desk: Desk, other: Desk) -> None:
    with at(desk) as agent:
        waiting = [agent.begin("inbox_read", waitSeconds=2, limit=1) for _ in range(40)]
        identity = other.push(comments="Meanwhile")
        assert office.entry(identity)["comments"] == "Meanwhile"
        told = desk.push(comments="Talk to me")
        for number in range(5):
            office.reply(told, f"Number {number}")
        results = [answered(call.result(LIMIT)) for call in waiting] + [agent.ok("inbox_read")]
    bodies = [message["body"] for result in results for message in result["messages"]]
    assert sorted(bodies) == [f"Number {number}" for number in range(5)]
