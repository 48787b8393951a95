"""The history of a person: page by page, newest first."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.server.running_server import RunningServer, WorkspaceClient, refusal

HISTORY = "/api/inbox/history"


def _ids(workspace: WorkspaceClient, **more: str) -> list[str]:
    return [entry["id"] for entry in workspace.entries(**more)]


def test_the_newest_entry_comes_first(workspace: WorkspaceClient) -> None:
    pushed = [workspace.push(comments=f"Number {number}") for number in range(4)]
    assert _ids(workspace) == pushed[::-1]


def test_an_entry_looks_as_the_document_says(workspace: WorkspaceClient) -> None:
    workspace.write("research/macro.md", "# Macro\n")
    answer = workspace.try_push("research/macro.md", comments="Drafted the FOMC piece.").json()
    (entry,) = workspace.entries()
    assert uuid.UUID(entry["id"]).version == 4
    assert (entry["id"], entry["ts"]) == (answer["entryId"], answer["ts"])
    assert (entry["workspaceId"], entry["workspaceLabel"], entry["from"]) == (workspace.workspace_id, workspace.label, workspace.agent)
    assert [document["path"] for document in entry["docs"]] == ["research/macro.md"]
    assert (entry["comments"], entry["kind"]) == ("Drafted the FOMC piece.", "push")
    assert (entry["readAt"], entry["replies"]) == (None, 0)
    assert "question" not in entry
    assert "threadId" not in entry


def test_what_was_not_pushed_is_left_out(workspace: WorkspaceClient) -> None:
    workspace.write("a.txt", "a")
    workspace.push("a.txt")
    workspace.push(comments="Only words")
    words, document = workspace.entries()
    assert "docs" not in words
    assert "comments" not in document


def test_a_page_says_whether_there_is_more(server: RunningServer, workspace: WorkspaceClient) -> None:
    one, two, three, four, five = [workspace.push(comments=f"Number {number}") for number in range(5)]

    def page(**more: str) -> tuple[list[str], bool]:
        answer = server.get(HISTORY, workspaceId=workspace.workspace_id, **more)
        assert set(answer) >= {"entries", "hasMore"}
        return [entry["id"] for entry in answer["entries"]], answer["hasMore"]

    assert page(limit="2") == ([five, four], True)
    assert page(limit="2", before=four) == ([three, two], True)
    assert page(limit="2", before=two) == ([one], False)
    assert page(limit="2", before=three) == ([two, one], False)
    assert page(limit="5") == ([five, four, three, two, one], False)
    assert page(before=one) == ([], False)


def test_a_page_holds_a_hundred_unless_asked_otherwise(server: RunningServer, workspace: WorkspaceClient) -> None:
    for number in range(101):
        workspace.push(comments=f"Number {number}")
    page = server.get(HISTORY, workspaceId=workspace.workspace_id)
    assert (len(page["entries"]), page["hasMore"]) == (100, True)


def test_entries_of_one_moment_are_neither_skipped_nor_repeated_by_pages(server: RunningServer, workspace: WorkspaceClient) -> None:
    with ThreadPoolExecutor(8) as crowd:
        pushed = set(crowd.map(lambda number: workspace.push(comments=f"Number {number}"), range(24)))
    walked: list[str] = []
    page = server.get(HISTORY, workspaceId=workspace.workspace_id, limit="5")
    walked += [entry["id"] for entry in page["entries"]]
    while page["hasMore"]:
        page = server.get(HISTORY, workspaceId=workspace.workspace_id, limit="5", before=walked[-1])
        walked += [entry["id"] for entry in page["entries"]]
    assert len(walked) == 24
    assert set(walked) == pushed


def test_a_workspace_is_seen_alone_or_among_all(server: RunningServer, workspace: WorkspaceClient, other: WorkspaceClient) -> None:
    mine, theirs = workspace.push(comments="Mine"), other.push(comments="Theirs")
    assert (_ids(workspace), _ids(other)) == ([mine], [theirs])
    everything = [entry["id"] for entry in server.get(HISTORY, limit="500")["entries"]]
    assert everything.index(theirs) < everything.index(mine)


def test_the_unread_are_seen_alone(server: RunningServer, workspace: WorkspaceClient) -> None:
    read, unread = workspace.push(comments="One"), workspace.push(comments="Two")
    server.person.put(f"/api/inbox/{read}/read")
    assert _ids(workspace, unread="true") == [unread]
    assert _ids(workspace, unread="false") == [unread, read]


def test_the_open_questions_are_seen_alone(server: RunningServer, workspace: WorkspaceClient) -> None:
    workspace.push(comments="No question")
    first = server.ask(workspace.agent, "Ship it?")
    second = server.ask(workspace.agent, "Really?")
    assert _ids(workspace, open="true") == [second, first]
    server.reply(first, "Yes")
    assert _ids(workspace, open="true") == [second]


def test_notices_have_a_section_of_their_own(server: RunningServer) -> None:
    notice = server.notify("backup-cron", "The backup took 3 minutes")
    everything = [entry["id"] for entry in server.get(HISTORY, limit="500")["entries"]]
    assert notice not in everything
    notices = server.get(HISTORY, section="notices")["entries"]
    (found,) = [entry for entry in notices if entry["id"] == notice]
    assert (found["kind"], found["comments"], found["from"]) == ("notice", "The backup took 3 minutes", "backup-cron")
    assert (found["workspaceId"], found["workspaceLabel"]) == ("", "backup-cron")


def test_the_entries_of_a_removed_workspace_stay(server: RunningServer, workspace: WorkspaceClient) -> None:
    identity = workspace.push(comments="Before it went")
    server.inbox.ok("workspace", "remove", workspace.workspace_id)
    assert _ids(workspace) == [identity]
    assert workspace.workspace_id not in [one["workspace_id"] for one in server.get("/api/workspaces")["workspaces"]]


@pytest.mark.parametrize("query", ["limit=0", "limit=501", "limit=-1", "limit=ten", "limit=", "section=elsewhere", "unread=perhaps"])
def test_a_page_that_cannot_be_is_refused(server: RunningServer, query: str) -> None:
    refusal(server.person.get(f"{HISTORY}?{query}"), 400, "invalid_input")


def test_a_page_before_an_entry_that_never_was_is_refused(server: RunningServer) -> None:
    refusal(server.person.get(HISTORY, params={"before": str(uuid.uuid4())}), 404, "not_found")


def test_history_is_for_who_signed_in(server: RunningServer) -> None:
    refusal(server.stranger.get(HISTORY), 401, "unauthenticated")
    refusal(server.client("made-up").get(HISTORY), 401, "unauthenticated")


def test_the_command_and_the_server_show_the_same(server: RunningServer, workspace: WorkspaceClient) -> None:
    workspace.write("a.md", "# A")
    workspace.push("a.md", comments="One")
    shown = [entry for entry in server.inbox.ok("entries", "--limit", "500")["entries"] if entry["workspaceId"] == workspace.workspace_id]
    assert shown == workspace.entries()


def test_a_page_goes_on_where_the_entry_that_was_there_is_deleted(server: RunningServer, workspace: WorkspaceClient) -> None:
    first, second, third = (workspace.push(comments=text) for text in ("One", "Two", "Three"))
    assert server.person.delete(f"/api/inbox/{second}").status_code == 204
    assert [entry["id"] for entry in workspace.entries(before=second)] == [first]
    assert third not in {entry["id"] for entry in workspace.entries(before=second)}


def test_no_line_of_the_mirror_breaks_reading(server: RunningServer, workspace: WorkspaceClient) -> None:
    lines = [
        '{"id": "surrogate", "ts": 1, "docs": [{"path": "\\ud800"}]}',
        '{"id": "huge", "ts": 1, "docs": [{"path": "a", "size": 1e999}]}',
    ]
    lines.append(json.dumps({"id": "large", "ts": 1, "docs": [{"path": "a", "size": 10**25}]}))
    with server.mirror.open("a") as mirror:
        mirror.write("\n".join(lines) + "\n")
    identity = workspace.push(comments="After them")
    assert workspace.entries()[0]["id"] == identity
    assert server.person.delete(f"/api/inbox/{identity}").status_code == 204
    assert all(line in server.mirror.read_text() for line in lines)


def _is_unchanged(server: RunningServer, path: str, tag: str) -> bool:
    answer = server.person.get(path, headers={"If-None-Match": tag})
    return (answer.status_code, answer.content, answer.headers["etag"]) == (304, b"", tag)


@pytest.mark.parametrize("path", [HISTORY, f"{HISTORY}?pinned=true", "/api/inbox/questions", "/api/inbox/search?q=tagged", "/api/summary"])
def test_what_the_page_asks_for_again_is_sent_only_if_it_changed(found: Callable[..., RunningServer], path: str) -> None:
    server = found().open()
    workspace = server.add_workspace()
    workspace.push(comments="A tagged one")
    server.get(HISTORY)
    tag = server.person.get(path).headers["etag"]
    while not _is_unchanged(server, path, tag):  # that it was listed is recorded in the background
        tag = server.person.get(path).headers["etag"]
    identity = server.ask(workspace.agent, "A tagged question?")
    server.person.put(f"/api/inbox/{identity}/pin").raise_for_status()
    assert not _is_unchanged(server, path, tag)


def test_an_entry_is_sent_only_if_it_changed(server: RunningServer, workspace: WorkspaceClient) -> None:
    identity = workspace.push(comments="One")
    path = f"/api/inbox/{identity}?html=true"
    server.person.get(path)  # the first time is recorded in its receipts
    tag = server.person.get(path).headers["etag"]
    assert _is_unchanged(server, path, tag)
    server.reply(identity, "Thanks")
    assert not _is_unchanged(server, path, tag)
