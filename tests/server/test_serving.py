"""The process itself: how it starts, what it says, how it stops, and what survives it."""

from __future__ import annotations

import json
import os
import signal
import stat
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest

from tests.cli.process import LIMIT, eventually
from tests.server.agents import MODERN, VERSIONS, answered, at
from tests.server.running_server import ENGINE, RunningServer, WorkspaceClient, serve_refused

Found = Callable[..., RunningServer]


def test_the_ready_line_says_where_and_with_what(server: RunningServer) -> None:
    lines = server.out.read_text().splitlines()
    assert len(lines) == 1
    ready = json.loads(lines[0])
    assert (ready["ok"], ready["command"]) == (True, "serve")
    url = urlsplit(ready["url"])
    assert (url.scheme, url.hostname, bool(url.port)) == ("http", "127.0.0.1", True)
    assert ready["sign_in_url"].startswith(server.url + "/sign-in?token=")
    assert httpx.get(server.url + "/health", trust_env=False).json()["ok"] is True
    assert "token" not in ready
    assert server.person.get("/api/inbox/history").status_code == 200


def test_a_person_sees_a_screen_with_the_link_to_open(found: Found) -> None:
    server = found().open(words=())
    said = server.out.read_text()
    link = said[said.index("http://127.0.0.1:") :].split()[0]
    page = said.split("/sign-in?token=")[0].split()[-1]
    assert "{" not in said
    assert link.startswith("http://127.0.0.1:")
    token = said.split("/sign-in?token=")[1].split()[0]
    answer = httpx.get(f"{page}/sign-in?token={token}", trust_env=False)
    assert (answer.status_code, len(answer.cookies)) == (303, 1)
    assert server.close() == 0


def test_a_port_that_is_taken_is_refused(server: RunningServer, found: Found) -> None:
    port = str(urlsplit(server.url).port)
    error = serve_refused(found(), "--port", port).json["error"]
    assert error["code"]
    assert port in error["message"]


@pytest.mark.parametrize(
    "flags",
    [
        ("--host", "0.0.0.0"),
        ("--host", "::"),
        ("--host", "0.0.0.0", "--dev", "--behind-proxy"),
        ("--tls-cert", "nowhere.pem", "--tls-key", "nowhere.pem"),
        ("--port", "70000"),
        ("--rate", "0"),
    ],
)
def test_what_would_be_unsafe_or_cannot_be_is_refused(found: Found, flags: tuple[str, ...]) -> None:
    finished = serve_refused(found(), "--port", "0", *flags) if "--port" not in flags else serve_refused(found(), *flags)
    assert finished.error[0] == 30, finished


def test_a_person_who_is_none_is_refused(found: Found) -> None:
    server = found()
    server.inbox.ok("agent", "add", "robot", "--kind", "agent")
    assert serve_refused(server, "--port", "0", "--person", "robot").code == 30


def test_a_store_that_is_not_there_is_refused(found: Found, tmp_path: Path) -> None:
    finished = serve_refused(found(), "--port", "0", "--db", str(tmp_path / "nowhere" / "coord.db"))
    assert finished.code in (40, 50), finished


def test_behind_a_proxy_the_cookie_is_for_https_only(found: Found) -> None:
    server = found("--behind-proxy", "--allow-host", "inbox.example.org").open()
    token = server.ready["sign_in_url"].split("token=")[1]
    address = f"http://127.0.0.1:{urlsplit(server.url).port}"
    answer = httpx.get(f"{address}/sign-in?token={token}", headers={"Host": "inbox.example.org"}, trust_env=False)
    assert answer.status_code == 303, answer.text
    assert "secure" in answer.headers["set-cookie"].lower()
    assert answer.headers["strict-transport-security"] == "max-age=31536000"
    local = httpx.get(f"{address}/health", headers={"Host": "localhost"}, trust_env=False)
    assert "strict-transport-security" not in local.headers, "it would hold for every program on this machine"
    assert server.close() == 0


