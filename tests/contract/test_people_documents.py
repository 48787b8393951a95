"""Documents: pointers to files inside the workspace, with the hash as pushed; whatever leads out of it is refused."""

from __future__ import annotations

import os
import socket
from pathlib import Path
from typing import Any

import pytest

from postroom import people
from postroom.core.errors import InvalidInput, NotFound, Refusal
from postroom.store.interface import Store
from tests.contract.people_data import AGENT, field, inbox, new_workspace, settled, sha256, shown

SECRET = "the secret outside"


class DocumentFolders:
    """A workspace, its folder, and a folder beside it that is none of its business."""

    def __init__(self, store: Store, folder: Path) -> None:
        self.store = store
        self.workspace_id = new_workspace(store, folder)
        self.folder, self.outside = folder / AGENT, folder / "outside"
        self.outside.mkdir()
        (self.outside / "secret.txt").write_text(SECRET)
        (self.folder / "sub").mkdir()

    def write(self, path: str, content: bytes = b"Hello") -> Path:
        file = self.folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content)
        return file

    def push(self, *docs: Any) -> list[dict[str, Any]]:
        """The documents of a new entry, as it shows them."""
        entry = people.push(self.store, self.workspace_id, docs=docs).to_json()
        kept: list[dict[str, Any]] = shown(self.store, entry["id"])["docs"]
        assert entry["docs"] == kept
        return kept

    def refusal(self, *docs: Any) -> Refusal:
        """How a push is refused; with words beside it, too, and then nothing is kept of it."""
        before = settled(self.store)
        with pytest.raises((InvalidInput, NotFound)) as first:
            people.push(self.store, self.workspace_id, docs=docs)
        with pytest.raises(type(first.value)):
            people.push(self.store, self.workspace_id, docs=[{"path": "report.md"}, *docs], comments="Look")
        assert settled(self.store) == before
        assert SECRET not in str(first.value)
        return first.value


@pytest.fixture
def desk(store: Store, tmp_path: Path) -> DocumentFolders:
    return DocumentFolders(store, tmp_path)


def assert_outside(refusal: Refusal) -> None:
    assert isinstance(refusal, InvalidInput)
    assert field(refusal) == "docs"


# Accepted documents


def test_a_document_is_its_path_its_hash_and_its_size(desk: DocumentFolders) -> None:
    for content in (b"", b"Hello\n", b"\x00\xff" * 5000, b"x" * 3_000_000):
        desk.write("a.bin", content)
        assert desk.push("a.bin") == [{"path": "a.bin", "sha256": sha256(content), "size": len(content)}]


def test_documents_keep_their_order(desk: DocumentFolders) -> None:
    for name in ("b.md", "a.md", "sub/c.md"):
        desk.write(name, name.encode())
    docs = desk.push({"path": "sub/c.md"}, "b.md", {"path": "a.md"})
    assert [(doc["path"], doc["sha256"]) for doc in docs] == [(name, sha256(name.encode())) for name in ("sub/c.md", "b.md", "a.md")]


NAMES = [
    "with space.md",
    "Grüße ☃.md",
    "日本語/報告.md",
    "notes..md",
    ".hidden",
    "a'b\"c.md",
    "100%.md",
    "-dash.md",
    "<b>&amp;.md",
    "deep/" * 20 + "x",
]


def test_a_file_may_have_any_name_of_one_line(desk: DocumentFolders) -> None:
    for name in NAMES:
        desk.write(name, name.encode())
    assert desk.push(*NAMES) == [{"path": name, "sha256": sha256(name.encode()), "size": len(name.encode())} for name in NAMES]


def test_a_path_is_kept_in_its_shortest_form_and_names_a_file(desk: DocumentFolders) -> None:
    desk.write("sub/a.py", b"x")
    for path in ("./sub/a.py", "sub//a.py", "sub/./a.py"):
        assert [doc["path"] for doc in desk.push(path)] == ["sub/a.py"]
    for path in ("sub/a.py/", "sub/", "sub/."):
        refused = desk.refusal(path)
        assert isinstance(refused, InvalidInput)
        assert field(refused) == "docs"


