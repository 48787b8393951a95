"""Addresses: what a name holds survives in a path, whatever it is, and is never taken for a part of the path."""

from __future__ import annotations

import json
import socket
from urllib.parse import urlsplit

import pytest

from postroom import mail, work
from postroom.server.http.security import canonical_path
from tests.server.mailbox_data import STRANGE, opened, part
from tests.server.running_server import RunningServer, WorkspaceClient


def knock(server: RunningServer, path: bytes, method: bytes = b"GET") -> tuple[int, bytes]:
    """Return the server's answer to an address that no client would write."""
    place = urlsplit(server.url)
    head = b"%b %b HTTP/1.1\r\nHost: %b\r\nAuthorization: Bearer %b\r\nConnection: close\r\n\r\n"
    with socket.create_connection((place.hostname, place.port), timeout=30) as connection:
        connection.sendall(head % (method, path, place.netloc.encode(), server.ready["token"].encode()))
        answer = b"".join(iter(lambda: connection.recv(65536), b""))
    status, _, rest = answer.partition(b"\r\n")
    return int(status.split()[1]), rest.partition(b"\r\n\r\n")[2]


@pytest.mark.parametrize("name", STRANGE)
def test_a_thread_of_any_name_is_found(server: RunningServer, workspace: WorkspaceClient, name: str) -> None:
    name = f"{name[:190]} of ours"
    with opened(server) as store:
        thread_id = work.send(store, sender="user", to=workspace.agent, subject="S", thread_id=name).thread.thread_id
    shown = server.get(f"/api/threads/{part(name)}")
    assert shown["thread"]["thread_id"] == thread_id
    assert server.person.post(f"/api/threads/{part(name)}/reply", json={"body": "Hello"}).status_code == 201
    assert server.person.post(f"/api/threads/{part(name)}/cancel", json={}).status_code == 200


@pytest.mark.parametrize("rest", ["/release", "/reply", "/cancel"])
def test_a_name_is_never_taken_for_a_part_of_the_path(server: RunningServer, workspace: WorkspaceClient, rest: str) -> None:
    """A thread that is called as another's verb is addressed."""
    with opened(server) as store:
        plain = work.send(store, sender="user", to=workspace.agent, subject="S").thread.thread_id
        tricky = work.send(store, sender="user", to=workspace.agent, subject="T", thread_id=f"{plain}{rest}").thread.thread_id
    assert server.get(f"/api/threads/{part(tricky)}")["thread"]["subject"] == "T"
    answer = server.person.post(f"/api/threads/{part(tricky)}", json={"body": "Hello"})
    assert answer.status_code == 405, answer.text
    assert server.get(f"/api/threads/{plain}")["thread"]["status"] == "pending"


def test_a_name_is_unquoted_once(server: RunningServer) -> None:
    with opened(server) as store:
        mail.enqueue(store, {"from": "leader", "to": "50%25", "payload": "quoted"})
        mail.enqueue(store, {"from": "leader", "to": "50%", "payload": "plain"})
        mail.enqueue(store, {"from": "ada", "to": "50%", "payload": "plain"})
    assert [server.get(f"/api/mailbox/{written}")["total"] for written in ("50%2525", "50%25")] == [1, 2]


@pytest.mark.parametrize("path", [b"/api/%61gents", b"/api/agent%73", b"/%61pi/agents"])
def test_what_needs_no_quotes_may_have_them(server: RunningServer, path: bytes) -> None:
    status, body = knock(server, path)
    assert (status, "agents" in json.loads(body)) == (200, True)


@pytest.mark.parametrize("name", [b"%", b"%2", b"%zz", b"a%g0b", b"%%32%35", b"%ff", b"%c3", b"%ed%a0%80", b"%c0%af", b"\xff", b"\xc3\xbc"])
@pytest.mark.parametrize("where", [b"/api/mailbox/%b", b"/api/threads/%b", b"/mcp/%b", b"/%b", b"/web/%b/app.js"])
def test_an_address_that_is_broken_is_refused_by_its_name(server: RunningServer, where: bytes, name: bytes) -> None:
    status, body = knock(server, where % name)
    assert status in (400, 404), body
    if body.startswith(b"{"):
        assert json.loads(body)["error"]["code"] in ("invalid_input", "not_found")
    assert server.stranger.get("/health").status_code == 200


@pytest.mark.parametrize(
    "path", [b"/api/mailbox/", b"/api/mailbox//dead-letter", b"/api/threads//", b"//api/agents", b"/api/runs/", b"/%2Fapi%2Fagents"]
)
def test_an_address_without_a_name_leads_nowhere(server: RunningServer, path: bytes) -> None:
    status, _ = knock(server, path)
    assert status in (307, 404)


def test_a_quoted_address_does_not_get_past_what_guards_it(server: RunningServer) -> None:
    assert knock(server, b"/api/%65vents", b"HEAD")[0] == 405
    assert knock(server, b"/sign%2Din?token=x", b"HEAD")[0] == 405
    assert server.stranger.get("/api/%61gents").status_code == 401


def test_every_part_has_one_spelling() -> None:
    assert canonical_path(b"/api/mailbox/a%2fb") == canonical_path(b"/api/m%61ilbox/a%2Fb") == "/api/mailbox/a%2Fb"
    assert canonical_path(b"/a b/~x-._/") == "/a%20b/~x-._/"
    assert (canonical_path(b"/%"), canonical_path(b"/%f"), canonical_path(b"/%FF"), canonical_path(b"/\xfc")) == (None, None, None, None)
