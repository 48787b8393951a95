"""What a review with fresh eyes found: each of these once froze, broke or misled the server."""

from __future__ import annotations

import contextlib
import json
import os
import socket
from collections.abc import Callable
from pathlib import Path

from postroom.core.words import shown
from tests.cli.process import eventually
from tests.server.agents import at
from tests.server.office import Desk, Office


def test_a_document_that_no_lexer_gets_through_is_shown_as_text_and_freezes_nobody(office: Office, desk: Desk) -> None:
    endless = '```fish\n"' + "\\\\" * 60 + "\n```\n"
    desk.write("endless.md", endless)
    found = desk.shown("endless.md")
    assert (found["kind"], found["text"]) == ("text", endless)
    assert office.stranger.get("/health").status_code == 200
    desk.write("fine.md", "# Fine")
    assert "<h1>Fine</h1>" in desk.shown("fine.md")["html"]


def test_an_absurd_number_is_refused_and_is_nobody_elses_trouble(office: Office, desk: Desk, other: Desk) -> None:
    with at(desk) as agent:
        for tool, arguments in (("work_claim", {"leaseSeconds": 10**400}), ("inbox_ask", {"question": "?", "deadlineSeconds": 10**400})):
            assert agent.refused(tool, **arguments)["code"] == "invalid_input"
    assert office.entry(other.push(comments="Meanwhile"))["comments"] == "Meanwhile"
    assert len(shown(10**400)) <= 80


def test_no_line_of_the_twin_breaks_reading(office: Office, desk: Desk) -> None:
    lines = [
        '{"id": "surrogate", "ts": 1, "docs": [{"path": "\\ud800"}]}',
        '{"id": "huge", "ts": 1, "docs": [{"path": "a", "size": 1e999}]}',
    ]
    lines.append(json.dumps({"id": "large", "ts": 1, "docs": [{"path": "a", "size": 10**25}]}))
    with office.twin.open("a") as twin:
        twin.write("\n".join(lines) + "\n")
    identity = desk.push(comments="After them")
    assert desk.entries()[0]["id"] == identity
    assert office.person.delete(f"/api/inbox/{identity}").status_code == 204
    assert all(line in office.twin.read_text() for line in lines)


def test_a_download_that_is_given_up_leaves_no_file_open(office: Office, desk: Desk) -> None:
    desk.write("large.bin", b"\0" * 3_000_000)
    files = Path(f"/proc/{office.process.pid}/fd")

    def opened() -> int:
        found = 0
        for file in files.iterdir():
            with contextlib.suppress(FileNotFoundError):  # closed while we looked
                found += "large.bin" in os.readlink(file)
        return found

    path = f"/api/workspaces/{desk.workspace_id}/file?path=large.bin&download=1"
    host, port = office.url.removeprefix("http://").split(":")
    head = f"GET {path} HTTP/1.1\r\nHost: {host}:{port}\r\nAuthorization: {office.person.headers['Authorization']}\r\n\r\n"
    for _ in range(20):
        with socket.create_connection((host, int(port))) as line:
            line.sendall(head.encode())
    assert office.stranger.get("/health").status_code == 200
    eventually(lambda: opened() == 0)


def test_looking_ahead_uses_up_no_link(office: Office) -> None:
    link = f"/sign-in?token={office.link()}"
    assert office.stranger.head(link).status_code == 405
    assert office.stranger.get(link, follow_redirects=False).status_code == 303


def test_a_page_goes_on_where_the_entry_that_was_there_is_deleted(office: Office, desk: Desk) -> None:
    first, second, third = (desk.push(comments=text) for text in ("One", "Two", "Three"))
    assert office.person.delete(f"/api/inbox/{second}").status_code == 204
    assert [entry["id"] for entry in desk.entries(before=second)] == [first]
    assert third not in {entry["id"] for entry in desk.entries(before=second)}


def test_mail_that_was_taken_and_lost_on_the_way_can_be_shown_again(office: Office, desk: Desk) -> None:
    office.mailbox.ok("enqueue", "--from", "lead", "--to", desk.agent, "--payload", "Read me twice")
    with at(desk) as agent:
        [message] = agent.ok("inbox_read")["messages"]
        assert agent.ok("inbox_read")["messages"] == []
        assert agent.ok("inbox_read", old=True)["messages"] == [message]


def test_a_stream_ends_with_the_pass_that_it_came_with(office: Office, desk: Desk) -> None:
    browser = office.signed_in()
    with browser.stream("GET", "/api/events") as stream:
        lines = stream.iter_lines()
        assert next(lines) == ": connected"
        assert browser.post("/api/sign-out").status_code == 204
        eventually(lambda: desk.push(comments="Not for them") != "" and _has_ended(lines, desk))


def _has_ended(lines: object, desk: Desk) -> bool:
    """Whether nothing more comes: each push either brings a line, or the end."""
    return next(lines, None) is None  # type: ignore[call-overload]


def _sent(office: Office, desk: Desk) -> str:
    sent = office.inbox.ok("send", "--from", "leader", "--to", desk.agent, "--subject", "Do it")
    thread: str = sent["thread"]["thread_id"]
    return thread


def test_a_worker_that_waits_is_woken_when_a_lease_runs_out(office: Office, desk: Desk, other: Desk) -> None:
    thread = _sent(office, other)
    office.inbox.ok("claim", "--agent", other.agent, "--thread", thread, "--lease-seconds", "1")
    with at(desk) as agent:
        found = agent.ok("work_fetch", waitSeconds=50)["threads"]
    assert thread in {each["threadId"] for each in found if each["lapsed"]}


def test_what_waits_for_another_is_not_claimed_over_the_network(office: Office, desk: Desk, other: Desk) -> None:
    thread = _sent(office, other)
    with at(desk) as agent:
        assert agent.refused("work_claim", threadId=thread)["code"] == "forbidden"
    with at(other) as agent:
        assert agent.ok("work_claim", threadId=thread)["thread"]["status"] == "claimed"


def test_a_whole_number_may_be_written_as_a_float(desk: Desk) -> None:
    with at(desk) as agent:
        assert len(agent.ok("work_fetch", limit=3.0)["threads"]) <= 3
        assert agent.ok("inbox_read", limit=5.0, entries=True)["messages"] == []


def test_a_refusal_keeps_its_field_whatever_the_agent_is_called(office: Office) -> None:
    with at(office.desk(agent="docs")) as agent:
        error = agent.refused("inbox_push", docs=[{"path": "../x"}])
    assert (error["code"], error["field"]) == ("invalid_input", "docs")


def test_a_workspaces_agent_is_not_made_a_person(office: Office, desk: Desk) -> None:
    assert office.inbox.run("agent", "add", desk.agent, "--kind", "human", "--json").error[:2] == (30, "invalid_state")


def test_who_stops_first_leaves_the_note_of_who_goes_on(found: Callable[..., Office]) -> None:
    first = found().open()
    note, second = first.data / "server", found(folder=first.folder)
    second.open()
    assert first.close() == 0
    assert note.read_text().strip() == second.url
    assert second.close() == 0
    assert not note.exists()


def test_a_line_on_which_nothing_is_asked_is_closed(office: Office) -> None:
    host, port = office.url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port))) as line:
        line.settimeout(60)
        assert line.recv(1) == b""
