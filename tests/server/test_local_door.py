"""The Unix socket: for its owner alone, without a token; never taken from who uses it, and gone when the server is."""

from __future__ import annotations

import os
import signal
import socket
import stat
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest

from postroom import people
from tests.cli.process import LIMIT, eventually
from tests.server.mailbox_agent import begin_to_wait
from tests.server.mailbox_data import opened
from tests.server.running_server import RunningServer, refusal, serve_refused

Found = Callable[..., RunningServer]


@pytest.fixture
def place() -> Iterator[str]:
    """A path that is short enough for a socket, wherever tests keep their files."""
    with tempfile.TemporaryDirectory(prefix="pr-") as folder:
        yield str(Path(folder) / "s")


@pytest.fixture
def server(found: Found, place: str) -> RunningServer:
    return found("--uds", place).open()


def test_the_ready_line_names_the_socket_beside_the_address(server: RunningServer, place: str) -> None:
    assert server.ready["uds"] == place
    assert server.person.get("/api/summary").json() == server.local().get("/api/summary").json()
    assert server.close() == 0
    assert not os.path.exists(place)


def test_without_tcp_there_is_nothing_else(found: Found, place: str) -> None:
    server = found("--uds", place, "--no-tcp").open()
    assert set(server.ready) == {"ok", "schema_version", "command", "token", "token_file", "uds"}
    assert server.local().get("/health").json() == {"ok": True}
    sockets = {f"socket:[{line.split()[9]}]" for name in ("tcp", "tcp6") for line in _listening(name)}
    files = Path(f"/proc/{server.process.pid}/fd")
    assert not sockets & {os.readlink(file) for file in files.iterdir() if file.is_symlink()}
    assert not (Path(server.ready["token_file"]).parent / "server").exists()
    assert server.close() == 0


def _listening(protocol: str) -> list[str]:
    lines = Path(f"/proc/net/{protocol}").read_text().splitlines()[1:]
    return [line for line in lines if line.split()[3] == "0A"]


def test_a_person_sees_where_the_socket_is(found: Found, place: str) -> None:
    server = found("--uds", place).open(words=())
    assert f"--unix-socket {place}" in server.out.read_text()
    assert server.close() == 0


def test_a_person_without_tcp_sees_it_too(found: Found, place: str) -> None:
    server = found("--uds", place, "--no-tcp").open(words=())
    assert "http://127.0.0.1" not in server.out.read_text()
    assert server.close() == 0


def test_a_relative_path_is_of_the_folder_it_was_started_in(found: Found) -> None:
    server = found("--uds", "s.sock").open()
    assert Path(server.ready["uds"]).samefile(server.folder / "s.sock")
    assert server.close() == 0
    assert not (server.folder / "s.sock").exists()


# Callers of the socket


def test_whoever_opens_it_is_the_servers_person_and_nobody_vouches_for_them(server: RunningServer) -> None:
    workspace = server.add_workspace()
    entry = workspace.push(comments="Look")
    answer = server.local().post(f"/api/inbox/{entry}/reply", json={"body": "By the socket"})
    assert answer.status_code == 201, answer.text
    reply = answer.json()["reply"]
    assert (reply["from"], reply["door"], reply["verified"]) == ("user", "unix", False)


def test_the_servers_person_is_who_it_was_told(found: Found, place: str) -> None:
    server = found("--uds", place, "--person", "maria")
    server.inbox.ok("agent", "add", "maria", "--kind", "human")
    server.open()
    assert server.local().get("/api/summary").json()["person"] == "maria"


def test_with_a_token_it_is_who_the_token_says(server: RunningServer) -> None:
    with opened(server) as store:
        token = people.issue_agent_token(store, name="analyst")
    agent = server.local(token)
    assert agent.post("/api/mailbox/analyst/dequeue").status_code == 204
    refusal(agent.get("/api/inbox/history"), 403, "forbidden")
    refusal(agent.post("/api/mailbox/user/dequeue"), 403, "forbidden")
    refusal(server.local("pra_made_up").get("/api/inbox/history"), 401, "unauthenticated")
    workspace = server.add_workspace()
    refusal(server.local(workspace.token).get("/api/inbox/history"), 403, "forbidden")
    assert server.local(workspace.token).post("/api/inbox/push", json={"comments": "x"}).status_code == 201