def test_with_a_certificate_the_server_speaks_tls(found: Found, certificate: tuple[str, str]) -> None:
    cert, key = certificate
    server = found("--tls-cert", cert, "--tls-key", key).open()
    assert server.url.startswith("https://")
    answer = server.browser().get("/sign-in", params={"token": server.ready["sign_in_url"].split("token=")[1]})
    assert answer.status_code == 303
    assert "secure" in answer.headers["set-cookie"].lower()
    assert "max-age" in answer.headers["strict-transport-security"]
    assert server.person.get("/api/inbox/history").status_code == 200
    assert server.close() == 0


def test_who_listens_is_told_goodbye(found: Found) -> None:
    server = found().open()
    with server.listen() as listener:
        server.process.send_signal(signal.SIGTERM)
        heard = list(listener.events())
    assert [each.type for each in heard] == ["goodbye"]
    assert server.ended() == 0


@pytest.mark.parametrize("mode", list(VERSIONS))
def test_who_waits_for_an_answer_is_told_how_to_go_on(found: Found, mode: str) -> None:
    server = found().open()
    workspace = server.add_workspace()
    with at(workspace, "http", mode) as agent:
        agent.tools()  # which a client asks for after its first call, else: when there is nobody any more
        asking = agent.begin("inbox_ask", question="Ship it?", waitSeconds=50)
        identity = server.entry_from(workspace.agent)["id"]
        server.process.send_signal(signal.SIGTERM)
        told = answered(asking.result(LIMIT))
    assert (told["state"], told["entryId"], bool(told["resume"])) == ("open", identity, True)
    assert server.ended() == 0
    server.open()
    server.reply(identity, "Yes")
    with at(workspace, "http", mode) as agent:
        assert agent.ok("inbox_ask", entryId=identity)["answer"] == "Yes"
    assert server.close() == 0


def test_who_waits_for_a_reply_is_told_to_come_again(found: Found) -> None:
    server = found("--max-waits", "1").open()
    with at(server.add_workspace()) as agent:
        agent.tools()
        reading = agent.waiting("inbox_read")
        server.process.send_signal(signal.SIGTERM)
        told = answered(reading.result(LIMIT))
    assert (told["messages"], bool(told["next"])) == ([], True)
    assert server.ended() == 0


def _pushed_until_it_died(workspace: WorkspaceClient) -> list[str]:
    accepted = []
    try:
        while True:
            accepted.append(workspace.push(comments="Accepted"))
    except (httpx.TransportError, AssertionError):
        return accepted


def _mirrored(server: RunningServer) -> list[str]:
    return sorted(json.loads(line)["id"] for line in server.mirror.read_text().splitlines())


def test_what_was_accepted_survives_a_kill(found: Found) -> None:
    server = found("--rate", "1000000").open()
    workspace = server.add_workspace()
    kept, read, gone = (workspace.push(comments=word) for word in ("Kept", "Read", "Gone"))
    server.person.put(f"/api/inbox/{read}/read")
    server.reply(kept, "Noted")
    server.person.delete(f"/api/inbox/{gone}")
    with ThreadPoolExecutor(4) as crowd:
        pushing = [crowd.submit(_pushed_until_it_died, workspace) for _ in range(4)]
        eventually(lambda: len(workspace.entries()) > 20)
        server.kill()
        accepted = {identity for push in pushing for identity in push.result()}
    server.open()
    entries = {entry["id"]: entry for entry in workspace.entries(limit="500")}
    assert len(accepted) > 10
    assert accepted <= set(entries)
    assert gone not in entries
    assert (entries[read]["readAt"] is not None, entries[kept]["replies"]) == (True, 1)
    assert server.mailbox.dequeue(workspace.agent)["message"]["payload"] == "Noted"
    if ENGINE == "postgres":  # another server might write the mirror: this one waits until the lease of the killed one has run out
        eventually(lambda: len(_mirrored(server)) >= len(entries))
    assert _mirrored(server) == sorted(entries)
    assert server.close() == 0


