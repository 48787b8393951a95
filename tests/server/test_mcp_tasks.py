"""Agents give each other work over MCP: threads and tasks, by name or by skill, and speak in threads."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from postroom import work
from postroom.core.records.work import Attachment
from postroom.server.mcp.task_tools import MAX_WAITING
from tests.server.agents import McpAgent, at
from tests.server.mailbox_data import opened
from tests.server.running_server import RunningServer, WorkspaceClient


@pytest.fixture
def server(own_server: RunningServer) -> RunningServer:
    """A server of this module: on a shared one, agents would be offered the lapsed threads of other tests."""
    return own_server


@pytest.fixture
def other(server: RunningServer) -> WorkspaceClient:
    """Another workspace, whose agent has a card and a skill."""
    added = server.add_workspace()
    server.inbox.ok("agent", "register", added.agent, "--skill", f"skill-{added.agent}")
    return added


@pytest.fixture
def giver(workspace: WorkspaceClient) -> Iterator[McpAgent]:
    with at(workspace) as session:
        yield session


@pytest.fixture
def taker(other: WorkspaceClient) -> Iterator[McpAgent]:
    with at(other) as session:
        yield session


def test_a_task_is_given_claimed_done_and_its_result_read(
    workspace: WorkspaceClient, other: WorkspaceClient, giver: McpAgent, taker: McpAgent
) -> None:
    waiting = taker.begin("work_fetch", waitSeconds=40)
    given = giver.ok("work_send", to=other.agent, kind="task", summary="Review module X", body="All of it", priority="high")["task"]
    assert (given["from"], given["to"], given["status"], given["verified"], given["door"]) == ("you", other.agent, "pending", True, "mcp")
    (seen,) = waiting.result().structured_content["tasks"]
    assert (seen["taskId"], seen["from"], seen["to"]) == (given["taskId"], workspace.agent, "you")
    assert seen["description"] == "Review module X\n\nAll of it"
    claimed = taker.ok("work_claim", taskId=given["taskId"])
    assert (claimed["thread"]["task"], claimed["messages"][0]["from"]) == (given["taskId"], workspace.agent)
    assert taker.refused("work_claim", taskId=given["taskId"])["code"] == "lease_conflict"
    taker.ok("work_done", threadId=claimed["thread"]["threadId"], outcome="done", summary="Fine", leaseToken=claimed["leaseToken"])
    (result,) = giver.ok("work_fetch", waitSeconds=40)["results"]
    assert (result["answers"], result["outcome"], result["artifacts"]["summary"]) == (given["taskId"], "completed", "Fine")
    assert giver.ok("work_done", taskId=result["taskId"], outcome="done")["task"]["status"] == "completed"
    assert giver.ok("work_fetch")["results"] == []


def test_the_most_urgent_of_threads_and_tasks_is_claimed(
    server: RunningServer, other: WorkspaceClient, giver: McpAgent, taker: McpAgent
) -> None:
    giver.ok("work_send", to=other.agent, summary="A thread", priority="low")
    giver.ok("work_send", skill=f"skill-{other.agent}", kind="task", summary="A task")
    assert [taker.ok("work_claim")["thread"]["subject"] for _ in range(2)] == ["A task", "A thread"]
    assert taker.ok("work_claim")["thread"] is None


def test_an_agent_sees_the_artifacts_of_a_message(server: RunningServer, other: WorkspaceClient, taker: McpAgent) -> None:
    attached = [Attachment("reports/auth.md"), Attachment("build.log", "log", '{"lines": 12}')]
    with opened(server) as store:
        thread_id = work.send(store, sender="user", to=other.agent, subject="Look", artifacts=attached).thread.thread_id
    [message] = taker.ok("work_fetch", threadId=thread_id)["messages"]
    shown = [{"path": "reports/auth.md", "kind": "file"}, {"path": "build.log", "kind": "log", "metadata": {"lines": 12}}]
    assert message["artifacts"] == shown


def test_an_agent_answers_a_question_in_a_thread_that_it_opened(other: WorkspaceClient, giver: McpAgent, taker: McpAgent) -> None:
    opened = giver.ok("work_send", to=other.agent, body="Paint the shed\nsoon")["thread"]
    assert (opened["subject"], opened["from"], opened["assignedTo"]) == ("Paint the shed", "you", other.agent)
    taker.ok("work_claim", threadId=opened["threadId"])
    asked = taker.ok("work_update", threadId=opened["threadId"], status="blocked", summary="Which colour?")
    page = giver.ok("work_fetch", threadId=opened["threadId"])
    question = page["messages"][-1]
    assert "note" not in giver.ok("work_send", threadId=opened["threadId"], summary="Blue", question=question["messageId"])
    again = giver.ok("work_send", threadId=opened["threadId"], summary="Light blue")
    assert again["note"].startswith(f"{question['messageId']} was already answered by ")
    reply = taker.ok("work_update", threadId=opened["threadId"], afterEvent=asked["next_event_id"], waitSeconds=40)["reply"]
    assert (reply["summary"], reply["inReplyTo"]) == ("Blue", question["messageId"])


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        ({"summary": "x"}, "invalid_input"),
        ({"to": "a", "skill": "b", "summary": "x"}, "invalid_input"),
        ({"to": "nobody-ever-seen", "summary": "x"}, "not_found"),
        ({"to": "nobody-ever-seen", "summary": "x", "kind": "task"}, "not_found"),
        ({"skill": "no-such-skill", "summary": "x"}, "not_found"),
        ({"to": "a"}, "invalid_input"),
        ({"to": "a", "summary": " "}, "invalid_input"),
        ({"threadId": "thr_nowhere", "summary": "x"}, "not_found"),
        ({"to": "a", "summary": "x", "kind": "mail"}, "invalid_input"),
    ],
)
def test_what_cannot_be_sent_is_refused(giver: McpAgent, arguments: dict[str, str], code: str) -> None:
    assert giver.refused("work_send", **arguments)["code"] == code


def test_a_foreign_thread_and_a_foreign_task_do_not_exist(
    server: RunningServer, other: WorkspaceClient, giver: McpAgent, taker: McpAgent
) -> None:
    stranger = server.add_workspace()
    thread = giver.ok("work_send", to=other.agent, summary="Between us")["thread"]["threadId"]
    task = giver.ok("work_send", to=other.agent, summary="Between us", kind="task")["task"]["taskId"]
    with at(stranger) as outsider:
        assert outsider.refused("work_send", threadId=thread, summary="Hello")["code"] == "not_found"
        assert outsider.refused("work_claim", taskId=task)["code"] == "not_found"
        assert outsider.refused("work_done", taskId=task, outcome="done")["code"] == "not_found"
    assert giver.refused("work_done", taskId=task, outcome="done")["code"] == "invalid_input"
    assert giver.refused("work_done", outcome="done")["code"] == "invalid_input"


def test_a_list_of_work_that_is_cut_is_read_on_by_its_cursors(server: RunningServer, other: WorkspaceClient, giver: McpAgent) -> None:
    for number in range(MAX_WAITING + 1):
        giver.ok("work_send", to=other.agent, kind="task", summary=f"Task {number}")
    for number in range(3):
        server.inbox.ok("send", "--from", "user", "--to", other.agent, "--subject", f"Thread {number}")
    with at(other) as taker:
        first = taker.ok("work_fetch", limit=2)
        rest = taker.ok("work_fetch", limit=2, after=first["after"], beforeTask=first["nextBeforeTask"])
    assert (first["more"], first["moreTasks"], rest["more"], rest["moreTasks"]) == (True, True, False, False)
    assert (rest["after"], rest["nextBeforeTask"]) == (None, None)
    assert [row["subject"] for row in first["threads"] + rest["threads"]] == [f"Thread {number}" for number in range(3)]
    assert {row["description"] for row in first["tasks"] + rest["tasks"]} == {f"Task {number}" for number in range(MAX_WAITING + 1)}


def test_the_first_call_of_a_new_process_may_give_a_task(workspace: WorkspaceClient, other: WorkspaceClient) -> None:
    with at(workspace, "stdio") as agent:
        assert agent.ok("work_send", to=other.agent, kind="task", summary="Review it")["task"]["to"] == other.agent
