"""The page as files: where it is answered, what it may load, and what it asks the server for."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from postroom.server.http import static
from tests.server.running_server import RunningServer, WorkspaceClient, refusal

VENDOR = static.WEB_FOLDER / "vendor"  # libraries of others, which only run in their own frame or on request
FILES = sorted(path for path in static.WEB_FOLDER.rglob("*") if path.is_file() and not path.is_relative_to(VENDOR))
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
def test_the_page_is_at_each_of_its_places_whoever_asks(server: RunningServer, place: str) -> None:
    answer = server.stranger.get(place)
    assert (answer.status_code, answer.headers["cache-control"]) == (200, "no-store")
    assert answer.headers["content-type"].startswith("text/html")
    assert "script-src 'self'" in answer.headers["content-security-policy"]


def test_there_is_no_page_anywhere_else(server: RunningServer) -> None:
    refusal(server.stranger.get("/elsewhere"), 404, "not_found")


def test_every_file_that_the_page_names_is_there_for_good(server: RunningServer) -> None:
    names = _names(server.stranger.get("/").text)
    assert {Path(name).suffix for name in names} == {".js", ".css", ".svg"}
    for name in names:
        answer = server.stranger.get(name)
        assert answer.status_code == 200, name
        assert "immutable" in answer.headers["cache-control"]
        assert answer.headers["content-type"].split(";")[0] == static.CONTENT_TYPES[Path(name).suffix]


def test_every_module_is_fetched_at_once(server: RunningServer) -> None:
    named = {name.split("/", 3)[3] for name in _names(server.stranger.get("/").text) if name.endswith(".js")}
    assert named == {path.relative_to(static.WEB_FOLDER).as_posix() for path in FILES if path.suffix == ".js" and path.name != "sw.js"}


def test_files_of_another_version_or_outside_are_not_there(server: RunningServer) -> None:
    name = _names(server.stranger.get("/").text)[-1]
    for wrong in (name.replace("/web/", "/web/0"), f"{name}x", name.rsplit("/", 1)[0] + "/..%2f..%2fpage.py", name.rsplit("/", 1)[0]):
        refusal(server.stranger.get(wrong), 404, "not_found")


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_no_file_is_long_or_names_another_host(path: Path) -> None:
    text = path.read_text()
    assert len(text.splitlines()) <= 450
    assert not re.search(r"(https?:)?//(?!www\.w3\.org/2000/svg)[\w-]+\.\w", text.replace("https://www.w3.org", "http://www.w3.org")), path


def test_the_libraries_of_others_come_with_their_licences_and_a_policy_for_their_frame(server: RunningServer) -> None:
    assert {path.name for path in VENDOR.glob("*.LICENSE.txt")} == {"katex.LICENSE.txt", "mermaid.LICENSE.txt"}
    version = static.web_folder().version
    frame = server.stranger.get(f"/web/{version}/vendor/diagram.html")
    policy = frame.headers["content-security-policy"]
    assert "script-src 'self'" in policy
    assert "connect-src" not in policy  # default-src 'none' holds: it loads nothing
    assert frame.headers["x-frame-options"] == "SAMEORIGIN"
    library = server.stranger.get(f"/web/{version}/vendor/mermaid.min.js", headers={"accept-encoding": "gzip"})
    assert library.headers["content-encoding"] == "gzip"
    assert "'unsafe-inline'" not in server.stranger.get("/").headers["content-security-policy"]


def test_an_installable_page_names_its_parts_and_an_unknown_address_is_a_page(server: RunningServer) -> None:
    manifest = server.stranger.get("/manifest.webmanifest")
    assert manifest.json()["display"] == "standalone"
    assert server.stranger.get(manifest.json()["icons"][0]["src"]).status_code == 200
    assert static.web_folder().version in server.stranger.get("/sw.js").text
    lost = server.stranger.get("/nowhere", headers={"accept": "text/html"})
    assert (lost.status_code, "There is nothing here" in lost.text) == (404, True)
    assert server.stranger.get("/nowhere").json()["error"]["code"] == "not_found"


def test_html_comes_in_by_one_door() -> None:
    doors = [
        path.name
        for path in FILES
        if re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|DOMParser|srcdoc", path.read_text())
    ]
    assert doors == ["dom.js"]
    assert (static.WEB_FOLDER / "lib" / "dom.js").read_text().count("innerHTML") == 1


def test_nothing_in_the_page_is_inline(server: RunningServer) -> None:
    html = server.stranger.get("/").text
    assert not re.search(r"<script(?![^>]* src=)|<style|\sstyle=|\son\w+=|javascript:", html)


def test_a_summary_says_who_looks_and_what_waits(server: RunningServer, workspace: WorkspaceClient) -> None:
    server.person.post("/api/inbox/read", json={})  # counts end at 1000, and other tests leave entries unread
    before = server.get("/api/summary")
    entry = workspace.push(comments="Look")
    after = server.get("/api/summary")
    assert (after["person"], after["unread"], after["any"]) == ("user", before["unread"] + 1, True)
    assert after["eventId"] > before["eventId"]
    server.person.put(f"/api/inbox/{entry}/read")
    assert server.get("/api/summary")["unread"] == before["unread"]
    refusal(server.stranger.get("/api/summary"), 401, "unauthenticated")
    refusal(workspace.http.get("/api/summary"), 403, "forbidden")


def test_comments_are_given_as_html_that_can_do_nothing(server: RunningServer, workspace: WorkspaceClient) -> None:
    entry = workspace.push(comments="A *word* <script>alert(1)</script> [x](javascript:alert(1))")
    assert "html" not in server.get(f"/api/inbox/{entry}")
    html = server.get(f"/api/inbox/{entry}", html="true")["html"]["comments"]
    assert "<em>word</em>" in html
    assert "<script" not in html
    assert 'href="javascript' not in html


def test_what_changed_since_it_was_pushed_is_shown(server: RunningServer, workspace: WorkspaceClient) -> None:
    workspace.write("plan.md", "one\ntwo\nthree\n")
    entry = workspace.push("plan.md")
    assert workspace.shown("plan.md", entry=entry)["diff"] is None
    workspace.write("plan.md", "one\n<b>2</b>\nthree\n")
    shown = workspace.shown("plan.md", entry=entry)
    assert shown["changed"] is True
    ops = [(line["op"], line["text"]) for line in shown["diff"] if line["op"] != "@"]
    assert ops == [(" ", "one"), ("-", "two"), ("+", "<b>2</b>"), (" ", "three")]
    (workspace.path / "plan.md").unlink()
    gone = workspace.shown("plan.md", entry=entry)
    assert (gone["gone"], gone["diff"]) == (True, None)


def test_lines_that_look_like_a_difference_are_lines(server: RunningServer, workspace: WorkspaceClient) -> None:
    workspace.write("odd.md", "--- a\n+++ b\n")
    entry = workspace.push("odd.md")
    workspace.write("odd.md", "--- a\n+++ c\n")
    ops = [(line["op"], line["text"]) for line in workspace.shown("odd.md", entry=entry)["diff"] if line["op"] != "@"]
    assert ops == [(" ", "--- a"), ("-", "+++ b"), ("+", "+++ c")]


def test_a_session_is_opened_and_its_command_is_never_set_over_the_network(server: RunningServer, workspace: WorkspaceClient) -> None:
    focus = f"/api/workspaces/{workspace.workspace_id}/focus"
    assert "has no command" in refusal(server.person.post(focus, json={}), 409, "invalid_state")["message"]
    server.inbox.ok("workspace", "set", workspace.workspace_id, "--focus", "echo opened; touch here")
    assert server.person.post(focus, json={}).json() == {"code": 0, "output": "opened"}
    assert (workspace.path / "here").exists()
    refusal(server.person.post(focus, json={"focus": "touch elsewhere"}), 400, "invalid_input")
    refusal(workspace.http.post(focus, json={}), 403, "forbidden")
    refusal(server.stranger.post(focus, json={}), 401, "unauthenticated")
    (listed,) = [each for each in server.get("/api/workspaces")["workspaces"] if each["workspace_id"] == workspace.workspace_id]
    assert listed["focus"] == "echo opened; touch here"
    server.inbox.ok("workspace", "set", workspace.workspace_id, "--focus", "echo gone >&2; exit 4")
    assert refusal(server.person.post(focus, json={}), 409, "invalid_state")["hint"] == "gone"
    server.inbox.ok("workspace", "set", workspace.workspace_id, "--no-focus")
    refusal(server.person.post(focus, json={}), 409, "invalid_state")