def test_who_signed_in_stays_so_when_the_server_starts_again(found: Found) -> None:
    server = found().open()
    browser = server.signed_in()
    cookie, page_key = browser.cookies[server.cookie_name], browser.headers["X-Postroom-Key"]
    with server.listen() as listener:
        server.process.send_signal(signal.SIGINT)
        assert listener.next().type == "goodbye"
    assert server.ended() in (0, 130)
    assert "Traceback" not in server.log.read_text()
    server.open()
    session = {"Cookie": f"{server.cookie_name}={cookie}", "X-Postroom-Key": page_key}
    assert server.stranger.get("/api/inbox/history", headers=session).status_code == 200
    assert server.close() == 0


def test_no_secret_is_logged_and_files_are_for_their_owner_only(found: Found, tmp_path: Path) -> None:
    data = tmp_path / "data"
    server = found("--data", str(data)).open()
    workspace = server.add_workspace()
    link = server.ready["sign_in_url"].split("token=")[1]
    browser = server.signed_in(link)
    cookie, page_key = browser.cookies[server.cookie_name], browser.headers["X-Postroom-Key"]
    for client in (browser, server.person, workspace.http, server.stranger, server.client("prw_wrong")):
        for path in ("/api/inbox/history", f"/sign-in?token={link}", "/nowhere", f"/api/inbox/history?token={link}"):
            client.get(path)
    workspace.push(comments="The password is hunter2")
    with at(workspace, "http", MODERN) as agent:
        agent.ok("inbox_push", comments="The password is hunter2")
    server.person.delete(f"/api/inbox/{workspace.entries()[0]['id']}")
    assert server.close() == 0
    assert (data / "inbox" / "entries.jsonl").exists()
    assert {stat.S_IMODE(os.stat(file).st_mode) for file in data.rglob("*") if file.is_file()} == {0o600}
    logged = server.log.read_text() + "".join(server.out.read_text().splitlines(keepends=True)[1:])
    for secret in (link, cookie, page_key, workspace.token, server.ready["token"], "prw_wrong", "hunter2"):
        assert secret not in logged
    stored = b"".join(file.read_bytes() for file in server.inbox.db.parent.iterdir() if file.is_file())
    for secret in (link, cookie, page_key, workspace.token, server.ready["token"]):
        assert secret.encode() not in stored


def test_two_servers_share_a_store(found: Found) -> None:
    one = found().open()
    two = found(folder=one.folder).open()
    workspace = one.add_workspace()
    with two.listen(types="entry.") as listener:
        identity = workspace.push(comments="To one")
        assert listener.next().data["message_id"] == identity
        assert one.close() == 0
        assert two.person.put(f"/api/inbox/{identity}/read").status_code == 200
        assert listener.next().type == "entry.read"
    assert two.close() == 0


def test_health_tells_strangers_nothing_else(server: RunningServer) -> None:
    answer = server.stranger.get("/health")
    assert (answer.status_code, answer.json()) == (200, {"ok": True})


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [("GET", "/api/nowhere", 404), ("POST", "/api/inbox/history", 405), ("PATCH", "/api/inbox/x", 405), ("GET", "/mcp/", 404)],
)
def test_what_is_not_served_is_refused_in_the_one_shape(server: RunningServer, method: str, path: str, status: int) -> None:
    answer = server.person.request(method, path)
    assert answer.status_code == status
    assert (answer.json()["ok"], bool(answer.json()["error"]["code"])) == (False, True)


def test_who_stops_first_leaves_the_note_of_who_goes_on(found: Callable[..., RunningServer]) -> None:
    first = found().open()
    note, second = Path(first.ready["token_file"]).parent / "server", found(folder=first.folder)
    second.open()
    assert first.close() == 0
    assert note.read_text().strip() == second.url
    assert second.close() == 0
    assert not note.exists()
