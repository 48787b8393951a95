"""Hostile input at the doors beside verbs and routes: streams, links, the Unix socket, stdio MCP. Also oversized input, and growth."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import IO, Any
from urllib.parse import quote

import httpx
import pytest
from hypothesis import strategies as st
from websockets.exceptions import ConnectionClosed
from websockets.frames import CloseCode

from postroom import people, work
from postroom.core import clock, limits
from postroom.core.rpc.wire import CONTENT_TYPE, VERB_PROTOCOL
from postroom.server.mcp.tool_table import TOOLS
from postroom.server.ws.frames import PROTOCOL
from postroom.store import open_store
from postroom.tasks import A2ATask
from tests.cli.process import LIMIT
from tests.conftest import fresh_file
from tests.fuzz.doors import CASES, FEW, MCP_HEADERS, Door, Watched, hostile_calls
from tests.fuzz.hostile_input import JUNK, TEXTS, VALUES, encode, fuzz
from tests.server.releases import COMMAND, current

MAX_GROWTH_KIB = 64 * 1024
REQUEST = "the request"  # the id of a request that is answered, whatever is in it
EMPTY_CALL = encode({"jsonrpc": "2.0", "id": REQUEST, "method": "tools/call", "params": {"name": "inbox_push", "arguments": {}}})
JSON_TYPE, FORM_TYPE = "application/json", "application/x-www-form-urlencoded"


def quoted(text: str) -> str:
    return quote(text[:1000].encode(errors="surrogatepass"), safe="")


@CASES
def test_verbs_over_the_unix_socket(door: Door, cases: int) -> None:
    transport = httpx.HTTPTransport(uds=door.relay.url("unix").removeprefix("unix:"))
    with httpx.Client(transport=transport, base_url="http://localhost", timeout=20) as client:

        def call(given: tuple[str, bytes]) -> None:
            door.ask("POST", f"/api/verbs/{given[0]}", client=client, content=given[1], headers={"Content-Type": CONTENT_TYPE})

        fuzz(cases, hostile_calls(), call)


@CASES
def test_streams(door: Door, cases: int) -> None:
    """A stream that is opened is read up to its head, and left."""

    def open_stream(given: tuple[str, dict[str, str], str]) -> None:
        path, query, last = given
        address = f"{path}?{'&'.join(f'{quoted(key)}={quoted(value)}' for key, value in query.items())}"
        with door.http.stream("GET", address, headers={"Last-Event-ID": quoted(last)}) as answer:
            assert answer.status_code < 500
            if answer.status_code >= 400:
                assert json.loads(answer.read())["error"]["code"]
        door.watched.assert_unchanged(given)

    keys = st.sampled_from(["after", "topic", "agent", "thread", "unknown"])
    paths = st.sampled_from(["/api/events", "/api/bell"])
    fuzz(min(cases, 300), st.tuples(paths, st.dictionaries(keys, TEXTS, max_size=3), TEXTS), open_stream)


@CASES
def test_tasks_of_checkpoints(door: Door, cases: int) -> None:
    """The one verb that stores records of its caller. Whatever it stores, processes that wait for tasks go on waiting."""

    def call(verb: str, **named: Any) -> dict[str, Any]:
        answer: dict[str, Any] = door.ask(
            "POST", f"/api/verbs/{verb}", content=encode({"named": named}), headers={"Content-Type": CONTENT_TYPE}
        ).json()
        return answer

    def save(given: tuple[str, dict[str, Any]]) -> None:
        argument, fields = given
        job = call("tasks.start_job", agent="builder")["result"]["job_id"]
        task = {"~": "A2ATask", "source_job_id": "", "source_agent": "leader", "description": "d", "task_id": job, **fields}
        call("tasks.save_checkpoint", job_id=job, version=0, state={}, **{argument: [task]})
        assert "result" in call("tasks.wait_accept", agent="leader", timeout_seconds=0.001)

    for name in ("leader", "builder"):
        assert call("tasks.register", name=name)["ok"]
    known = call("tasks.submit", source_agent="leader", target_agent="builder", description="d")["result"]["task_id"]
    soon = clock.format_stamp(clock.now() + 600 * clock.MICROSECONDS_PER_SECOND)  # before the leases of the jobs end
    stamps = st.sampled_from([soon[:16] + "zz", soon, "2026-01-01T00:00:00.000000Z", "9", "", "soon"])
    statuses = st.sampled_from(["pending", "accepted", "completed", "failed", "x"])
    plain = st.fixed_dictionaries({}, optional={"deadline": stamps, "status": statuses, "task_id": st.sampled_from([known, ""])})
    hostile = st.dictionaries(st.sampled_from(sorted(A2ATask.model_fields)), st.one_of(VALUES, stamps), max_size=3)
    fields = st.builds(lambda one, other: {**one, **other}, plain, hostile)
    fuzz(min(cases, 400), st.tuples(st.sampled_from(["changed", "changed", "seen"]), fields), save)


@CASES
def test_links(door: Door, cases: int) -> None:
    def follow(given: tuple[tuple[str, str], str, str, bytes]) -> None:
        (method, path), token, kind, body = given
        door.ask(method, f"{path}?token={quoted(token)}", content=body if method == "POST" else None, headers={"Content-Type": kind})

    routes = st.sampled_from([("GET", "/answer"), ("POST", "/answer"), ("GET", "/sign-in"), ("POST", "/sign-in")])
    body = st.one_of(JUNK, st.builds(encode, VALUES), st.just(b"token=x&answer=yes"))
    fuzz(cases, st.tuples(routes, TEXTS, st.sampled_from([JSON_TYPE, FORM_TYPE, "text/plain"]), body), follow)


class StdioServer:
    """`inbox mcp` as a program starts it."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._input: IO[bytes] = process.stdin  # type: ignore[assignment]
        self._output: IO[bytes] = process.stdout  # type: ignore[assignment]
        self._pings = 0

    def send(self, line: bytes, awaited: object = None) -> list[dict[str, Any]]:
        """Send a line, and a ping after it. Return the answers until that of the ping and that with the awaited id.

        So a server that hangs fails the test. Tools run beside the connection, and a ping may be answered before them.
        """
        self._pings += 1
        ping = {"jsonrpc": "2.0", "id": f"ping {self._pings}", "method": "ping"}
        self._input.write(line + b"\n" + encode(ping) + b"\n")
        self._input.flush()
        answers: list[dict[str, Any]] = []
        missing = {ping["id"], awaited} - {None}
        while missing:
            answer = json.loads(self._output.readline())
            missing.discard(awaited if answer.get("id") is None else answer["id"])  # a line that is no JSON has no id
            answers += [answer] if answer.get("id") != ping["id"] else []
        return answers


