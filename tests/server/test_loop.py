"""The loop that sells it: an agent asks and sleeps, a person answers, the same agent wakes and goes on."""

from __future__ import annotations

from typing import Any

import pytest

from tests.cli.process import Waiter, eventually
from tests.server.agents import VERSIONS, answered, at
from tests.server.running_server import RunningServer, WorkspaceClient

VERIFIED = ("web", "http")


def _blocked(server: RunningServer, agent: str, question: str = "Which auth?") -> str:
    thread: str = server.inbox.ok("send", "--from", "user", "--to", agent, "--subject", "Add the login page")["thread"]["thread_id"]
    server.inbox.ok("claim", "--agent", agent, "--thread", thread)
    server.inbox.ok("update", "--agent", agent, "--thread", thread, "--status", "blocked", "--summary", question)
    return thread


def _asking(server: RunningServer, agent: str, *more: str) -> Waiter:
    return server.inbox.start("ask", "--from", agent, "--question", "Ship it?", *more, "--json")


def test_a_blocked_worker_is_woken_by_the_person_s_reply(server: RunningServer, workspace: WorkspaceClient) -> None:
    with server.listen(types="entry.", workspaceId=workspace.workspace_id) as listener:
        thread = _blocked(server, workspace.agent)
        waiter = server.inbox.start("wait-reply", "--agent", workspace.agent, "--thread", thread, "--json").sleeping()
        heard = listener.until("entry.created").data["message_id"]
        (entry,) = workspace.entries()
        assert (entry["id"], entry["comments"], entry["threadId"]) == (heard, "Which auth?", thread)
        server.reply(heard, "E-mail and password")
        finished = waiter.finish()
    assert (finished.code, finished.stderr) == (0, "")
    message = finished.json["message"]
    assert (message["kind"], message["from_agent"], message["verified"]) == ("answer", "user", True)
    assert message["door"] in VERIFIED
    assert "E-mail and password" in (message["summary"], message["body"])
    steps = server.steps(heard)
    assert steps[0] == "stored"
    assert {"offered", "seen", "answered", "reply_stored"} <= set(steps)


def test_a_worker_is_not_woken_by_the_answer_to_another_agents_question(server: RunningServer, workspace: WorkspaceClient) -> None:
    """A person says yes to a harmless question. The agent with a dangerous one in the same thread goes on waiting."""
    thread, scout = _blocked(server, workspace.agent, "May I drop the production database?"), f"scout-{workspace.agent}"
    server.inbox.ok("reply", "--from", scout, "--to", "user", "--thread", thread, "--kind", "question", "--summary", "Fix the typo?")
    (dangerous,) = workspace.entries()
    server.reply(server.entry_from(scout)["id"], "yes")
    with at(workspace) as agent:
        waited = agent.ok("work_update", threadId=thread, afterEvent=0, waitSeconds=0.1)
        assert ("reply" in waited, server.entry(dangerous["id"])["question"]["state"]) == (False, "open")
        server.reply(dangerous["id"], "no")
        reply = agent.ok("work_update", threadId=thread, afterEvent=0, waitSeconds=50)["reply"]
    assert (reply["summary"], reply["inReplyTo"], reply["verified"]) == ("no", dangerous["question"]["questionId"], True)


def test_a_reply_to_a_push_reaches_the_mailbox_once(server: RunningServer, workspace: WorkspaceClient) -> None:
    waiter = server.mailbox.start("wait", "--session", workspace.agent, "--json")
    identity = workspace.push(comments="Done. Extend it?")
    server.reply(identity, "Yes")
    message = waiter.finish().json["message"]
    assert (message["payload"], message["entry_id"]) == ("Yes", identity)
    assert server.steps(identity)[-1] == "reply_offered"
    server.mailbox.answers("ack", "--session", workspace.agent, "--msg-id", message["msg_id"])
    assert server.steps(identity)[-1] == "reply_seen"
    assert server.mailbox.run("dequeue", "--session", workspace.agent).code == 10
    with at(workspace) as agent:
        assert agent.ok("inbox_read")["messages"] == []


