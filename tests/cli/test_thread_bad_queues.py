"""Queues that cannot be read or written: refused with exit 1, kept as they are, never a traceback, and usable when it is over."""

from __future__ import annotations

import shlex
import sqlite3
import stat
import subprocess
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from tests.cli.process import LIMIT, Finished, eventually
from tests.cli.queue_process import COMMANDS, THREAD, WARDEN, QuietQueueCommands, acks, events

ZERO = ("--last-event-id", "0")
PUSH = ("push", "--source", WARDEN, "--type", "message", "--content", "x")
WRITING: list[tuple[str, ...]] = [
    PUSH,
    ("ack", "--consumer", "all", "--last-event-id", "1"),
    ("pop", "--consumer", "all", "--last-event-id", "1"),
    ("subscribe", "--consumer", "new", "--handler", "true"),
    ("unsubscribe", "--consumer", "all"),
]
READING: list[tuple[str, ...]] = [("peek", *ZERO), ("info",), ("pop", "--consumer", "all"), ("follow", *ZERO, "--limit", "3")]
DISPATCH = ("dispatch",)


@pytest.fixture
def commands(tmp_path: Path) -> Iterator[QuietQueueCommands]:
    with QuietQueueCommands(tmp_path) as made:
        made.init()
        made.three(acks(3))
        yield made


def _clean(finished: Finished, argv: tuple[str, ...]) -> None:
    """A refusal in the words of the document."""
    assert (finished.code, finished.stdout) == (1, ""), (argv, finished)
    assert finished.stderr.startswith("Error: "), argv
    assert " - " in finished.stderr
    assert finished.stderr.count("\n") == 1, (argv, finished)


@contextmanager
def _modes(folder: Path, of_folders: int, of_files: int) -> Iterator[None]:
    """Give a folder and all that it holds other permissions, for a while."""
    places = [folder, *folder.rglob("*")]
    before = {place: stat.S_IMODE(place.stat().st_mode) for place in places}
    for place in reversed(places):
        place.chmod(of_folders if place.is_dir() else of_files)
    try:
        yield
    finally:
        for place in places:
            place.chmod(before[place])
        for file in folder.rglob("*"):  # SQLite's own files, made meanwhile, have the database's mode
            if file not in before and file.is_file():
                file.chmod(0o644)


# what may not be written


@pytest.mark.parametrize(("of_folders", "of_files"), [(0o555, 0o444), (0o555, 0o644), (0o755, 0o444)], ids=["all", "folders", "files"])
def test_a_queue_that_may_not_be_written_refuses_writers_and_is_unchanged(
    commands: QuietQueueCommands, of_folders: int, of_files: int
) -> None:
    before = commands.rows(), commands.files()
    with _modes(commands.queue, of_folders, of_files):
        ends = [(argv, commands.run("thread", (*argv, "--thread", "queue"), {}, unprivileged=True)) for argv in WRITING]
    if of_files == 0o444:
        for argv, finished in ends:
            _clean(finished, argv)
        assert (commands.rows(), commands.files()) == before
    assert all("Traceback" not in finished.stderr for _, finished in ends)
    assert commands.push("later") > 3
    assert [event["id"] for event in commands.journal()] == [row[0] for row in commands.rows()[0]]


def test_a_queue_that_may_not_be_written_is_read_or_refused(commands: QuietQueueCommands) -> None:
    before = commands.rows(), commands.files()
    with _modes(commands.queue, 0o555, 0o444):
        for argv in READING:
            finished = commands.run("thread", (*argv, "--thread", "queue"), {}, unprivileged=True)
            if finished.code != 0:
                _clean(finished, argv)
            elif argv[0] != "info":
                assert [event["id"] for event in events(finished)] == [1, 2, 3]
    assert (commands.rows(), commands.files()) == before


def test_a_queue_that_may_not_be_entered_is_refused(commands: QuietQueueCommands) -> None:
    with _modes(commands.queue, 0, 0):
        for argv in (*WRITING, *READING, DISPATCH):
            _clean(commands.run("thread", (*argv, "--thread", "queue"), {}, unprivileged=True), argv)
    assert len(commands.pop("all")) == 3


def test_init_in_a_folder_that_may_not_be_written_is_refused_and_leaves_nothing(tmp_path: Path) -> None:
    commands = QuietQueueCommands(tmp_path)
    (tmp_path / "theirs").mkdir(mode=0o555)
    for place in ("theirs", "theirs/queue", "theirs/deeper/queue"):
        argv = ("init", place)
        _clean(commands.run("thread", argv, {}, unprivileged=True), argv)
    assert list((tmp_path / "theirs").iterdir()) == []


