"""The JSONL mirror beside the store: exact, private, and able to outlive whatever is done to it by hand and by others."""

from __future__ import annotations

import json
import os
import shutil
import stat
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

import postroom
from postroom import people
from postroom.core import limits
from postroom.core.errors import NotFound
from postroom.store.interface import Store
from tests.conftest import Clock, open_with
from tests.contract.people_data import USER, asked, found, ids, inbox, new_workspace, pushed, seeded, shown, surfaced
from tests.faults.children import BarrierProcess
from tests.faults.people_children import as_line, assert_exact, lines, mirror_of, sync

FOREIGN = "99999999-9999-4999-8999-999999999999"
RUBBISH = [
    b"not json",
    b"",
    b"\xff\xfe\x00",
    b'{"id": "torn", "ts": 17157',
    b'{"id": "no time"}',
    b'{"id": 3, "ts": 3}',
    b'{"id": "wrong", "ts": "noon"}',
    b'{"id": "wrong", "ts": 1.5}',
    b'{"id": "wrong", "ts": true}',
    b"[1, 2]",
    b'"text"',
    b"null",
    b"with a return\r",
    b"[" * 100_000,
]


@pytest.fixture
def store(sqlite_place: str, clock: Clock) -> Iterator[Store]:
    with open_with(sqlite_place, clock) as opened:
        yield opened


@pytest.fixture
def desk(store: Store, tmp_path: Path) -> str:
    return new_workspace(store, tmp_path)


def append(store: Store, *added: bytes, end: bytes = b"\n") -> None:
    """Write into the mirror as another program does."""
    mirror_of(store).parent.mkdir(parents=True, exist_ok=True)
    with mirror_of(store).open("ab") as file:
        file.write(b"\n".join(added) + end)


def line(entry_id: str = FOREIGN, ts: int = 1715789012345, **fields: Any) -> bytes:
    return json.dumps({"id": entry_id, "ts": ts, **fields}).encode()


# Content of the mirror


def test_every_entry_is_a_line_as_the_document_has_it(store: Store, clock: Clock, desk: str) -> None:
    pushed(store, desk, "Grüße ☃\nof two lines\u2028and more", docs=["report.md"])
    pushed(store, desk, None, docs=["report.md"])
    for act in (lambda: seeded(store, docs=[{"path": "a.md"}]), lambda: asked(store, choices=["yes", "no"]), lambda: surfaced(store)):
        clock.advance(1)
        act()
    people.sync_questions(store)
    people.notify(store, sender="cron", text="Not in the mirror")
    written = [json.loads(one) for one in lines(store)]
    titles = [line.pop("title", None) for line in written]
    assert written == [as_line(entry) for entry in reversed(inbox(store))]
    assert set(written[0]) == {"id", "ts", "workspaceId", "workspaceLabel", "docs", "comments"}
    assert titles[:3] == ["Rates", "Rates", None], "a title is a field that other readers ignore"
    assert [json.loads(one).get("kind") for one in lines(store)] == [None, None, None, "question", "question"]
    assert mirror_of(store).read_bytes().decode()


def test_it_is_beside_the_store(store: Store, sqlite_place: str, desk: str) -> None:
    pushed(store, desk)
    assert mirror_of(store) == Path(os.path.realpath(sqlite_place)).parent / "data" / "inbox" / "entries.jsonl"
    assert mirror_of(store).is_file()


def test_reading_and_replying_leave_it_as_it_is(store: Store, desk: str) -> None:
    entry_id = pushed(store, desk)
    before = mirror_of(store).read_bytes()
    people.mark_read(store, entry_id, person=USER)
    people.reply(store, entry_id, person=USER, body="Good")
    people.history(store)
    assert mirror_of(store).read_bytes() == before


@pytest.mark.parametrize("umask", [0o000, 0o022, 0o077])
def test_it_is_nobody_elses_business(store: Store, desk: str, umask: int) -> None:
    before = os.umask(umask)
    try:
        gone = pushed(store, desk)
        for act in (lambda: pushed(store, desk), lambda: people.delete_entry(store, gone, person=USER)):
            act()
            assert stat.S_IMODE(mirror_of(store).stat().st_mode) == 0o600
            assert stat.S_IMODE(mirror_of(store).parent.stat().st_mode) == 0o700
    finally:
        os.umask(before)