@pytest.mark.parametrize("mode", list(VERSIONS))
def test_a_reply_to_a_push_wakes_a_reading_agent_once(server: RunningServer, workspace: WorkspaceClient, mode: str) -> None:
    with at(workspace, "http", mode) as agent:
        identity = agent.ok("inbox_push", comments="Done. Extend it?")["entryId"]
        reading = agent.begin("inbox_read", waitSeconds=50)
        server.reply(identity, "Yes")
        (message,) = answered(reading.result(60))["messages"]
        assert (message["kind"], message["body"], message["from"]) == ("reply", "Yes", "user")
        assert (message["entryId"], message["verified"]) == (identity, True)
        assert agent.ok("inbox_read")["messages"] == []
        assert [old["body"] for old in agent.ok("inbox_read", old=True)["messages"]] == ["Yes"]
        assert agent.ok("inbox_read")["messages"] == []
    assert server.mailbox.run("dequeue", "--session", workspace.agent).code == 10
    assert {"reply_stored", "reply_seen"} <= set(server.steps(identity))


@pytest.mark.parametrize("mode", list(VERSIONS))
def test_an_agent_that_asks_waits_for_its_answer(server: RunningServer, workspace: WorkspaceClient, mode: str) -> None:
    with at(workspace, "http", mode) as agent:
        asking = agent.begin("inbox_ask", question="Ship it?", choices=["yes", "no"], waitSeconds=50)
        entry = server.entry_from(workspace.agent)
        assert (entry["question"]["choices"], entry["question"]["state"]) == (["yes", "no"], "open")
        assert not asking.done()
        server.reply(entry["id"], "yes")
        told = answered(asking.result(60))
        assert (told["entryId"], told["state"], told["answer"]) == (entry["id"], "answered", "yes")
        assert (told["choice"], told["answeredBy"]) == ("yes", "user")
        assert agent.ok("inbox_read")["messages"] == []


def test_an_answer_that_nobody_waited_for_comes_with_the_next_reading(server: RunningServer, workspace: WorkspaceClient) -> None:
    with at(workspace) as agent:
        asked = agent.ok("inbox_ask", question="Ship it?", waitSeconds=0)
        assert (asked["state"], "answer" in asked) == ("open", False)
        assert asked["resume"]
        server.reply(asked["entryId"], "Yes")
        (message,) = agent.ok("inbox_read")["messages"]
        assert (message["kind"], message["body"], message["entryId"]) == ("answer", "Yes", asked["entryId"])
        assert agent.ok("inbox_read")["messages"] == []


def test_a_command_that_asks_waits_for_its_answer(server: RunningServer, workspace: WorkspaceClient) -> None:
    asking = _asking(server, workspace.agent, "--choice", "yes", "--choice", "no")
    identity = server.entry_from(workspace.agent)["id"]
    server.reply(identity, "no")
    finished = asking.finish()
    assert (finished.code, finished.stderr) == (20, "")  # a person who says no lets nobody go on
    answer = finished.json["answer"]
    assert (answer["state"], answer["answer"], answer["choice"], answer["answered_by"]) == ("answered", "no", "no", "user")
    assert answer["door"] in VERIFIED


def test_a_command_that_asked_in_vain_can_go_on_waiting(server: RunningServer, workspace: WorkspaceClient) -> None:
    finished = server.inbox.run("ask", "--from", workspace.agent, "--question", "Ship it?", "--timeout-seconds", "0.05", "--json")
    assert (finished.code, finished.json["answer"]["state"]) == (10, "open")
    identity = finished.json["answer"]["entry_id"]
    asking = server.inbox.start("ask", "--from", workspace.agent, "--entry", identity, "--json")
    server.reply(identity, "Yes")
    assert asking.finish().json["answer"]["answer"] == "Yes"


def test_an_answer_comes_with_the_entry_that_asked(server: RunningServer, workspace: WorkspaceClient) -> None:
    asked = server.inbox.ok("ask", "--from", workspace.agent, "--question", "Ship it?", "--no-wait")
    (entry,) = workspace.entries()
    assert (asked["entry"], asked["answer"]["state"]) == (entry, "open")


