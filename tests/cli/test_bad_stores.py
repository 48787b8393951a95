"""Stores that cannot be used: 40 or 50, the file named, nothing changed, never a traceback."""

from __future__ import annotations

import sqlite3
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from postroom.core.limits import MAX_BODY_BYTES
from tests.cli.process import Finished, Inbox

SEND = ("send", "--from", "leader", "--to", "builder", "--subject", "x")
EVERY = (("list",), SEND, ("fetch", "--agent", "a"), ("watch", "--timeout-seconds", "0.05"), ("init",), ("take", "--agent", "a"))


def _refuses(finished: Finished, code: str, named: Path) -> None:
    exit_code, name, message = finished.error
    assert (exit_code, name) == (50, code), finished
    assert str(named) in message
    assert finished.json["error"]["hint"]
    assert "bug in Postroom" not in finished.stdout


@pytest.mark.parametrize("argv", EVERY)
@pytest.mark.parametrize(
    "content", [b"this is a text file, and long enough to be looked at. " * 40, b"x" * 100, b"SQLite format 3\0" + b"\xff" * 600]
)
def test_a_file_that_is_no_database_is_refused_and_kept(bare: Inbox, argv: tuple[str, ...], content: bytes) -> None:
    place = bare.folder / "notes.txt"
    place.write_bytes(content)
    _refuses(bare.run("--db", "notes.txt", "--json", *argv), "not_a_store", place)
    assert place.read_bytes() == content


@pytest.mark.parametrize("argv", EVERY)
def test_somebody_elses_database_is_refused_and_kept(bare: Inbox, argv: tuple[str, ...]) -> None:
    place = bare.folder / "theirs.db"
    with sqlite3.connect(place) as theirs:
        theirs.execute("CREATE TABLE threads (theirs)")
    theirs.close()
    before = place.read_bytes()
    _refuses(bare.run("--db", "theirs.db", "--json", *argv), "not_a_store", place)
    assert place.read_bytes() == before
    assert [file.name for file in bare.folder.iterdir()] == ["theirs.db"]


@pytest.mark.parametrize("argv", [argv for argv in EVERY if argv != ("init",)])
def test_an_empty_file_is_no_store_until_it_is_initialised(bare: Inbox, argv: tuple[str, ...]) -> None:
    place = bare.folder / "empty.db"
    place.touch()
    _refuses(bare.run("--db", "empty.db", "--json", *argv), "not_a_store", place)
    assert place.read_bytes() == b""
    bare.ok("init", "--db", "empty.db")
    bare.ok("list", "--db", "empty.db")


@pytest.mark.parametrize("argv", EVERY)
def test_a_store_of_a_newer_version_is_refused_and_kept(inbox: Inbox, argv: tuple[str, ...]) -> None:
    opened = sqlite3.connect(inbox.db)
    opened.execute("PRAGMA user_version=99")
    opened.close()
    before = inbox.db.read_bytes()
    refused = inbox.run("--json", *argv)
    _refuses(refused, "wrong_version", inbox.db)
    assert "99" in refused.json["error"]["message"]
    assert "Upgrade postroom" in refused.json["error"]["hint"]
    assert inbox.db.read_bytes() == before


@pytest.mark.parametrize("argv", EVERY)
def test_a_damaged_store_is_refused(inbox: Inbox, argv: tuple[str, ...]) -> None:
    inbox.send("x", "--body", "x" * 100_000)
    opened = sqlite3.connect(inbox.db)
    opened.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    opened.close()
    whole = inbox.db.read_bytes()
    inbox.db.write_bytes(whole[:200] + b"\xa5" * (len(whole) - 200))
    finished = inbox.run("--json", *argv)
    if argv != ("init",):  # which reads the header and finds nothing to do
        assert finished.error[0] == 50, finished
        assert str(inbox.db) in finished.error[2]
    assert "Traceback" not in finished.stderr


def test_a_folder_is_no_store(inbox: Inbox) -> None:
    finished = inbox.run("list", "--db", ".agents", "--json")
    assert finished.error[0] in (30, 40, 50), finished
    assert ".agents" in finished.error[2]
    assert "Is it" not in finished.stdout


@pytest.mark.parametrize("db", ["", "   "])
def test_an_empty_path_is_refused_and_not_taken_for_the_default(inbox: Inbox, db: str) -> None:
    finished = inbox.run("list", "--db", db, "--json")
    assert finished.code in (30, 40), finished


