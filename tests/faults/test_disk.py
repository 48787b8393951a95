"""Disks that are full or cannot be written, and files that are no store of ours: refused, nothing changed, and usable afterwards."""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

import postroom
from postroom import work
from postroom.core.errors import NoStore, NotAStore, Refusal, StoreFull, StoreReadOnly, StoreTrouble, WrongVersion
from tests.contract.thread_data import sent
from tests.faults.children import PREAMBLE, ROOT, BarrierProcess
from tests.faults.inspection import assert_no_lock, assert_sound, dump


@pytest.fixture
def place(sqlite_place: str) -> str:
    """These are about files."""
    return sqlite_place


# Sends until it is refused, says by what, and shows that reading still works and that writing does again with room.
LIMITED = """
import resource
store = postroom.open(sys.argv[1])
import postroom.store.sqlite.errors
soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[2]), hard))
sent = []
try:
    while True:
        sent.append(work.send(store, sender="leader", to="builder", subject="Build", body="x" * 20000).thread.thread_id)
except Refusal as refusal:
    kept = [thread.thread_id for thread in work.list_threads(store, limit=10000).threads]
    say(isinstance(refusal, StoreTrouble), len(sent), sorted(kept) == sorted(sent))
resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
say(work.send(store, sender="leader", to="builder", subject="Room again").thread.status)
"""


@pytest.mark.parametrize("limit", [150_000, 400_000, 1_500_000])
def test_a_store_whose_files_may_not_grow_refuses_changes_nothing_and_works_again_with_room(place: str, limit: int) -> None:
    with BarrierProcess(LIMITED, place, limit) as child:
        refused, accepted, kept = child.line().split()
        assert (refused, kept) == ("True", "True")
        assert int(accepted) > 0
        assert child.line() == "pending"
    assert_sound(place)
    assert_no_lock(place)
    store = postroom.open(place)
    assert len(work.list_threads(store, limit=10_000).threads) == int(accepted) + 1
    store.close()


# In a mount namespace of its own: nothing is mounted for anyone else, and it goes when the process does.
ON_A_TINY_DISK = """
import subprocess
folder = sys.argv[1]
subprocess.run(["mount", "-t", "tmpfs", "-o", "size=8m", "none", folder], check=True)
with open(folder + "/filler", "wb") as file:
    file.write(bytes(6 << 20))  # a new store with its log takes more than 1 MiB
place = folder + "/coord.db"
postroom.init(place)
store = postroom.open(place)
sent = []
try:
    while True:
        sent.append(work.send(store, sender="leader", to="builder", subject="Build", body="x" * 20000).thread.thread_id)
except Refusal as refusal:
    say(type(refusal).__name__)
say(len(sent) > 0, sorted(t.thread_id for t in work.list_threads(store, limit=10000).threads) == sorted(sent))
os.unlink(folder + "/filler")
say(work.send(store, sender="leader", to="builder", subject="Room again").thread.status)
"""


