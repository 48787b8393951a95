"""Finding an entry again by its words."""

from __future__ import annotations

from uuid import uuid4

import pytest

from tests.server.running_server import RunningServer, WorkspaceClient, refusal


@pytest.fixture
def mark() -> str:
    """A word that no other test says."""
    return f"m{uuid4().hex}"


def _found(server: RunningServer, q: str, **more: str) -> list[str]:
    return [entry["id"] for entry in server.get("/api/inbox/search", q=q, **more)["entries"]]


def test_an_entry_is_found_by_what_its_agent_said(server: RunningServer, workspace: WorkspaceClient, mark: str) -> None:
    identity = workspace.push(comments=f"The {mark} report is done")
    assert _found(server, mark) == [identity]
    assert server.get("/api/inbox/search", q=mark)["entries"] == workspace.entries()


def test_an_entry_is_found_by_its_label(server: RunningServer, mark: str) -> None:
    workspace = server.add_workspace(label=f"Thesis {mark}")
    identity = workspace.push(comments="Done")
    assert _found(server, mark) == [identity]


def test_an_entry_is_found_by_the_path_of_a_document(server: RunningServer, workspace: WorkspaceClient, mark: str) -> None:
    workspace.write(f"research/{mark}.md", "# A")
    identity = workspace.push(f"research/{mark}.md")
    assert _found(server, mark) == [identity]


def test_an_entry_is_found_by_its_question_its_choices_and_the_replies(server: RunningServer, workspace: WorkspaceClient) -> None:
    question, choice, reply = (f"m{uuid4().hex}" for _ in range(3))
    identity = server.ask(workspace.agent, question, "--choice", choice, "--choice", "other")
    server.reply(identity, reply, comment=True)
    for word in (question, choice, reply):
        assert _found(server, word) == [identity]


def test_the_newest_is_found_first_and_in_pages(server: RunningServer, workspace: WorkspaceClient, mark: str) -> None:
    pushed = [workspace.push(comments=f"{mark} {number}") for number in range(4)]
    assert _found(server, mark) == pushed[::-1]
    page = server.get("/api/inbox/search", q=mark, limit="3")
    assert ([entry["id"] for entry in page["entries"]], page["hasMore"]) == (pushed[:0:-1], True)


def test_every_word_counts_and_the_beginning_of_a_word_suffices(server: RunningServer, workspace: WorkspaceClient, mark: str) -> None:
    both, one = workspace.push(comments=f"{mark} inflation rates"), workspace.push(comments=f"{mark} rates")
    assert _found(server, f"{mark} rates") == [one, both]
    assert _found(server, f"infla {mark}") == [both]
    assert _found(server, mark[:20]) == [one, both]
    assert _found(server, f"{mark} flation") == []


def test_case_and_accents_do_not_count(server: RunningServer, workspace: WorkspaceClient, mark: str) -> None:
    identity = workspace.push(comments=f"{mark} Übermäßig CAFÉ naïve")
    for words in (f"{mark.upper()} cafe", f"{mark} Café", f"{mark} ubermaßig", f"{mark} NAIVE"):
        assert _found(server, words) == [identity], words


def test_notices_are_found_too(server: RunningServer, mark: str) -> None:
    notice = server.notify("cron", f"Backup {mark}")
    assert _found(server, mark) == [notice]


def test_what_was_deleted_is_not_found(server: RunningServer, workspace: WorkspaceClient, mark: str) -> None:
    identity = workspace.push(comments=mark)
    server.reply(identity, f"reply-{mark}")
    server.person.delete(f"/api/inbox/{identity}")
    assert _found(server, mark) == []


@pytest.mark.parametrize(
    "q",
    [
        '"',
        "'",
        "*",
        "a*",
        '"a',
        "a OR b",
        "NEAR(a b)",
        "a AND",
        "comments:a",
        "-a",
        "^a",
        "%",
        "_",
        "\\",
        "a;DROP TABLE entries",
        "()",
        "💥",
        "ß",
    ],
)
def test_no_word_is_an_operator(server: RunningServer, workspace: WorkspaceClient, mark: str, q: str) -> None:
    identity = workspace.push(comments=f"{mark} {q} a OR b AND near x")
    answer = server.person.get("/api/inbox/search", params={"q": f"{mark} {q}"})
    assert answer.status_code == 200, answer.text
    assert [entry["id"] for entry in answer.json()["entries"]] == [identity]


@pytest.mark.parametrize("query", ["", "q=", "q=%20", "q=***", "q=%22", "q=a&limit=0", "q=a&limit=x"])
def test_a_search_for_nothing_is_refused(server: RunningServer, query: str) -> None:
    refusal(server.person.get(f"/api/inbox/search?{query}"), 400, "invalid_input")


def test_the_command_finds_the_same(server: RunningServer, workspace: WorkspaceClient, mark: str) -> None:
    workspace.push(comments=mark)
    assert server.inbox.ok("entries", "--search", mark)["entries"] == workspace.entries()


def test_threads_and_mail_are_found_by_people_only(server: RunningServer, workspace: WorkspaceClient, mark: str) -> None:
    thread = server.inbox.ok("send", "--from", "user", "--to", workspace.agent, "--subject", f"About {mark}")["thread"]["thread_id"]
    server.person.post("/api/mailbox", json={"to": workspace.agent, "payload": f"Mail of {mark}"}).raise_for_status()
    found = server.get("/api/search", q=mark)
    assert [(hit["kind"], hit.get("threadId") or hit["session"]) for hit in found["hits"]] == [
        ("thread", thread),
        ("mail", workspace.agent),
    ]
    refusal(workspace.http.get("/api/search", params={"q": mark}), 403)
    refusal(server.stranger.get("/api/search", params={"q": mark}), 401)
    refusal(server.person.get("/api/search", params={"q": mark, "section": "inbox"}), 400, "invalid_input")
