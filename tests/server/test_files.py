"""Documents, read live from the workspace and shown to the person."""

from __future__ import annotations

import contextlib
import hashlib
import os
import socket
from pathlib import Path

import pytest

from tests.cli.process import eventually
from tests.server.running_server import RunningServer, WorkspaceClient, refusal

MIB = 1 << 20
TABLE = """# Rates

| year | rate |
|------|-----:|
| 2025 | 4.5  |

```python
def rate(year: int) -> float:
    return 4.5
```

Costs ~$197 (~$188), a *stress*, and <form>raw</form>.
"""
PNG = bytes.fromhex(
    "89504e470d0a1a0a0000000d49484452000000010000000108060000001f15c4890000000d49444154789c6360000002000001e221bc330000000049454e44ae426082"
)


def _hash(content: str | bytes) -> str:
    return hashlib.sha256(content if isinstance(content, bytes) else content.encode()).hexdigest()


def test_markdown_is_rendered(workspace: WorkspaceClient) -> None:
    workspace.write("rates.md", TABLE)
    shown = workspace.shown("rates.md")
    assert (shown["path"], shown["kind"], shown["size"], shown["sha256"]) == ("rates.md", "markdown", len(TABLE), _hash(TABLE))
    for fragment in ("<h1", "<table", "<td", "<pre", "<em>stress</em>"):
        assert fragment in shown["html"]
    assert (shown["gone"], shown["truncated"]) == (False, False)


def test_code_in_markdown_is_coloured(workspace: WorkspaceClient) -> None:
    workspace.write("rates.md", TABLE)
    html = workspace.shown("rates.md")["html"]
    assert "<span" in html[html.index("<pre") : html.index("</pre>")]


def test_dollars_are_not_struck_through(workspace: WorkspaceClient) -> None:
    workspace.write("rates.md", TABLE)
    html = workspace.shown("rates.md")["html"]
    assert "~$197 (~$188)" in html
    assert "<s>" not in html
    assert "<del>" not in html


def test_raw_html_in_markdown_is_text(workspace: WorkspaceClient) -> None:
    workspace.write("rates.md", TABLE)
    html = workspace.shown("rates.md")["html"]
    assert "<form>" not in html
    assert "raw" in html


def test_code_is_highlighted(workspace: WorkspaceClient) -> None:
    workspace.write("rate.py", 'def rate() -> float:\n    return "<b>"\n')
    shown = workspace.shown("rate.py")
    assert shown["kind"] == "code"
    assert "<span" in shown["html"]
    assert "<b>" not in shown["html"]
    assert "&lt;b&gt;" in shown["html"]


def test_text_is_escaped(workspace: WorkspaceClient) -> None:
    workspace.write("notes.txt", 'a < b & "c"\n<b>bold</b>\n')
    shown = workspace.shown("notes.txt")
    assert shown["kind"] == "text"
    assert "<b>" not in shown["html"]
    assert "a &lt; b &amp;" in shown["html"]


def test_a_binary_is_a_download(server: RunningServer, workspace: WorkspaceClient) -> None:
    content = bytes(range(256)) * 4
    workspace.write("data.bin", content)
    shown = workspace.shown("data.bin")
    assert (shown["kind"], shown["size"], shown["sha256"]) == ("binary", 1024, _hash(content))
    assert not shown["html"]
    answer = server.person.get(shown["download"])
    assert (answer.status_code, answer.content) == (200, content)
    assert answer.headers["content-disposition"].startswith("attachment")


def test_an_image_is_known_as_one(server: RunningServer, workspace: WorkspaceClient) -> None:
    workspace.write("dot.png", PNG)
    shown = workspace.shown("dot.png")
    assert shown["kind"] == "image"
    assert server.person.get(shown["download"]).content == PNG


