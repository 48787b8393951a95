"""Nobody can ask for more than there is: bodies, rates, listeners and waiting calls are bounded."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from urllib.parse import urlsplit

import httpx
import pytest

from tests.cli.process import LIMIT, eventually
from tests.server.agents import at
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


@pytest.fixture
def slow(found: Found) -> Iterator[Office]:
    """A server that answers few requests a second."""
    office = found("--rate", "5").open()
    yield office
    assert office.close() == 0


def _hurried(ask: Callable[[], httpx.Response]) -> httpx.Response:
    """Ask until it is too much."""
    for _ in range(500):
        answer = ask()
        if answer.status_code == 429:
            return answer
    raise AssertionError("five hundred requests were not too many")


def test_who_asks_too_often_is_told_when_to_come_back(slow: Office) -> None:
    answer = _hurried(lambda: slow.person.get("/api/inbox/history"))
    refusal(answer, 429, "too_many")
    assert int(answer.headers["retry-after"]) >= 1
    eventually(lambda: slow.person.get("/api/inbox/history").status_code == 200)


def test_an_agent_that_pushes_too_often_is_told_and_nothing_accepted_is_lost(slow: Office) -> None:
    desk = slow.desk()
    accepted = []

    def push() -> httpx.Response:
        answer = desk.try_push(comments="Again")
        if answer.status_code == 201:
            accepted.append(answer.json()["entryId"])
        return answer

    refusal(_hurried(push), 429, "too_many")
    entries = slow.inbox.ok("entries", "--limit", "500")["entries"]
    assert sorted(entry["id"] for entry in entries) == sorted(accepted)


def test_guesses_of_a_token_are_slowed_down(slow: Office) -> None:
    refusal(_hurried(lambda: slow.client("prw_guess").get("/api/inbox/history")), 429)


def test_one_agent_s_haste_does_not_hold_up_the_person(slow: Office) -> None:
    desk = slow.desk()
    _hurried(lambda: desk.try_push(comments="Again"))
    assert slow.person.get("/api/inbox/history").status_code == 200


def test_waiting_calls_leave_room_for_others(office: Office, desk: Desk, other: Desk) -> None:
    with at(desk) as agent:
        waiting = [agent.begin("inbox_read", waitSeconds=50) for _ in range(60)]
        identity = other.push(comments="Meanwhile")
        assert office.entry(identity)["comments"] == "Meanwhile"
        told = desk.push(comments="Wake")
        for _ in range(5):
            office.reply(told, "Wake up")
        eventually(lambda: sum(call.done() for call in waiting) >= 1)
        for call in waiting:
            call.cancel()
    assert office.stranger.get("/health").status_code == 200
