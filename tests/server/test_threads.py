"""The person looks at threads, and speaks in them."""

from __future__ import annotations

import httpx
import pytest

from tests.server.running_server import RunningServer, WorkspaceClient, refusal


@pytest.fixture
def thread(server: RunningServer, workspace: WorkspaceClient) -> str:
    """A thread that the agent of `workspace` holds."""
    identity: str = server.inbox.ok("send", "--from", "user", "--to", workspace.agent, "--subject", "Build")["thread"]["thread_id"]
    server.inbox.ok("claim", "--agent", workspace.agent, "--thread", identity)
    return identity


def _spoken(answer: httpx.Response) -> None:
    assert answer.status_code in (200, 201), answer.text


def test_threads_are_listed_by_status_and_agent(server: RunningServer, workspace: WorkspaceClient, thread: str) -> None:
    waiting = server.inbox.ok("send", "--from", "user", "--to", workspace.agent, "--subject", "Later")["thread"]["thread_id"]

    def listed(**more: str) -> list[str]:
        return [each["thread_id"] for each in server.get("/api/threads", agent=workspace.agent, **more)["threads"]]

    assert set(listed()) == {thread, waiting}
    assert (listed(status="claimed"), listed(status="pending")) == ([thread], [waiting])
    page = server.get("/api/threads", agent=workspace.agent, limit="1")
    assert (len(page["threads"]), page["more"]) == (1, True)
    rest = server.get("/api/threads", agent=workspace.agent, limit="1", after=page["after"])
    assert {each["thread_id"] for each in (*page["threads"], *rest["threads"])} == {thread, waiting}
    assert (rest["more"], rest["after"]) == (False, None)
    assert server.inbox.ok("list", "--agent", workspace.agent, "--limit", "1", "--after", page["after"])["threads"] == rest["threads"]


def test_a_thread_is_shown_as_the_command_shows_it(server: RunningServer, thread: str) -> None:
    shown = server.inbox.ok("show", "--thread", thread)
    found = server.get(f"/api/threads/{thread}")
    assert {name: found[name] for name in ("thread", "lease", "messages", "next_event_id")} == {
        name: shown[name] for name in ("thread", "lease", "messages", "next_event_id")
    }


def test_a_lease_token_is_shown_to_nobody_but_its_holder(server: RunningServer, thread: str) -> None:
    assert "lse_" not in server.person.get(f"/api/threads/{thread}").text
    assert "lse_" not in server.person.get("/api/threads").text


def test_a_reply_in_a_thread_is_the_person_s_verified_word(server: RunningServer, workspace: WorkspaceClient, thread: str) -> None:
    _spoken(server.person.post(f"/api/threads/{thread}/reply", json={"body": "Use e-mail"}))
    message = server.get(f"/api/threads/{thread}")["messages"][-1]
    assert (message["kind"], message["from_agent"], message["to_agent"]) == ("answer", "user", workspace.agent)
    assert "Use e-mail" in (message["summary"], message["body"])
    assert (message["verified"], message["door"] in ("web", "http")) == (True, True)


def test_a_second_answer_in_a_thread_is_told_by_whom_the_question_was_answered(
    server: RunningServer, workspace: WorkspaceClient, thread: str
) -> None:
    server.inbox.ok("update", "--agent", workspace.agent, "--thread", thread, "--status", "blocked", "--summary", "Which?")
    first, second = (server.person.post(f"/api/threads/{thread}/reply", json={"body": body}).json() for body in ("Blue", "Green"))
    assert "note" not in first
    told = f"{first['message']['in_reply_to']} was already answered by user ({first['message']['message_id']})"
    assert second["note"].startswith(told)
    said = server.inbox.run("reply", "--from", "user", "--thread", thread, "--summary", "Red")
    assert told in said.stdout


def test_a_reply_in_a_thread_wakes_its_worker(server: RunningServer, workspace: WorkspaceClient, thread: str) -> None:
    server.inbox.ok("update", "--agent", workspace.agent, "--thread", thread, "--status", "blocked", "--summary", "Which?")
    waiter = server.inbox.start("wait-reply", "--agent", workspace.agent, "--thread", thread, "--json").sleeping()
    _spoken(server.person.post(f"/api/threads/{thread}/reply", json={"body": "That one"}))
    message = waiter.finish().json["message"]
    assert "That one" in (message["summary"], message["body"])
    assert workspace.entries()[0]["question"]["state"] == "answered"


def test_a_thread_that_is_not_wanted_is_cancelled(server: RunningServer, thread: str) -> None:
    _spoken(server.person.post(f"/api/threads/{thread}/cancel", json={"reason": "Superseded"}))
    found = server.get(f"/api/threads/{thread}")
    assert found["thread"]["status"] == "cancelled"
    assert (found["messages"][-1]["kind"], found["messages"][-1]["from_agent"]) == ("control", "user")
    assert "Superseded" in found["messages"][-1]["summary"]
    refusal(server.person.post(f"/api/threads/{thread}/cancel", json={}), 409, "invalid_state")
    refusal(server.person.post(f"/api/threads/{thread}/reply", json={"body": "Too late"}), 409, "invalid_state")


def test_a_thread_is_cancelled_without_a_reason(server: RunningServer, thread: str) -> None:
    _spoken(server.person.post(f"/api/threads/{thread}/cancel", json={}))
    assert server.get(f"/api/threads/{thread}")["thread"]["status"] == "cancelled"


@pytest.mark.parametrize(("method", "rest"), [("GET", ""), ("POST", "/reply"), ("POST", "/cancel")])
def test_a_thread_that_never_was_is_not_found(server: RunningServer, method: str, rest: str) -> None:
    answer = server.person.request(method, f"/api/threads/thr_nowhere{rest}", json={"body": "Hello"} if rest == "/reply" else {})
    refusal(answer, 404, "not_found")


@pytest.mark.parametrize("query", ["limit=0", "limit=x", "status=asleep", "after=x"])
def test_a_list_that_cannot_be_is_refused(server: RunningServer, query: str) -> None:
    refusal(server.person.get(f"/api/threads?{query}"), 400, "invalid_input")


def test_everybody_who_was_seen_is_listed(server: RunningServer, workspace: WorkspaceClient) -> None:
    kinds = {agent["name"]: agent["kind"] for agent in server.get("/api/agents")["agents"]}
    assert kinds["user"] == "human"
    assert kinds[workspace.agent] == "agent"
