"""Private files: for their owner only whatever the umask is, replaced whole, and never through somebody's link."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from postroom.store.files.private_files import create_draft, make_private_folder, write_private_file


@pytest.fixture(params=[0o000, 0o777], ids=oct)
def umask(request: pytest.FixtureRequest) -> Iterator[None]:
    before = os.umask(request.param)
    yield
    os.umask(before)


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.mark.usefixtures("umask")
def test_a_file_and_the_folders_made_for_it_are_their_owners_only(tmp_path: Path) -> None:
    path = tmp_path / "state" / "postroom" / "token"
    write_private_file(str(path), "secret\n")
    assert path.read_text() == "secret\n"
    assert [mode_of(path), mode_of(path.parent), mode_of(path.parent.parent)] == [0o600, 0o700, 0o700]


@pytest.mark.usefixtures("umask")
def test_a_loose_file_is_replaced_by_a_private_one(tmp_path: Path) -> None:
    path = tmp_path / "token"
    path.write_text("old")
    path.chmod(0o666)
    write_private_file(str(path), "new")
    assert (path.read_text(), mode_of(path)) == ("new", 0o600)


def test_a_link_is_replaced_and_its_target_stays(tmp_path: Path) -> None:
    target, path = tmp_path / "precious", tmp_path / "token"
    target.write_text("precious")
    path.symlink_to(target)
    (tmp_path / "token.new").symlink_to(target)
    write_private_file(str(path), "secret")
    assert (target.read_text(), path.read_text(), path.is_symlink()) == ("precious", "secret", False)


def test_a_write_that_fails_leaves_no_draft(tmp_path: Path) -> None:
    folder = tmp_path / "token"
    folder.mkdir()
    with pytest.raises(IsADirectoryError):
        write_private_file(str(folder), "secret")
    assert list(tmp_path.iterdir()) == [folder]


def test_a_draft_has_another_name_each_time(tmp_path: Path) -> None:
    drafts = [create_draft(str(tmp_path / "token")) for _ in range(2)]
    for file, _ in drafts:
        os.close(file)
    assert len({path for _, path in drafts}) == 2


def test_a_folder_below_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(FileExistsError):
        make_private_folder(str(tmp_path / "file" / "below"))
