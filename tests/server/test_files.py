"""Documents, read live from the workspace and shown to the person."""

from __future__ import annotations

import hashlib

import pytest

from tests.server.office import Desk, Office, refusal

MIB = 1 << 20
TABLE = """# Rates

| year | rate |
|------|-----:|
| 2025 | 4.5  |

```python
def rate(year: int) -> float:
    return 4.5
```

Costs ~$197 (~$188), a *stress*, and <b>raw</b>.
"""
PNG = bytes.fromhex(
    "89504e470d0a1a0a0000000d49484452000000010000000108060000001f15c4890000000d49444154789c6360000002000001e221bc330000000049454e44ae426082"
)


def _hash(content: str | bytes) -> str:
    return hashlib.sha256(content if isinstance(content, bytes) else content.encode()).hexdigest()


def test_markdown_is_rendered(desk: Desk) -> None:
    desk.write("rates.md", TABLE)
    shown = desk.shown("rates.md")
    assert (shown["path"], shown["kind"], shown["size"], shown["sha256"]) == ("rates.md", "markdown", len(TABLE), _hash(TABLE))
    for fragment in ("<h1", "<table", "<td", "<pre", "<em>stress</em>"):
        assert fragment in shown["html"]
    assert (shown["gone"], shown["truncated"]) == (False, False)


def test_code_in_markdown_is_coloured(desk: Desk) -> None:
    desk.write("rates.md", TABLE)
    html = desk.shown("rates.md")["html"]
    assert "<span" in html[html.index("<pre") : html.index("</pre>")]


def test_dollars_are_not_struck_through(desk: Desk) -> None:
    desk.write("rates.md", TABLE)
    html = desk.shown("rates.md")["html"]
    assert "~$197 (~$188)" in html
    assert "<s>" not in html
    assert "<del>" not in html


def test_raw_html_in_markdown_is_text(desk: Desk) -> None:
    desk.write("rates.md", TABLE)
    html = desk.shown("rates.md")["html"]
    assert "<b>raw</b>" not in html
    assert "raw" in html


def test_code_is_highlighted(desk: Desk) -> None:
    desk.write("rate.py", 'def rate() -> float:\n    return "<b>"\n')
    shown = desk.shown("rate.py")
    assert shown["kind"] == "code"
    assert "<span" in shown["html"]
    assert "<b>" not in shown["html"]
    assert "&lt;b&gt;" in shown["html"]


def test_text_is_escaped(desk: Desk) -> None:
    desk.write("notes.txt", 'a < b & "c"\n<b>bold</b>\n')
    shown = desk.shown("notes.txt")
    assert shown["kind"] == "text"
    assert "<b>" not in shown["html"]
    assert "a &lt; b &amp;" in shown["html"]


def test_a_binary_is_a_download(office: Office, desk: Desk) -> None:
    content = bytes(range(256)) * 4
    desk.write("data.bin", content)
    shown = desk.shown("data.bin")
    assert (shown["kind"], shown["size"], shown["sha256"]) == ("binary", 1024, _hash(content))
    assert not shown["html"]
    answer = office.person.get(shown["download"])
    assert (answer.status_code, answer.content) == (200, content)
    assert answer.headers["content-disposition"].startswith("attachment")


def test_an_image_is_known_as_one(office: Office, desk: Desk) -> None:
    desk.write("dot.png", PNG)
    shown = desk.shown("dot.png")
    assert shown["kind"] == "image"
    assert office.person.get(shown["download"]).content == PNG


def test_a_download_is_the_file_as_it_is(desk: Desk) -> None:
    content = "# Ünï\r\n\x00"
    desk.write('Ünï cödé; "q".md', content)
    answer = desk.file('Ünï cödé; "q".md', download="1")
    assert answer.content == content.encode()
    disposition = answer.headers["content-disposition"]
    assert disposition.startswith("attachment")
    assert "\n" not in disposition
    assert "filename" in disposition


