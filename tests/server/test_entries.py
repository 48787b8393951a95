"""Entries: an agent pushes them, a person reads, answers and deletes them."""

from __future__ import annotations

import hashlib
import json
import uuid
from typing import Any

import pytest

from tests.server.running_server import JSON, RunningServer, WorkspaceClient, refusal


def test_a_push_is_answered_with_its_entry(workspace: WorkspaceClient) -> None:
    answer = workspace.try_push(comments="Done")
    assert answer.status_code == 201
    said = answer.json()
    assert (said["ok"], set(said)) == (True, {"ok", "entryId", "ts"})
    assert [entry["id"] for entry in workspace.entries()] == [said["entryId"]]


def test_a_push_keeps_the_hash_of_each_document(workspace: WorkspaceClient) -> None:
    contents = {"a.md": "# A\n", "deep/down/b.txt": "b", "empty.txt": ""}
    for name, content in contents.items():
        workspace.write(name, content)
    workspace.push(*contents)
    (entry,) = workspace.entries()
    assert entry["docs"] == [
        {"path": name, "sha256": hashlib.sha256(content.encode()).hexdigest(), "size": len(content)} for name, content in contents.items()
    ]


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"comments": ""},
        {"comments": " \n\t "},
        {"docs": []},
        {"docs": [], "comments": " "},
        {"docs": "a.md"},
        {"docs": [1]},
        {"docs": [{"file": "a.md"}]},
        {"docs": [{"path": 3}]},
        {"docs": [{"path": ""}]},
        {"comments": 3},
        {"comments": ["a"]},
        [],
        "push",
        None,
    ],
)
def test_a_push_of_nothing_is_refused(workspace: WorkspaceClient, body: Any) -> None:
    refusal(workspace.http.post("/api/inbox/push", json=body), 400, "invalid_input")
    assert workspace.entries() == []


def test_a_push_of_too_many_documents_is_refused(workspace: WorkspaceClient) -> None:
    names = [f"{number}.txt" for number in range(51)]
    for name in names:
        workspace.write(name, name)
    refusal(workspace.try_push(*names), 400, "invalid_input")
    assert len(workspace.entries()) == 0
    workspace.push(*names[:50])
    assert len(workspace.entries()[0]["docs"]) == 50


def test_a_push_of_a_document_that_is_not_there_is_refused(workspace: WorkspaceClient) -> None:
    refusal(workspace.try_push("nowhere.md"), 404, "not_found")
    assert workspace.entries() == []


def test_a_person_does_not_push(server: RunningServer, workspace: WorkspaceClient) -> None:
    assert server.person.post("/api/inbox/push", json={"comments": "I am not an agent"}).status_code == 403
    assert workspace.entries() == []


def test_the_command_pushes_too(server: RunningServer, workspace: WorkspaceClient) -> None:
    workspace.write("a.md", "# A\n")
    pushed = server.inbox.ok("push", "--agent", workspace.agent, "--doc", "a.md", "--comments", "From a shell")["entry"]
    (entry,) = workspace.entries()
    assert entry == pushed
    assert (entry["door"], entry["comments"]) == ("cli", "From a shell")


def test_to_read_and_to_unread_follow_the_data(server: RunningServer, workspace: WorkspaceClient) -> None:
    identity = workspace.push(comments="Read me")
    first = server.person.put(f"/api/inbox/{identity}/read")
    assert first.status_code == 200
    assert (first.json()["entry"]["readBy"], first.json()["entry"]["id"]) == ("user", identity)
    assert first.json()["entry"]["readAt"] is not None
    assert server.entry(identity)["readAt"] == first.json()["entry"]["readAt"]
    unread = server.person.delete(f"/api/inbox/{identity}/read")
    assert (unread.status_code, unread.json()["entry"]["readAt"]) == (200, None)
    assert server.entry(identity)["readAt"] is None


def test_to_read_twice_is_to_read_once(server: RunningServer, workspace: WorkspaceClient) -> None:
    identity = workspace.push(comments="Read me")
    first, second = (server.person.put(f"/api/inbox/{identity}/read").json()["entry"] for _ in range(2))
    assert first == second
    for _ in range(2):
        assert server.person.delete(f"/api/inbox/{identity}/read").json()["entry"]["readAt"] is None


def test_what_was_deleted_is_gone_and_stays_gone(server: RunningServer, workspace: WorkspaceClient) -> None:
    kept, gone = workspace.push(comments="Kept"), workspace.push(comments="Gone")
    deleted = server.person.delete(f"/api/inbox/{gone}")
    assert (deleted.status_code, deleted.content) == (204, b"")
    assert [entry["id"] for entry in workspace.entries()] == [kept]
    refusal(server.person.get(f"/api/inbox/{gone}"), 404, "not_found")
    refusal(server.person.delete(f"/api/inbox/{gone}"), 404, "not_found")
    refusal(server.person.put(f"/api/inbox/{gone}/read"), 404, "not_found")
    refusal(server.person.post(f"/api/inbox/{gone}/reply", json={"body": "Too late"}), 404, "not_found")
    assert gone not in server.mirror.read_text()


@pytest.mark.parametrize(
    ("method", "rest"), [("GET", ""), ("DELETE", ""), ("PUT", "/read"), ("DELETE", "/read"), ("POST", "/reply")], ids=str
)
def test_an_entry_that_never_was_is_not_found(server: RunningServer, method: str, rest: str) -> None:
    body = {"json": {"body": "Hello"}} if method == "POST" else {}
    answer = server.person.request(method, f"/api/inbox/{uuid.uuid4()}{rest}", **body)  # type: ignore[arg-type]
    refusal(answer, 404, "not_found")


