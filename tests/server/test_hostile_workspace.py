"""A workspace that means harm: links out of it, files that never end, and pages that would run."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path

import pytest

from tests.server.running_server import RunningServer, WorkspaceClient, refusal

ALLOWED_SCHEMES = ("http:", "https:", "mailto:")
ACTIVE = {
    "script",
    "iframe",
    "object",
    "embed",
    "form",
    "style",
    "svg",
    "math",
    "meta",
    "link",
    "base",
    "frame",
    "applet",
    "template",
    "video",
    "audio",
}
SCRIPT = "<script>alert(1)</script>"
SVG = f'<svg xmlns="http://www.w3.org/2000/svg" onload="alert(1)">{SCRIPT}</svg>'
PAGE = f"<!doctype html><html><body onload='alert(1)'>{SCRIPT}</body></html>"
MARKDOWN = [
    SCRIPT,
    "<img src=x onerror=alert(1)>",
    "[click](javascript:alert(1))",
    "[click](JaVaScRiPt:alert(1))",
    "[click](&#x6A;avascript:alert(1))",
    "[click](java\nscript:alert(1))",
    "[click](data:text/html;base64,PHNjcmlwdD5hbGVydCgxKTwvc2NyaXB0Pg==)",
    "[click](vbscript:msgbox(1))",
    "<javascript:alert(1)>",
    "![x](javascript:alert(1))",
    '![x](x"onerror="alert(1))',
    '[x](http://a "t\\" onmouseover=alert(1)")',
    "[ref]\n\n[ref]: javascript:alert(1)",
    SVG,
    PAGE,
    "<iframe src='http://evil.example'></iframe>",
    "<a href='javascript:alert(1)'>x</a>",
    "<style>body{background:url(http://evil.example)}</style>",
    "<base href='http://evil.example/'>",
    "<form action='http://evil.example'><input name=password></form>",
    "<math><mtext><table><mglyph><style><img src=x onerror=alert(1)>",
    "```\n</code></pre><script>alert(1)</script>\n```",
    "```python\n</span><script>alert(1)</script>\n```",
    '```"><script>alert(1)</script>\nx\n```',
    "| a |\n|---|\n| <script>alert(1)</script> |",
    "<div style='position:fixed;inset:0;background:white'>Sign in again</div>",
]


class _Reader(HTMLParser):
    """Reads a fragment as a browser would, and collects its active parts."""

    def __init__(self) -> None:
        super().__init__()
        self.active: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in ACTIVE:
            self.active.append(tag)
        for name, value in attrs:
            target = "".join((value or "").split()).lower()
            leads = name in ("href", "src") and ":" in target.split("/")[0] and not target.startswith(ALLOWED_SCHEMES)
            if leads or name.startswith("on") or name in ("style", "srcdoc", "formaction", "xlink:href", "target"):
                self.active.append(f"{tag} {name}={value}")


def active(html: str) -> list[str]:
    """Return the parts of a fragment that would run, load something, or leave their place."""
    reader = _Reader()
    reader.feed(html)
    reader.close()
    return reader.active


def test_the_reader_of_this_test_sees_harm() -> None:
    assert active(SCRIPT) == ["script"]
    assert active("<img src=x onerror=alert(1)>") == ["img onerror=alert(1)"]
    assert active("<a href='java\nscript:x'>") != []
    assert active("<a href='http://x/y:z'><img src='/api/x?a:b'></a>") == []


@pytest.mark.parametrize("text", MARKDOWN)
def test_no_document_runs_in_the_page(desk_of_files: WorkspaceClient, text: str) -> None:
    for name in ("evil.md", "evil.txt", "evil.py", "evil.html", "evil.svg", "evil.xml", "evil.js", "evil"):
        desk_of_files.write(name, text)
        assert active(desk_of_files.shown(name)["html"] or "") == [], name


@pytest.fixture(scope="session")
def desk_of_files(server: RunningServer) -> WorkspaceClient:
    """One workspace for the many documents that are only looked at."""
    return server.add_workspace()


def test_a_name_does_not_run_in_the_page(workspace: WorkspaceClient) -> None:
    name = "<img src=x onerror=alert(1)>.md"
    workspace.write(name, "# A")
    workspace.push(name)
    assert active(workspace.shown(name)["html"]) == []


@pytest.mark.parametrize(
    ("name", "content"), [("a.svg", SVG), ("a.html", PAGE), ("a.xml", PAGE), ("a.xhtml", PAGE), ("a.md", SCRIPT), ("a.js", "1")]
)
def test_a_download_is_never_active_content(workspace: WorkspaceClient, name: str, content: str) -> None:
    workspace.write(name, content)
    answer = workspace.file(name, download="1")
    assert (answer.status_code, answer.content) == (200, content.encode())
    assert answer.headers["content-disposition"].startswith("attachment")
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert "sandbox" in answer.headers["content-security-policy"]
    assert not answer.headers["content-type"].startswith(("text/html", "image/svg", "application/xhtml", "text/xml", "text/javascript"))


def test_what_is_shown_is_data_and_not_a_page(workspace: WorkspaceClient) -> None:
    workspace.write("a.html", PAGE)
    answer = workspace.file("a.html")
    assert answer.headers["content-type"].startswith("application/json")
    assert answer.headers["x-content-type-options"] == "nosniff"


OUTSIDE = [
    "../secret.txt",
    "/etc/passwd",
    "a/../../secret.txt",
    "./../secret.txt",
    "..",
    ".",
    "/",
    "a/..",
    "//etc/passwd",
    "..\\secret.txt/../..",
]


@pytest.mark.parametrize("path", [*OUTSIDE, "a\x00b", "a\nb", "\x1b", "x" * 1025])
def test_a_path_that_leaves_the_workspace_is_refused(workspace: WorkspaceClient, path: str) -> None:
    workspace.write("a/b.txt", "inside")
    (workspace.path.parent / "secret.txt").write_text("SECRET")
    for answer in (workspace.try_push(path), workspace.file(path), workspace.file(path, download="1")):
        assert answer.status_code in (400, 404), answer.text
        assert "SECRET" not in answer.text
        refusal(answer, answer.status_code)
    assert workspace.entries() == []


def _to_a_file(workspace: WorkspaceClient) -> str:
    (workspace.path / "link.txt").symlink_to("../secret.txt")
    return "link.txt"


def _to_a_file_absolutely(workspace: WorkspaceClient) -> str:
    (workspace.path / "link.txt").symlink_to(workspace.path.parent / "secret.txt")
    return "link.txt"


def _to_a_folder(workspace: WorkspaceClient) -> str:
    (workspace.path / "out").symlink_to("..")
    return "out/secret.txt"


def _through_another_link(workspace: WorkspaceClient) -> str:
    (workspace.path / "one").symlink_to("two")
    (workspace.path / "two").symlink_to("../secret.txt")
    return "one"


def _to_a_device(workspace: WorkspaceClient) -> str:
    (workspace.path / "zero").symlink_to("/dev/zero")
    return "zero"


def _to_the_process(workspace: WorkspaceClient) -> str:
    (workspace.path / "environ").symlink_to("/proc/self/environ")
    return "environ"


def _in_a_circle(workspace: WorkspaceClient) -> str:
    (workspace.path / "circle").symlink_to("circle")
    return "circle"


LINKS = [_to_a_file, _to_a_file_absolutely, _to_a_folder, _through_another_link, _to_a_device, _to_the_process, _in_a_circle]


@pytest.mark.parametrize("make", LINKS)
def test_a_link_that_leaves_the_workspace_is_refused(workspace: WorkspaceClient, make: Callable[[WorkspaceClient], str]) -> None:
    (workspace.path.parent / "secret.txt").write_text("SECRET")
    path = make(workspace)
    for answer in (workspace.try_push(path), workspace.file(path), workspace.file(path, download="1")):
        assert answer.status_code in (400, 404), answer.text
        assert "SECRET" not in answer.text
    assert workspace.entries() == []


def test_a_link_that_stays_inside_is_followed(workspace: WorkspaceClient) -> None:
    workspace.write("deep/real.txt", "inside")
    (workspace.path / "link.txt").symlink_to("deep/real.txt")
    workspace.push("link.txt")
    assert "inside" in workspace.shown("link.txt")["html"]


@pytest.mark.parametrize("make", LINKS[:6])
def test_a_document_that_becomes_a_link_out_is_refused(workspace: WorkspaceClient, make: Callable[[WorkspaceClient], str]) -> None:
    (workspace.path.parent / "secret.txt").write_text("SECRET")
    wanted: dict[Callable[[WorkspaceClient], str], str] = {
        _to_a_folder: "out/secret.txt",
        _through_another_link: "one",
        _to_a_device: "zero",
        _to_the_process: "environ",
    }
    workspace.write(wanted.get(make, "link.txt"), "innocent")
    identity = workspace.push(wanted.get(make, "link.txt"))
    _clear(workspace.path)
    path = make(workspace)
    for answer in (workspace.file(path, entry=identity), workspace.file(path, entry=identity, download="1")):
        assert "SECRET" not in answer.text
        assert answer.status_code in (400, 404) or answer.json()["gone"] is True, answer.text


def _clear(folder: Path) -> None:
    for file in sorted(folder.rglob("*"), reverse=True):
        file.rmdir() if file.is_dir() and not file.is_symlink() else file.unlink()


def _fifo(workspace: WorkspaceClient) -> str:
    os.mkfifo(workspace.path / "a.md")
    return "a.md"


def _socket(workspace: WorkspaceClient) -> str:
    folder = os.open(workspace.path, os.O_RDONLY)  # by number: the name of a socket may not be long
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(f"/proc/self/fd/{folder}/a.md")
    os.close(folder)
    return "a.md"


def _folder(workspace: WorkspaceClient) -> str:
    (workspace.path / "a.md").mkdir()
    return "a.md"


@pytest.mark.parametrize("make", [_fifo, _socket, _folder])
def test_what_is_no_file_is_refused_and_holds_nobody_up(workspace: WorkspaceClient, make: Callable[[WorkspaceClient], str]) -> None:
    path = make(workspace)
    refusal(workspace.try_push(path), 400, "invalid_input")
    for answer in (workspace.file(path), workspace.file(path, download="1")):
        assert answer.status_code in (400, 404), answer.text
    assert workspace.entries() == []


@pytest.mark.parametrize("make", [_fifo, _socket, _folder])
def test_a_document_that_becomes_no_file_holds_nobody_up(workspace: WorkspaceClient, make: Callable[[WorkspaceClient], str]) -> None:
    file = workspace.write("a.md", "innocent")
    identity = workspace.push("a.md")
    file.unlink()
    make(workspace)
    for more in ({}, {"download": "1"}):
        answer = workspace.file("a.md", entry=identity, **more)
        assert answer.status_code in (400, 404) or answer.json()["gone"] is True, answer.text


def test_a_huge_file_costs_no_more_than_a_part_of_it(server: RunningServer, workspace: WorkspaceClient) -> None:
    file = workspace.write("huge.txt", "the beginning\n")
    os.truncate(file, 20 << 30)
    identity = workspace.push("huge.txt")
    assert workspace.entries()[0]["docs"] == [{"path": "huge.txt", "sha256": None, "size": 20 << 30}]
    answer = workspace.file("huge.txt", entry=identity)
    assert (answer.status_code, answer.json()["truncated"], answer.json()["size"]) == (200, True, 20 << 30)
    assert len(answer.content) < 32 << 20
    with server.person.stream("GET", answer.json()["download"]) as download:
        assert download.headers["content-disposition"].startswith("attachment")
        assert next(download.iter_bytes()).startswith(b"the beginning\n")
    file.unlink()


@pytest.mark.parametrize(
    "text",
    ["> " * 20_000 + "x", "[" * 50_000, "*a_ " * 50_000, "`" * 100_000, "- " * 20_000, "![" * 50_000, "|" * 100_000, "<" * 100_000],
    ids=["quotes", "brackets", "emphasis", "ticks", "lists", "images", "tables", "angles"],
)
def test_markdown_that_was_made_to_be_slow_is_shown_or_refused(workspace: WorkspaceClient, text: str) -> None:
    workspace.write("slow.md", text)
    assert workspace.shown("slow.md")["kind"] in ("markdown", "text")


def test_a_folder_that_is_replaced_by_a_link_is_not_followed(workspace: WorkspaceClient) -> None:
    workspace.write("docs/a.txt", "innocent")
    identity = workspace.push("docs/a.txt")
    _clear(workspace.path)
    outside = workspace.path.parent / f"{workspace.path.name}-outside"
    outside.mkdir()
    (outside / "a.txt").write_text("SECRET")
    (workspace.path / "docs").symlink_to(outside)
    answer = workspace.file("docs/a.txt", entry=identity)
    assert "SECRET" not in answer.text


def test_the_workspace_that_is_replaced_by_a_link_is_not_followed(workspace: WorkspaceClient) -> None:
    workspace.write("a.txt", "innocent")
    _clear(workspace.path)
    workspace.path.rmdir()
    outside = workspace.path.parent / f"{workspace.path.name}-outside"
    outside.mkdir()
    (outside / "a.txt").write_text("SECRET")
    workspace.path.symlink_to(outside)
    answer = workspace.file("a.txt")
    assert "SECRET" not in answer.text
