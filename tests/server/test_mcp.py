"""The official client: over HTTP and over stdio, in the current protocol and in the one before."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from mcp import MCPError
from mcp_types import Tool

from tests.server.agents import VERSIONS, Agent, at, knock, words
from tests.server.office import Desk, Office

TOOLS = ["inbox_ask", "inbox_push", "inbox_read", "work_claim", "work_done", "work_fetch", "work_update"]
WAYS = [(door, mode) for door in ("http", "stdio") for mode in VERSIONS]
OWN = ("workspace", "workspaceId", "workspace_id", "agent", "from", "sender", "name", "token")


@pytest.fixture
def here(desk: Desk) -> Iterator[Agent]:
    """The agent of `desk`, in one way."""
    with at(desk) as session:
        yield session


def _send(office: Office, desk: Desk, subject: str = "Build") -> str:
    thread: str = office.inbox.ok("send", "--from", "user", "--to", desk.agent, "--subject", subject)["thread"]["thread_id"]
    return thread


def _are_few_and_short(tools: list[Tool], instructions: str) -> bool:
    for tool in tools:
        assert 0 < len((tool.description or "").encode()) < 2048
        assert tool.input_schema["type"] == "object"
        assert not set(OWN) & set(tool.input_schema.get("properties", {})), tool.name
    return len(tools) <= 8 and 0 < len(instructions.encode()) < 2048


@pytest.mark.parametrize(("door", "mode"), WAYS)
def test_an_agent_works_and_never_learns_its_name(office: Office, desk: Desk, door: str, mode: str) -> None:
    with at(desk, door, mode) as agent:
        assert agent.client.protocol_version == VERSIONS[mode]
        tools = agent.tools()
        assert sorted(tool.name for tool in tools) == TOOLS
        assert _are_few_and_short(tools, agent.client.instructions or "")
        _work(office, desk, agent)
    said = "\n".join(agent.heard)
    for secret in (desk.agent, desk.workspace_id, desk.token, str(desk.path)):
        assert secret not in said
    assert {(entry["door"], entry["from"]) for entry in desk.entries()} == {("mcp", desk.agent)}


def _work(office: Office, desk: Desk, agent: Agent) -> None:
    """Everything that an agent does in a day."""
    desk.write("a.md", "# A\n")
    pushed = agent.ok("inbox_push", docs=[{"path": "a.md"}], comments="Look")
    assert set(pushed) == {"ok", "entryId", "ts"}
    office.reply(pushed["entryId"], "Seen")
    read = agent.ok("inbox_read", entries=True)
    assert [message["body"] for message in read["messages"]] == ["Seen"]
    assert [entry["entryId"] for entry in read["entries"]] == [pushed["entryId"]]
    thread = _send(office, desk)
    (fetched,) = agent.ok("work_fetch")["threads"]
    assert fetched["threadId"] == thread
    claimed = agent.ok("work_claim")
    assert (claimed["thread"]["threadId"], claimed["thread"]["assignedTo"]) == (thread, "you")
    updated = agent.ok("work_update", threadId=thread, summary="Halfway", leaseToken=claimed["leaseToken"])
    assert updated["thread"]["status"] == "in_progress"
    asked = agent.ok("inbox_ask", question="Ship?", choices=["yes", "no"], waitSeconds=0)
    office.reply(asked["entryId"], "yes")
    assert agent.ok("inbox_ask", entryId=asked["entryId"])["choice"] == "yes"
    assert agent.ok("work_done", threadId=thread, outcome="failed", summary="Could not")["thread"]["status"] == "failed"
    assert agent.refused("work_done", threadId=thread, outcome="done", summary="Again")["code"] == "invalid_state"
    agent.ok("inbox_read", old=True, entries=True)


def test_the_door_is_recorded_by_us(desk: Desk, here: Agent) -> None:
    here.ok("inbox_push", comments="Over MCP")
    (entry,) = desk.entries()
    assert (entry["door"], entry["from"], entry["workspaceId"]) == ("mcp", desk.agent, desk.workspace_id)


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
        ("inbox_read", {"waitSeconds": 51}, "invalid_input"),
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
        ("inbox_ask", {"question": "x", "waitSeconds": 51}, "invalid_input"),
        ("inbox_ask", {"entryId": "3d8f7a34-6d0c-4e0e-9b43-1d7c8a4e1a11"}, "not_found"),
        ("work_claim", {"threadId": "thr_nowhere"}, "not_found"),
        ("work_update", {"threadId": "thr_nowhere", "summary": "x"}, "not_found"),
        ("work_update", {}, "invalid_input"),
        ("work_done", {"threadId": "thr_nowhere", "outcome": "done"}, "not_found"),
        ("work_done", {"threadId": "thr_nowhere", "outcome": "perhaps"}, "invalid_input"),
    ],
)
def test_a_refusal_is_a_result_that_an_agent_can_read(desk: Desk, here: Agent, tool: str, arguments: dict[str, object], code: str) -> None:
    assert here.refused(tool, **arguments)["code"] == code
    assert desk.entries() == []


def test_the_text_of_a_result_says_what_its_data_say(here: Agent) -> None:
    result = here.call("inbox_push", comments="Look")
    assert result.structured_content["entryId"] in words(result)
    assert json.loads(words(result)) == result.structured_content


def test_an_unknown_tool_is_refused(here: Agent) -> None:
    with pytest.raises(MCPError, match="inbox_pull"):
        here.call("inbox_pull")


def test_a_wait_in_vain_says_how_to_go_on(desk: Desk, here: Agent) -> None:
    asked = here.ok("inbox_ask", question="Ship?", waitSeconds=0.05)
    assert (asked["state"], bool(asked["resume"])) == ("open", True)
    assert here.ok("inbox_read", waitSeconds=0.05)["messages"] == []
    assert here.ok("work_fetch", waitSeconds=0.05)["threads"] == []
    assert len(desk.entries()) == 1


def test_work_that_comes_wakes_who_waits_for_it(office: Office, desk: Desk, here: Agent) -> None:
    waiting = here.begin("work_fetch", waitSeconds=50)
    thread = _send(office, desk)
    assert [found["threadId"] for found in waiting.result(60).structured_content["threads"]] == [thread]


def test_work_is_taken_best_first_and_given_back(office: Office, desk: Desk, here: Agent) -> None:
    _send(office, desk, "Later")
    urgent = office.inbox.ok("send", "--from", "user", "--to", desk.agent, "--subject", "Now", "--priority", "high")["thread"]["thread_id"]
    assert here.ok("work_claim")["thread"]["threadId"] == urgent
    assert here.refused("work_claim", threadId=urgent)["code"] == "lease_conflict"
    assert here.ok("work_claim", threadId=urgent, takeover=True)["leaseToken"]
    assert here.ok("work_done", threadId=urgent, outcome="released")["thread"]["status"] == "pending"


def test_a_lease_that_was_replaced_is_refused(office: Office, desk: Desk, here: Agent) -> None:
    thread = _send(office, desk)
    old = here.ok("work_claim", threadId=thread)["leaseToken"]
    new = here.ok("work_claim", threadId=thread, takeover=True)["leaseToken"]
    assert here.refused("work_update", threadId=thread, summary="x", leaseToken=old)["code"] == "lease_lost"
    assert here.ok("work_update", threadId=thread, summary="x", leaseToken=new)["thread"]["status"] == "in_progress"


def test_many_messages_are_read_in_parts_and_none_is_lost(office: Office, desk: Desk, here: Agent) -> None:
    identity = desk.push(comments="Talk to me")
    for number in range(5):
        office.reply(identity, f"Number {number}")
    first = here.ok("inbox_read", limit=3)
    assert first["more"] is True
    rest = here.ok("inbox_read", limit=3)
    assert rest["more"] is False
    assert [message["body"] for message in first["messages"] + rest["messages"]] == [f"Number {number}" for number in range(5)]


def test_mail_of_other_agents_is_read_too_and_is_not_verified(office: Office, desk: Desk, here: Agent) -> None:
    office.mailbox.enqueue("Hello", to=desk.agent, sender="colleague")
    (message,) = here.ok("inbox_read")["messages"]
    assert (message["kind"], message["from"], message["body"], message["verified"]) == ("mail", "colleague", "Hello", False)


def test_mail_that_a_person_sends_in_an_agents_name_is_not_verified(office: Office, desk: Desk, here: Agent) -> None:
    for sender in ("colleague", "user"):
        assert office.person.post("/api/mailbox", json={"from": sender, "to": desk.agent, "payload": "Hello"}).status_code == 201
    told = here.ok("inbox_read")["messages"]
    assert [(message["from"], message["verified"]) for message in told] == [("colleague", False), ("user", True)]


def test_an_endpoint_without_a_stream_says_so(desk: Desk) -> None:
    for method in ("GET", "DELETE"):
        assert desk.http.request(method, desk.mcp_url, headers={"Accept": "text/event-stream"}).status_code == 405


def test_no_session_is_given(desk: Desk) -> None:
    answer = knock(desk, desk.token)
    assert (answer.status_code, "mcp-session-id" in answer.headers) == (200, False)


def test_stdio_needs_a_workspace_that_is_there(office: Office) -> None:
    finished = office.inbox.run("mcp", "--workspace", "ws_nowhere")
    assert (finished.code, finished.stdout) == (40, "")


def test_the_ready_configuration_is_one_that_clients_read(office: Office, desk: Desk) -> None:
    added = office.inbox.ok("workspace", "token", desk.workspace_id, "--url", office.url)
    server = added["mcp_json"]["mcpServers"]["inbox"]
    assert (server["type"], server["url"], added["mcp_url"]) == ("http", desk.mcp_url, desk.mcp_url)
    assert server["headers"]["Authorization"].startswith("Bearer ")
    assert added["token"].startswith("prw_")