def test_silence_can_mean_a_default(server: RunningServer, workspace: WorkspaceClient) -> None:
    with server.listen(types="entry.", workspaceId=workspace.workspace_id) as listener:
        asking = _asking(server, workspace.agent, "--deadline-seconds", "1", "--on-silence", "default", "--default", "wait")
        heard = listener.until("entry.default")
    finished = asking.finish()
    answer = finished.json["answer"]
    assert (finished.code, answer["state"], answer["answer"], answer["answered_by"]) == (0, "default", "wait", None)
    assert server.entry(heard.data["message_id"])["question"]["state"] == "default"


def test_silence_can_mean_no(server: RunningServer, workspace: WorkspaceClient) -> None:
    finished = _asking(server, workspace.agent, "--deadline-seconds", "1", "--on-silence", "refuse").finish()
    answer = finished.json["answer"]
    assert (finished.code, answer["state"], answer["answer"]) == (20, "refused", None)
    identity = finished.json["answer"]["entry_id"]
    assert server.reply(identity, "Sorry, I was away")["reply"]["via"] == "mailbox"
    assert server.entry(identity)["question"]["state"] == "refused"


def test_silence_can_mean_to_ask_somebody_else(server: RunningServer, workspace: WorkspaceClient) -> None:
    server.inbox.ok("agent", "add", "ada", "--kind", "human")
    asking = _asking(server, workspace.agent, "--deadline-seconds", "3", "--on-silence", "escalate", "--escalate-to", "ada")
    identity = server.entry_from(workspace.agent)["id"]
    server.person.put(f"/api/inbox/{identity}/read")
    eventually(lambda: server.entry(identity)["question"]["to"] == "ada")
    entry = server.entry(identity)
    assert (entry["question"]["state"], entry["question"]["escalatedAt"] is not None, entry["readAt"]) == ("open", True, None)
    assert asking.alive()
    assert "escalated" in server.steps(identity)
    server.reply(identity, "I am here now")
    assert asking.finish().json["answer"]["answer"] == "I am here now"


def test_a_deadline_fires_without_anybody_waiting(server: RunningServer, workspace: WorkspaceClient) -> None:
    """The server looks by itself: who listens is told, and the agent finds it at its next reading."""
    with server.listen(types="entry.", workspaceId=workspace.workspace_id) as listener, at(workspace) as agent:
        asked = agent.ok("inbox_ask", question="Ship?", deadlineSeconds=1, onSilence="default", default="no", waitSeconds=0)
        assert listener.until("entry.default").data["message_id"] == asked["entryId"]
        (message,) = agent.ok("inbox_read")["messages"]
        assert (message["kind"], message["body"], message["entryId"]) == ("default", "no", asked["entryId"])


def _worked(agent: Any, thread: str) -> Any:
    claimed = agent.ok("work_claim", threadId=thread)
    return agent.begin("work_update", threadId=thread, status="blocked", summary="Which?", leaseToken=claimed["leaseToken"], waitSeconds=50)


@pytest.mark.parametrize("mode", list(VERSIONS))
def test_a_worker_over_mcp_is_woken_inside_its_update(server: RunningServer, workspace: WorkspaceClient, mode: str) -> None:
    thread = server.inbox.ok("send", "--from", "user", "--to", workspace.agent, "--subject", "Build")["thread"]["thread_id"]
    with at(workspace, "http", mode) as agent:
        waiting = _worked(agent, thread)
        entry = server.entry_from(workspace.agent)
        assert entry["threadId"] == thread
        server.reply(entry["id"], "That one")
        told = answered(waiting.result(60))
        assert "That one" in str(told["reply"])
        assert agent.ok("work_done", threadId=thread, outcome="done", summary="Built")["thread"]["status"] == "done"
    assert server.inbox.ok("show", "--thread", thread)["thread"]["status"] == "done"


def test_a_question_that_was_deleted_is_not_waited_for(server: RunningServer, workspace: WorkspaceClient) -> None:
    asking = _asking(server, workspace.agent)
    identity = server.entry_from(workspace.agent)["id"]
    server.person.delete(f"/api/inbox/{identity}")
    finished = asking.finish()
    assert finished.error[:2] == (40, "not_found")