def test_a_full_disk_is_named_and_works_again_with_room(tmp_path: Path) -> None:
    unshare = ["unshare", "--mount"] if os.getuid() == 0 else ["unshare", "--map-root-user", "--mount"]
    if subprocess.run([*unshare, "mount", "-t", "tmpfs", "none", str(tmp_path)], check=False, capture_output=True).returncode != 0:
        assert not os.environ.get("CI"), "under CI, a disk that can be filled must be there"
        pytest.skip("this system lets nobody mount; the same is tested above with a limit on file sizes")
    program = [*unshare, sys.executable, "-c", PREAMBLE + ON_A_TINY_DISK, str(tmp_path)]
    said = subprocess.run(program, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    assert said.splitlines() == [StoreFull.__name__, "True True", "pending"]


# In a mount namespace of its own, too. The store is there as one file, as a copy on read-only media is.
ON_READ_ONLY_MEDIA = """
import subprocess
folder = sys.argv[1]
place = folder + "/coord.db"
postroom.init(place)
store = postroom.open(place)
work.send(store, sender="leader", to="builder", subject="Build")
store.close()
subprocess.run(["mount", "--bind", folder, folder], check=True)
subprocess.run(["mount", "-o", "remount,ro,bind", folder], check=True)
store = postroom.open(place)
say([thread.subject for thread in work.list_threads(store).threads])
try:
    work.send(store, sender="leader", to="builder", subject="More")
except Refusal as refusal:
    say(type(refusal).__name__)
"""


def test_a_store_on_read_only_media_can_be_read(tmp_path: Path) -> None:
    unshare = ["unshare", "--mount"] if os.getuid() == 0 else ["unshare", "--map-root-user", "--mount"]
    if subprocess.run([*unshare, "mount", "--bind", str(tmp_path), str(tmp_path)], check=False, capture_output=True).returncode != 0:
        assert not os.environ.get("CI"), "under CI, media that can be mounted read-only must be there"
        pytest.skip("this system lets nobody mount; the same is tested below with a folder that cannot be written")
    program = [*unshare, sys.executable, "-c", PREAMBLE + ON_READ_ONLY_MEDIA, str(tmp_path)]
    said = subprocess.run(program, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    assert said.splitlines() == ["['Build']", "StoreReadOnly"]


# Files and folders that cannot be written

# As somebody who owns nothing here. What a verb imports late is imported first: that user may not read our sources.
AS_ANOTHER = """
import postroom.store.sqlite.errors, postroom.store.sqlite.schema, postroom.store.sqlite.file_watcher, json, ctypes
for name in work.__all__:
    getattr(work, name)
if os.getuid() == 0:
    os.setgroups([])
    os.setgid(65534)
    os.setuid(65534)
try:
    say(eval(sys.argv[1]))
except Refusal as refusal:
    say(type(refusal).__name__)
except Exception as error:
    say("escaped:", repr(error))
"""


def as_another(expression: str) -> str:
    with BarrierProcess(AS_ANOTHER, expression) as child:
        return child.line()


@pytest.fixture
def readable() -> Iterator[str]:
    """A store that everybody may read and only its owner may write; not in pytest's folder, which only its owner may enter."""
    folder = Path(tempfile.mkdtemp(prefix="postroom-readable-"))
    place = str(folder / "coord.db")
    postroom.init(place)
    store = postroom.open(place)
    sent(store)
    store.close()
    for file in folder.iterdir():
        file.chmod(0o444)
    folder.chmod(0o555)
    yield place
    folder.chmod(0o755)
    shutil.rmtree(folder)


@pytest.mark.parametrize(
    "expression",
    [
        "work.send(postroom.open({place!r}), sender='a', to='b', subject='S')",
        "work.take(postroom.open({place!r}), agent='builder')",
        "postroom.init({beside!r})",
    ],
    ids=["send", "take", "init of another"],
)
def test_what_cannot_be_written_is_refused(readable: str, expression: str) -> None:
    before = sorted(os.listdir(os.path.dirname(readable)))
    assert as_another(expression.format(place=readable, beside=os.path.dirname(readable) + "/new.db")) == StoreReadOnly.__name__
    assert sorted(os.listdir(os.path.dirname(readable))) == before


def test_a_store_on_media_that_report_to_be_read_only_can_be_read(readable: str) -> None:
    """As above, without a mount: SQLite meets a real folder and file that it cannot write, and the system says why."""
    on_media = "setattr(os, 'statvfs', lambda path: os.statvfs_result([0] * 8 + [os.ST_RDONLY, 255]))"
    listed = f"[thread.subject for thread in work.list_threads(postroom.open({readable!r})).threads]"
    assert as_another(f"({on_media}, {listed})[1]") == "['Add the login page']"
    written = f"work.send(postroom.open({readable!r}), sender='a', to='b', subject='S')"
    assert as_another(f"({on_media}, {written})[1]") == StoreReadOnly.__name__
    assert as_another(listed) == StoreReadOnly.__name__  # elsewhere its owner may write at any time


def test_init_of_a_store_that_cannot_be_written_is_refused_or_does_nothing(readable: str) -> None:
    assert as_another(f"postroom.init({readable!r})") in ("False", StoreReadOnly.__name__)


def test_init_beside_an_open_writer_is_refused_or_does_nothing_for_somebody_who_cannot_write(readable: str) -> None:
    os.chmod(os.path.dirname(readable), 0o755)
    os.chmod(readable, 0o644)
    store = postroom.open(readable)  # keeps the files that a reader needs beside the database
    sent(store)
    assert as_another(f"postroom.init({readable!r})") in ("False", StoreReadOnly.__name__)
    store.close()


def test_what_cannot_be_read_is_refused(readable: str) -> None:
    os.chmod(readable, 0o000)
    assert as_another(f"work.list_threads(postroom.open({readable!r}))") == StoreReadOnly.__name__


def test_a_store_in_a_folder_that_cannot_be_entered_is_not_said_to_be_missing(readable: str) -> None:
    os.chmod(os.path.dirname(readable), 0o000)
    assert as_another(f"work.list_threads(postroom.open({readable!r}))") == StoreReadOnly.__name__


def test_a_store_that_was_read_only_works_again_when_it_is_not(readable: str) -> None:
    folder = Path(readable).parent
    folder.chmod(0o755)
    for file in folder.iterdir():
        file.chmod(0o644)
    store = postroom.open(readable)
    assert sent(store)
    store.close()


# Files that are no store


def text(path: Path) -> None:
    path.write_text("This is a letter, and no database at all.\n" * 200)


def someone_elses(path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript("CREATE TABLE threads (thread_id TEXT); INSERT INTO threads VALUES ('theirs');")


def empty(path: Path) -> None:
    path.touch()


def newer(path: Path) -> None:
    postroom.init(str(path))
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA user_version=1000")


def a_folder(path: Path) -> None:
    path.mkdir()


def cut_short(path: Path) -> None:
    postroom.init(str(path))
    with path.open("r+b") as file:
        file.truncate(5000)


@pytest.mark.parametrize(
    ("make", "refusal"),
    [
        (text, NotAStore),
        (someone_elses, NotAStore),
        (empty, NotAStore),
        (newer, WrongVersion),
        (a_folder, NoStore),
        (cut_short, StoreTrouble),
        (lambda path: None, NoStore),
    ],
    ids=["text", "somebody else's", "empty", "newer", "folder", "cut short", "nothing"],
)
def test_what_is_no_store_of_ours_is_refused_and_left_as_it_is(
    tmp_path: Path, make: Callable[[Path], None], refusal: type[Refusal]
) -> None:
    path = tmp_path / "coord.db"
    make(path)
    before = path.read_bytes() if path.is_file() else None
    with pytest.raises(refusal):
        sent(postroom.open(str(path)))
    assert (path.read_bytes() if path.is_file() else None) == before


@pytest.mark.parametrize(("make", "refusal"), [(text, NotAStore), (someone_elses, NotAStore), (newer, WrongVersion)])
def test_init_does_not_touch_what_is_no_store_of_ours(tmp_path: Path, make: Callable[[Path], None], refusal: type[Refusal]) -> None:
    path = tmp_path / "coord.db"
    make(path)
    before = path.read_bytes()
    with pytest.raises(refusal):
        postroom.init(str(path))
    assert path.read_bytes() == before


def test_init_makes_a_store_of_an_empty_file(tmp_path: Path) -> None:
    path = tmp_path / "coord.db"
    path.touch()
    assert postroom.init(str(path)) is True
    assert sent(postroom.open(str(path)))


def test_init_of_a_store_that_is_there_keeps_everything(place: str) -> None:
    store = postroom.open(place)
    sent(store)
    before = dump(place)
    assert postroom.init(place) is False
    assert dump(place) == before
    store.close()


# Makes each store that it is told of, at once, and says whether it was the one that made it.
MAKER = """
import postroom.store.sqlite.schema
say("READY")
for line in sys.stdin:
    try:
        say(postroom.init(line.strip()))
    except Refusal as refusal:
        say(repr(refusal))
"""


def test_init_by_many_at_once_makes_one_store(tmp_path: Path) -> None:
    with ExitStack() as stack:
        children = [stack.enter_context(BarrierProcess(MAKER)).ready() for _ in range(6)]
        for number in range(20):
            place = str(tmp_path / f"new {number}" / "coord.db")
            for child in children:
                child.tell(place)
            assert sorted(child.line() for child in children) == ["False"] * 5 + ["True"]
            assert_sound(place)


def test_a_store_whose_file_was_replaced_by_a_copy_still_opens(place: str, tmp_path: Path) -> None:
    store = postroom.open(place)
    thread_id = sent(store)
    store.close()
    copy = str(tmp_path / "copy.db")
    shutil.copy(place, copy)
    opened = postroom.open(copy)
    assert work.show(opened, thread_id).thread.status == "pending"
    assert sent(opened)
    opened.close()