@contextmanager
def stdio_server(place: str, workspace: str, folder: Path) -> Iterator[tuple[StdioServer, subprocess.Popen[bytes]]]:
    errors = folder / "errors"
    argv = [sys.executable, "-c", COMMAND, "mcp", "--workspace", workspace, "--db", place]
    with (
        errors.open("wb") as stderr,
        subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=stderr, cwd=folder) as process,
    ):
        try:
            yield StdioServer(process), process
            assert process.stdin is not None
            process.stdin.close()
            assert process.wait(LIMIT) in (0, None)
        finally:
            process.kill()
    assert "Traceback" not in errors.read_text()


@pytest.fixture
def workspace(tmp_path: Path) -> tuple[str, str]:
    """A store, and its workspace."""
    place = fresh_file(tmp_path)
    with closing(open_store(place)) as store:
        work.send(store, sender="leader", to="atlas", subject="Build", thread_id="T1")
        return place, people.add_workspace(store, str(tmp_path / "."), label="Atlas", agent="atlas").workspace.workspace_id


@CASES
def test_mcp_over_stdio(workspace: tuple[str, str], tmp_path: Path, cases: int) -> None:
    with stdio_server(*workspace, tmp_path) as (server, _), closing(Watched(workspace[0])) as watched:

        def call(line: bytes) -> None:
            answers = server.send(line.replace(b"\n", b" ").replace(b"\r", b" "), REQUEST if REQUEST.encode() in line else None)
            refused = all("error" in answer or answer.get("result", {}).get("isError") for answer in answers)
            if refused:
                watched.assert_unchanged((line, answers))
            else:
                confirm_handovers()

        def confirm_handovers() -> None:
            """Confirm what the call handed over, as the next call of a client does, also one that is refused. It may not be sent yet."""
            tries = 100
            while not watched.is_empty("handovers"):
                server.send(EMPTY_CALL, REQUEST)
                tries -= 1
                assert tries, "it is never confirmed"
            watched.note()

        def line_of(tool: str) -> st.SearchStrategy[bytes]:
            arguments = st.dictionaries(st.sampled_from(sorted(TOOLS[tool].schema["properties"])), VALUES, max_size=5)
            return st.builds(
                lambda given, method: encode(
                    {"jsonrpc": "2.0", "id": REQUEST, "method": method, "params": {"name": tool, "arguments": {**given, "waitSeconds": 0}}}
                ),
                arguments,
                st.sampled_from(["tools/call", "tools/call", "tools/list", "initialize", "x"]),
            )

        fuzz(cases, st.one_of(st.sampled_from(sorted(TOOLS)).flatmap(line_of), JUNK, st.builds(encode, VALUES)), call)


# Oversized input


OVERSIZED = [
    ("POST", "/api/verbs/work.send", CONTENT_TYPE, limits.MAX_MESSAGE_REQUEST_BYTES),
    ("POST", "/api/inbox/push", JSON_TYPE, limits.MAX_REQUEST_BYTES),
    ("POST", "/mcp/{workspace}", JSON_TYPE, limits.MAX_REQUEST_BYTES),
    ("POST", "/answer?token=x", JSON_TYPE, limits.MAX_REQUEST_BYTES),
    ("POST", "/answer?token=x", FORM_TYPE, limits.MAX_REQUEST_BYTES),
]


