"""Every door takes hostile input without a traceback, a failure of the server, a hang or growth. A refusal has a stable code."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from hypothesis import strategies as st
from websockets.exceptions import ConnectionClosed
from websockets.frames import CloseCode

from postroom import people, queues
from postroom.cli.inbox import run as run_inbox
from postroom.cli.mailbox import run as run_mailbox
from postroom.cli.notifier import run as run_notifier
from postroom.cli.thread import run as run_thread
from postroom.core.errors import Refusal
from postroom.core.rpc.wire import CONTENT_TYPE, VERB_PROTOCOL
from postroom.people.entries_mirror import EntriesMirror
from postroom.server.app import PERSON_ROUTES, SHARED_ROUTES
from postroom.server.mcp.tool_table import TOOLS
from postroom.server.ws.frames import PROTOCOL
from postroom.store import open_store
from tests.conftest import fresh_file
from tests.fuzz.doors import CASES, MCP_HEADERS, Door, Watched, hostile_calls, parse, refused_frame
from tests.fuzz.hostile_input import JUNK, TEXTS, VALUES, encode, fuzz

STREAMS = ("/api/events", "/api/bell")
ROUTES = [(method, path) for method, path, _ in (*PERSON_ROUTES, *SHARED_ROUTES) if path not in STREAMS]
NOTHING = 10
INBOX_CODES, PLAIN_CODES = (0, NOTHING, 20, 30, 40), (0, 1, 2, 3, NOTHING)
# Each program with its commands, without those that block, and those that start processes or write a crontab.
PROGRAMS: dict[str, tuple[Callable[[list[str]], int], list[str], tuple[int, ...]]] = {
    "inbox": (
        run_inbox,
        ["send", "fetch", "claim", "update", "reply", "done", "list", "show", "agent", "task", "ask", "push", "entries", "nonsense", ""],
        INBOX_CODES,
    ),
    "mailbox": (
        run_mailbox,
        [
            "enqueue",
            "dequeue",
            "ack",
            "nack",
            "extend",
            "peek",
            "purge",
            "retry-dead-letter",
            "show",
            "sessions",
            "policy",
            "alias",
            "x",
            "",
        ],
        INBOX_CODES,
    ),
    "thread": (
        run_thread,
        ["init", "push", "pop", "ack", "peek", "unsubscribe", "dead list", "dead retry", "info", "list", "x", ""],
        PLAIN_CODES,
    ),
    "notifier": (run_notifier, ["task remove", "task runs", "timer remove", "status", "task", "timer", "x", ""], PLAIN_CODES),
}
FLAGS = [
    "--thread",
    "--from",
    "--to",
    "--subject",
    "--payload-json",
    "--limit",
    "--status",
    "--summary",
    "--agent",
    "--after-event",
    "--json",
    "--session",
    "--payload",
    "--msg-id",
    "--reason",
    "--thread-dir",
    "--id",
]


def test_a_write_by_a_refused_call_would_be_seen(door: Door) -> None:
    """Else the tests below would prove nothing."""
    named = {"sender": "leader", "to": "builder", "subject": "S"}
    answer = door.http.post("/api/verbs/work.send", content=encode({"named": named}), headers={"Content-Type": CONTENT_TYPE})
    assert answer.status_code == 200
    with pytest.raises(AssertionError, match="threads"):
        door.watched.assert_unchanged(answer)


@CASES
def test_verbs_over_http(door: Door, cases: int) -> None:
    fuzz(
        cases,
        hostile_calls(),
        lambda call: door.ask("POST", f"/api/verbs/{call[0]}", content=call[1], headers={"Content-Type": CONTENT_TYPE}),
    )


def _quoted(text: str) -> str:
    from urllib.parse import quote

    return quote(text[:1000].encode(errors="surrogatepass"), safe="")  # httpx itself refuses a longer address


@CASES
def test_rest_routes(door: Door, cases: int) -> None:
    def ask(given: tuple[tuple[str, str], str, dict[str, str], bytes]) -> None:
        (method, path), name, query, body = given
        for part in ("{id}", "{session}", "{msg_id}", "{run}"):
            path = path.replace(part, _quoted(name) or "x")
        address = f"{path}?{'&'.join(f'{_quoted(key)}={_quoted(value)}' for key, value in query.items())}"
        door.ask(method, address, content=body, headers={"Content-Type": "application/json"})

    keys = st.sampled_from(["limit", "before", "status", "q", "path", "entry", "agent", "html", "before_event", "unknown"])
    body = st.one_of(JUNK, st.builds(encode, VALUES))
    fuzz(cases, st.tuples(st.sampled_from(ROUTES), TEXTS, st.dictionaries(keys, TEXTS, max_size=3), body), ask)


@CASES
def test_mcp_tools(door: Door, cases: int) -> None:
    def call(given: tuple[str, dict[str, Any], bytes | None]) -> None:
        tool, arguments, junk = given
        arguments = {**arguments, "waitSeconds": 0} if "waitSeconds" in TOOLS[tool].schema["properties"] else arguments
        message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": tool, "arguments": arguments}}
        answer = door.ask("POST", f"/mcp/{door.workspace}", content=encode(message) if junk is None else junk, headers=MCP_HEADERS)
        assert "The server failed" not in answer.text

    def arguments_of(tool: str) -> st.SearchStrategy[tuple[str, dict[str, Any], bytes | None]]:
        arguments = st.dictionaries(st.sampled_from(sorted(TOOLS[tool].schema["properties"])), VALUES, max_size=5)
        return st.tuples(st.just(tool), arguments, st.one_of(st.none(), st.none(), JUNK))

    fuzz(cases, st.sampled_from(sorted(TOOLS)).flatmap(arguments_of), call)


class Reconnecting:
    """A socket that is opened again when the server has closed it, as it may after malformed frames."""

    def __init__(self, door: Door, path: str, protocol: str) -> None:
        self._door, self._path, self._protocol = door, path, protocol
        self._socket = door.connect(path, protocol)

    def say(self, frame: bytes) -> None:
        try:
            self._socket.send(frame, text=True)
            answer = parse(self._socket.recv(timeout=20))
            assert answer.get("error", {}).get("code") != "server_error"
            if refused_frame(answer):
                self._door.watched.assert_unchanged((frame[:300], answer))
            else:
                self._door.watched.note()
        except ConnectionClosed as closed:
            if closed.rcvd is not None and closed.rcvd.code == CloseCode.INTERNAL_ERROR:
                raise
            self._socket = self._door.connect(self._path, self._protocol)

    def close(self) -> None:
        self._socket.close()


@CASES
def test_verbs_over_a_websocket(door: Door, cases: int) -> None:
    def frame(call: tuple[str, bytes]) -> bytes:
        return b'{"op": "call", "id": 1, "verb": "%b", %b' % (call[0].encode(), call[1][1:]) if call[1][:2] == b'{"' else call[1]

    with closing(Reconnecting(door, "/api/verbs", VERB_PROTOCOL)) as socket:
        fuzz(cases, hostile_calls(), lambda call: socket.say(frame(call)))


@CASES
def test_mailbox_frames(door: Door, cases: int) -> None:
    fields = st.dictionaries(
        st.sampled_from(["op", "id", "message", "msg_id", "reason", "count", "delivery_token", "x"]), VALUES, max_size=5
    )
    ops = st.sampled_from(["enqueue", "ack", "nack", "extend", "ping", "peek", "x"])
    framed = st.builds(lambda given, op: encode({"id": 1, **given, "op": op}), fields, ops)
    with closing(Reconnecting(door, "/api/mailbox/builder/socket", PROTOCOL)) as socket:
        fuzz(cases, st.one_of(framed, JUNK), socket.say)


@CASES
def test_lines_of_the_entries_mirror(tmp_path: Path, cases: int) -> None:
    with closing(open_store(fresh_file(tmp_path))) as store:
        people.notify(store, sender="backup", text="Done")
        mirror = EntriesMirror(store, str(tmp_path / "data"))
        mirror.sync()
        keys = st.sampled_from(["id", "ts", "workspaceId", "docs", "comments", "kind", "from", "readAt"])
        line = st.one_of(JUNK, st.builds(encode, st.dictionaries(keys, VALUES, max_size=6)))

        def append(data: bytes) -> None:
            with (tmp_path / "data" / "inbox" / "entries.jsonl").open("ab") as file:
                file.write(data.replace(b"\n", b" ") + b"\n")
            mirror.sync()

        fuzz(min(cases, 300), line, append)  # each syncs a file
        with store.read() as tx:
            assert tx.fetch_one(tx.sql.event_latest)


@CASES
def test_filters_of_a_queue(tmp_path: Path, cases: int) -> None:
    queues.init_queue(str(tmp_path / "queue"))
    parts = ["(", ")", "'", '"', ";", "--", "id", "type", "=", "1", "OR", "SELECT", "FROM", "events", "LIKE", "%", "randomblob(9)"]
    fragment = st.one_of(TEXTS, st.lists(st.sampled_from(parts)).map(" ".join))
    with closing(queues.Queue(str(tmp_path / "queue"))) as queue:

        def subscribe(text: str) -> None:
            try:
                queues.subscribe(queue, "consumer", handler="true", filter=text)
            except Refusal:
                pass  # its code is part of the API, and another exception fails the test

        fuzz(cases, fragment, subscribe)


@CASES
@pytest.mark.parametrize("program", PROGRAMS)
def test_the_command_lines(
    tmp_path: Path, program: str, cases: int, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    place = fresh_file(tmp_path)
    monkeypatch.setenv("INBOX_DB", place)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("NOTIFIER_HOME", str(tmp_path / "notifier"))
    monkeypatch.chdir(tmp_path)
    words = st.one_of(st.sampled_from(FLAGS), TEXTS.filter(lambda text: "\0" not in text))
    run_program, commands, codes = PROGRAMS[program]

    def run(given: tuple[str, list[str]]) -> None:
        code = run_program([*given[0].split(), *given[1]])
        told = capfd.readouterr()
        assert code in codes, (given, told)
        assert "Traceback" not in told.err
        if code in (0, NOTHING):
            watched.note()
        else:
            watched.assert_unchanged((given, told.err))

    with closing(Watched(place)) as watched:
        fuzz(cases, st.tuples(st.sampled_from(commands), st.lists(words, max_size=6)), run)