def test_a_delete_takes_its_line_away_and_no_other(store: Store, desk: str) -> None:
    several = [pushed(store, desk, str(number)) for number in range(5)]
    before = lines(store)
    people.delete_entry(store, several[2], person=USER)
    assert lines(store) == before[:2] + before[3:]
    for entry_id in (several[0], several[4], several[1], several[3]):
        people.delete_entry(store, entry_id, person=USER)
    assert lines(store) == []


# Lines of other programs


def test_what_cannot_be_read_stays_byte_for_byte_and_in_its_place(store: Store, desk: str) -> None:
    first = pushed(store, desk, "first")
    append(store, *RUBBISH)
    second = pushed(store, desk, "second")
    append(store, b"at the end")
    third = pushed(store, desk, "third")
    assert ids(store) == [third, second, first]
    mine = [one for one in lines(store) if one not in (*RUBBISH, b"at the end")]
    assert lines(store) == [mine[0], *RUBBISH, mine[1], b"at the end", mine[2]]
    people.delete_entry(store, second, person=USER)
    assert lines(store) == [mine[0], *RUBBISH, b"at the end", mine[2]]
    people.delete_entry(store, first, person=USER)
    people.delete_entry(store, third, person=USER)
    assert lines(store) == [*RUBBISH, b"at the end"]
    assert ids(store) == []


@pytest.mark.parametrize("torn", [b'{"id": "torn", "ts": 17157', b"not json", b"\xff"])
@pytest.mark.parametrize("act", ["push", "delete"])
def test_a_torn_last_line_does_not_join_the_next(store: Store, desk: str, torn: bytes, act: str) -> None:
    kept, gone = pushed(store, desk), pushed(store, desk)
    append(store, torn, end=b"")
    if act == "delete":
        people.delete_entry(store, gone, person=USER)
    last = pushed(store, desk, "after it")
    assert lines(store).count(torn) == 1
    told = [json.loads(one)["id"] for one in lines(store) if one != torn]
    assert told == [kept, last] if act == "delete" else [kept, gone, last]
    assert ids(store)[0] == last


def test_a_line_whose_writer_forgot_its_end_is_taken_in(store: Store, desk: str) -> None:
    first = pushed(store, desk)
    append(store, line(comments="foreign"), end=b"")
    last = pushed(store, desk)
    assert ids(store) == [last, first, FOREIGN]
    assert_exact(store)