def test_a_download_is_the_file_as_it_is(workspace: WorkspaceClient) -> None:
    content = "# Ünï\r\n\x00"
    workspace.write('Ünï cödé; "q".md', content)
    answer = workspace.file('Ünï cödé; "q".md', download="1")
    assert answer.content == content.encode()
    disposition = answer.headers["content-disposition"]
    assert disposition.startswith("attachment")
    assert "\n" not in disposition
    assert "filename" in disposition


def test_a_file_is_shown_as_it_is_now(workspace: WorkspaceClient) -> None:
    workspace.write("a.md", "# One\n")
    identity = workspace.push("a.md")
    before = workspace.shown("a.md", entry=identity)
    assert (before["changed"], before["pushedSha256"], before["sha256"]) == (False, _hash("# One\n"), _hash("# One\n"))
    workspace.write("a.md", "# Two\n")
    after = workspace.shown("a.md", entry=identity)
    assert (after["changed"], after["pushedSha256"], after["sha256"]) == (True, _hash("# One\n"), _hash("# Two\n"))
    assert "Two" in after["html"]


def test_a_file_outside_of_any_entry_has_no_history(workspace: WorkspaceClient) -> None:
    workspace.write("a.md", "# One\n")
    shown = workspace.shown("a.md")
    assert (shown["changed"], shown["pushedSha256"]) == (None, None)


def test_a_pushed_file_that_is_gone_is_said_to_be_gone(workspace: WorkspaceClient) -> None:
    file = workspace.write("a.md", "# One\n")
    identity = workspace.push("a.md")
    file.unlink()
    shown = workspace.shown("a.md", entry=identity)
    assert (shown["gone"], shown["pushedSha256"]) == (True, _hash("# One\n"))
    refusal(workspace.file("a.md"), 404, "not_found")
    assert workspace.file("b.md", entry=identity).status_code in (400, 404)


def test_the_folder_of_a_workspace_may_be_gone(workspace: WorkspaceClient) -> None:
    workspace.write("a.md", "# One\n").unlink()
    workspace.path.rmdir()
    refusal(workspace.file("a.md"), 404, "not_found")


