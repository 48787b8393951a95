"""Lines that only the journal has are never cut: they are set aside, adopted or left alone."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from postroom import queues
from postroom.core.errors import Conflict
from postroom.queues import Queue
from tests.cli.queue_process import QuietQueueCommands
from tests.queues.conftest import assert_both_tracks_agree, fill, rows


@pytest.fixture
def commands(tmp_path: Path) -> Iterator[QuietQueueCommands]:
    with QuietQueueCommands(tmp_path) as made:
        made.init()
        yield made


def set_aside(path: str) -> list[Path]:
    return sorted(Path(path).glob("events-set-aside-*.jsonl"))


def contents(file: Path) -> list[str]:
    return [json.loads(line)["content"] for line in file.read_text().splitlines()]


def test_events_that_a_restored_database_lacks_are_set_aside(queue_path: str, tmp_path: Path) -> None:
    backup = tmp_path / "backup.db"
    with queues.open_queue(queue_path) as queue:
        fill(queue, "old 1", "old 2")
        queue.file.truncate_wal()
    shutil.copy(Path(queue_path) / "events.db", backup)
    with queues.open_queue(queue_path) as queue:
        fill(queue, "today 1", "today 2")
    for file in Path(queue_path).glob("events.db*"):
        if file.is_file():
            file.unlink()
    shutil.copy(backup, Path(queue_path) / "events.db")
    with queues.open_queue(queue_path) as queue:
        fill(queue, "after the restore")
        (warning,) = queue.journal.warnings
    (aside,) = set_aside(queue_path)
    assert contents(aside) == ["old 1", "old 2", "today 1", "today 2"]
    assert aside.name in warning
    assert f"[WARN] push: {warning}" in (Path(queue_path) / "logs" / "thread.log").read_text()
    assert [row[5] for row in rows(queue_path)] == ["old 1", "old 2", "after the restore"]
    assert_both_tracks_agree(queue_path)


def test_a_journal_that_somebody_edited_is_set_aside_whole(queue: Queue) -> None:
    fill(queue, "first", "second")
    journal = Path(queue.path) / "events.jsonl"
    edited = journal.read_text().replace("first", "my remark")
    journal.write_text(edited)
    fill(queue, "third")
    assert [file.read_text() for file in set_aside(queue.path)] == [edited]
    assert_both_tracks_agree(queue.path)


def test_a_torn_line_of_a_crash_sets_nothing_aside(queue: Queue) -> None:
    fill(queue, "first", "second")
    journal = Path(queue.path) / "events.jsonl"
    journal.write_bytes(journal.read_bytes()[:-20])
    fill(queue, "third")
    assert (set_aside(queue.path), queue.journal.warnings) == ([], [])
    assert_both_tracks_agree(queue.path)


def test_push_tells_people_and_programs_what_was_set_aside(commands: QuietQueueCommands) -> None:
    for form in ((), ("--json",)):
        with open(commands.queue / "events.jsonl", "a") as journal:
            journal.write("a remark of mine\n")
        finished = commands.on_queue("push", "--source", "self", "--type", "record", "--content", "x", *form)
        assert finished.code == 0
        told = finished.json["warnings"][0] if form else finished.stderr
        assert any(told.rstrip().endswith(file.name) for file in set_aside(str(commands.queue)))


def test_init_adopts_the_journal_of_a_queue_whose_database_is_gone(commands: QuietQueueCommands) -> None:
    for content in ("one", "two"):
        commands.push(content)
    before = (commands.queue / "events.jsonl").read_bytes()
    for file in commands.queue.glob("events.db*"):
        shutil.rmtree(file) if file.is_dir() else file.unlink()
    finished = commands.thread("init", str(commands.queue))
    assert (finished.code, "up to event 2" in finished.stderr) == (0, True)
    assert commands.push("three") == 3
    assert (commands.queue / "events.jsonl").read_bytes().startswith(before)
    assert_both_tracks_agree(str(commands.queue))


@pytest.mark.parametrize("line", ["a line of mine\n", '{"id": 1}\n', "[]\n", '{"id": 0, "created_at": "x"}\n'])
def test_init_refuses_a_file_of_that_name_that_is_no_journal(tmp_path: Path, line: str) -> None:
    (tmp_path / "events.jsonl").write_text(line)
    with pytest.raises(Conflict, match=r"its line 1 is not an event"):
        queues.init_queue(str(tmp_path))
    assert [file.name for file in tmp_path.iterdir()] == ["events.jsonl"]
    assert (tmp_path / "events.jsonl").read_text() == line


def test_a_journal_that_cannot_be_written_is_reported_and_mended_later(commands: QuietQueueCommands) -> None:
    commands.push("one")
    positions = commands.queue / "run" / ".tracks"
    positions.rename(positions.with_name("away"))
    positions.mkdir()
    finished = commands.on_queue("push", "--source", "self", "--type", "record", "--content", "two")
    assert (finished.code, finished.stdout) == (0, "2\n")
    assert "events.jsonl lacks the newest events, which are stored: " in finished.stderr
    positions.rmdir()
    commands.push("three")
    assert_both_tracks_agree(str(commands.queue))
