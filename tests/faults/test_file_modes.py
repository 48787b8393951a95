"""The modes of files on disk: stores, queues and everything beside them are for their owner, whatever the umask, or for one group."""

from __future__ import annotations

import grp
import os
import stat
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from postroom import queues, work
from postroom.cli.inbox.harness.sessions import HookSession
from postroom.core.errors import InvalidInput
from postroom.people.entries_mirror import update_mirror
from postroom.queues.locks import ConsumerLock
from postroom.store import init_store
from postroom.store.sqlite.engine import SqliteStore

UMASKS = [0o000, 0o022, 0o002]


@pytest.fixture(params=UMASKS, ids=oct)
def umask(request: pytest.FixtureRequest) -> Iterator[int]:
    before = os.umask(request.param)
    yield request.param
    os.umask(before)


def loose_files(folder: Path, forbidden: int = 0o077) -> list[str]:
    """The files at and below a folder that others may use."""
    return [f"{path} {stat.S_IMODE(path.lstat().st_mode):o}" for path in (folder, *folder.rglob("*")) if path.lstat().st_mode & forbidden]


def use_store(location: str) -> None:
    """Let a store create every file that it can have: the log, the shared memory, wake files, the mirror of its entries."""
    with SqliteStore(location) as store:
        work.send(store, sender="leader", to="builder", subject="Add the login page")
        update_mirror(store)
        with store.watch("thread"):
            pass
        assert loose_files(Path(location).parent) == []


def test_a_store_is_private_whatever_the_umask(tmp_path: Path, umask: int) -> None:
    location = tmp_path / ".agents" / "coord.db"
    init_store(str(location))
    use_store(str(location))


def test_a_queue_is_private_whatever_the_umask(tmp_path: Path, umask: int) -> None:
    folder = Path(queues.init_queue(str(tmp_path / "events")))
    with queues.open_queue(str(folder)) as queue:
        queues.subscribe(queue, "reader", handler="true", filter="type = 'record'")
        queues.push(queue, source="self", type="message", content="hello")
        lock = ConsumerLock.open_and_acquire(str(folder), "reader")
        assert lock is not None
        lock.close()
        assert loose_files(folder) == []


def test_what_a_hook_remembers_is_private_whatever_the_umask(tmp_path: Path, umask: int, monkeypatch: pytest.MonkeyPatch) -> None:
    state = tmp_path / "home" / "state"  # of a user who has none yet
    monkeypatch.setenv("XDG_STATE_HOME", str(state))
    assert HookSession("ada", "s1").become_waiter()
    assert loose_files(state) == []


def test_init_tightens_an_existing_store_and_its_data(tmp_path: Path) -> None:
    location = tmp_path / ".agents" / "coord.db"
    init_store(str(location))
    use_store(str(location))
    for path in (location.parent, *location.parent.rglob("*")):
        path.chmod(0o777 if path.is_dir() else 0o666)
    init_store(str(location))
    assert loose_files(location.parent) == []


def test_init_leaves_the_folder_of_a_user_as_it_is(tmp_path: Path) -> None:
    project = tmp_path / "project"
    (project / "data").mkdir(parents=True, mode=0o755)
    (project / "data" / "table.csv").write_text("1,2\n")
    for path in (project, project / "data"):
        path.chmod(0o755)
    init_store(str(project / "coord.db"))
    assert loose_files(project, 0o022) == []
    assert [stat.S_IMODE(path.stat().st_mode) for path in (project, project / "data")] == [0o755, 0o755]


def test_a_shared_store_and_its_later_files_belong_to_the_group(tmp_path: Path) -> None:
    location = tmp_path / ".agents" / "coord.db"
    group = grp.getgrgid(os.getegid()).gr_name
    before = os.umask(0o077)
    try:
        init_store(str(location), shared=group)
        init_store(str(location))  # keeps it shared
        (tmp_path / ".agents" / "coord.db.lock").unlink()
        with SqliteStore(str(location)) as store:
            work.send(store, sender="leader", to="builder", subject="Add the login page")
            update_mirror(store)
            found = {(path.is_dir(), stat.S_IMODE(path.stat().st_mode)) for path in (location.parent, *location.parent.rglob("*"))}
    finally:
        os.umask(before)
    assert found == {(True, 0o2770), (False, 0o660)}


def test_a_shared_queue_belongs_to_the_group(tmp_path: Path) -> None:
    folder = Path(queues.init_queue(str(tmp_path / "events"), shared=str(os.getegid())))
    with queues.open_queue(str(folder)) as queue:
        queues.push(queue, source="self", type="message", content="hello")
        found = {(path.is_dir(), stat.S_IMODE(path.stat().st_mode)) for path in (folder, *folder.rglob("*"))}
    assert found == {(True, 0o2770), (False, 0o660)}


def test_an_unknown_group_is_refused_before_anything_is_made(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="no group 'nobodys-friends'"):
        init_store(str(tmp_path / ".agents" / "coord.db"), shared="nobodys-friends")
    with pytest.raises(InvalidInput, match="no group 'nobodys-friends'"):
        queues.init_queue(str(tmp_path / "events"), shared="nobodys-friends")
    assert list(tmp_path.iterdir()) == []


def test_a_store_in_a_git_work_tree_is_ignored_by_git(tmp_path: Path) -> None:
    subprocess.run(["git", "init", "-q"], cwd=tmp_path, check=True)
    init_store(str(tmp_path / ".agents" / "coord.db"))
    use_store(str(tmp_path / ".agents" / "coord.db"))
    (tmp_path / ".agents" / "skills").mkdir()
    (tmp_path / ".agents" / "skills" / "review.md").write_text("Read it twice.\n")
    status = subprocess.run(["git", "status", "--porcelain", "-uall"], cwd=tmp_path, check=True, capture_output=True, text=True)
    assert status.stdout == "?? .agents/skills/review.md\n"


def test_an_existing_gitignore_stays(tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / ".agents").mkdir()
    (tmp_path / ".agents" / ".gitignore").write_text("# ours\n")
    init_store(str(tmp_path / ".agents" / "coord.db"))
    assert (tmp_path / ".agents" / ".gitignore").read_text() == "# ours\n"


def test_a_link_in_the_place_of_a_lock_is_not_followed(tmp_path: Path) -> None:
    location = tmp_path / ".agents" / "coord.db"
    init_store(str(location))
    precious = tmp_path / "precious"
    precious.write_text("Keep every byte of this file.\n")
    lock = location.with_name("coord.db.lock")
    lock.unlink()
    lock.symlink_to(precious)
    with SqliteStore(str(location)) as store:
        work.send(store, sender="leader", to="builder", subject="Add the login page")
    assert precious.read_text() == "Keep every byte of this file.\n"
