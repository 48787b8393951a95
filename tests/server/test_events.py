"""Everything that happens, as server-sent events that can be resumed."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.cli.process import eventually
from tests.server.running_server import RunningServer, WorkspaceClient, refusal


def test_the_life_of_an_entry_is_heard(server: RunningServer, workspace: WorkspaceClient) -> None:
    with server.listen(workspaceId=workspace.workspace_id) as listener:
        identity = workspace.push(comments="Look")
        server.person.put(f"/api/inbox/{identity}/read")
        server.person.delete(f"/api/inbox/{identity}/read")
        server.reply(identity, "Seen")
        server.person.delete(f"/api/inbox/{identity}")
        heard = [listener.next()]
        while heard[-1].type != "entry.deleted":
            heard.append(listener.next())
    types = [each.type for each in heard if each.type != "entry.read" or each is heard[1]]  # a reply may mark as read
    assert types == ["entry.created", "entry.read", "entry.unread", "entry.replied", "entry.deleted"]
    assert {each.data["message_id"] for each in heard} == {identity}
    assert [int(each.id) for each in heard] == sorted({int(each.id) for each in heard})
    assert all(each.data["event_id"] == int(each.id) and each.data["event_type"] == each.type for each in heard)


def test_what_other_processes_do_is_heard(server: RunningServer, workspace: WorkspaceClient) -> None:
    with server.listen() as listener:
        thread = server.inbox.ok("send", "--from", "user", "--to", workspace.agent, "--subject", "Build")["thread"]["thread_id"]
        assert listener.until("thread.created", thread_id=thread).data["summary"] == "Build"
        entry = server.inbox.ok("push", "--agent", workspace.agent, "--comments", "From a shell")["entry"]["id"]
        listener.until("entry.created", message_id=entry)
        server.mailbox.enqueue(to=workspace.agent)
        while not listener.next().type.startswith("mail."):
            pass


def test_a_question_in_a_thread_is_heard_as_an_entry(server: RunningServer, workspace: WorkspaceClient) -> None:
    with server.listen(types="entry.", workspaceId=workspace.workspace_id) as listener:
        thread = server.inbox.ok("send", "--from", "user", "--to", workspace.agent, "--subject", "Build")["thread"]["thread_id"]
        server.inbox.ok("claim", "--agent", workspace.agent, "--thread", thread)
        server.inbox.ok("update", "--agent", workspace.agent, "--thread", thread, "--status", "blocked", "--summary", "Which?")
        identity = listener.until("entry.created").data["message_id"]
    assert server.entry(identity)["threadId"] == thread


def test_only_the_types_that_were_asked_for_are_heard(server: RunningServer, workspace: WorkspaceClient) -> None:
    with server.listen(types="entry.read,thread.", workspaceId=workspace.workspace_id) as listener:
        identity = workspace.push(comments="Look")
        server.person.put(f"/api/inbox/{identity}/read")
        heard = listener.next()
    assert (heard.type, heard.data["message_id"]) == ("entry.read", identity)


def test_only_the_thread_that_was_asked_for_is_heard(server: RunningServer, workspace: WorkspaceClient) -> None:
    send = ("send", "--from", "user", "--to", workspace.agent, "--subject")
    thread = server.inbox.ok(*send, "One")["thread"]["thread_id"]
    with server.listen(thread=thread) as listener:
        server.inbox.ok(*send, "Two")
        server.inbox.ok("claim", "--agent", workspace.agent, "--thread", thread)
        heard = [listener.next()]
        while heard[-1].type != "thread.claimed":
            heard.append(listener.next())
    assert {each.data["thread_id"] for each in heard} == {thread}


def test_only_the_workspace_that_was_asked_for_is_heard(server: RunningServer, workspace: WorkspaceClient, other: WorkspaceClient) -> None:
    with server.listen(workspaceId=workspace.workspace_id) as listener:
        other.push(comments="Theirs")
        mine = workspace.push(comments="Mine")
        assert listener.next().data["message_id"] == mine


def test_without_a_cursor_listening_starts_now(server: RunningServer, workspace: WorkspaceClient) -> None:
    for _ in range(20):  # what was accepted a moment ago is the past, however busy the server is
        workspace.push(comments="Before")
        with server.listen(workspaceId=workspace.workspace_id) as listener:
            after = workspace.push(comments="After")
            assert listener.next().data["message_id"] == after


@pytest.mark.parametrize("how", ["header", "query"])
def test_after_a_disconnect_nothing_is_lost_and_nothing_repeated(server: RunningServer, workspace: WorkspaceClient, how: str) -> None:
    pushed = [workspace.push(comments="Zero")]
    with server.listen(workspaceId=workspace.workspace_id) as listener:
        pushed.append(workspace.push(comments="One"))
        last = listener.until("entry.created", message_id=pushed[-1]).id
    pushed += [workspace.push(comments=f"Missed {number}") for number in range(3)]
    resumed = server.listen(last=last, workspaceId=workspace.workspace_id) if how == "header" else None
    with resumed or server.listen(workspaceId=workspace.workspace_id, after=last) as listener:
        heard = [each.data["message_id"] for each in listener.take(3)]
        pushed.append(workspace.push(comments="Live"))
        heard.append(listener.next().data["message_id"])
    assert heard == pushed[2:]


def test_a_listener_that_keeps_losing_its_connection_hears_all_once_and_in_order(server: RunningServer, workspace: WorkspaceClient) -> None:
    heard: list[tuple[int, str]] = []
    with server.listen(workspaceId=workspace.workspace_id, types="entry.created") as listener, ThreadPoolExecutor(4) as crowd:
        pushes = [crowd.submit(workspace.push, comments=f"Number {number}") for number in range(40)]
        first = listener.next()
    heard.append((int(first.id), first.data["message_id"]))
    while len(heard) < 40:
        with server.listen(last=str(heard[-1][0]), workspaceId=workspace.workspace_id, types="entry.created") as listener:
            heard += [(int(each.id), each.data["message_id"]) for each in listener.take(min(7, 40 - len(heard)))]
    assert [each[0] for each in heard] == sorted({each[0] for each in heard})
    assert {each[1] for each in heard} == {push.result() for push in pushes}


def test_two_listeners_hear_the_same(server: RunningServer, workspace: WorkspaceClient) -> None:
    with server.listen(workspaceId=workspace.workspace_id) as one, server.listen(workspaceId=workspace.workspace_id) as two:
        for number in range(5):
            workspace.push(comments=f"Number {number}")
        assert one.take(5) == two.take(5)


def test_no_text_forges_an_event(server: RunningServer, workspace: WorkspaceClient) -> None:
    forged = 'x\r\n\r\nid: 999999999\nevent: entry.deleted\ndata: {"message_id": "forged"}\n\n\u2028event: goodbye\n\n'
    with server.listen(workspaceId=workspace.workspace_id) as listener:
        first = workspace.push(comments=forged)
        second = workspace.push(comments="Honest")
        heard = listener.take(2)
    assert [(each.type, each.data["message_id"]) for each in heard] == [("entry.created", first), ("entry.created", second)]


@pytest.mark.parametrize("query", ["after=x", "after=-1", "after=1e3"])
def test_a_cursor_that_cannot_be_is_refused(server: RunningServer, query: str) -> None:
    refusal(server.person.get(f"/api/events?{query}"), 400, "invalid_input")


def test_events_are_for_who_signed_in(server: RunningServer, workspace: WorkspaceClient) -> None:
    refusal(server.stranger.get("/api/events"), 401, "unauthenticated")
    refusal(workspace.http.get("/api/events"), 403, "forbidden")


@pytest.mark.parametrize("path", ["/api/events", "/api/bell?topic=mail:x"])
def test_a_stream_takes_no_body(server: RunningServer, path: str) -> None:
    refusal(server.person.request("GET", path, content=b"x" * 100), 400, "invalid_input")


def test_a_stream_ends_with_the_pass_that_it_came_with(server: RunningServer, workspace: WorkspaceClient) -> None:
    browser = server.signed_in()
    with browser.stream("GET", "/api/events") as stream:
        lines = stream.iter_lines()
        assert next(lines) == ": connected"
        assert browser.post("/api/sign-out").status_code == 204
        eventually(lambda: workspace.push(comments="Not for them") != "" and next(lines, None) is None)
