"""Backups, restores, exports and imports: the same rows come back, on either engine, also under programs that have the store open."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

import postroom
from postroom import people, work
from postroom.core.errors import CursorExpired, InvalidInput, InvalidState, NotAStore
from postroom.maintenance.backups import back_up, restore
from postroom.maintenance.importing import import_beads
from postroom.store.interface import Store
from postroom.store.maintenance.exporting import export_lines, import_lines
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