def test_a_file_is_shown_as_it_is_now(desk: Desk) -> None:
    desk.write("a.md", "# One\n")
    identity = desk.push("a.md")
    before = desk.shown("a.md", entry=identity)
    assert (before["changed"], before["pushedSha256"], before["sha256"]) == (False, _hash("# One\n"), _hash("# One\n"))
    desk.write("a.md", "# Two\n")
    after = desk.shown("a.md", entry=identity)
    assert (after["changed"], after["pushedSha256"], after["sha256"]) == (True, _hash("# One\n"), _hash("# Two\n"))
    assert "Two" in after["html"]


def test_a_file_outside_of_any_entry_has_no_history(desk: Desk) -> None:
    desk.write("a.md", "# One\n")
    shown = desk.shown("a.md")
    assert (shown["changed"], shown["pushedSha256"]) == (None, None)


def test_a_pushed_file_that_is_gone_is_said_to_be_gone(desk: Desk) -> None:
    file = desk.write("a.md", "# One\n")
    identity = desk.push("a.md")
    file.unlink()
    shown = desk.shown("a.md", entry=identity)
    assert (shown["gone"], shown["pushedSha256"]) == (True, _hash("# One\n"))
    refusal(desk.file("a.md"), 404, "not_found")
    assert desk.file("b.md", entry=identity).status_code in (400, 404)


def test_the_folder_of_a_workspace_may_be_gone(desk: Desk) -> None:
    desk.write("a.md", "# One\n").unlink()
    desk.path.rmdir()
    refusal(desk.file("a.md"), 404, "not_found")


@pytest.mark.parametrize("name", ["long.md", "long.txt", "long.py"])
def test_a_long_file_is_shown_in_part_with_a_link_to_all(office: Office, desk: Desk, name: str) -> None:
    content = "a line of this file\n" * (2 * MIB // 20)
    desk.write(name, content)
    shown = desk.shown(name)
    assert (shown["truncated"], shown["size"]) == (True, len(content))
    assert shown["html"].count("a line of this file") <= MIB // 20
    assert "a line of this file" in shown["html"]
    assert office.person.get(shown["download"]).content == content.encode()


def test_a_character_is_not_cut_in_two(desk: Desk) -> None:
    desk.write("long.txt", "x" + "é" * MIB)
    shown = desk.shown("long.txt")
    assert (shown["kind"], shown["truncated"]) == ("text", True)
    assert "\ufffd" not in shown["html"]


def test_an_empty_file_is_a_file(desk: Desk) -> None:
    desk.write("empty.txt", "")
    shown = desk.shown("empty.txt")
    assert (shown["size"], shown["gone"], shown["truncated"]) == (0, False, False)


def test_text_that_is_not_utf_8_is_never_a_failure(desk: Desk) -> None:
    desk.write("latin.txt", "Grüße aus Köln\n".encode("latin-1"))
    assert desk.shown("latin.txt")["kind"] in ("text", "binary")


def test_files_are_read_only_in_the_workspace_that_was_named(office: Office, desk: Desk, other: Desk) -> None:
    other.write("secret.md", "# Theirs\n")
    identity = other.push("secret.md")
    refusal(desk.file("secret.md"), 404, "not_found")
    assert desk.file("secret.md", entry=identity).status_code in (400, 404)
    refusal(office.person.get("/api/workspaces/ws_nowhere/file", params={"path": "a.md"}), 404, "not_found")


def test_a_file_needs_a_path(office: Office, desk: Desk) -> None:
    refusal(office.person.get(f"/api/workspaces/{desk.workspace_id}/file"), 400, "invalid_input")
    refusal(desk.file(""), 400, "invalid_input")


def test_workspaces_are_listed_without_their_secrets(office: Office, desk: Desk) -> None:
    answer = office.person.get("/api/workspaces")
    (found,) = [each for each in answer.json()["workspaces"] if each["workspace_id"] == desk.workspace_id]
    assert (found["label"], found["agent"], found["path"]) == (desk.label, desk.agent, str(desk.path))
    assert "prw_" not in answer.text
