"""Watched queues: which ones people look at, and how each of them is doing. The store is of each engine; queues are folders."""

from __future__ import annotations

import os
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from postroom import people, queues
from postroom.core import clock as time
from postroom.core.errors import InvalidInput, NoStore, NotAStore, NotFound, Refusal, Taken
from postroom.core.records.watched_queues import WatchedQueue
from postroom.queues import notifier
from postroom.store.interface import Store
from postroom.store.sqlite.queues import notifier_statements as sql
from tests.conftest import Clock
from tests.contract.people_data import at

SELF = "self"


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A notifier of our own, which was never used."""
    monkeypatch.setenv("NOTIFIER_HOME", str(tmp_path / "notifier"))
    return tmp_path / "notifier"


@pytest.fixture
def folder(tmp_path: Path) -> str:
    return queues.init_queue(str(tmp_path / "events"))


def pushed(folder: str, count: int) -> None:
    with queues.open_queue(folder) as queue:
        queues.push_batch(queue, [{"source": SELF, "type": "message", "content": str(number)} for number in range(count)])


def ran(folder: str, command: str, *, outcome: str = "ok", status: int | None = 0, output: str = "") -> None:
    """The notifier ran this as the dispatch of a queue."""
    with notifier.open_notifier() as opened, opened.write() as tx:
        task = notifier.dispatch_task_id(folder)
        said = {
            "author": "a",
            "attempt": 1,
            "started": time.format_stamp(0),
            "ended": time.format_stamp(time.MICROSECONDS_PER_SECOND),
            "seconds": 1.0,
        }
        tx.execute(sql.RUN_INSERT, task=task, command=command, outcome=outcome, status=status, signal=None, output=output, **said)


# Which


def test_a_queue_is_watched_under_its_folders_name(store: Store, folder: str, clock: Clock) -> None:
    added = people.add_queue(store, folder)
    assert added == WatchedQueue(folder, "events", at(clock))
    assert people.list_queues(store) == (added,)


def test_it_can_be_called_otherwise_and_the_list_is_by_label(store: Store, tmp_path: Path) -> None:
    for name, label in (("a", "zebra"), ("b", "Ape"), ("c", "ant")):
        people.add_queue(store, queues.init_queue(str(tmp_path / name)), label=label)
    assert [queue.label for queue in people.list_queues(store)] == ["ant", "Ape", "zebra"]


@pytest.mark.parametrize("way", ["relative", "link", "dots"])
def test_every_spelling_of_a_folder_is_the_same_queue(
    store: Store, folder: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    monkeypatch.chdir(tmp_path)
    os.symlink(folder, tmp_path / "linked")
    spelled = {"relative": "events", "link": str(tmp_path / "linked"), "dots": f"{folder}/../events/."}[way]
    assert people.add_queue(store, spelled).path == folder
    with pytest.raises(Taken) as refused:
        people.add_queue(store, folder, label="again")
    assert "inbox queue remove" in refused.value.hint
    assert people.remove_queue(store, spelled).path == folder
    assert people.list_queues(store) == ()


@pytest.mark.parametrize("label", ["", " ", "two\nlines", "a\0b", "x" * 201])
def test_a_label_that_cannot_be_read_is_refused(store: Store, folder: str, label: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        people.add_queue(store, folder, label=label)
    assert refused.value.facts["field"] == "label"
    assert people.list_queues(store) == ()


@pytest.mark.parametrize("path", ["", "nowhere", "empty", "file", "broken", "new\nline", "a\0b"])
def test_only_a_queue_is_watched(store: Store, tmp_path: Path, path: str) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "file").write_text("no queue")
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "events.db").write_text("no database, but long enough to look like something")
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises((InvalidInput, NoStore, NotAStore)) as refused:
        people.add_queue(store, str(tmp_path / path) if path.isalpha() else path)
    assert isinstance(refused.value, Refusal)
    assert refused.value.hint or isinstance(refused.value, InvalidInput)
    assert people.list_queues(store) == ()
    if path != "broken":
        assert sorted(tmp_path.rglob("*")) == before, "nothing is made"


def test_a_queue_that_is_gone_can_be_removed(store: Store, folder: str) -> None:
    people.add_queue(store, folder)
    shutil.rmtree(folder)
    assert people.remove_queue(store, folder).path == folder


@pytest.mark.parametrize("path", ["/nowhere", "nowhere"])
def test_what_is_not_watched_cannot_be_removed(store: Store, folder: str, path: str) -> None:
    added = people.add_queue(store, folder)
    with pytest.raises(NotFound):
        people.remove_queue(store, path)
    with pytest.raises(InvalidInput):
        people.remove_queue(store, "")
    assert people.list_queues(store) == (added,)


# How it is doing


def watched(folder: str) -> WatchedQueue:
    return WatchedQueue(folder, "events", "2026-11-16T00:00:00.000000Z")


def test_a_queue_is_reported_in_numbers(folder: str) -> None:
    with queues.open_queue(folder) as queue:
        queues.subscribe(queue, "cleaner", handler="true")
        queues.subscribe(queue, "auditor", handler="true", filter="type = 'record'")
    pushed(folder, 5)
    with queues.open_queue(folder) as queue:
        queues.ack(queue, "cleaner", last_event_id=3)
    report = people.report(watched(folder))
    assert (report.path, report.label, report.events, report.last_event_id, report.error) == (folder, "events", 5, 5, None)
    assert (len(report.rate), sum(report.rate), report.runs) == (24, 5, ())
    assert [lag.to_json() for lag in report.consumers] == [
        {"id": "auditor", "lag": 5, "last_acked_id": 0, "running": False, "trouble": None},
        {"id": "cleaner", "lag": 2, "last_acked_id": 3, "running": False, "trouble": None},
    ]


def test_a_filter_that_fails_is_the_consumers_trouble(folder: str) -> None:
    with queues.open_queue(folder) as queue:
        queues.subscribe(queue, "auditor", handler="true", filter="json_extract(content, '$.a') = 1")
        queues.push(queue, source=SELF, type="message", content="no JSON")
    (lag,) = people.report(watched(folder)).consumers
    assert lag.trouble


def test_looking_makes_nothing(folder: str, home: Path) -> None:
    pushed(folder, 1)
    before = {file.name for file in Path(folder).rglob("*")}
    people.report(watched(folder))
    assert {file.name for file in Path(folder).rglob("*")} <= before | {"events.db-wal", "events.db-shm", "events.db.lock"}
    assert not home.exists(), "a notifier that was never used is not made"


def test_the_last_runs_are_the_queues_own(folder: str) -> None:
    command = notifier.dispatch_task(folder)[1]
    for number in range(12):
        ran(folder, command, output="x" * 3000 + str(number))
    ran(folder, "thread dispatch --thread /another-of-the-same-id", output="not ours")
    ran(folder, command, outcome="failed", status=1, output="the latest")
    runs = people.report(watched(folder)).runs
    assert len(runs) == 10
    assert (runs[0].outcome, runs[0].exit_code, runs[0].output) == ("failed", 1, "the latest")
    assert (runs[1].exit_code, runs[1].output[-2:], len(runs[1].output)) == (0, "11", 2000)
    assert runs[0].to_json().keys() >= {"task_id", "started_at", "ended_at", "exit_code"}


@pytest.mark.parametrize("how", ["gone", "broken", "a file", "another schema"])
def test_a_queue_that_cannot_be_read_says_why(folder: str, how: str) -> None:
    place = Path(folder) / "events.db"
    shutil.rmtree(folder)
    if how == "a file":
        Path(folder).write_text("now a file")
    elif how != "gone":
        Path(folder).mkdir()
        if how == "broken":
            place.write_bytes(b"no database" * 1000)
        else:
            with closing(sqlite3.connect(place)) as connection:
                connection.execute("CREATE TABLE events (id)")
    report = people.report(watched(folder))
    assert report.error
    assert (report.path, report.events, report.rate, report.consumers, report.runs) == (folder, 0, (0,) * 24, (), ())


def test_a_notifier_that_cannot_be_read_is_said_beside_the_numbers(folder: str, home: Path) -> None:
    pushed(folder, 1)
    home.mkdir()
    (home / "notifier.db").write_bytes(b"no database" * 1000)
    report = people.report(watched(folder))
    assert (report.events, report.runs) == (1, ())
    assert report.error