def test_a_hash_is_of_the_file_as_it_was_pushed(desk: DocumentFolders) -> None:
    file = desk.write("a.md", b"before")
    desk.push("a.md")
    file.write_bytes(b"after")
    (entry,) = inbox(desk.store)
    assert entry["docs"] == [{"path": "a.md", "sha256": sha256(b"before"), "size": 6}]
    file.unlink()
    assert inbox(desk.store) == [entry]


def test_fifty_documents_may_be_pushed_and_not_one_more(desk: DocumentFolders) -> None:
    names = [desk.write(f"{number}.md").name for number in range(51)]
    assert_outside(desk.refusal(*names))
    assert len(desk.push(*names[:50])) == 50


# Links


LINKS = {  # a link, where it leads (`{}` is the workspace's folder), and a way through it
    "to a file beside it": ("link.md", "report.md", "link.md"),
    "to a file above it": ("sub/up.md", "../report.md", "sub/up.md"),
    "by its whole path": ("whole.md", "{}/report.md", "whole.md"),
    "through a link to a folder": ("here", ".", "here/report.md"),
}


def test_a_link_that_stays_inside_is_followed(desk: DocumentFolders) -> None:
    for link, target, path in LINKS.values():
        (desk.folder / link).symlink_to(target.format(desk.folder))
        assert desk.push(path) == [{"path": path, "sha256": sha256(b"# Rates\n"), "size": 8}]


BY_NAME = [
    "..",
    "../outside/secret.txt",
    "../outside/missing.txt",
    "sub/../../outside/secret.txt",
    "sub/../report.md",
    "/etc/passwd",
    "//etc/passwd",
]
LEADING_OUT = {  # where a link leads (`{}` is the folder outside), and a way through it
    "to a file": ("{}/secret.txt", "link"),
    "to a file, relative": ("../outside/secret.txt", "link"),
    "to a folder": ("{}", "link/secret.txt"),
    "to nothing there": ("{}/missing.txt", "link"),
    "to a folder and nothing there": ("{}", "link/missing.txt"),
    "to a device": ("/dev/null", "link"),
    "to an endless device": ("/dev/zero", "link"),
    "to the root": ("/", "link/etc/passwd"),
    "to a process's own files": ("/proc/self", "link/environ"),
}


def test_a_path_that_leads_out_of_the_workspace_is_refused(desk: DocumentFolders) -> None:
    for path in BY_NAME:
        assert_outside(desk.refusal(path))


def test_a_link_that_leads_out_is_refused_and_tells_nothing_of_what_is_there(desk: DocumentFolders) -> None:
    for what, (target, path) in LEADING_OUT.items():
        (desk.folder / "link").symlink_to(target.format(desk.outside))
        refused = desk.refusal(path)
        assert isinstance(refused, InvalidInput), what
        assert field(refused) == "docs"
        assert str(desk.outside) not in str(refused)
        (desk.folder / "link").unlink()


def test_a_chain_of_links_that_ends_outside_is_refused(desk: DocumentFolders) -> None:
    (desk.folder / "c").symlink_to(desk.outside / "secret.txt")
    (desk.folder / "b").symlink_to("c")
    (desk.folder / "a").symlink_to("b")
    assert_outside(desk.refusal("a"))


def test_links_in_a_circle_are_refused(desk: DocumentFolders) -> None:
    (desk.folder / "itself").symlink_to("itself")
    (desk.folder / "a").symlink_to("b")
    (desk.folder / "b").symlink_to("a")
    for path in ("itself", "a", "a/report.md"):
        desk.refusal(path)