@pytest.mark.parametrize("wire", ["http", "unix"])
@pytest.mark.parametrize(("method", "path", "kind", "limit"), OVERSIZED)
def test_an_oversized_body_is_refused_and_changes_nothing(door: Door, wire: str, method: str, path: str, kind: str, limit: int) -> None:
    transport = httpx.HTTPTransport(uds=door.relay.url("unix").removeprefix("unix:")) if wire == "unix" else None
    base = "http://localhost" if wire == "unix" else door.relay.url("http")
    with httpx.Client(transport=transport, base_url=base, timeout=20) as client:
        text = b'{"named": {"sender": "user", "to": "builder", "subject": "S", "body": "' + b"x" * limit + b'"}}'
        answer = door.ask(
            method, path.format(workspace=door.workspace), client=client, content=text, headers={**MCP_HEADERS, "Content-Type": kind}
        )
    assert answer.status_code == 413


@pytest.mark.parametrize(
    ("verb", "field", "limit"), [("work.send", "body", limits.MAX_BODY_BYTES), ("work.send", "subject", limits.MAX_LINE_BYTES)]
)
def test_an_oversized_text_is_refused_and_changes_nothing(door: Door, verb: str, field: str, limit: int) -> None:
    named = {"sender": "user", "to": "builder", "subject": "S", field: "x" * (limit + 1)}
    answer = door.ask("POST", f"/api/verbs/{verb}", content=encode({"named": named}), headers={"Content-Type": CONTENT_TYPE})
    assert answer.status_code in (400, 413)


@pytest.mark.parametrize(
    ("path", "protocol", "limit"),
    [("/api/verbs", VERB_PROTOCOL, limits.MAX_CALL_BYTES), ("/api/mailbox/builder/socket", PROTOCOL, limits.MAX_FRAME_BYTES)],
)
def test_an_oversized_frame_ends_the_connection_and_changes_nothing(door: Door, path: str, protocol: str, limit: int) -> None:
    with door.connect(path, protocol) as socket:

        def talk() -> None:
            socket.send(b'{"op": "ping", "id": 1, "x": "' + b"x" * limit + b'"}', text=True)
            while True:  # until the server ends it
                socket.recv(timeout=20)

        with pytest.raises(ConnectionClosed) as closed:
            talk()
        assert closed.value.rcvd is None or closed.value.rcvd.code in (CloseCode.MESSAGE_TOO_BIG, CloseCode.POLICY_VIOLATION)
    door.watched.assert_unchanged(path)


def test_an_oversized_line_ends_mcp_over_stdio_and_changes_nothing(workspace: tuple[str, str], tmp_path: Path) -> None:
    with stdio_server(*workspace, tmp_path) as (server, process), closing(Watched(workspace[0])) as watched:
        assert server.send(b"{}") is not None
        assert process.stdin is not None
        try:
            process.stdin.write(b'{"jsonrpc": "2.0", "id": 1, "method": "' + b"x" * (limits.MAX_MESSAGE_REQUEST_BYTES + 1))
            process.stdin.flush()
        except BrokenPipeError:
            pass  # it left before it had read the rest
        watched.assert_unchanged("an oversized line")


# Growth


def resident_kib(pid: int) -> int:
    """The memory of a process that is in RAM."""
    (line,) = [line for line in Path(f"/proc/{pid}/status").read_text().splitlines() if line.startswith("VmRSS:")]
    return int(line.split()[1])


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="the memory of a process is read from /proc")
@CASES
def test_a_server_does_not_grow_by_what_it_refuses(cases: int) -> None:
    with current().serve() as server, httpx.Client(base_url=server.ready["url"], timeout=20) as client:
        headers = {"Content-Type": CONTENT_TYPE, "Authorization": f"Bearer {server.token}"}

        def call(given: tuple[str, bytes]) -> None:
            assert client.post(f"/api/verbs/{given[0]}", content=given[1], headers=headers).status_code < 500

        def send_oversized() -> None:
            for _ in range(3):
                answer = client.post("/api/verbs/work.send", content=b"x" * (limits.MAX_MESSAGE_REQUEST_BYTES + 1), headers=headers)
                assert answer.status_code == 413

        cases = max(FEW, cases // 5)  # a process of its own is slower
        fuzz(cases, hostile_calls(), call)  # loads modules, and fills caches
        send_oversized()
        before = resident_kib(server.pid)
        for _ in range(2):
            fuzz(cases, hostile_calls(), call)
            send_oversized()
        grown = resident_kib(server.pid) - before
        assert grown < MAX_GROWTH_KIB, f"{grown} KiB"
