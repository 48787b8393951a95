"""The person's word: into the thread that asked, to the question that waits, or into the workspace's mailbox."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.cli.process import Inbox
from tests.server.running_server import RunningServer, WorkspaceClient, refusal


def _blocked(inbox: Inbox, agent: str, question: str = "Which auth?", *more: str) -> str:
    """A thread in which the agent asked the person; its id."""
    thread: str = inbox.ok("send", "--from", "user", "--to", agent, "--subject", "Build")["thread"]["thread_id"]
    inbox.ok("claim", "--agent", agent, "--thread", thread)
    inbox.ok("update", "--agent", agent, "--thread", thread, "--status", "blocked", "--summary", question, *more)
    return thread


def _mail(server: RunningServer, session: str) -> dict[str, Any]:
    message: dict[str, Any] = server.mailbox.dequeue(session)["message"]
    return message


def test_a_question_in_a_thread_is_an_entry(server: RunningServer, workspace: WorkspaceClient) -> None:
    thread = _blocked(
        server.inbox, workspace.agent, "Which auth?", "--body", "E-mail or OAuth", "--payload-json", '{"choices": ["E", "O"]}'
    )
    (entry,) = workspace.entries()
    assert (entry["kind"], entry["threadId"], entry["from"]) == ("question", thread, workspace.agent)
    assert entry["comments"] == "Which auth?\n\nE-mail or OAuth"
    question = entry["question"]
    assert (question["state"], question["to"], question["choices"]) == ("open", "user", ["E", "O"])


def test_a_question_of_an_agent_without_a_workspace_is_an_entry_too(server: RunningServer) -> None:
    thread = _blocked(server.inbox, "homeless")
    entry = server.entry_from("homeless")
    assert (entry["workspaceId"], entry["workspaceLabel"], entry["threadId"]) == ("", "homeless", thread)


def test_a_question_between_agents_is_no_entry(server: RunningServer, workspace: WorkspaceClient) -> None:
    thread = server.inbox.ok("send", "--from", "leader", "--to", workspace.agent, "--subject", "Build")["thread"]["thread_id"]
    server.inbox.ok("claim", "--agent", workspace.agent, "--thread", thread)
    server.inbox.ok("update", "--agent", workspace.agent, "--thread", thread, "--status", "blocked", "--summary", "Which?")
    assert workspace.entries() == []


def test_a_reply_to_a_question_in_a_thread_is_its_answer(server: RunningServer, workspace: WorkspaceClient) -> None:
    thread = _blocked(server.inbox, workspace.agent)
    replied = server.reply(workspace.entries()[0]["id"], "E-mail and password")
    assert (replied["reply"]["via"], replied["reply"]["body"], replied["reply"]["from"]) == ("thread", "E-mail and password", "user")
    assert replied["entry"]["question"]["state"] == "answered"
    message = server.inbox.ok("show", "--thread", thread)["messages"][-1]
    assert (message["kind"], message["from_agent"], message["to_agent"]) == ("answer", "user", workspace.agent)
    assert "E-mail and password" in (message["summary"], message["body"])
    assert (message["verified"], message["door"] in ("web", "http")) == (True, True)
    assert server.mailbox.run("dequeue", "--session", workspace.agent).code == 10


def test_an_answer_from_elsewhere_closes_the_entry(server: RunningServer, workspace: WorkspaceClient) -> None:
    thread = _blocked(server.inbox, workspace.agent)
    server.inbox.ok("reply", "--from", "user", "--thread", thread, "--summary", "By the command")
    assert workspace.entries()[0]["question"]["state"] == "answered"
    other = _blocked(server.inbox, workspace.agent)
    server.inbox.ok("cancel", "--agent", "user", "--thread", other)
    assert workspace.entries()[0]["question"]["state"] == "ended"


def test_a_reply_to_a_thread_that_has_ended_is_refused_and_changes_nothing(server: RunningServer, workspace: WorkspaceClient) -> None:
    thread = _blocked(server.inbox, workspace.agent)
    server.inbox.ok("cancel", "--agent", "user", "--thread", thread)
    identity = workspace.entries()[0]["id"]
    before = server.conversation(identity), server.inbox.ok("show", "--thread", thread)["messages"]
    refusal(server.person.post(f"/api/inbox/{identity}/reply", json={"body": "Too late"}), 409, "invalid_state")
    assert (server.conversation(identity), server.inbox.ok("show", "--thread", thread)["messages"]) == before


def test_a_reply_to_a_push_goes_to_the_mailbox_of_its_workspace(server: RunningServer, workspace: WorkspaceClient) -> None:
    identity = workspace.push(comments="Done. Shall I extend it?")
    reply = server.reply(identity, "Yes, please")["reply"]
    assert (reply["via"], reply["from"]) == ("mailbox", "user")
    message = _mail(server, workspace.agent)
    assert (message["payload"], message["from"], message["entry_id"]) == ("Yes, please", "user", identity)
    assert (message["msg_id"], message["reply_id"]) == (f"reply:{reply['id']}", reply["id"])
    assert server.mailbox.run("dequeue", "--session", workspace.agent).code == 10


def test_a_reply_to_a_notice_goes_to_the_mailbox_of_its_sender(server: RunningServer) -> None:
    notice = server.notify("nightly-job", "I failed")
    server.reply(notice, "Try again")
    assert _mail(server, "nightly-job")["payload"] == "Try again"


def test_a_reply_to_an_open_question_is_its_answer_and_no_mail(server: RunningServer, workspace: WorkspaceClient) -> None:
    identity = server.ask(workspace.agent, "Ship?", "--choice", "yes", "--choice", "no")
    replied = server.reply(identity, "yes")
    question = replied["entry"]["question"]
    assert (question["state"], question["answer"], question["choice"], question["answeredBy"]) == ("answered", "yes", "yes", "user")
    assert replied["reply"]["via"] == "answer"
    assert server.mailbox.run("dequeue", "--session", workspace.agent).code == 10


def test_an_answer_may_be_none_of_the_choices(server: RunningServer, workspace: WorkspaceClient) -> None:
    identity = server.ask(workspace.agent, "Ship?", "--choice", "yes", "--choice", "no")
    refused = server.person.post(f"/api/inbox/{identity}/reply", json={"body": "Only on Tuesday"})
    assert (refused.status_code, refused.json()["error"]["code"]) == (400, "invalid_input")
    question = server.reply(identity, "Only on Tuesday", comment=True)["entry"]["question"]
    assert (question["state"], question["answer"], question["choice"]) == ("answered", "Only on Tuesday", None)


def test_a_second_reply_to_an_answered_question_is_mail(server: RunningServer, workspace: WorkspaceClient) -> None:
    identity = server.ask(workspace.agent, "Ship?")
    assert "note" not in server.reply(identity, "Yes")
    again = server.reply(identity, "And say thanks")
    assert (again["reply"]["via"], again["note"].partition(";")[0]) == ("mailbox", "the question was already answered by user")
    assert _mail(server, workspace.agent)["payload"] == "And say thanks"
    assert server.entry(identity)["question"]["answer"] == "Yes"


def test_a_reply_marks_the_entry_as_read_and_is_kept_with_it(server: RunningServer, workspace: WorkspaceClient) -> None:
    identity = workspace.push(comments="Look")
    server.reply(identity, "First")
    replied = server.reply(identity, "Second")
    assert (replied["entry"]["readAt"] is not None, replied["entry"]["replies"]) == (True, 2)
    assert [reply["body"] for reply in server.get(f"/api/inbox/{identity}")["replies"]] == ["First", "Second"]


@pytest.mark.parametrize("body", [{}, {"body": ""}, {"body": " \n "}, {"body": 3}, {"body": None}, {"body": ["x"]}, [], "x", None])
def test_a_reply_of_nothing_is_refused(server: RunningServer, workspace: WorkspaceClient, body: Any) -> None:
    identity = workspace.push(comments="Look")
    refusal(server.person.post(f"/api/inbox/{identity}/reply", json=body), 400, "invalid_input")
    assert (server.entry(identity)["replies"], server.entry(identity)["readAt"]) == (0, None)


def test_a_reply_to_a_seeded_entry_of_nobody_is_refused(dev_server: RunningServer) -> None:
    identity = dev_server.stranger.post("/api/inbox/seed", json={"workspaceId": "ws-nobody", "comments": "Seeded"}).json()["entry"]["id"]
    refusal(dev_server.stranger.post(f"/api/inbox/{identity}/reply", json={"body": "Anyone?"}), 409, "invalid_state")


def test_the_word_of_the_command_is_not_verified_and_the_person_s_is(server: RunningServer, workspace: WorkspaceClient) -> None:
    identity = workspace.push(comments="Look")
    server.inbox.ok("entry", "reply", identity, "--body", "By the command", "--agent", "user")
    server.reply(identity, "By the server")
    doors = [reply["door"] for reply in server.get(f"/api/inbox/{identity}")["replies"]]
    assert doors[0] == "cli"
    assert doors[1] in ("web", "http")


def test_any_text_arrives_as_it_was_said(server: RunningServer, workspace: WorkspaceClient) -> None:
    text = 'Ünï "quoted" \\ back\r\nline\u2028sep \x1b[31mred </script> {"ok": false}'
    identity = workspace.push(comments=text)
    assert server.entry(identity)["comments"] == text
    server.reply(identity, text)
    assert _mail(server, workspace.agent)["payload"] == text
    assert json.loads(json.dumps(server.get(f"/api/inbox/{identity}")["replies"][0]["body"])) == text


def test_a_reply_that_was_sent_again_after_a_lost_answer_arrives_once(server: RunningServer, workspace: WorkspaceClient) -> None:
    identity = workspace.push(comments="Is it right?")
    sent = [
        server.person.post(f"/api/inbox/{identity}/reply", json={"body": "Yes"}, headers={"Idempotency-Key": "try-1"}).json()
        for _ in range(3)
    ]
    assert sent[0]["reply"] == sent[1]["reply"] == sent[2]["reply"]
    assert server.entry(identity)["replies"] == 1
