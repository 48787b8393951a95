"""Backups, restores, exports and imports: the same rows come back, on either engine, also under programs that have the store open."""

from __future__ import annotations

import json
import os
import shutil
import signal
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

import postroom
from postroom import people, queues, work
from postroom.core.errors import CursorExpired, InvalidInput, InvalidState, NotAStore
from postroom.maintenance.backups import back_up, restore
from postroom.maintenance.beads_import import import_beads
from postroom.store.interface import Store
from postroom.store.maintenance.exporting import export_lines, import_lines
from postroom.store.sqlite import backups as sqlite_backups
from postroom.store.sqlite.engine import SqliteStore
from tests.conftest import ENGINES
from tests.contract import people_data
from tests.contract.test_copying import fill, fill_every_column, rows
from tests.contract.thread_data import sent
from tests.postgres_server import Postgres


@pytest.fixture(params=ENGINES)
def target(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """The place of a second, empty store, of each engine."""
    if request.param == "sqlite":
        postroom.init(str(tmp_path / "target.db"))
        yield str(tmp_path / "target.db")
        return
    server: Postgres = request.getfixturevalue("postgres")
    with server.store() as url:
        yield url


def test_an_export_that_is_imported_has_every_column_of_every_row(store: Store, target: str) -> None:
    fill_every_column(store)
    imported = postroom.open(target)
    counts = import_lines(imported, export_lines(store))
    assert rows(imported) == rows(store)
    assert counts == {table: len(found) for table, found in rows(store).items()}
    imported.close()


def test_an_import_goes_on_where_the_export_stopped(store: Store, target: str) -> None:
    asked = fill(store)
    imported = postroom.open(target)
    import_lines(imported, export_lines(store))
    latest = work.show(store, asked).next_event_id
    assert work.update(imported, asked, agent="builder", summary="On it").next_event_id == latest + 1
    imported.close()


@pytest.mark.parametrize("line", ["", "{}", '{"table": "threads", "row": {}}', '{"table": "secrets", "row": {}}', "no json"])
def test_a_line_that_is_no_row_is_refused_by_its_number(sqlite_place: str, line: str) -> None:
    with SqliteStore(sqlite_place) as store:
        header = next(iter(export_lines(store)))
        with pytest.raises(InvalidInput, match="line 2"):
            import_lines(store, [header, line])
        with pytest.raises(InvalidInput, match="first line"):
            import_lines(store, [line])


def test_an_import_into_a_store_that_was_used_is_refused(store: Store) -> None:
    sent(store)
    with pytest.raises(InvalidState, match="threads already"):
        import_lines(store, list(export_lines(store)))


def test_a_backup_has_everything_and_is_restored_at_another_place(store: Store, tmp_path: Path) -> None:
    fill(store)
    backup = tmp_path / "monday.db"
    assert back_up(store, str(backup)).size == backup.stat().st_size
    assert backup.stat().st_mode & 0o777 == 0o600
    restored = restore(str(backup), str(tmp_path / "restored.db"))
    assert restored.previous is None
    with SqliteStore(str(tmp_path / "restored.db")) as copy:
        found, expected = rows(copy), rows(store)
    for changed in ("events", "cursors"):  # the restore itself is an event
        found.pop(changed)
        expected.pop(changed)
    assert found == expected
    assert not [file.name for file in tmp_path.iterdir() if file.name.endswith(".new")]


def test_a_backup_is_of_one_moment_although_others_write_between_its_pieces(
    sqlite_place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite_backups, "PIECE_PAGES", 1)
    sync, file = os.fsync, str(tmp_path / "backup.db")
    with SqliteStore(sqlite_place) as store, SqliteStore(sqlite_place) as other:
        asked = fill(store)
        before = rows(store)

        def write_and_sync(descriptor: int) -> None:
            if len(work.list_threads(other).threads) < 10:
                sent(other)
            sync(descriptor)

        monkeypatch.setattr(os, "fsync", write_and_sync)
        back_up(store, file)
        assert len(work.list_threads(store).threads) == 10
    with SqliteStore(file) as copy:
        assert rows(copy) == before
        assert work.show(copy, asked).thread.thread_id == asked


def test_a_store_on_postgresql_gets_the_rows_of_a_backup(sqlite_place: str, tmp_path: Path, postgres: Postgres) -> None:
    with SqliteStore(sqlite_place) as store:
        fill(store)
        back_up(store, str(tmp_path / "monday.db"))
        expected = rows(store)
    with postgres.schema() as url:
        restore(str(tmp_path / "monday.db"), url)
        restored = postroom.open(url)
        assert rows(restored) == expected
        restored.close()
        with pytest.raises(InvalidState, match="not overwritten"):
            restore(str(tmp_path / "monday.db"), url, replace=True)


def test_a_backup_is_restored_into_a_folder_that_is_made_for_it(sqlite_place: str, tmp_path: Path) -> None:
    place = tmp_path / "new" / "folder" / "coord.db"
    with SqliteStore(sqlite_place) as store:
        asked = fill(store)
        back_up(store, str(tmp_path / "backup.db"))
    restore(str(tmp_path / "backup.db"), str(place))
    assert place.parent.stat().st_mode & 0o777 == 0o700
    with SqliteStore(str(place)) as store:
        assert work.show(store, asked).thread.thread_id == asked


def test_nothing_is_overwritten_without_being_asked(sqlite_place: str, tmp_path: Path) -> None:
    with SqliteStore(sqlite_place) as store:
        kept = sent(store)
        back_up(store, str(tmp_path / "monday.db"))
        with pytest.raises(InvalidInput, match="exists already"):
            back_up(store, str(tmp_path / "monday.db"))
        with pytest.raises(InvalidState, match="already"):
            restore(str(tmp_path / "monday.db"), sqlite_place)
        assert work.show(store, kept).thread.status == "pending"


def test_a_restore_under_an_open_store_is_seen_at_its_next_call(sqlite_place: str, tmp_path: Path) -> None:
    with SqliteStore(sqlite_place) as store:
        kept = sent(store, "From before the backup")
        back_up(store, str(tmp_path / "monday.db"))
        workspace = people_data.new_workspace(store, tmp_path)
        people_data.pushed(store, workspace, "From after the backup")
        lost = sent(store, "From after the backup")
        cursor = work.show(store, lost).next_event_id
        result = restore(str(tmp_path / "monday.db"), sqlite_place, replace=True)
        assert [thread.thread_id for thread in work.list_threads(store).threads] == [kept]
        assert people.history(store).entries == ()
        with pytest.raises(CursorExpired) as refused:
            work.watch(store, after_event=cursor, timeout_seconds=1)
        place = refused.value.facts["next_event_id"]
        assert isinstance(place, int)
        new = work.send(store, sender="leader", to="builder", subject="Since then")
        assert new.message.event_id > cursor
        assert [event.thread_id for event in work.watch(store, after_event=place, timeout_seconds=5).events] == [new.thread.thread_id]
    assert result.previous is not None
    with SqliteStore(result.previous) as before:
        assert work.show(before, lost).thread.subject == "From after the backup"


def test_restores_in_the_same_second_each_keep_what_they_replaced(sqlite_place: str, tmp_path: Path) -> None:
    with SqliteStore(sqlite_place) as store:
        workspace = people_data.new_workspace(store, tmp_path)
        back_up(store, str(tmp_path / "monday.db"))
        pushed = []
        kept = set()
        for _ in range(4):
            pushed.append(people_data.pushed(store, workspace, "Replaced"))
            kept.add(restore(str(tmp_path / "monday.db"), sqlite_place, replace=True).previous)
        assert store.data_folder is not None
        aside = Path(store.data_folder, "inbox").glob("entries.jsonl.before-*")
        assert sorted(json.loads(file.read_text())["id"] for file in aside) == sorted(pushed)
    assert len(kept) == 4


def test_a_restore_that_is_killed_does_not_bring_replaced_entries_back(sqlite_place: str, tmp_path: Path) -> None:
    with SqliteStore(sqlite_place) as store:
        workspace = people_data.new_workspace(store, tmp_path)
        kept = people_data.pushed(store, workspace, "Kept")
        back_up(store, str(tmp_path / "monday.db"))
        people_data.pushed(store, workspace, "Replaced")
    killed = run_and_die_after_overwriting(lambda: restore(str(tmp_path / "monday.db"), sqlite_place, replace=True))
    assert killed == -signal.SIGKILL
    with SqliteStore(sqlite_place) as store:
        assert store.data_folder is not None
        mirror = Path(store.data_folder, "inbox", "entries.jsonl")
        if mirror.exists():
            os.truncate(mirror, mirror.stat().st_size - 1)  # so that its lines are read again
        new = people_data.pushed(store, workspace, "New")
        assert {entry.id for entry in people.history(store).entries} == {kept, new}
        assert {json.loads(line)["id"] for line in mirror.read_text().splitlines()} == {kept, new}


def run_and_die_after_overwriting(act: Callable[[], object]) -> int:
    """Run something in another process that is killed once it has replaced the content of a store. Return how it ended."""
    child = os.fork()
    if child == 0:
        overwrite = sqlite_backups.overwrite_store

        def overwrite_and_die(store: SqliteStore, draft: str) -> None:
            overwrite(store, draft)
            os.kill(os.getpid(), signal.SIGKILL)

        sqlite_backups.overwrite_store = overwrite_and_die
        try:
            act()
        finally:
            os._exit(1)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


@pytest.mark.parametrize("content", [b"", b"not a database at all" * 50], ids=["empty", "other"])
def test_a_file_that_is_no_backup_is_refused_and_changes_nothing(sqlite_place: str, tmp_path: Path, content: bytes) -> None:
    (tmp_path / "monday.db").write_bytes(content)
    with SqliteStore(sqlite_place) as store:
        kept = sent(store)
        with pytest.raises(NotAStore):
            restore(str(tmp_path / "monday.db"), sqlite_place, replace=True)
        assert work.show(store, kept).thread.status == "pending"


def test_a_damaged_backup_is_refused(sqlite_place: str, tmp_path: Path) -> None:
    backup = tmp_path / "monday.db"
    with SqliteStore(sqlite_place) as store:
        back_up(store, str(backup))
    data = bytearray(backup.read_bytes())
    for page in range(2, len(data) // 4096):
        data[page * 4096 : page * 4096 + 64] = b"\xff" * 64
    backup.write_bytes(data)
    with pytest.raises(Exception, match=r"damaged|not a database"):
        restore(str(backup), str(tmp_path / "restored.db"))
    assert not (tmp_path / "restored.db").exists()


def new_queue(store: Store, folder: Path, *contents: str) -> str:
    """A watched queue with events and a consumer that has read the first."""
    path = queues.init_queue(str(folder))
    with queues.open_queue(path) as queue:
        queues.subscribe(queue, "indexer", handler="true", last_event_id=0)
        for content in contents or ("one",):
            queues.push(queue, source="self", type="record", subtype="note", content=content)
        queues.ack(queue, "indexer", last_event_id=1)
    people.add_queue(store, path)
    return path


def test_a_backup_with_queues_makes_them_again_with_their_progress_and_journal(store: Store, tmp_path: Path) -> None:
    for parent, contents in (("a", ("one", "two")), ("b", ("three",))):
        new_queue(store, tmp_path / parent / "events", *contents)
    backup = str(tmp_path / "monday.db")
    written = back_up(store, backup, with_queues=True)
    assert sorted(folder.rsplit("-", 1)[0] for folder in written.queues) == [f"{backup}.queues/events"] * 2
    shutil.rmtree(tmp_path / "a")
    restored = restore(backup, str(tmp_path / "restored.db"), queues_into=str(tmp_path / "again"))
    found = {}
    for folder in restored.queues:
        with queues.open_queue(folder) as queue:
            found[folder] = tuple(event.content for event in queues.peek(queue, last_event_id=0))
            assert queues.info(queue).progress[0].last_acked_id == 1
            lines = [json.loads(line) for line in (Path(folder) / "events.jsonl").read_text().splitlines()]
            assert [(line["id"], line["content"]) for line in lines] == list(enumerate(found[folder], start=1))
            pushed = queues.push(queue, source="self", type="record", subtype="note", content="next")
            assert pushed.id == len(lines) + 1
        assert len((Path(folder) / "events.jsonl").read_text().splitlines()) == len(lines) + 1
    assert sorted(found.values()) == [("one", "two"), ("three",)]
    with SqliteStore(str(tmp_path / "restored.db")) as copy:
        assert sorted(queue.path for queue in people.list_queues(copy)) == sorted(restored.queues)


def test_a_queue_that_is_in_use_is_copied_whole(sqlite_place: str, tmp_path: Path) -> None:
    with SqliteStore(sqlite_place) as store:
        path = new_queue(store, tmp_path / "events", "committed")
        with closing(sqlite3.connect(f"{path}/events.db", isolation_level=None)) as writer:
            writer.execute("BEGIN IMMEDIATE")
            writer.execute("UPDATE events SET content = 'not committed'")
            (folder,) = back_up(store, str(tmp_path / "monday.db"), with_queues=True).queues
            writer.execute("ROLLBACK")
    with closing(sqlite3.connect(f"{folder}/events.db")) as copy:
        assert copy.execute("SELECT content FROM events").fetchall() == [("committed",)]
    assert Path(folder, "events.db").stat().st_mode & 0o777 == 0o600
    assert Path(folder).stat().st_mode & 0o777 == 0o700


def test_a_backup_without_one_of_its_queues_is_refused_and_leaves_nothing(sqlite_place: str, tmp_path: Path) -> None:
    with SqliteStore(sqlite_place) as store:
        new_queue(store, tmp_path / "kept")
        shutil.rmtree(new_queue(store, tmp_path / "lost"))
        with pytest.raises(InvalidInput, match="lost cannot be backed up"):
            back_up(store, str(tmp_path / "monday.db"), with_queues=True)
        assert not (tmp_path / "monday.db.queues").exists()
        assert not (tmp_path / "monday.db").exists()


def test_queues_are_restored_only_from_whole_copies_into_new_folders(sqlite_place: str, tmp_path: Path) -> None:
    backup, again = str(tmp_path / "monday.db"), str(tmp_path / "again")
    with SqliteStore(sqlite_place) as store:
        new_queue(store, tmp_path / "events")
        back_up(store, str(tmp_path / "plain.db"))
        (folder,) = back_up(store, backup, with_queues=True).queues
    with pytest.raises(InvalidInput, match="no copy of the queue"):
        restore(str(tmp_path / "plain.db"), str(tmp_path / "new.db"), queues_into=again)
    with pytest.raises(InvalidState, match="already"):
        restore(backup, sqlite_place, queues_into=again)
    taken = restore(backup, str(tmp_path / "new.db"), queues_into=again).queues
    with pytest.raises(InvalidInput, match="exists already"):
        restore(backup, str(tmp_path / "newer.db"), queues_into=again)
    Path(folder, "events.db").write_bytes(b"not a database at all" * 50)
    with pytest.raises(NotAStore):
        restore(backup, str(tmp_path / "newer.db"), queues_into=str(tmp_path / "third"))
    assert not (tmp_path / "newer.db").exists()
    assert not (tmp_path / "third").exists()
    assert [Path(folder).is_dir() for folder in taken] == [True]


def test_the_mirror_of_entries_is_written_again_from_the_rows_of_a_backup(
    sqlite_place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("INBOX_DATA", str(tmp_path / "data"))
    with SqliteStore(sqlite_place) as store:
        workspace = people_data.new_workspace(store, tmp_path)
        pushed = [people_data.pushed(store, workspace, text) for text in ("First", "Second")]
        back_up(store, str(tmp_path / "monday.db"))
        people_data.pushed(store, workspace, "From after the backup")
    monkeypatch.setenv("INBOX_DATA", str(tmp_path / "restored"))
    restore(str(tmp_path / "monday.db"), str(tmp_path / "restored.db"))
    lines = (tmp_path / "restored" / "inbox" / "entries.jsonl").read_text().splitlines()
    assert [json.loads(line)["id"] for line in lines] == pushed
    monkeypatch.setenv("INBOX_DATA", str(tmp_path / "data"))
    restore(str(tmp_path / "monday.db"), sqlite_place, replace=True)
    lines = (tmp_path / "data" / "inbox" / "entries.jsonl").read_text().splitlines()
    assert [json.loads(line)["id"] for line in lines] == pushed


def test_the_issues_of_beads_become_threads_once(store: Store) -> None:
    issues = [
        {"id": "bd-1", "title": "Add login", "status": "open", "priority": 0, "assignee": "builder", "description": "With a form"},
        {"id": "bd-2", "title": "Old", "status": "closed", "priority": 2},
        {"id": "bd-3", "title": "Nobody's", "status": "in_progress", "dependencies": [{"issue_id": "bd-3", "depends_on_id": "bd-1"}]},
    ]
    lines = [json.dumps(issue) for issue in issues]
    first = import_beads(store, lines, to="user")
    again = import_beads(store, lines, to="user")
    assert (first.threads, first.ended, first.known) == (2, 1, 0)
    assert (again.threads, again.ended, again.known) == (0, 1, 2)
    shown = work.show(store, "bd-1")
    assert (shown.thread.assigned_to, shown.thread.priority, shown.messages[0].body) == ("builder", "high", "With a form")
    assert json.loads(work.show(store, "bd-3").messages[0].payload_json) == issues[2]
    with pytest.raises(InvalidInput, match="line 1"):
        import_beads(store, ["{}"], to="user")
