"""The page as files: where it is answered, what it may load, and what it asks the server for."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from postroom.server import page
from tests.server.office import Desk, Office, refusal

FILES = sorted(path for path in page.FOLDER.rglob("*") if path.is_file())
PLACES = (
    "/",
    "/inbox/some%2Fid",
    "/notices",
    "/threads",
    "/threads/thr_1",
    "/runs",
    "/runs/~",
    "/mailboxes",
    "/mailboxes/a",
    "/queues",
    "/agents",
    "/settings",
)


def _names(html: str) -> list[str]:
    return re.findall(r'(?:href|src)="(/web/[^"]+)"', html)


@pytest.mark.parametrize("place", PLACES)
def test_the_page_is_at_each_of_its_places_whoever_asks(office: Office, place: str) -> None:
    answer = office.stranger.get(place)
    assert (answer.status_code, answer.headers["cache-control"]) == (200, "no-store")
    assert answer.headers["content-type"].startswith("text/html")
    assert "script-src 'self'" in answer.headers["content-security-policy"]


def test_there_is_no_page_anywhere_else(office: Office) -> None:
    refusal(office.stranger.get("/elsewhere"), 404, "not_found")


def test_every_file_that_the_page_names_is_there_for_good(office: Office) -> None:
    names = _names(office.stranger.get("/").text)
    assert {Path(name).suffix for name in names} == {".js", ".css", ".svg"}
    for name in names:
        answer = office.stranger.get(name)
        assert answer.status_code == 200, name
        assert "immutable" in answer.headers["cache-control"]
        assert answer.headers["content-type"].split(";")[0] == page.KINDS[Path(name).suffix]


def test_every_module_is_fetched_at_once(office: Office) -> None:
    named = {name.split("/", 3)[3] for name in _names(office.stranger.get("/").text) if name.endswith(".js")}
    assert named == {path.relative_to(page.FOLDER).as_posix() for path in FILES if path.suffix == ".js"}


def test_files_of_another_version_or_outside_are_not_there(office: Office) -> None:
    name = _names(office.stranger.get("/").text)[-1]
    for wrong in (name.replace("/web/", "/web/0"), f"{name}x", name.rsplit("/", 1)[0] + "/..%2f..%2fpage.py", name.rsplit("/", 1)[0]):
        refusal(office.stranger.get(wrong), 404, "not_found")


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_no_file_is_long_or_names_another_host(path: Path) -> None:
    text = path.read_text()
    assert len(text.splitlines()) <= 450
    assert not re.search(r"(https?:)?//(?!www\.w3\.org/2000/svg)[\w-]+\.\w", text.replace("https://www.w3.org", "http://www.w3.org")), path


def test_html_comes_in_by_one_door() -> None:
    doors = [
        path.name
        for path in FILES
        if re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|DOMParser|srcdoc", path.read_text())
    ]
    assert doors == ["dom.js"]
    assert (page.FOLDER / "lib" / "dom.js").read_text().count("innerHTML") == 1


def test_nothing_in_the_page_is_inline(office: Office) -> None:
    html = office.stranger.get("/").text
    assert not re.search(r"<script(?![^>]* src=)|<style|\sstyle=|\son\w+=|javascript:", html)


def test_a_summary_says_who_looks_and_what_waits(office: Office, desk: Desk) -> None:
    before = office.get("/api/summary")
    entry = desk.push(comments="Look")
    after = office.get("/api/summary")
    assert (after["person"], after["unread"], after["any"]) == ("user", before["unread"] + 1, True)
    assert after["eventId"] > before["eventId"]
    office.person.put(f"/api/inbox/{entry}/read")
    assert office.get("/api/summary")["unread"] == before["unread"]
    refusal(office.stranger.get("/api/summary"), 401, "unauthenticated")
    refusal(desk.http.get("/api/summary"), 403, "forbidden")


def test_comments_are_given_as_html_that_can_do_nothing(office: Office, desk: Desk) -> None:
    entry = desk.push(comments="A *word* <script>alert(1)</script> [x](javascript:alert(1))")
    assert "html" not in office.get(f"/api/inbox/{entry}")
    html = office.get(f"/api/inbox/{entry}", html="true")["html"]["comments"]
    assert "<em>word</em>" in html
    assert "<script" not in html
    assert 'href="javascript' not in html


def test_what_changed_since_it_was_pushed_is_shown(office: Office, desk: Desk) -> None:
    desk.write("plan.md", "one\ntwo\nthree\n")
    entry = desk.push("plan.md")
    assert desk.shown("plan.md", entry=entry)["diff"] is None
    desk.write("plan.md", "one\n<b>2</b>\nthree\n")
    shown = desk.shown("plan.md", entry=entry)
    assert shown["changed"] is True
    ops = [(line["op"], line["text"]) for line in shown["diff"] if line["op"] != "@"]
    assert ops == [(" ", "one"), ("-", "two"), ("+", "<b>2</b>"), (" ", "three")]
    (desk.path / "plan.md").unlink()
    gone = desk.shown("plan.md", entry=entry)
    assert (gone["gone"], gone["diff"]) == (True, None)


def test_lines_that_look_like_a_difference_are_lines(office: Office, desk: Desk) -> None:
    desk.write("odd.md", "--- a\n+++ b\n")
    entry = desk.push("odd.md")
    desk.write("odd.md", "--- a\n+++ c\n")
    ops = [(line["op"], line["text"]) for line in desk.shown("odd.md", entry=entry)["diff"] if line["op"] != "@"]
    assert ops == [(" ", "--- a"), ("-", "+++ b"), ("+", "+++ c")]


def test_a_session_is_opened_and_its_command_is_never_set_over_the_network(office: Office, desk: Desk) -> None:
    focus = f"/api/workspaces/{desk.workspace_id}/focus"
    assert "has no command" in refusal(office.person.post(focus, json={}), 409, "invalid_state")["message"]
    office.inbox.ok("workspace", "set", desk.workspace_id, "--focus", "echo opened; touch here")
    assert office.person.post(focus, json={}).json() == {"code": 0, "output": "opened"}
    assert (desk.path / "here").exists()
    refusal(office.person.post(focus, json={"focus": "touch elsewhere"}), 400, "invalid_input")
    refusal(desk.http.post(focus, json={}), 403, "forbidden")
    refusal(office.stranger.post(focus, json={}), 401, "unauthenticated")
    (listed,) = [each for each in office.get("/api/workspaces")["workspaces"] if each["workspace_id"] == desk.workspace_id]
    assert listed["focus"] == "echo opened; touch here"
    office.inbox.ok("workspace", "set", desk.workspace_id, "--focus", "echo gone >&2; exit 4")
    assert refusal(office.person.post(focus, json={}), 409, "invalid_state")["hint"] == "gone"
    office.inbox.ok("workspace", "set", desk.workspace_id, "--no-focus")
    refusal(office.person.post(focus, json={}), 409, "invalid_state")