def test_a_folder_that_was_swapped_for_a_link_is_refused(desk: DocumentFolders) -> None:
    desk.write("sub/secret.txt", b"mine")
    assert desk.push("sub/secret.txt")
    (desk.folder / "sub").rename(desk.folder / "was")
    (desk.folder / "sub").symlink_to(desk.outside)
    assert_outside(desk.refusal("sub/secret.txt"))


def test_a_workspace_whose_own_folder_is_a_link_keeps_to_where_it_led(desk: DocumentFolders, tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "real" / "a.md").write_text("mine")
    (tmp_path / "nick").symlink_to("real")
    desk.workspace_id = people.add_workspace(desk.store, str(tmp_path / "nick"), label="Nick").workspace.workspace_id
    (tmp_path / "nick").unlink()
    (tmp_path / "nick").symlink_to("outside")
    assert [doc["path"] for doc in desk.push("a.md")] == ["a.md"]
    assert isinstance(desk.refusal("secret.txt"), NotFound)


# Paths that name no file


def test_what_is_not_there_is_not_found(desk: DocumentFolders) -> None:
    (desk.folder / "dangling").symlink_to("missing.md")
    for path in ("missing.md", "missing/report.md", "dangling"):
        assert isinstance(desk.refusal(path), NotFound), path
    desk.refusal("report.md/x")


def test_a_folder_is_no_document(desk: DocumentFolders) -> None:
    (desk.folder / "link").symlink_to("sub")
    for path in ("sub", "link", ".", "sub/."):
        assert_outside(desk.refusal(path))
    desk.refusal("sub/")


@pytest.mark.timeout(20)
def test_a_fifo_is_refused_and_nobody_waits_for_its_writer(desk: DocumentFolders) -> None:
    os.mkfifo(desk.folder / "pipe")
    (desk.folder / "link").symlink_to("pipe")
    for path in ("pipe", "link"):
        assert_outside(desk.refusal(path))


def test_a_socket_is_refused(desk: DocumentFolders, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(desk.folder)  # a socket's path is short
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind("socket")
        assert_outside(desk.refusal("socket"))


MALFORMED: list[Any] = [
    "",
    "a\0b",
    "a\nb",
    "a\rb",
    "a\x1bb",
    "a\x7fb",
    "\ud800",
    "x/" * 512 + "xx",
    "report.md/",
    "report.md/.",
    ".",
    {},
    {"path": 3},
    {"path": None},
    3,
    None,
    ["a"],
]


def test_what_is_no_path_is_refused(desk: DocumentFolders) -> None:
    for doc in MALFORMED:
        assert_outside(desk.refusal(doc))
    desk.refusal(" ")


def test_a_file_with_a_control_character_in_its_name_is_refused_though_it_is_there(desk: DocumentFolders) -> None:
    for name in ("two\nlines.md", "bell\a.md"):
        desk.write(name)
        assert_outside(desk.refusal(name))


def test_a_path_of_1024_characters_is_let_in(desk: DocumentFolders) -> None:
    path = "/".join(["x" * 101] * 10) + "/" + "y" * 4
    assert len(path) == 1024
    desk.write(path, b"x")
    assert [doc["path"] for doc in desk.push(path)] == [path]
    assert_outside(desk.refusal(path + "z"))


# Questions have documents too


def test_a_question_may_point_to_documents_as_a_push_does(desk: DocumentFolders) -> None:
    entry = people.ask(desk.store, workspace_id=desk.workspace_id, question="Good?", docs=[{"path": "report.md"}]).to_json()
    assert entry["docs"] == [{"path": "report.md", "sha256": sha256(b"# Rates\n"), "size": 8}]
    before = settled(desk.store)
    (desk.folder / "link").symlink_to(desk.outside / "secret.txt")
    for path, refusal in (("link", InvalidInput), ("../outside/secret.txt", InvalidInput), ("missing.md", NotFound)):
        with pytest.raises(refusal):
            people.ask(desk.store, workspace_id=desk.workspace_id, question="Good?", docs=[path])
    assert settled(desk.store) == before