# databases that are none, or not ours


def _theirs(place: Path) -> None:
    place.unlink()
    with closing(sqlite3.connect(place)) as db, db:
        db.execute("CREATE TABLE events (theirs)")


def _newer(place: Path) -> None:
    with closing(sqlite3.connect(place)) as db, db:
        db.execute("PRAGMA user_version = 99")


def _lacking(place: Path) -> None:
    with closing(sqlite3.connect(place)) as db, db:
        for table in ("events", "subscriptions", "consumer_progress"):
            db.execute(f"DROP TABLE {table}")


DAMAGES: dict[str, Callable[[Path], object]] = {
    "empty": lambda place: place.write_bytes(b""),
    "text": lambda place: place.write_bytes(b"this is a text file, and long enough to be looked at. " * 100),
    "cut": lambda place: place.write_bytes(place.read_bytes()[:1000]),
    "garbage": lambda place: place.write_bytes(place.read_bytes()[:100] + b"\xa5" * (place.stat().st_size - 100)),
    "theirs": _theirs,
    "newer": _newer,
    "lacking": _lacking,
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_database_that_is_none_of_ours_is_refused_by_every_command_and_kept(commands: QuietQueueCommands, damage: str) -> None:
    place = commands.queue / "events.db"
    commands.rows()  # and with it all that was still in the write-ahead log
    assert not place.with_name("events.db-wal").exists()
    DAMAGES[damage](place)
    before = place.read_bytes(), commands.files()
    for argv in (*WRITING, *READING, DISPATCH):
        _clean(commands.on_queue(*argv), argv)
        commands.refuses(1, "thread", *argv, "--thread", "queue")
    _clean(commands.thread("init", "queue"), ("init",))
    assert (place.read_bytes(), commands.files()) == before


def test_a_page_of_garbage_in_the_middle_is_storage_trouble_and_no_crash(commands: QuietQueueCommands) -> None:
    commands.batch(*({"source": "self", "type": "record", "content": "x" * 3000} for _ in range(60)))
    place = commands.queue / "events.db"
    commands.rows()
    data = place.read_bytes()
    place.write_bytes(data[: len(data) // 2] + b"\xa5" * (len(data) // 4) + data[len(data) // 2 + len(data) // 4 :])
    finished = commands.on_queue("peek", *ZERO)
    assert finished.code == 1
    assert finished.stderr.startswith("Error: ")
    assert "Traceback" not in finished.stderr
    for argv in (*WRITING, *READING):
        assert "Traceback" not in commands.on_queue(*argv).stderr


@pytest.mark.parametrize("name", ["events.jsonl", "logs", "run"])
def test_something_else_where_a_part_of_the_queue_belongs_is_no_crash(commands: QuietQueueCommands, name: str) -> None:
    place = commands.queue / name
    if place.is_dir():
        for file in place.iterdir():
            file.unlink()
        place.rmdir()
        place.write_text("mine")
    else:
        place.unlink()
        place.mkdir()
    for argv in (*READING, DISPATCH, *WRITING):
        finished = commands.on_queue(*argv)
        assert finished.code in (0, 1), (argv, finished)
        assert "Traceback" not in finished.stderr, (argv, finished)
        eventually(lambda: not any(entry["running"] for entry in commands.info()["subscriptions"]))
    assert len(events(commands.on_queue("peek", *ZERO))) in (3, 4)


# no room


def _shell(commands: QuietQueueCommands, line: str) -> Finished:
    """A line of shell, in which $thread and $notifier are the commands."""
    line = line.replace("$thread", THREAD).replace("$notifier", shlex.join(COMMANDS["notifier"]))
    done = subprocess.run(
        ["bash", "-c", line], capture_output=True, cwd=commands.folder, env=commands.environment(), timeout=LIMIT, check=False
    )
    return Finished(done.returncode, done.stdout, done.stderr)


def test_where_files_may_not_grow_nothing_is_stored_and_nothing_is_broken(commands: QuietQueueCommands) -> None:
    with commands.unchanged():
        for argv in WRITING:
            finished = _shell(commands, f"ulimit -f 0; $thread {' '.join(argv)} --thread queue")
            _clean(finished, argv)
    assert commands.push("later") == 4
    assert [event["content"] for event in commands.journal()] == ["one", "two", "three", "later"]


def test_a_batch_that_does_not_fit_is_refused_whole(commands: QuietQueueCommands) -> None:
    lines = 'for i in $(seq 2000); do printf \'{"content": "%01000d"}\\n\' $i; done'
    with commands.unchanged():
        finished = _shell(commands, f"{lines} | (ulimit -f 200; $thread push --batch --thread queue --source self --type record)")
        _clean(finished, ("push",))
    assert commands.push("later") == 4


def test_a_journal_that_may_not_grow_is_made_right_by_the_next_push(commands: QuietQueueCommands) -> None:
    """The database may: what is said about the event is true, and the tracks agree again as soon as they can."""
    commands.batch(*({"source": "self", "type": "record", "content": "x" * 1000} for _ in range(300)))
    finished = _shell(commands, f"ulimit -f 250; $thread {' '.join(PUSH)} --thread queue")
    assert "Traceback" not in finished.stderr
    stored = [str(row[0]) for row in commands.rows()[0] if row[0] > 303]
    assert finished.stdout.split() == stored, "an id is printed if and only if the event is stored"
    commands.push("later")
    assert [event["id"] for event in commands.journal()] == [row[0] for row in commands.rows()[0]]


@pytest.mark.parametrize(
    "line", ["peek --last-event-id 0", "info", "info --json", "pop --consumer all", "follow --last-event-id 0 --limit 3"]
)
def test_an_answer_that_cannot_be_written_is_no_success(commands: QuietQueueCommands, line: str) -> None:
    finished = _shell(commands, f"$thread {line} --thread queue > /dev/full")
    assert finished.code == 1
    assert "could not be printed: No space left on device" in finished.stderr


def test_a_lost_answer_is_trouble_for_the_notifier_too(commands: QuietQueueCommands) -> None:
    for line in ("task list", "task runs --json", "timer list", "status"):
        finished = _shell(commands, f"$notifier {line} > /dev/full")
        assert (finished.code, finished.stderr) == (50, "The answer could not be printed: No space left on device.\n"), line


@pytest.mark.parametrize("line", ["pop --consumer all --last-event-id 1", "ack --consumer all --last-event-id 1"])
def test_progress_that_was_recorded_is_a_success_though_its_answer_is_lost(commands: QuietQueueCommands, line: str) -> None:
    finished = _shell(commands, f"$thread {line} --thread queue > /dev/full")
    lost = "The command did its work, but its answer could not be printed: No space left on device.\n"
    assert (finished.code, finished.stderr) == (0, lost)
    assert [event["id"] for event in commands.pop("all")] == [2, 3]


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_a_push_without_its_streams_is_stored_all_the_same(commands: QuietQueueCommands, closed: str) -> None:
    finished = _shell(commands, f"$thread {' '.join(PUSH)} --thread queue {closed}")
    assert "Traceback" not in finished.stderr
    assert [event["id"] for event in commands.journal()] == [row[0] for row in commands.rows()[0]] == [1, 2, 3, 4]


def test_a_failure_of_the_database_is_in_the_log_and_the_hint_is_about_the_queue(commands: QuietQueueCommands) -> None:
    commands.push("kept in the journal")
    for suffix in ("-wal", "-shm"):
        (commands.queue / f"events.db{suffix}").unlink(missing_ok=True)
    (commands.queue / "events.db").write_bytes(b"no database at all" * 500)
    error = commands.refuses(1, "thread", "info", "--thread", str(commands.queue))
    assert "thread init" in error["suggestion"]
    assert "inbox init" not in error["suggestion"]
    assert "] [ERROR] info: " in commands.log().splitlines()[-1]


def test_an_empty_database_is_called_that_by_push_and_by_init(commands: QuietQueueCommands) -> None:
    for file in commands.queue.glob("events.db*"):
        file.unlink() if file.is_file() else None
    (commands.queue / "events.db").touch()
    push = ("push", "--thread", str(commands.queue), "--source", "self", "--type", "record", "--content", "x")
    assert "Delete this empty file, and run `thread init" in commands.refuses(1, "thread", *push)["suggestion"]
    error = commands.refuses(1, "thread", "init", str(commands.queue))
    assert (error["error"], error["suggestion"]) == (
        f"{commands.queue / 'events.db'} is empty, and so not the database of a queue",
        f"Delete {commands.queue / 'events.db'}, and run this again.",
    )
    (commands.queue / "events.db").unlink()
    assert commands.thread("init", str(commands.queue)).code == 0