class Locked:
    """Files and folders whose permissions were taken away, and are given back at the end."""

    def __init__(self) -> None:
        self._modes: dict[Path, int] = {}

    def forbid(self, *paths: Path) -> None:
        for path in paths:
            self._modes[path] = stat.S_IMODE(path.stat().st_mode)
            path.chmod(0o555 if path.is_dir() else 0o444)

    def give_back(self) -> None:
        for path, mode in self._modes.items():
            path.chmod(mode)


@pytest.fixture
def locked() -> Iterator[Locked]:
    permissions = Locked()
    yield permissions
    permissions.give_back()


def _frozen(inbox: Inbox, locked: Locked) -> None:
    """The store and its folder, as on a medium that cannot be written; everything is in the main file."""
    opened = sqlite3.connect(inbox.db)
    opened.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    opened.close()
    locked.forbid(*inbox.db.parent.iterdir(), inbox.db.parent)


def test_the_test_child_obeys_permissions(inbox: Inbox, locked: Locked) -> None:
    locked.forbid(inbox.db.parent)
    assert inbox.shell("touch .agents/x; echo $?", unprivileged=True).stdout == "1\n"


@pytest.mark.parametrize(
    "argv", [SEND, ("claim", "--agent", "a", "--thread", "one"), ("take", "--agent", "builder"), ("agent", "add", "x")]
)
def test_a_read_only_store_refuses_to_be_written(inbox: Inbox, locked: Locked, argv: tuple[str, ...]) -> None:
    inbox.send("One", "--thread", "one")
    before = inbox.everything()
    _frozen(inbox, locked)
    _refuses(inbox.run("--json", *argv, unprivileged=True), "store_read_only", inbox.db)
    locked.give_back()
    assert inbox.everything() == before


@pytest.mark.parametrize("argv", [SEND, ("claim", "--agent", "a", "--thread", "one")])
def test_a_read_only_file_in_a_folder_that_can_be_written_refuses_to_be_written(
    inbox: Inbox, locked: Locked, argv: tuple[str, ...]
) -> None:
    inbox.send("One", "--thread", "one")
    before = inbox.everything()
    locked.forbid(inbox.db)
    _refuses(inbox.run("--json", *argv, unprivileged=True), "store_read_only", inbox.db)
    locked.give_back()
    assert inbox.everything() == before


def test_a_read_only_store_says_so_when_read_or_is_read(inbox: Inbox, locked: Locked) -> None:
    """Never "empty" when it could not look."""
    inbox.send("One", "--thread", "one")
    _frozen(inbox, locked)
    finished = inbox.run("list", "--json", unprivileged=True)
    if finished.code == 0:
        assert [thread["thread_id"] for thread in finished.json["threads"]] == ["one"]
    else:
        _refuses(finished, "store_read_only", inbox.db)


def test_a_store_that_may_not_be_read_is_refused(inbox: Inbox, locked: Locked) -> None:
    locked.forbid(inbox.db)
    inbox.db.chmod(0)
    _refuses(inbox.run("list", "--json", unprivileged=True), "store_read_only", inbox.db)


@pytest.mark.parametrize("db", ["closed/coord.db", "closed/deeper/coord.db"])
def test_a_store_is_not_made_in_a_folder_that_cannot_be_written(bare: Inbox, locked: Locked, db: str) -> None:
    closed = bare.folder / "closed"
    closed.mkdir()
    locked.forbid(closed)
    finished = bare.run("init", "--db", db, "--json", unprivileged=True)
    _refuses(finished, "store_read_only", closed)
    assert list(closed.iterdir()) == []


def test_a_store_in_a_folder_that_may_not_be_entered_is_refused(inbox: Inbox, locked: Locked) -> None:
    locked.forbid(inbox.db.parent)
    inbox.db.parent.chmod(0)
    finished = inbox.run("list", "--db", str(inbox.db), "--json", unprivileged=True)
    assert finished.error[0] in (40, 50), finished
    assert str(inbox.db) in finished.error[2]


def test_a_full_disk_refuses_and_changes_nothing(inbox: Inbox) -> None:
    """A limit on the size of files stands in for a disk: the write fails in the same place."""
    before = inbox.everything()
    full = inbox.shell(f'ulimit -f 512; trap "" XFSZ; "$0" {" ".join(SEND)} --body-file big.txt --json', setup=_big)
    assert full.error[0] == 50, full
    assert str(inbox.db) in full.error[2]
    assert inbox.everything() == before


def _big(folder: Path) -> None:
    (folder / "big.txt").write_text("x" * MAX_BODY_BYTES)


def test_an_answer_that_cannot_be_written_is_not_called_a_success(inbox: Inbox) -> None:
    finished = inbox.shell('"$0" list > /dev/full')
    assert finished.code != 0
    assert "Traceback" not in finished.stderr