def test_over_tcp_a_token_is_needed_all_the_same(server: RunningServer, place: str) -> None:
    for headers in ({}, {"Host": "unix"}, {"X-Forwarded-For": "unix"}, {"X-Forwarded-For": ""}, {"Forwarded": f"for={place}"}):
        answer = server.stranger.get("/api/inbox/history", headers=headers)
        assert answer.status_code in (401, 421), answer.text


def test_behind_a_proxy_no_header_makes_a_caller_local(found: Found, place: str) -> None:
    server = found("--uds", place, "--behind-proxy").open()
    for forwarded in ("unix", "", place, ","):
        refusal(server.stranger.get("/api/inbox/history", headers={"X-Forwarded-For": forwarded}), 401)


@pytest.mark.parametrize("host", ["localhost", "postroom", "x:1", "[::1]", "a b"])
def test_it_goes_by_any_name(server: RunningServer, host: str) -> None:
    assert server.local(Host=host).get("/api/summary").status_code == 200


def test_a_page_of_another_site_is_refused_here_too(server: RunningServer) -> None:
    for headers in ({"Origin": "http://evil.example"}, {"Origin": "null"}, {"Sec-Fetch-Site": "cross-site"}):
        refusal(server.local(**headers).post("/api/sign-out"), 403, "forbidden")
        refusal(server.local(**headers).get("/api/inbox/history"), 403, "forbidden")


def test_a_certificate_is_for_tcp_alone(found: Found, place: str, certificate: tuple[str, str]) -> None:
    cert, key = certificate
    server = found("--uds", place, "--tls-cert", cert, "--tls-key", key).open()
    assert server.url.startswith("https://")
    assert server.local().get("/api/summary").status_code == server.person.get("/api/summary").status_code == 200
    assert server.close() == 0


def test_events_come_by_it(server: RunningServer) -> None:
    with server.local().stream("GET", "/api/events") as stream:
        lines = stream.iter_lines()
        assert next(lines) == ": connected"
        server.notify("nightly", "Done")
        assert any(line == "event: entry.created" for line in lines)


# The file


def test_it_is_its_owners_alone(server: RunningServer, place: str) -> None:
    found = os.lstat(place)
    assert (stat.S_ISSOCK(found.st_mode), stat.S_IMODE(found.st_mode), found.st_uid) == (True, 0o600, os.geteuid())


def test_it_is_so_whatever_the_umask(found: Found, place: str) -> None:
    server = found("--uds", place)
    before = os.umask(0)
    try:
        server.open()
    finally:
        os.umask(before)
    assert stat.S_IMODE(os.lstat(place).st_mode) == 0o600
    assert server.close() == 0


def test_what_a_killed_server_left_is_replaced(server: RunningServer, place: str) -> None:
    server.kill()
    assert os.path.exists(place)
    server.open()
    assert server.local().get("/health").status_code == 200
    assert server.close() == 0
    assert not os.path.exists(place)


def test_a_socket_that_somebody_listens_on_is_refused(server: RunningServer, found: Found, place: str) -> None:
    code, kind, message = serve_refused(found(), "--port", "0", "--uds", place).error
    assert (code, kind) == (30, "invalid_state")
    assert place in message
    assert server.local().get("/health").status_code == 200


def test_a_socket_on_which_somebody_is_too_busy_is_refused(found: Found, place: str) -> None:
    with socket.socket(socket.AF_UNIX) as busy, socket.socket(socket.AF_UNIX) as first, socket.socket(socket.AF_UNIX) as second:
        busy.bind(place)
        busy.listen(0)
        for line in (first, second):
            line.setblocking(False)
            try:
                line.connect(place)
            except BlockingIOError:
                break
        assert serve_refused(found(), "--port", "0", "--uds", place).error[:2] == (30, "invalid_state")
        assert os.path.exists(place)


