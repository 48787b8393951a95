"""Documents while somebody plays with them: swapped in the middle of a push, unreadable, too large to hash."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

import postroom
from postroom import people
from postroom.core.errors import InvalidInput, NotFound
from postroom.store.interface import Store
from tests.contract.people_data import inbox, new_workspace, sha256
from tests.faults.children import BarrierProcess

MINE, SECRET = b"mine, inside", b"the secret outside"
PUSHES = 80

# Puts one of two things at a path, and then the other, as fast as it can. One of them stands there at any time, but for a moment.
SWAPPER = """
import ctypes
here, there = sys.argv[1], sys.argv[2]
exchange = ctypes.CDLL(None, use_errno=True).renameat2
say("READY")
while True:
    if exchange(-100, here.encode(), -100, there.encode(), 2) != 0:
        say("failed", ctypes.get_errno())
        break
"""


@pytest.fixture
def store(sqlite_place: str) -> Iterator[Store]:
    with closing(postroom.open(sqlite_place)) as opened:
        yield opened


def staged(folder: Path, what: str) -> tuple[str, Path, Path]:
    """A document, and two things that change places while it is pushed: one is inside, the other is or leads outside."""
    inside, outside = folder / "macro", folder / "outside"
    for place, content in ((inside / "sub", MINE), (outside, SECRET)):
        place.mkdir()
        (place / "a.md").write_bytes(content)
    other = inside / "other"
    if what == "a folder for a link":
        other.symlink_to(outside)
        return "sub/a.md", inside / "sub", other
    if what == "a file for a link":
        other.symlink_to(outside / "a.md")
    elif what == "a file for a fifo":
        os.mkfifo(other)
    else:
        other.mkdir()
    return "sub/a.md", inside / "sub" / "a.md", other


@pytest.mark.timeout(60)
@pytest.mark.parametrize("what", ["a folder for a link", "a file for a link", "a file for a fifo", "a file for a folder"])
def test_whatever_is_swapped_during_a_push_only_what_is_inside_is_ever_read(store: Store, tmp_path: Path, what: str) -> None:
    desk = new_workspace(store, tmp_path)
    path, here, there = staged(tmp_path, what)
    came: list[str] = []
    with BarrierProcess(SWAPPER, here, there) as swapper:
        swapper.ready()
        for _ in range(PUSHES):
            try:
                came.append(people.push(store, desk, docs=[path]).to_json()["docs"][0]["sha256"])
            except (InvalidInput, NotFound) as refusal:
                came.append(type(refusal).__name__)
    assert set(came) <= {sha256(MINE), "InvalidInput", "NotFound"}
    assert sha256(SECRET) not in repr(inbox(store))
    assert len(inbox(store)) == came.count(sha256(MINE))


def test_the_size_and_the_hash_of_a_file_that_grows_meanwhile_are_of_the_same_bytes(store: Store, tmp_path: Path) -> None:
    desk = new_workspace(store, tmp_path)
    file = tmp_path / "macro" / "log"
    file.write_bytes(b"x" * 2_000_000)
    grower = 'file = open(sys.argv[1], "ab", buffering=0)\nsay("READY")\nwhile True:\n    file.write(b"x")\n'
    with BarrierProcess(grower, file) as child:
        child.ready()
        for _ in range(20):
            (doc,) = people.push(store, desk, docs=["log"]).to_json()["docs"]
            assert doc["sha256"] == sha256(b"x" * doc["size"])


def test_a_file_over_64_mib_has_no_hash_and_one_of_64_has(store: Store, tmp_path: Path) -> None:
    desk = new_workspace(store, tmp_path)
    for name, size in (("most", 64 << 20), ("more", (64 << 20) + 1)):
        with (tmp_path / "macro" / name).open("wb") as file:
            file.truncate(size)
    most, more = people.push(store, desk, docs=["most", "more"]).to_json()["docs"]
    assert (most["size"], more["size"], more["sha256"]) == (64 << 20, (64 << 20) + 1, None)
    assert len(most["sha256"]) == 64


# As somebody who owns only the store. What a verb imports late is imported first: that user may not read our sources.
AS_ANOTHER = """
from postroom import people, mail
import postroom.store.sqlite.errors, postroom.store.sqlite.schema, postroom.store.sqlite.file_watcher
import json, ctypes, hashlib, fcntl, stat, tempfile
for room in (work, people, mail):
    for name in room.__all__:
        getattr(room, name)
place, folder = sys.argv[1] + "/own/coord.db", sys.argv[1] + "/macro"
warm = postroom.init(sys.argv[1] + "/warm.db")
store = postroom.open(sys.argv[1] + "/warm.db")
desk = people.add_workspace(store, folder, label="Desk").workspace.workspace_id
entry = people.push(store, desk, docs=["report.md"]).to_json()
people.reply(store, entry["id"], person="user", body="Warm")
if os.getuid() == 0:
    os.setgroups([])
    os.setgid(65534)
    os.setuid(65534)
os.mkdir(sys.argv[1] + "/own")
postroom.init(place)
store = postroom.open(place)
desk = people.add_workspace(store, folder, label="Desk").workspace.workspace_id
for path in sys.argv[2:]:
    try:
        say("pushed", people.push(store, desk, docs=[path]).to_json()["docs"][0]["path"])
    except Refusal as refusal:
        say("refused", refusal.code)
    except Exception as error:
        say("escaped:", repr(error))
say(len(people.history(store).entries))
"""


@pytest.fixture
def public() -> Iterator[Path]:
    """A folder that everybody may use; not in pytest's, which only its owner may enter."""
    folder = Path(tempfile.mkdtemp(prefix="postroom-public-"))
    folder.chmod(0o777)
    yield folder
    shutil.rmtree(folder)


def test_a_file_or_folder_that_may_not_be_read_is_refused_and_nothing_escapes(public: Path) -> None:
    inside = public / "macro"
    inside.mkdir()
    inside.chmod(0o755)
    (inside / "report.md").write_bytes(MINE)
    (inside / "private.md").write_bytes(SECRET)
    (inside / "closed").mkdir()
    (inside / "closed" / "a.md").write_bytes(SECRET)
    (inside / "private.md").chmod(0)
    (inside / "closed").chmod(0)
    with BarrierProcess(AS_ANOTHER, public, "report.md", "private.md", "closed/a.md") as child:
        said = child.rest()
    (inside / "closed").chmod(0o700)
    assert said[0] == "pushed report.md"
    assert all(line in ("refused invalid_input", "refused not_found") for line in said[1:3]), said
    assert said[3:] == ["1"]