@pytest.mark.parametrize("name", ["long.md", "long.txt", "long.py"])
def test_a_long_file_is_shown_in_part_with_a_link_to_all(server: RunningServer, workspace: WorkspaceClient, name: str) -> None:
    content = "a line of this file\n" * (2 * MIB // 20)
    workspace.write(name, content)
    shown = workspace.shown(name)
    assert (shown["truncated"], shown["size"]) == (True, len(content))
    assert shown["html"].count("a line of this file") <= MIB // 20
    assert "a line of this file" in shown["html"]
    assert server.person.get(shown["download"]).content == content.encode()


def test_a_character_is_not_cut_in_two(workspace: WorkspaceClient) -> None:
    workspace.write("long.txt", "x" + "é" * MIB)
    shown = workspace.shown("long.txt")
    assert (shown["kind"], shown["truncated"]) == ("text", True)
    assert "\ufffd" not in shown["html"]


def test_an_empty_file_is_a_file(workspace: WorkspaceClient) -> None:
    workspace.write("empty.txt", "")
    shown = workspace.shown("empty.txt")
    assert (shown["size"], shown["gone"], shown["truncated"]) == (0, False, False)


def test_text_that_is_not_utf_8_is_never_a_failure(workspace: WorkspaceClient) -> None:
    workspace.write("latin.txt", "Grüße aus Köln\n".encode("latin-1"))
    assert workspace.shown("latin.txt")["kind"] in ("text", "binary")


def test_files_are_read_only_in_the_workspace_that_was_named(
    server: RunningServer, workspace: WorkspaceClient, other: WorkspaceClient
) -> None:
    other.write("secret.md", "# Theirs\n")
    identity = other.push("secret.md")
    refusal(workspace.file("secret.md"), 404, "not_found")
    assert workspace.file("secret.md", entry=identity).status_code in (400, 404)
    refusal(server.person.get("/api/workspaces/ws_nowhere/file", params={"path": "a.md"}), 404, "not_found")


def test_a_file_needs_a_path(server: RunningServer, workspace: WorkspaceClient) -> None:
    refusal(server.person.get(f"/api/workspaces/{workspace.workspace_id}/file"), 400, "invalid_input")
    refusal(workspace.file(""), 400, "invalid_input")


def test_workspaces_are_listed_without_their_secrets(server: RunningServer, workspace: WorkspaceClient) -> None:
    answer = server.person.get("/api/workspaces")
    (found,) = [each for each in answer.json()["workspaces"] if each["workspace_id"] == workspace.workspace_id]
    assert (found["label"], found["agent"], found["path"]) == (workspace.label, workspace.agent, str(workspace.path))
    assert "prw_" not in answer.text


def test_a_document_that_no_lexer_gets_through_is_shown_as_text_and_freezes_nobody(
    server: RunningServer, workspace: WorkspaceClient
) -> None:
    endless = '```fish\n"' + "\\\\" * 60 + "\n```\n"
    workspace.write("endless.md", endless)
    found = workspace.shown("endless.md")
    assert (found["kind"], found["text"]) == ("text", endless)
    assert server.stranger.get("/health").status_code == 200
    workspace.write("fine.md", "# Fine")
    assert "<h1>Fine</h1>" in workspace.shown("fine.md")["html"]


def test_a_download_that_is_given_up_leaves_no_file_open(server: RunningServer, workspace: WorkspaceClient) -> None:
    workspace.write("large.bin", b"\0" * 3_000_000)
    files = Path(f"/proc/{server.process.pid}/fd")

    def opened() -> int:
        found = 0
        for file in files.iterdir():
            with contextlib.suppress(FileNotFoundError):  # closed while we looked
                found += "large.bin" in os.readlink(file)
        return found

    path = f"/api/workspaces/{workspace.workspace_id}/file?path=large.bin&download=1"
    host, port = server.url.removeprefix("http://").split(":")
    head = f"GET {path} HTTP/1.1\r\nHost: {host}:{port}\r\nAuthorization: {server.person.headers['Authorization']}\r\n\r\n"
    for _ in range(20):
        with socket.create_connection((host, int(port))) as line:
            line.sendall(head.encode())
    assert server.stranger.get("/health").status_code == 200
    eventually(lambda: opened() == 0)


def test_the_second_visit_is_told_what_changed_since_the_first(workspace: WorkspaceClient) -> None:
    workspace.write("plan.md", "Ship on Monday.\n")
    pushed = workspace.push("plan.md")
    first = workspace.shown("plan.md", entry=pushed, visit="v1")
    assert (first["changedSinceRead"], first["readAt"], first["readDiff"]) == (None, None, None)
    workspace.write("plan.md", "Ship on Tuesday.\n")
    second = workspace.shown("plan.md", entry=pushed, visit="v2")
    assert (second["changed"], second["changedSinceRead"]) == (True, True)
    assert [line["text"] for line in second["readDiff"] if line["op"] in "+-"] == ["Ship on Monday.", "Ship on Tuesday."]
    third = workspace.shown("plan.md", entry=pushed, visit="v3")
    assert (third["changed"], third["changedSinceRead"], third["readDiff"]) == (True, False, None)
    assert third["readAt"]
    workspace.write("plan.md", "Ship on Friday.\n")
    fourth = workspace.shown("plan.md", entry=pushed, visit="v4")
    assert [line["text"] for line in fourth["readDiff"] if line["op"] in "+-"] == ["Ship on Tuesday.", "Ship on Friday."]


def test_a_look_without_a_visit_counts_as_no_reading(workspace: WorkspaceClient) -> None:
    workspace.write("plan.md", "Ship on Monday.\n")
    pushed = workspace.push("plan.md")
    assert "changedSinceRead" not in workspace.shown("plan.md", entry=pushed)
    assert workspace.shown("plan.md", entry=pushed, visit="v1")["changedSinceRead"] is None
