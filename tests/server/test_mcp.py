"""The official client: over HTTP and over stdio, in the current protocol and in the one before."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator

import pytest
from mcp import MCPError
from mcp_types import Tool

from postroom.core.text import short_repr
from postroom.server.mcp.results import encode_result
from tests.server.agents import VERSIONS, McpAgent, at, knock, words
from tests.server.mailbox_data import opened
from tests.server.running_server import RunningServer, WorkspaceClient

TOOLS = ["inbox_ask", "inbox_push", "inbox_read", "work_claim", "work_done", "work_fetch", "work_send", "work_update"]
WAYS = [(door, mode) for door in ("http", "stdio") for mode in VERSIONS]
OWN = ("workspace", "workspaceId", "workspace_id", "agent", "from", "sender", "name", "token")


@pytest.fixture
def here(workspace: WorkspaceClient) -> Iterator[McpAgent]:
    """The agent of `workspace`, in one way."""
    with at(workspace) as session:
        yield session


def _send(server: RunningServer, workspace: WorkspaceClient, subject: str = "Build") -> str:
    thread: str = server.inbox.ok("send", "--from", "user", "--to", workspace.agent, "--subject", subject)["thread"]["thread_id"]
    return thread


def _are_few_and_short(tools: list[Tool], instructions: str) -> bool:
    for tool in tools:
        assert 0 < len((tool.description or "").encode()) < 2048
        assert tool.input_schema["type"] == "object"
        assert not set(OWN) & set(tool.input_schema.get("properties", {})), tool.name
    return len(tools) <= 8 and 0 < len(instructions.encode()) < 2048


@pytest.mark.parametrize(("door", "mode"), WAYS)
def test_an_agent_works_and_never_learns_its_name(server: RunningServer, workspace: WorkspaceClient, door: str, mode: str) -> None:
    with at(workspace, door, mode) as agent:
        assert agent.client.protocol_version == VERSIONS[mode]
        tools = agent.tools()
        assert sorted(tool.name for tool in tools) == TOOLS
        assert _are_few_and_short(tools, agent.client.instructions or "")
        _work(server, workspace, agent)
    said = "\n".join(agent.heard)
    for secret in (workspace.agent, workspace.workspace_id, workspace.token, str(workspace.path)):
        assert secret not in said
    assert {(entry["door"], entry["from"]) for entry in workspace.entries()} == {("mcp", workspace.agent)}


def _work(server: RunningServer, workspace: WorkspaceClient, agent: McpAgent) -> None:
    """Everything that an agent does in a day."""
    workspace.write("a.md", "# A\n")
    pushed = agent.ok("inbox_push", docs=[{"path": "a.md"}], comments="Look")
    assert set(pushed) == {"ok", "entryId", "ts"}
    server.reply(pushed["entryId"], "Seen")
    read = agent.ok("inbox_read", entries=True)
    assert [message["body"] for message in read["messages"]] == ["Seen"]
    assert [entry["entryId"] for entry in read["entries"]] == [pushed["entryId"]]
    thread = _send(server, workspace)
    (fetched,) = agent.ok("work_fetch")["threads"]
    assert fetched["threadId"] == thread
    claimed = agent.ok("work_claim")
    assert (claimed["thread"]["threadId"], claimed["thread"]["assignedTo"]) == (thread, "you")
    updated = agent.ok("work_update", threadId=thread, summary="Halfway", leaseToken=claimed["leaseToken"])
    assert updated["thread"]["status"] == "in_progress"
    asked = agent.ok("inbox_ask", question="Ship?", choices=["yes", "no"], waitSeconds=0)
    server.reply(asked["entryId"], "yes")
    assert agent.ok("inbox_ask", entryId=asked["entryId"])["choice"] == "yes"
    assert agent.ok("work_done", threadId=thread, outcome="failed", summary="Could not")["thread"]["status"] == "failed"
    assert agent.refused("work_done", threadId=thread, outcome="done", summary="Again")["code"] == "invalid_state"
    agent.ok("inbox_read", old=True, entries=True)


@pytest.mark.parametrize("door", ["http", "stdio"])
def test_a_payload_that_an_older_version_stored_loses_no_answer(server: RunningServer, workspace: WorkspaceClient, door: str) -> None:
    with at(workspace, door) as agent:
        for payload in ('{"x": "\\ud800"}', '{"x": 1e999}', '{"x":' + "[" * 900 + "]" * 900 + "}", "no JSON"):
            thread = _send(server, workspace)
            with opened(server) as store, store.write() as tx:
                tx.execute("UPDATE messages SET payload_json = :payload WHERE thread_id = :thread_id", payload=payload, thread_id=thread)
            claimed = agent.ok("work_claim", threadId=thread)
            assert (bool(claimed["leaseToken"]), claimed["messages"][0]["payload"]) == (True, payload)


def test_a_refusal_that_quotes_a_lone_surrogate_is_sent() -> None:
    text, data = encode_result({"ok": False, "error": {"message": "there is no thread \ud800", "limit": float("inf")}})
    assert data == {"ok": False, "error": {"message": "there is no thread ?", "limit": "inf"}}
    assert json.loads(text) == data


def test_the_door_is_recorded_by_us(workspace: WorkspaceClient, here: McpAgent) -> None:
    here.ok("inbox_push", comments="Over MCP")
    (entry,) = workspace.entries()
    assert (entry["door"], entry["from"], entry["workspaceId"]) == ("mcp", workspace.agent, workspace.workspace_id)


@pytest.mark.parametrize(
    ("tool", "arguments", "code"),
    [
        ("inbox_push", {}, "invalid_input"),
        ("inbox_push", {"comments": " "}, "invalid_input"),
        ("inbox_push", {"docs": [{"path": "../x"}]}, "invalid_input"),
        ("inbox_push", {"docs": [{"path": "nowhere.md"}]}, "not_found"),
        ("inbox_push", {"docs": "a.md"}, "invalid_input"),
        ("inbox_push", {"comments": 3}, "invalid_input"),
        ("inbox_read", {"waitSeconds": -1}, "invalid_input"),
        ("inbox_read", {"limit": 0}, "invalid_input"),
        ("inbox_ask", {}, "invalid_input"),
        ("inbox_ask", {"question": " "}, "invalid_input"),
        ("inbox_ask", {"question": "x", "to": "robot"}, "invalid_input"),
        ("inbox_ask", {"question": "x", "choices": ["one"]}, "invalid_input"),
        ("inbox_ask", {"question": "x", "choices": ["one", "one"]}, "invalid_input"),
        ("inbox_ask", {"question": "x", "onSilence": "default"}, "invalid_input"),
        ("inbox_ask", {"question": "x", "onSilence": "panic", "deadlineSeconds": 9}, "invalid_input"),
        ("inbox_ask", {"question": "x", "onSilence": "default", "deadlineSeconds": 9}, "invalid_input"),
        ("inbox_ask", {"question": "x", "onSilence": "escalate", "deadlineSeconds": 9}, "invalid_input"),
        ("inbox_ask", {"question": "x", "default": "y"}, "invalid_input"),
        ("inbox_ask", {"entryId": "3d8f7a34-6d0c-4e0e-9b43-1d7c8a4e1a11"}, "not_found"),
        ("work_claim", {"threadId": "thr_nowhere"}, "not_found"),
        ("work_update", {"threadId": "thr_nowhere", "summary": "x"}, "not_found"),
        ("work_update", {}, "invalid_input"),
        ("work_done", {"threadId": "thr_nowhere", "outcome": "done"}, "not_found"),
        ("work_done", {"threadId": "thr_nowhere", "outcome": "perhaps"}, "invalid_input"),
    ],
)
def test_a_refusal_is_a_result_that_an_agent_can_read(
    workspace: WorkspaceClient, here: McpAgent, tool: str, arguments: dict[str, object], code: str
) -> None:
    assert here.refused(tool, **arguments)["code"] == code
    assert workspace.entries() == []


def test_a_refusal_of_too_much_says_the_bound_and_not_the_argument(here: McpAgent) -> None:
    docs = [{"path": f"reports/2026/file-{number}.md"} for number in range(51)]
    assert here.refused("inbox_push", docs=docs)["message"] == "docs: at most 50 items, not 51"
    assert here.refused("inbox_ask", question="x" * 16_385)["message"] == "question: at most 16384 characters, not 16385"
    wrong = here.refused("inbox_ask", question="x", onSilence="p" * 2000)["message"]
    assert wrong.endswith("is not one of ['wait', 'default', 'refuse', 'escalate']")


def test_the_text_of_a_result_says_what_its_data_say(here: McpAgent) -> None:
    result = here.call("inbox_push", comments="Look")
    assert result.structured_content["entryId"] in words(result)
    assert json.loads(words(result)) == result.structured_content


def test_an_unknown_tool_is_refused(here: McpAgent) -> None:
    with pytest.raises(MCPError, match="inbox_pull"):
        here.call("inbox_pull")


def test_a_wait_in_vain_says_how_to_go_on(workspace: WorkspaceClient, here: McpAgent) -> None:
    asked = here.ok("inbox_ask", question="Ship?", waitSeconds=0.05)
    assert (asked["state"], bool(asked["resume"])) == ("open", True)
    assert here.ok("inbox_read", waitSeconds=0.05)["messages"] == []
    assert here.ok("work_fetch", waitSeconds=0.05)["threads"] == []
    assert len(workspace.entries()) == 1


def test_work_that_comes_wakes_who_waits_for_it(server: RunningServer, workspace: WorkspaceClient, here: McpAgent) -> None:
    waiting = here.begin("work_fetch", waitSeconds=50)
    thread = _send(server, workspace)
    assert [found["threadId"] for found in waiting.result(60).structured_content["threads"]] == [thread]


def test_work_is_taken_best_first_and_given_back(server: RunningServer, workspace: WorkspaceClient, here: McpAgent) -> None:
    _send(server, workspace, "Later")
    urgent = server.inbox.ok("send", "--from", "user", "--to", workspace.agent, "--subject", "Now", "--priority", "high")["thread"][
        "thread_id"
    ]
    assert here.ok("work_claim")["thread"]["threadId"] == urgent
    assert here.refused("work_claim", threadId=urgent)["code"] == "lease_conflict"
    assert here.ok("work_claim", threadId=urgent, takeover=True)["leaseToken"]
    assert here.ok("work_done", threadId=urgent, outcome="released")["thread"]["status"] == "pending"


def test_a_lease_that_was_replaced_is_refused(server: RunningServer, workspace: WorkspaceClient, here: McpAgent) -> None:
    thread = _send(server, workspace)
    old = here.ok("work_claim", threadId=thread)["leaseToken"]
    new = here.ok("work_claim", threadId=thread, takeover=True)["leaseToken"]
    assert here.refused("work_update", threadId=thread, summary="x", leaseToken=old)["code"] == "lease_lost"
    assert here.ok("work_update", threadId=thread, summary="x", leaseToken=new)["thread"]["status"] == "in_progress"


def test_many_messages_are_read_in_parts_and_none_is_lost(server: RunningServer, workspace: WorkspaceClient, here: McpAgent) -> None:
    identity = workspace.push(comments="Talk to me")
    for number in range(5):
        server.reply(identity, f"Number {number}")
    first = here.ok("inbox_read", limit=3)
    assert first["more"] is True
    rest = here.ok("inbox_read", limit=3)
    assert rest["more"] is False
    assert [message["body"] for message in first["messages"] + rest["messages"]] == [f"Number {number}" for number in range(5)]
    again = here.ok("inbox_read", old=True, limit=3)
    assert [message["body"] for message in again["messages"]] == ["Number 4", "Number 3", "Number 2"]
    assert again["more"] is True
    last = here.ok("inbox_read", old=True, limit=3, after=again["after"])
    assert ([message["body"] for message in last["messages"]], last["more"], last["after"]) == (["Number 1", "Number 0"], False, None)
    assert here.refused("inbox_read", old=True, after="nonsense")["field"] == "after"
    assert here.refused("inbox_read", after=again["after"])["field"] == "after"


def test_mail_of_other_agents_is_read_too_and_is_not_verified(server: RunningServer, workspace: WorkspaceClient, here: McpAgent) -> None:
    server.mailbox.enqueue("Hello", to=workspace.agent, sender="colleague")
    (message,) = here.ok("inbox_read")["messages"]
    assert (message["kind"], message["from"], message["body"], message["verified"]) == ("mail", "colleague", "Hello", False)


def test_mail_that_a_person_sends_in_an_agents_name_is_not_verified(
    server: RunningServer, workspace: WorkspaceClient, here: McpAgent
) -> None:
    for sender in ("colleague", "user"):
        assert server.person.post("/api/mailbox", json={"from": sender, "to": workspace.agent, "payload": "Hello"}).status_code == 201
    told = here.ok("inbox_read")["messages"]
    assert [(message["from"], message["verified"]) for message in told] == [("colleague", False), ("user", True)]


def test_an_endpoint_without_a_stream_says_so(workspace: WorkspaceClient) -> None:
    for method in ("GET", "DELETE"):
        assert workspace.http.request(method, workspace.mcp_url, headers={"Accept": "text/event-stream"}).status_code == 405


def test_the_id_of_a_session_is_a_name_and_opens_nothing(workspace: WorkspaceClient) -> None:
    first, second = (knock(workspace, workspace.token).headers["mcp-session-id"] for _ in range(2))
    assert first != second
    listing = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
    headers = {"Accept": "application/json, text/event-stream", "MCP-Protocol-Version": "2025-11-25", "Mcp-Session-Id": first}
    nobody = {**headers, "Authorization": "Bearer prw_wrong"}
    assert workspace.http.post(workspace.mcp_url, json=listing, headers=nobody).status_code == 401
    for session in (first, "made up"):  # nothing is kept for a session: it survives a restart of the server
        answer = workspace.http.post(workspace.mcp_url, json=listing, headers={**headers, "Mcp-Session-Id": session})
        assert (answer.status_code, "inbox_read" in answer.text) == (200, True)


def test_stdio_needs_a_workspace_that_is_there(server: RunningServer) -> None:
    finished = server.inbox.run("mcp", "--workspace", "ws_nowhere")
    assert (finished.code, finished.stdout) == (40, "")


def test_the_ready_configuration_is_one_that_clients_read(server: RunningServer, workspace: WorkspaceClient) -> None:
    added = server.inbox.ok("workspace", "token", workspace.workspace_id, "--url", server.url)
    configured = added["mcp_json"]["mcpServers"]["inbox"]
    assert (configured["type"], configured["url"], added["mcp_url"]) == ("http", workspace.mcp_url, workspace.mcp_url)
    assert configured["headers"]["Authorization"].startswith("Bearer ")
    assert added["token"].startswith("prw_")


def test_an_absurd_number_is_refused_and_is_nobody_elses_trouble(
    server: RunningServer, workspace: WorkspaceClient, other: WorkspaceClient
) -> None:
    with at(workspace) as agent:
        for tool, arguments in (("work_claim", {"leaseSeconds": 10**400}), ("inbox_ask", {"question": "?", "deadlineSeconds": 10**400})):
            assert agent.refused(tool, **arguments)["code"] == "invalid_input"
    assert server.entry(other.push(comments="Meanwhile"))["comments"] == "Meanwhile"
    assert len(short_repr(10**400)) <= 80


def test_a_whole_number_may_be_written_as_a_float(workspace: WorkspaceClient) -> None:
    with at(workspace) as agent:
        assert len(agent.ok("work_fetch", limit=3.0)["threads"]) <= 3
        assert agent.ok("inbox_read", limit=5.0, entries=True)["messages"] == []


def test_a_refusal_keeps_its_field_whatever_the_agent_is_called(server: RunningServer) -> None:
    with at(server.add_workspace(agent="docs")) as agent:
        error = agent.refused("inbox_push", docs=[{"path": "../x"}])
    assert (error["code"], error["field"]) == ("invalid_input", "docs")


def test_mail_that_was_taken_and_lost_on_the_way_can_be_shown_again(server: RunningServer, workspace: WorkspaceClient) -> None:
    server.mailbox.ok("enqueue", "--from", "lead", "--to", workspace.agent, "--payload", "Read me twice")
    with at(workspace) as agent:
        [message] = agent.ok("inbox_read")["messages"]
        assert agent.ok("inbox_read")["messages"] == []
        assert agent.ok("inbox_read", old=True)["messages"] == [message]


def test_a_worker_that_waits_is_woken_when_a_lease_runs_out(found: Callable[..., RunningServer]) -> None:
    """On a server of its own: after a long run of tests, leases of others have run out, too."""
    server = found().open()
    workspace, other = server.add_workspace(), server.add_workspace()
    thread = _send(server, other)
    server.inbox.ok("claim", "--agent", other.agent, "--thread", thread, "--lease-seconds", "1")
    with at(workspace) as agent:
        offered = agent.ok("work_fetch", waitSeconds=50)["threads"]
    assert [(each["threadId"], each["lapsed"]) for each in offered] == [(thread, True)]


def test_what_waits_for_another_is_not_claimed_over_the_network(
    server: RunningServer, workspace: WorkspaceClient, other: WorkspaceClient
) -> None:
    thread = _send(server, other)
    with at(workspace) as agent:
        assert agent.refused("work_claim", threadId=thread)["code"] == "not_found"
    with at(other) as agent:
        assert agent.ok("work_claim", threadId=thread)["thread"]["status"] == "claimed"