def test_lines_that_others_append_are_taken_in(store: Store, clock: Clock, desk: str) -> None:
    mine = pushed(store, desk)
    given: dict[str, Any] = {
        "workspaceId": "ws-abc123",
        "workspaceLabel": "Macro thesis",
        "docs": [{"path": "research/macro.md"}],
        "comments": "Drafted.",
    }
    append(store, line(**given), line("bare", clock.instant // 1000 + 5))
    assert ids(store) == ["bare", mine, FOREIGN]
    entry = shown(store, FOREIGN)
    assert (entry["ts"], entry["kind"], entry["workspaceId"], entry["comments"]) == (1715789012345, "push", "ws-abc123", "Drafted.")
    assert [doc["path"] for doc in entry["docs"]] == ["research/macro.md"]
    bare = shown(store, "bare")
    assert (bare["workspaceId"], bare["workspaceLabel"], bare["readAt"]) == ("", "", None)
    assert found(store, "thesis research") == [FOREIGN]
    mirror_of(store).unlink()
    assert ids(store) == ["bare", mine, FOREIGN]


def test_a_mirror_that_was_there_before_the_store_is_taken_in(store: Store, desk: str) -> None:
    append(store, line("one", 1000), b"not json", line("two", 2000))
    assert ids(store) == ["two", "one"]
    mine = pushed(store, desk)
    assert [one if one == b"not json" else json.loads(one)["id"] for one in lines(store)] == ["one", b"not json", "two", mine]


def test_what_was_taken_in_is_an_entry_like_any_other(store: Store, desk: str) -> None:
    append(store, line(comments="foreign"))
    assert ids(store) == [FOREIGN]
    people.mark_read(store, FOREIGN, person=USER)
    assert shown(store, FOREIGN)["readBy"] == USER
    people.delete_entry(store, FOREIGN, person=USER)
    assert lines(store) == []
    assert ids(store) == []


def test_a_foreign_line_keeps_what_we_do_not_know(store: Store, desk: str) -> None:
    given: dict[str, Any] = {"comments": "foreign", "colour": "red", "nested": {"a": [1]}}
    gone = pushed(store, desk)
    append(store, line(**given))
    people.history(store)
    people.delete_entry(store, gone, person=USER)
    (kept,) = [json.loads(one) for one in lines(store)]
    assert (kept["id"], kept["colour"], kept["nested"], kept["comments"]) == (FOREIGN, "red", {"a": [1]}, "foreign")


def test_a_line_of_what_was_deleted_does_not_bring_it_back(store: Store, desk: str) -> None:
    kept, gone = pushed(store, desk), pushed(store, desk, "gone")
    old = lines(store)[1]
    people.delete_entry(store, gone, person=USER)
    append(store, old)
    assert ids(store) == [kept]
    sync(store)
    assert_exact(store)
    with pytest.raises(NotFound):
        people.show_entry(store, gone)


def test_a_line_of_what_is_known_changes_nothing(store: Store, desk: str) -> None:
    entry_id = pushed(store, desk, "mine")
    before = inbox(store)
    append(store, line(entry_id, 5, comments="forged", workspaceLabel="forged"))
    assert inbox(store) == before
    pushed(store, desk)
    assert shown(store, entry_id) == before[0]


ODD = [
    {"comments": 3},
    {"docs": "a.md"},
    {"docs": [3]},
    {"docs": [{}]},
    {"workspaceId": 3},
    {"comments": "x" * 600_000},
    {"comments": "a\0b"},
]


@pytest.mark.parametrize(
    "fields", [*ODD, {"ts": -1}, {"ts": 10**30}, {"comments": "\ud800"}, {"id": ""}, {"id": "x" * 5000}], ids=lambda f: repr(f)[:30]
)
def test_whatever_a_foreign_line_holds_history_goes_on(store: Store, desk: str, fields: dict[str, Any]) -> None:
    first = pushed(store, desk)
    odd = json.dumps({"id": FOREIGN, "ts": 1, **fields}).encode()
    append(store, odd, line("after it", 2, comments="fine"))
    assert {first, "after it"} <= set(ids(store))
    people.delete_entry(store, first, person=USER)
    assert any(json.loads(one)["ts"] == fields.get("ts", 1) for one in lines(store))  # whatever became of it, it is not lost
    assert "after it" in ids(store)


# Changes by hand


def emptied(mirror: Path) -> None:
    mirror.write_bytes(b"")


def cut(mirror: Path) -> None:
    with mirror.open("r+b") as file:
        file.truncate(mirror.stat().st_size - 30)


def halved(mirror: Path) -> None:
    kept = mirror.read_bytes().splitlines(keepends=True)
    mirror.write_bytes(b"".join(kept[::2]))


HARM: dict[str, Callable[[Path], object]] = {
    "removed": Path.unlink,
    "emptied": emptied,
    "cut in a line": cut,
    "without every second line": halved,
    "without its folder": lambda mirror: shutil.rmtree(mirror.parents[1]),
}


@pytest.mark.parametrize("harm", HARM.values(), ids=HARM.keys())
@pytest.mark.parametrize("act", ["push", "delete", "sync"])
def test_a_mirror_that_somebody_harmed_comes_back_whole(store: Store, desk: str, harm: Callable[[Path], object], act: str) -> None:
    several = [pushed(store, desk, str(number)) for number in range(6)]
    harm(mirror_of(store))
    if act == "push":
        several.append(pushed(store, desk, "after it"))
    elif act == "delete":
        people.delete_entry(store, several.pop(0), person=USER)
    else:
        sync(store)
    told = [json.loads(one)["id"] for one in lines(store) if one.endswith(b"}") and one.startswith(b'{"')]
    assert sorted(told) == sorted(several)
    assert ids(store) == several[::-1]


OBSTACLES: dict[str, Callable[[Path], object]] = {
    "a file for the data folder": lambda data: data.write_text("mine"),
    "a file for its folder": lambda data: data.mkdir() or (data / "inbox").write_text("mine"),  # type: ignore[func-returns-value]
    "a folder for the mirror": lambda data: (data / "inbox" / "entries.jsonl").mkdir(parents=True),
    "a link to nowhere": lambda data: data.symlink_to(data.parent / "no" / "such" / "folder"),
}


@pytest.mark.parametrize("obstacle", OBSTACLES.values(), ids=OBSTACLES.keys())
def test_a_mirror_that_cannot_be_written_fails_nobody_and_comes_when_it_can(
    store: Store, tmp_path: Path, desk: str, obstacle: Callable[[Path], object]
) -> None:
    data = tmp_path / "data"
    obstacle(data)
    kept, gone = pushed(store, desk), pushed(store, desk)
    people.delete_entry(store, gone, person=USER)
    question = asked(store)
    assert ids(store) == [question, kept]
    if data.is_dir() and not data.is_symlink():
        shutil.rmtree(data)
    else:
        data.unlink()
    pushed(store, desk)
    assert len(ids(store)) == 3
    assert_exact(store)


def test_without_a_data_folder_there_is_no_mirror(postgres_place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("INBOX_DATA", raising=False)
    monkeypatch.chdir(tmp_path)
    with closing(postroom.open(postgres_place)) as store:
        entry_id = pushed(store, new_workspace(store, tmp_path))
        assert store.data_folder is None
        assert os.listdir(tmp_path) == ["macro"]
        monkeypatch.setenv("INBOX_DATA", str(tmp_path / "kept"))
        assert store.data_folder == str(tmp_path / "kept")
        people.delete_entry(store, entry_id, person=USER)
        seeded(store)
        append(store, line(comments="foreign"))
        assert FOREIGN in ids(store)
        assert_exact(store)


# As somebody who may write the store and not the mirror. What is imported late is imported first.
AS_ANOTHER = """
from postroom import people, mail
store = postroom.open(sys.argv[1])
entry = people.seed(store, comments="Warm").to_json()["id"]
people.delete_entry(store, entry, person="user")
people.history(store)
os.chmod(sys.argv[2], 0o500)
if os.getuid() == 0:
    os.setgroups([])
    os.setgid(65534)
    os.setuid(65534)
kept, gone = (people.seed(store, comments=text).to_json()["id"] for text in ("kept", "gone"))
people.delete_entry(store, gone, person="user")
say([entry.to_json()["id"] for entry in people.history(store).entries] == [kept])
"""


def test_a_mirror_that_may_not_be_written_fails_nobody() -> None:
    with tempfile.TemporaryDirectory(prefix="postroom-mirror-") as name:
        folder = Path(name)
        place = str(folder / "coord.db")
        postroom.init(place)
        (folder / "data" / "inbox").mkdir(parents=True)
        for path in (folder, *folder.iterdir()):
            path.chmod(0o777)
        with BarrierProcess(AS_ANOTHER, place, folder / "data" / "inbox") as child:
            assert child.rest() == ["True"]
        with closing(postroom.open(place)) as store:
            (folder / "data" / "inbox").chmod(0o700)
            sync(store)
            assert_exact(store)


@pytest.mark.parametrize(
    "fields",
    [
        {"comments": "x" * (limits.MAX_COMMENT_BYTES + 1)},
        {"docs": [{"path": "a.md"}] * (limits.MAX_DOCUMENTS + 1)},
        {"docs": [{"path": "notes/../../secret.md"}]},
        {"workspaceLabel": "x" * (limits.MAX_NAME_CHARS + 1)},
        {"more": "x" * (limits.MAX_METADATA_JSON_BYTES + 1)},
    ],
    ids=["a long comment", "many documents", "a path that leaves its folder", "a long label", "long unknown fields"],
)
def test_a_foreign_line_beyond_the_bounds_of_a_push_is_left_where_it_is(store: Store, fields: dict[str, Any]) -> None:
    append(store, line(**fields), line("e-fine", comments="short"))
    assert ids(store) == ["e-fine"]
    before = mirror_of(store).read_bytes()
    assert before.count(b"\n") == 2
    sync(store)
    assert mirror_of(store).read_bytes() == before