@pytest.mark.parametrize("kind", ["file", "folder", "link", "dangling", "pipe"])
def test_any_other_file_is_refused_and_kept(found: Found, place: str, kind: str) -> None:
    if kind == "folder":
        os.mkdir(place)
    elif kind == "pipe":
        os.mkfifo(place)
    elif kind == "file":
        Path(place).write_text("precious")
    else:
        os.symlink("/etc/hostname" if kind == "link" else "nowhere", place)
    before = os.lstat(place)
    assert serve_refused(found(), "--port", "0", "--uds", place).error[0] == 30
    after = os.lstat(place)
    assert (before.st_ino, before.st_mtime_ns, before.st_mode) == (after.st_ino, after.st_mtime_ns, after.st_mode)


@pytest.mark.parametrize(
    "flags",
    [
        ("--uds", "nowhere/s"),
        ("--uds", "x" * 200),
        ("--uds", ""),
        ("--uds", "a\nb"),
        ("--no-tcp",),
        ("--no-tcp", "--uds", "s", "--port", "1"),
        ("--no-tcp", "--uds", "s", "--host", "127.0.0.1"),
    ],
)
def test_a_socket_that_cannot_be_is_refused(found: Found, flags: tuple[str, ...]) -> None:
    server = found()
    assert serve_refused(server, *flags, *(() if "--no-tcp" in flags else ("--port", "0"))).error[:2] == (30, "invalid_input")
    assert not (server.folder / "s").exists()


def test_a_server_that_cannot_have_its_port_leaves_no_socket(server: RunningServer, found: Found, place: str) -> None:
    other = f"{place}2"
    port = str(httpx.URL(server.url).port)
    assert serve_refused(found(), "--port", port, "--uds", other).error[1] == "taken"
    assert not os.path.exists(other)


def test_a_file_that_is_not_its_own_any_more_is_left_alone(server: RunningServer, place: str) -> None:
    os.unlink(place)
    Path(place).write_text("another's")
    assert server.close() == 0
    assert Path(place).read_text() == "another's"


def test_a_file_that_is_gone_already_is_no_failure(server: RunningServer, place: str) -> None:
    os.unlink(place)
    assert server.close() == 0


def _connected(place: str) -> socket.socket:
    line = socket.socket(socket.AF_UNIX)
    line.settimeout(LIMIT)
    line.connect(place)
    return line


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_cleanly_with_somebody_waiting(found: Found, place: str, number: signal.Signals) -> None:
    server = found("--uds", place, "--no-tcp", "--max-waits", "1").open()
    request = b"POST /api/mailbox/user/dequeue?wait=50 HTTP/1.1\r\nHost: x\r\n\r\n"
    other = server.local()
    with begin_to_wait(lambda: _connected(place), request, lambda: other.post("/api/mailbox/user/dequeue?wait=0.01")) as line:
        server.process.send_signal(number)
        assert line.recv(1 << 16).startswith(b"HTTP/1.1 204")
    assert server.ended() == 0
    assert not os.path.exists(place)


def test_of_two_that_start_at_once_one_gets_it(found: Found, place: str) -> None:
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(place)  # nobody listens any more
    starters = [found().inbox.start("serve", "--json", "--port", "0", "--uds", place) for _ in range(2)]
    eventually(lambda: any(not starter.alive() for starter in starters))
    (loser,) = [starter for starter in starters if not starter.alive()]
    assert loser.finish().error[:2] == (30, "invalid_state")
    (winner,) = [starter for starter in starters if starter is not loser]
    with httpx.Client(transport=httpx.HTTPTransport(uds=place), base_url="http://localhost", timeout=LIMIT) as client:
        eventually(lambda: client.get("/health").status_code == 200)
    winner.process.send_signal(signal.SIGTERM)
    assert winner.finish().code == 0
    assert not os.path.exists(place)
