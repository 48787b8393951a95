"""Stores and queues of other users: a store that is found is not trusted, and a handler never runs as another user."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from postroom.core.errors import UntrustedStore
from postroom.store import init_store
from postroom.store.files import ownership
from postroom.store.location import find_location
from tests.cli.process import Inbox
from tests.cli.queue_process import QueueCommands

NOBODY = 65534


def give_away(path: Path) -> None:
    """Make a file another user's. Only root can: for a plain user, a link to a file of root takes its place."""
    if os.geteuid() == 0:
        os.chown(path, NOBODY, -1)
    else:
        path.unlink()
        path.symlink_to("/etc/passwd")


def owned_by_nobody(path: Path) -> Path:
    path.touch()
    os.chown(path, NOBODY, -1)
    return path


def open_to_everybody(path: Path) -> None:
    path.chmod(path.stat().st_mode | 0o022)


RISKS: dict[str, Callable[[Path], None]] = {
    "another owner": lambda agents: give_away(agents / "coord.db"),
    "a writable file": lambda agents: open_to_everybody(agents / "coord.db"),
    "a writable folder": open_to_everybody,
    "a replaceable folder": lambda agents: open_to_everybody(agents.parent),
}


@pytest.fixture(params=RISKS)
def trap(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder below a store that another user owns or can change, as the current folder."""
    agents = tmp_path / "shared" / ".agents"
    init_store(str(agents / "coord.db"))
    RISKS[request.param](agents)
    (tmp_path / "shared" / "project").mkdir()
    monkeypatch.chdir(tmp_path / "shared" / "project")
    monkeypatch.delenv("INBOX_DB", raising=False)
    return agents / "coord.db"


def test_a_store_that_was_found_and_is_not_ours_alone_is_refused(trap: Path) -> None:
    with pytest.raises(UntrustedStore, match="was found, but") as refusal:
        find_location()
    assert "INBOX_SAFE=" in refusal.value.hint


def test_a_store_that_is_named_is_trusted(trap: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert find_location(str(trap)) == str(trap)
    monkeypatch.setenv("INBOX_DB", str(trap))
    assert find_location() == str(trap)


@pytest.mark.parametrize("named", ["*", "{db}", "{folder}", "{project}", "/elsewhere:{folder}"])
def test_inbox_safe_names_stores_that_are_trusted(trap: Path, monkeypatch: pytest.MonkeyPatch, named: str) -> None:
    names = {"db": os.path.realpath(trap), "folder": trap.parent, "project": trap.parent.parent}
    if os.path.islink(trap):  # a plain user: the file is elsewhere
        names |= {"folder": "/etc", "project": "/"}
    monkeypatch.setenv("INBOX_SAFE", named.format(**names))
    assert find_location() == str(trap)


def test_inbox_safe_of_another_folder_does_not_help(trap: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("INBOX_SAFE", str(tmp_path / "shared" / "project"))
    with pytest.raises(UntrustedStore):
        find_location()


def test_a_store_shared_with_a_group_of_ours_is_trusted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    database = tmp_path / ".agents" / "coord.db"
    init_store(str(database), shared=str(os.getegid()))
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("INBOX_DB", raising=False)
    assert find_location() == str(database)


def test_a_sticky_folder_above_is_no_risk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "everybodys").mkdir()
    (tmp_path / "everybodys").chmod(0o1777)
    database = tmp_path / "everybodys" / ".agents" / "coord.db"
    init_store(str(database))
    monkeypatch.chdir(tmp_path / "everybodys")
    monkeypatch.delenv("INBOX_DB", raising=False)
    assert find_location() == str(database)


def test_a_file_of_another_user_is_recognised(tmp_path: Path) -> None:
    (tmp_path / "mine").touch()
    assert ownership.find_other_owner(str(tmp_path / "mine")) == ""
    (tmp_path / "theirs").touch()
    give_away(tmp_path / "theirs")
    assert ownership.find_other_owner(str(tmp_path / "theirs")) != ""


def test_the_command_line_refuses_the_trap_with_a_stable_code(inbox_in: Inbox) -> None:
    open_to_everybody(inbox_in.db)
    code, name, message = inbox_in.run("take", "--agent", "ada", "--json").error
    assert (code, name) == (30, "untrusted_store")
    assert "everybody can write" in message
    assert inbox_in.run("list", "--db", str(inbox_in.db)).code == 0
    assert inbox_in.run("init").code == 0, "the hint says that this mends it"
    assert inbox_in.run("list").code == 0


@pytest.mark.parametrize("linked", [True, False])
def test_init_makes_no_store_in_a_folder_of_another_user_that_it_found(tmp_path: Path, linked: bool) -> None:
    """Only root can make a folder another user's: for a plain user, a link to a folder of root takes its place."""
    inbox = Inbox(tmp_path)
    theirs = tmp_path / ("theirs" if linked else ".agents")
    theirs.mkdir()
    if os.geteuid() == 0:
        os.chown(theirs, NOBODY, -1)
    else:
        theirs.rmdir()
        theirs.symlink_to("/etc")
    if linked:
        (tmp_path / ".agents").symlink_to(theirs)
    code, name, message = inbox.run("init", "--json").error
    assert (code, name) == (30, "untrusted_store")
    assert "belongs to" in message
    assert os.geteuid() or list(theirs.iterdir()) == []
    if os.geteuid() == 0:
        assert inbox.run("init", INBOX_SAFE=str(tmp_path)).code == 0, "one who trusts that user can say so"
        assert inbox.run("init", "--json").error[1] == "untrusted_store"
        assert inbox.run("init", "--db", str(tmp_path / ".agents" / "coord.db")).code == 0


def test_init_upgrades_no_store_of_another_user_that_it_found(tmp_path: Path) -> None:
    inbox = Inbox(tmp_path)
    inbox.found()
    give_away(inbox.db)
    assert inbox.run("init", "--json").error[:2] == (30, "untrusted_store")


@pytest.fixture
def inbox_in(tmp_path: Path) -> Inbox:
    inbox = Inbox(tmp_path)
    inbox.found()
    return inbox


@pytest.fixture
def commands(tmp_path: Path) -> QueueCommands:
    queue = QueueCommands(tmp_path)
    queue.init()
    queue.subscribe("worker", f"id -un > {tmp_path}/ran")
    return queue


def test_a_handler_of_another_users_queue_does_not_run_as_us(commands: QueueCommands, tmp_path: Path) -> None:
    with pytest.raises(UntrustedStore, match="belongs to"):
        ownership.require_own_queue("/etc/passwd" if os.geteuid() else str(owned_by_nobody(tmp_path / "theirs")))
    if os.geteuid() != 0:
        return  # only root can give the queue of this test away
    owned_by_nobody(commands.queue / "events.db")
    pushed = commands.on_queue("push", "--source", "self", "--type", "message", "--content=hi", "--json")
    assert (pushed.code, pushed.json["id"], pushed.json["dispatch"]) == (0, 1, "left to owner")
    said = commands.on_queue("push", "--source", "self", "--type", "message", "--content=hi")
    assert "Its handlers run as " in said.stderr
    refused = commands.refuses(1, "thread", "dispatch", "--thread", str(commands.queue))
    assert "belongs to nobody" in refused["error"]
    assert not (tmp_path / "ran").exists()
    assert not list(commands.home.glob("runner*")), "no runner was started"


def test_a_queue_that_others_can_change_is_not_dispatched(commands: QueueCommands, tmp_path: Path) -> None:
    open_to_everybody(commands.queue / "events.db")
    pushed = commands.on_queue("push", "--source", "self", "--type", "message", "--content=hi")
    assert (pushed.code, pushed.stdout) == (1, "1\n")
    assert "everybody can write" in pushed.stderr
    assert "everybody can write" in commands.refuses(1, "thread", "dispatch", "--thread", str(commands.queue))["error"]
    assert not (tmp_path / "ran").exists()
