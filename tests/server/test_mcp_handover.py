"""An answer that does not reach the agent loses no message: cancelled, broken off, or never confirmed. Only a next call makes it seen."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import pytest

from tests.cli.process import LIMIT, SCRIPT, eventually
from tests.server.agents import at
from tests.server.running_server import RunningServer, WorkspaceClient

HEADERS = {"Accept": "application/json, text/event-stream", "MCP-Protocol-Version": "2025-11-25"}


def _steps(server: RunningServer, entry_id: str) -> list[str]:
    return [receipt["step"] for receipt in server.inbox.ok("entry", "show", entry_id)["receipts"]]


def _call_message(number: int, tool: str, **arguments: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": {"name": tool, "arguments": arguments}}


def _post(workspace: WorkspaceClient, message: dict[str, Any]) -> Any:
    return workspace.http.post(workspace.mcp_url, json=message, headers=HEADERS)


def _data(response: Any) -> dict[str, Any]:
    line = next(line for line in response.text.splitlines() if line.startswith("data: "))
    found: dict[str, Any] = json.loads(line.removeprefix("data: "))["result"]["structuredContent"]
    return found


CANCEL = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 7, "reason": "the person interrupted"}}


@pytest.mark.parametrize("door", ["http", "stdio"])
def test_a_message_is_seen_with_the_next_call(server: RunningServer, workspace: WorkspaceClient, door: str) -> None:
    entry_id = workspace.push(comments="Look")
    server.reply(entry_id, "Seen")
    with at(workspace, door) as agent:
        (message,) = agent.ok("inbox_read")["messages"]
        assert (message["body"], message["verified"], message["door"]) == ("Seen", True, "http")
        assert "reply_seen" not in _steps(server, entry_id)
        agent.ok("work_fetch")
        assert "reply_seen" in _steps(server, entry_id)


@pytest.mark.parametrize("door", ["http", "stdio"])
def test_an_answer_and_a_reply_in_a_thread_are_seen_with_the_next_call(
    server: RunningServer, workspace: WorkspaceClient, door: str
) -> None:
    with at(workspace, door) as agent:
        entry_id = agent.ok("inbox_ask", question="Ship?", waitSeconds=0)["entryId"]
        server.reply(entry_id, "yes")
        answer = agent.ok("inbox_ask", entryId=entry_id)
        assert (answer["answer"], answer["verified"], answer["door"]) == ("yes", True, "http")
        assert "reply_seen" not in _steps(server, entry_id)
        assert agent.ok("inbox_read")["messages"] == []
        assert "reply_seen" in _steps(server, entry_id)


def test_a_cancelled_read_over_http_takes_nothing(server: RunningServer, workspace: WorkspaceClient) -> None:
    entry_id = workspace.push(comments="Look")
    with ThreadPoolExecutor() as threads:
        waiting = threads.submit(_post, workspace, _call_message(7, "inbox_read", waitSeconds=50))
        eventually(lambda: waiting.done() or (_post(workspace, CANCEL).status_code == 202 and waiting.done()))
        assert "cancelled" in waiting.result().text
    server.reply(entry_id, "an important word")
    assert [message["state"] for message in server.mailbox.ok("peek", "--session", workspace.agent)["messages"]] == ["pending"]
    assert "reply_offered" not in _steps(server, entry_id)


def test_a_cancellation_after_the_answer_brings_the_message_again(server: RunningServer, workspace: WorkspaceClient) -> None:
    entry_id = workspace.push(comments="Look")
    server.reply(entry_id, "an important word")
    assert _data(_post(workspace, _call_message(7, "inbox_read")))["messages"][0]["body"] == "an important word"
    assert _post(workspace, CANCEL).status_code == 202
    assert _data(_post(workspace, _call_message(8, "inbox_read")))["messages"][0]["body"] == "an important word"
    assert "reply_seen" not in _steps(server, entry_id)
    assert _data(_post(workspace, _call_message(9, "inbox_read")))["messages"] == []
    assert "reply_seen" in _steps(server, entry_id)


@pytest.mark.parametrize("door", ["http", "stdio"])
def test_opencode_cancels_what_it_has_and_its_next_call_makes_that_seen(
    server: RunningServer, workspace: WorkspaceClient, door: str
) -> None:
    """As recorded: `opencode run` sent this 100 ms after the answer of each call, and no message ever counted as seen."""
    entry_id = workspace.push(comments="Look")
    server.reply(entry_id, "word")
    begin = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {"clientInfo": {"name": "opencode", "version": "1.18.33"}}}
    begin["params"] |= {"protocolVersion": "2025-11-25", "capabilities": {"roots": {}}}  # type: ignore[operator]
    read, cancel, again = _call_message(7, "inbox_read"), {**CANCEL}, _call_message(8, "inbox_read")
    if door == "http":
        session = workspace.http.post(workspace.mcp_url, json=begin, headers=HEADERS).headers["mcp-session-id"]
        headers = {**HEADERS, "Mcp-Session-Id": session}
        first, _, second = (workspace.http.post(workspace.mcp_url, json=one, headers=headers) for one in (read, cancel, again))
        answers = [_data(first), _data(second)]
    else:
        with _stdio(workspace) as child:
            assert child.stdin is not None
            _ask(child, begin)
            first_answer = _ask(child, read)
            child.stdin.write(json.dumps(cancel) + "\n")
            answers = [answer["result"]["structuredContent"] for answer in (first_answer, _ask(child, again))]
    assert [[message["body"] for message in answer["messages"]] for answer in answers] == [["word"], []]
    assert "reply_seen" in _steps(server, entry_id)


def test_a_call_of_another_program_confirms_nothing(server: RunningServer, workspace: WorkspaceClient) -> None:
    entry_id = workspace.push(comments="Look")
    server.reply(entry_id, "word")
    _post(workspace, _call_message(1, "inbox_read"))
    headers = {**HEADERS, "User-Agent": "another program"}
    workspace.http.post(workspace.mcp_url, json=_call_message(2, "work_fetch"), headers=headers)
    assert "reply_seen" not in _steps(server, entry_id)


def _begin_session(workspace: WorkspaceClient) -> str:
    """Initialize, and return the id of the session that the server gives."""
    client = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
    found: str = _post(workspace, {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": client}).headers["mcp-session-id"]
    return found


def test_two_sessions_of_one_program_confirm_nothing_for_each_other(server: RunningServer, workspace: WorkspaceClient) -> None:
    entry_id = workspace.push(comments="Look")
    server.reply(entry_id, "word")
    first, second = ({**HEADERS, "Mcp-Session-Id": _begin_session(workspace)} for _ in range(2))
    workspace.http.post(workspace.mcp_url, json=_call_message(1, "inbox_read"), headers=first)
    workspace.http.post(workspace.mcp_url, json=_call_message(2, "work_fetch"), headers=second)
    assert "reply_seen" not in _steps(server, entry_id)
    workspace.http.post(workspace.mcp_url, json=_call_message(2, "work_fetch"), headers=first)
    assert "reply_seen" in _steps(server, entry_id)


@contextmanager
def _stdio(workspace: WorkspaceClient) -> Iterator[subprocess.Popen[str]]:
    server = workspace.server
    argv = [SCRIPT, "mcp", "--workspace", workspace.workspace_id]
    pipe = subprocess.PIPE
    with subprocess.Popen(argv, env=server.inbox.environment(), cwd=server.folder, stdin=pipe, stdout=pipe, text=True) as child:
        try:
            yield child
        finally:
            child.kill()


def _ask(child: subprocess.Popen[str], message: dict[str, Any]) -> dict[str, Any]:
    assert child.stdin is not None
    assert child.stdout is not None
    child.stdin.write(json.dumps(message) + "\n")
    child.stdin.flush()
    found: dict[str, Any] = json.loads(child.stdout.readline())
    return found


@pytest.mark.parametrize("ending", ["closed", "terminated"])
def test_a_session_that_ends_gives_back_what_it_did_not_confirm(server: RunningServer, workspace: WorkspaceClient, ending: str) -> None:
    entry_id = workspace.push(comments="Look")
    server.reply(entry_id, "word")
    with _stdio(workspace) as child:
        read = _ask(child, _call_message(1, "inbox_read"))
        assert read["result"]["structuredContent"]["messages"][0]["body"] == "word"
        if ending == "closed":
            assert child.stdin is not None
            child.stdin.close()
        else:
            os.kill(child.pid, signal.SIGTERM)
        assert child.wait(LIMIT) == 0
    assert "reply_seen" not in _steps(server, entry_id)
    with at(workspace, "stdio") as agent:
        (message,) = agent.ok("inbox_read")["messages"]
    assert (message["body"], message["again"]) == ("word", True)


def test_stdio_refuses_what_is_no_request_and_goes_on(workspace: WorkspaceClient) -> None:
    with _stdio(workspace) as child:
        assert child.stdin is not None
        child.stdin.write("no JSON\n[]\n\n")
        assert _ask(child, {"jsonrpc": "2.0", "id": "a", "method": "nothing"})["error"]["code"] == -32700
        assert child.stdout is not None
        assert json.loads(child.stdout.readline())["error"]["code"] == -32600
        assert json.loads(child.stdout.readline())["error"]["code"] == -32601
        version = _ask(child, {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": "1999-01-01"}})
        assert version["result"]["protocolVersion"] == "2025-11-25"
        assert _ask(child, {"jsonrpc": "2.0", "id": 2, "method": "ping"})["result"] == {}


@pytest.mark.parametrize("door", ["http", "stdio"])
def test_arguments_of_the_programs_own_are_ignored_and_a_long_wait_is_shortened(workspace: WorkspaceClient, door: str) -> None:
    with at(workspace, door) as agent:
        entry_id = agent.ok("inbox_push", comments="Hello", wait_for_previous=True)["entryId"]
        workspace.server.reply(entry_id, "word")
        assert agent.ok("inbox_read", waitSeconds=300)["messages"][0]["body"] == "word"


@pytest.mark.parametrize("door", ["http", "stdio"])
def test_tools_tell_what_they_do_and_are_shown_at_once(workspace: WorkspaceClient, door: str) -> None:
    with at(workspace, door) as agent:
        for tool in agent.tools():
            assert tool.annotations is not None
            assert (tool.annotations.destructive_hint, tool.annotations.open_world_hint) == (False, False)
            assert tool.annotations.read_only_hint == (tool.name == "work_fetch")
            assert tool.meta == {"anthropic/alwaysLoad": True}
            assert tool.name in (agent.client.instructions or "")
            assert len((tool.description or "").partition(". ")[0]) <= 155
            for schema in tool.input_schema["properties"].values():
                assert "type" in schema


def test_a_refusal_begins_with_its_reason(workspace: WorkspaceClient) -> None:
    with at(workspace) as agent:
        for arguments in ({}, {"docs": "a.md"}):
            result = agent.call("inbox_push", **arguments)
            assert result.content[0].text.startswith('{"error": {"message": ')  # type: ignore[union-attr]


def test_a_ringer_of_the_server_runs_no_code_of_the_project(server: RunningServer, workspace: WorkspaceClient) -> None:
    package = server.folder / "postroom"
    package.mkdir()
    (package / "__init__.py").write_text("import pathlib\npathlib.Path(__file__).with_name('ran').touch()\nraise SystemExit\n")
    call = _call_message(1, "work_fetch")
    call["params"]["_meta"] = {"threadId": "th-7"}
    with _stdio(workspace) as child:
        _ask(child, call)
        eventually(lambda: (package / "ran").exists() or server.inbox.ok("agent", "show", workspace.agent)["routes"])
        assert not (package / "ran").exists()
        (route,) = server.inbox.ok("agent", "show", workspace.agent)["routes"]
        os.kill(route["pid"], signal.SIGKILL)