def test_every_hop_has_a_receipt(server: RunningServer, workspace: WorkspaceClient) -> None:
    identity = workspace.push(comments="Look")
    server.get("/api/inbox/history", workspaceId=workspace.workspace_id)
    server.person.put(f"/api/inbox/{identity}/read")
    detail = server.get(f"/api/inbox/{identity}")
    assert (detail["entry"]["id"], detail["replies"]) == (identity, [])
    receipts = detail["receipts"]
    assert all(set(receipt) >= {"step", "at", "by", "door"} for receipt in receipts)
    stored = receipts[0]
    assert (stored["step"], stored["by"], stored["door"]) == ("stored", workspace.agent, "http")
    steps = [receipt["step"] for receipt in receipts]
    assert steps == sorted(steps, key=["stored", "offered", "seen"].index)
    assert "seen" in steps
    assert [receipt["at"] for receipt in receipts] == sorted(receipt["at"] for receipt in receipts)


def test_what_nobody_opened_is_not_said_to_be_seen(server: RunningServer, workspace: WorkspaceClient) -> None:
    assert "seen" not in server.steps(workspace.push(comments="Unseen"))


def test_the_mirror_has_one_line_an_entry(server: RunningServer, workspace: WorkspaceClient) -> None:
    workspace.write("a.md", "# A\n")
    identity = workspace.push("a.md", comments="One\nTwo\u2028Three")
    lines = [json.loads(line) for line in server.mirror.read_bytes().split(b"\n") if identity.encode() in line]
    (entry,) = workspace.entries()
    assert lines == [{name: entry[name] for name in ("id", "ts", "workspaceId", "workspaceLabel", "docs", "comments", "title")}]


def test_a_line_that_another_program_appended_becomes_an_entry(server: RunningServer) -> None:
    identity = str(uuid.uuid4())
    line = {"id": identity, "ts": 1715789012345, "workspaceId": "ws-abc123", "workspaceLabel": "Macro", "comments": "By hand"}
    with server.mirror.open("a") as mirror:
        mirror.write("{ this is no JSON\n" + json.dumps(line) + "\n")
    (entry,) = server.get("/api/inbox/history", workspaceId="ws-abc123")["entries"]
    assert (entry["id"], entry["ts"], entry["comments"]) == (identity, 1715789012345, "By hand")
    assert server.person.delete(f"/api/inbox/{identity}").status_code == 204
    assert identity not in server.mirror.read_text()
    assert "{ this is no JSON\n" in server.mirror.read_text()
    assert server.get("/api/inbox/history", workspaceId="ws-abc123")["entries"] == []


def test_lines_that_come_one_after_another_are_all_taken_in(server: RunningServer) -> None:
    """However the server tidies its mirror meanwhile."""
    written = [str(uuid.uuid4()) for _ in range(40)]
    with server.listen(types="entry.created", workspaceId="ws-one-by-one") as listener:
        for number, identity in enumerate(written):
            with server.mirror.open("a") as mirror:
                mirror.write(json.dumps({"id": identity, "ts": 1715789012345 + number, "workspaceId": "ws-one-by-one"}) + "\n")
            server.get("/api/inbox/history", workspaceId="ws-one-by-one", limit="1")
        lines = {json.loads(line).get("id") for line in server.mirror.read_text().split("\n") if line.startswith('{"')}
        assert [identity for identity in written if identity not in lines] == []
        heard = {each.data["message_id"] for each in listener.take(40)}
    assert heard == set(written)


def test_entries_are_seeded_under_development_only(server: RunningServer, dev_server: RunningServer) -> None:
    body = {"workspaceId": "ws-abc123", "workspaceLabel": "Macro", "docs": [{"path": "x.md"}], "comments": "Seeded"}
    refusal(server.person.post("/api/inbox/seed", json=body), 404)
    seeded = dev_server.stranger.post("/api/inbox/seed", json=body)
    assert seeded.status_code == 201
    entry = seeded.json()["entry"]
    assert (entry["workspaceId"], entry["workspaceLabel"], entry["comments"]) == ("ws-abc123", "Macro", "Seeded")
    assert [document["path"] for document in entry["docs"]] == ["x.md"]
    found = dev_server.stranger.get("/api/inbox/history", params={"workspaceId": "ws-abc123"}).json()["entries"]
    assert [each["id"] for each in found] == [entry["id"]]


def test_a_seed_of_nothing_is_refused(dev_server: RunningServer) -> None:
    for body in (b'{"comments": 3}', b"[]", b"{", b'{"docs": 3}'):
        refusal(dev_server.stranger.post("/api/inbox/seed", content=body, headers=JSON), 400, "invalid_input")


def test_under_development_on_this_machine_who_calls_is_the_person(dev_server: RunningServer) -> None:
    identity = dev_server.stranger.post("/api/inbox/seed", json={"comments": "Read me"}).json()["entry"]["id"]
    read = dev_server.stranger.put(f"/api/inbox/{identity}/read")
    assert (read.status_code, read.json()["entry"]["readBy"]) == (200, "user")


def test_a_parameter_that_a_list_does_not_know_is_refused(server: RunningServer) -> None:
    for path in ("/api/inbox/history", "/api/inbox/search?q=x", "/api/inbox/questions", "/api/workspaces"):
        answer = server.person.get(path + ("&" if "?" in path else "?") + "bogus=1")
        assert (answer.status_code, answer.json()["error"]["message"]) == (400, "there is no parameter 'bogus'")


def test_a_seeded_entry_has_the_time_that_it_was_given(dev_server: RunningServer) -> None:
    body = {"workspaceId": "ws-old", "workspaceLabel": "Old", "comments": "Last year", "ts": 1_735_700_000_000}
    entry = dev_server.person.post("/api/inbox/seed", json=body).json()["entry"]
    assert entry["ts"] == 1_735_700_000_000
