"""A server with limits of its operator's own, at every door."""

from __future__ import annotations

import json
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect
from websockets.typing import Subprotocol

from postroom.core import limits
from postroom.core.rpc.wire import VERB_PROTOCOL
from tests.cli.process import LIMIT, Inbox
from tests.server.running_server import JSON, RunningServer, WorkspaceClient, refusal
from tests.server.verb_calls import say

SET = {
    "MAX_BODY_BYTES": 2048,
    "MAX_LINE_BYTES": 300,
    "MAX_NAME_CHARS": 64,
    "MAX_MAIL_PAYLOAD_BYTES": 1024,
    "MAX_COMMENT_BYTES": 1024,
    "MAX_QUESTION_BYTES": 1024,
    "MAX_JSON_LEVELS": 9,
    "MAX_BATCH_ITEMS": 3,
    "MAX_ARTIFACTS": 1,
    "MAX_HEADERS": 40,
    "MAX_HEAD_BYTES": 8192,
    "MAX_REQUEST_BYTES": 5000,
    "MAX_MESSAGE_REQUEST_BYTES": 6000,
    "MAX_CALL_BYTES": 3000,
    "MAX_ANSWER_BYTES": 1024,
    "MAX_RESULT_BYTES": 200_000,
    "MAX_CHOICES": 2,
}


@pytest.fixture(scope="module")
def bounded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    server = RunningServer(tmp_path_factory.mktemp("bounded"))
    server.inbox.served[limits.VARIABLE] = " ".join(f"{name}={value}" for name, value in SET.items())
    yield server.open()
    assert server.close() == 0


@pytest.fixture
def agent(bounded: RunningServer) -> WorkspaceClient:
    return bounded.add_workspace()


TEXTS: dict[str, Callable[[WorkspaceClient], tuple[str, dict[str, Any]]]] = {
    "body": lambda own: ("work.send", {"sender": own.agent, "to": own.agent, "subject": "S", "body": "x" * 2049}),
    "subject": lambda own: ("work.send", {"sender": own.agent, "to": own.agent, "subject": "x" * 301}),
    "name": lambda own: ("work.send", {"sender": own.agent, "to": "x" * 65, "subject": "S"}),
    "levels": lambda own: (
        "work.send",
        {"sender": own.agent, "to": own.agent, "subject": "S", "payload_json": '{"a":' * 10 + "1" + "}" * 10},
    ),
    "mail": lambda own: ("mail.enqueue", {"message": {"from": own.agent, "to": own.agent, "payload": "x" * 1025}}),
    "batch": lambda own: ("mail.enqueue_all", {"messages": [{"from": own.agent, "to": own.agent, "payload": "x"}] * 4}),
    "question": lambda own: ("people.ask", {"workspace_id": own.workspace_id, "question": "x" * 1025}),
    "choices": lambda own: ("people.ask", {"workspace_id": own.workspace_id, "question": "?", "choices": ["a", "b", "c"]}),
}


@pytest.mark.parametrize("kind", TEXTS)
def test_a_text_beyond_a_set_limit_is_refused(bounded: RunningServer, agent: WorkspaceClient, kind: str) -> None:
    verb, named = TEXTS[kind](agent)
    refusal(say(agent.http, verb, **named), 400, "invalid_input")


def test_requests_beyond_a_set_limit_are_refused(bounded: RunningServer, agent: WorkspaceClient) -> None:
    refusal(say(agent.http, "work.send", sender=agent.agent, to=agent.agent, subject="S", body="x" * 6001), 413, "too_large")
    refusal(agent.http.post("/api/inbox/push", content=json.dumps({"comments": "x" * 5000}), headers=JSON), 413, "too_large")
    refusal(agent.try_push(comments="x" * 1025), 400, "invalid_input")
    refusal(agent.http.post("/api/mailbox", json={"from": agent.agent, "to": agent.agent, "payload": "x" * 1025}), 400, "invalid_input")


@pytest.mark.parametrize("head", [b"X: y\r\n" * 41, b"X: " + b"y" * 8192 + b"\r\n"])
def test_a_head_beyond_a_set_limit_is_refused(bounded: RunningServer, head: bytes) -> None:
    place = urlsplit(bounded.url)
    with socket.create_connection((place.hostname, place.port), timeout=LIMIT) as line:
        line.sendall(b"GET /health HTTP/1.1\r\nHost: %b\r\n%b\r\n" % (place.netloc.encode(), head))
        assert line.recv(1 << 16).startswith(b"HTTP/1.1 431")


def test_a_frame_beyond_a_set_limit_ends_the_connection(bounded: RunningServer, agent: WorkspaceClient) -> None:
    address, bearer = bounded.url.replace("http", "ws") + "/api/verbs", {"Authorization": f"Bearer {agent.token}"}
    with connect(address, subprotocols=[Subprotocol(VERB_PROTOCOL)], additional_headers=bearer) as wire:
        wire.send(json.dumps({"op": "ping", "id": "x" * 3000}))
        with pytest.raises(ConnectionClosed, match="1009"):
            wire.recv(timeout=LIMIT)


def test_a_tool_is_bounded_too(bounded: RunningServer, agent: WorkspaceClient) -> None:
    call = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "inbox_push", "arguments": {"comments": "x" * 1025}}}
    headers = {"Accept": "application/json, text/event-stream"}
    answer = agent.http.post(agent.mcp_url, json=call, headers=headers)
    assert "larger than 1 KiB" in answer.text
    assert agent.http.post(agent.mcp_url, json={**call, "id": "x" * 5000}, headers=headers).status_code == 413
    assert agent.entries() == []


def test_an_answer_beyond_a_set_limit_is_cut(bounded: RunningServer, agent: WorkspaceClient) -> None:
    for _ in range(4):
        assert say(agent.http, "work.send", sender=agent.agent, to=agent.agent, subject="x" * 300).status_code == 200
    listed = bounded.get("/api/threads")
    assert listed["more"]
    assert 1 <= len(listed["threads"]) < 4


def test_a_command_is_bounded_too(bounded: RunningServer) -> None:
    refused = bounded.inbox.run("send", "--from", "ada", "--to", "bo", "--subject", "x" * 301, "--json")
    assert (refused.code, refused.json["error"]["field"]) == (30, "subject")


@pytest.mark.parametrize("value", ["MAX_BODY_BYTES=much", "MAX_NOTHING=1", "MAX_BODY_BYTES=0"])
@pytest.mark.parametrize("command", ["serve", "send --from ada --to bo --subject S", "list", "mcp --workspace ws"])
def test_nothing_starts_with_a_limit_that_cannot_work(tmp_path: Path, command: str, value: str) -> None:
    inbox = Inbox(tmp_path)
    inbox.found()
    before = inbox.everything()
    refused = inbox.execute(command.split(), {limits.VARIABLE: value})
    assert (refused.code, refused.stdout) == (30, "")
    assert refused.stderr.startswith("error: INBOX_LIMITS: ")
    assert inbox.everything() == before
