"""Each command of `thread`: what it answers, to programs and to people, and how it exits."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import signal
import sqlite3
import subprocess
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.cli.process import LIMIT, Waiter, eventually
from tests.cli.queue_process import ALICE, KEYS, THREAD, WARDEN, QueueCommands, QuietQueueCommands, acks, events, ids, ndjson

STAMP = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z")
PUSH = ("push", "--source", WARDEN, "--type", "message")
RECORD = ("--source", "self", "--type", "record")
ZERO = ("--last-event-id", "0")
COLUMNS = {
    "events": ["id INTEGER", "created_at TEXT", "source TEXT", "type TEXT", "subtype TEXT", "content TEXT"],
    "subscriptions": ["consumer_id TEXT", "handler_cmd TEXT", "filter TEXT"],
    "consumer_progress": ["consumer_id TEXT", "last_acked_id INTEGER", "updated_at TEXT"],
}
CONTENTS = [
    "",
    " ",
    "  leading and trailing  \n\n",
    "two\nlines\r\nand\ttabs",
    "ünï¢ode ☃ 漢字 👩‍👩‍👧 \u202e\u2028\x85",
    "--looks-like-a-flag",
    "-",
    '{"json": ["in", {"text": null}]}',
    "\x01\x1b[2J\x7f'; DROP TABLE events; --",
]


@pytest.fixture
def commands(tmp_path: Path) -> Iterator[QuietQueueCommands]:
    with QuietQueueCommands(tmp_path) as made:
        made.init()
        yield made


def _next(waiter: Waiter) -> dict[str, Any]:
    """The next line of a command that goes on."""
    assert waiter.process.stdout is not None
    event: dict[str, Any] = json.loads(waiter.process.stdout.readline())
    return event


# init


def test_init_makes_the_documents_folder_and_prints_its_resolved_path(tmp_path: Path) -> None:
    commands = QuietQueueCommands(tmp_path)
    finished = commands.thread("init", "deep/er/queue")
    place = (tmp_path / "deep" / "er" / "queue").resolve()
    assert (finished.code, finished.stdout, finished.stderr) == (0, f"{place}\n", "")
    assert {"events.db", "events.jsonl", "run", "logs"} <= {file.name for file in place.iterdir()}
    assert (place / "events.jsonl").read_bytes() == b""
    assert commands.told("thread", "init", "other") == {"thread": str((tmp_path / "other").resolve())}


def test_the_database_of_a_queue_has_the_documents_schema(commands: QuietQueueCommands) -> None:
    with closing(sqlite3.connect(commands.queue / "events.db")) as db:
        tables = {name: [f"{row[1]} {row[2]}" for row in db.execute(f"PRAGMA table_info({name})")] for name in COLUMNS}
        names = {row[0] for row in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
        indexes = {row[0] for row in db.execute("SELECT name FROM sqlite_master WHERE type = 'index' AND sql IS NOT NULL")}
        settings = [db.execute(f"PRAGMA {name}").fetchone()[0] for name in ("journal_mode", "user_version")]
    assert tables == COLUMNS
    assert names == {*COLUMNS, "sqlite_sequence"}
    assert indexes == {"idx_events_source", "idx_events_type"}
    assert settings == ["wal", 1]


def test_init_in_a_folder_that_is_no_queue_keeps_what_is_there(tmp_path: Path) -> None:
    commands = QuietQueueCommands(tmp_path)
    commands.queue.mkdir()
    (commands.queue / "notes.txt").write_text("mine")
    commands.init()
    assert (commands.queue / "notes.txt").read_text() == "mine"
    assert commands.push() == 1


def test_init_of_a_queue_that_is_there_is_refused_and_changes_nothing(commands: QuietQueueCommands) -> None:
    commands.three()
    with commands.unchanged():
        error = commands.refuses(1, "thread", "init", str(commands.queue))
    assert "already" in error["error"]


def test_of_several_inits_at_once_one_wins_and_the_queue_is_whole(tmp_path: Path) -> None:
    with QuietQueueCommands(tmp_path) as commands:
        started = [commands.start("thread", "init", "queue") for _ in range(6)]
        ends = [waiter.finish() for waiter in started]
        assert sorted(end.code for end in ends) == [0, 1, 1, 1, 1, 1], ends
        assert all(end.stderr.startswith("Error: ") for end in ends if end.code == 1), ends
        assert commands.push() == 1
        assert [event["content"] for event in commands.journal()] == ["hello"]


# paths


def test_every_spelling_of_a_path_is_one_queue(commands: QuietQueueCommands) -> None:
    (commands.folder / "link").symlink_to("queue")
    told, environment = commands.teller()
    spellings = ["queue", "./queue/", "link", "link/.", "queue/run/..", "../" + commands.folder.name + "/queue", str(commands.queue)]
    for count, spelling in enumerate(spellings, 1):
        finished = commands.thread(*PUSH, "--thread", spelling, "--content", "x", **environment)
        assert (finished.code, finished.stdout) == (0, f"{count}\n"), finished
        assert commands.told("thread", "info", "--thread", spelling)["thread"] == str(commands.queue.resolve())
    words = told.read_text().splitlines()
    tasks = {words[place + 1] for place, word in enumerate(words) if word in ("--task-id", "--command")}
    assert len(tasks) == 2, tasks


def test_deleting_the_folder_deletes_the_queue(commands: QuietQueueCommands) -> None:
    commands.three()
    shutil.rmtree(commands.queue)
    assert commands.on_queue("info").code == 1
    commands.init()
    assert (commands.info()["total_events"], commands.info()["subscriptions"], commands.info()["progress"]) == (0, [], [])
    assert commands.push() == 1


def test_a_folder_that_was_moved_is_the_same_queue_elsewhere(commands: QuietQueueCommands) -> None:
    commands.three()
    commands.queue = commands.queue.rename(commands.folder / "moved queue")
    assert commands.info()["thread"] == str(commands.queue.resolve())
    assert [event["content"] for event in commands.pop("all")] == ["one", "two", "three"]
    assert commands.push() == 4


def test_a_folder_that_holds_nothing_but_the_database_is_still_the_queue(commands: QuietQueueCommands) -> None:
    commands.three()
    for name in ("run", "logs"):
        shutil.rmtree(commands.queue / name)
    (commands.queue / "events.jsonl").unlink()
    assert len(commands.pop("all")) == 3
    assert commands.push("four") == 4
    assert [event["content"] for event in commands.journal()] == ["one", "two", "three", "four"]


# push


def test_push_prints_the_id_and_nothing_else(commands: QuietQueueCommands) -> None:
    printed = [commands.on_queue(*PUSH, "--content", "x") for _ in range(3)]
    assert [(end.code, end.stdout, end.stderr) for end in printed] == [(0, f"{count}\n", "") for count in (1, 2, 3)]


def test_push_tells_programs_the_whole_event(commands: QuietQueueCommands) -> None:
    told = commands.on_queue("push", "--source", ALICE, "--type", "message", "--content", "hello", "--json").json
    assert list(told) == [*KEYS, "dispatch"]
    assert STAMP.fullmatch(told["created_at"])
    expected = {"id": 1, "source": ALICE, "type": "message", "subtype": None, "content": "hello", "dispatch": "queued"}
    assert told == {"created_at": told["created_at"], **expected}
    (event,) = events(commands.on_queue("peek", *ZERO))
    assert {**event, "dispatch": "queued"} == told


def test_a_record_may_have_a_subtype_of_any_name_or_none(commands: QuietQueueCommands) -> None:
    for more in ((), ("--subtype", "toolcall"), ("--subtype", "Ärtifact made: 3/4"), ("--subtype", "x" * 200)):
        assert commands.on_queue("push", *RECORD, "--content", "x", *more).code == 0
    found = [event["subtype"] for event in events(commands.on_queue("peek", *ZERO))]
    assert found == [None, "toolcall", "Ärtifact made: 3/4", "x" * 200]


def test_contents_come_back_as_they_were_given_on_both_tracks(commands: QuietQueueCommands) -> None:
    for content in CONTENTS:
        (commands.folder / "content.txt").write_bytes(content.encode())
        for argv, stdin in ((f"--content={content}", b""), ("--content-file=content.txt", b""), ("--content-file=-", content.encode())):
            finished = commands.on_queue(*PUSH, argv, stdin=stdin)
            assert (finished.code, finished.stderr) == (0, ""), finished
    found = events(commands.on_queue("peek", *ZERO))
    assert [event["content"] for event in found] == [content for content in CONTENTS for _ in range(3)]
    journal = (commands.queue / "events.jsonl").read_bytes().decode()
    assert journal == "".join(json.dumps(event, ensure_ascii=False) + "\n" for event in found)


def test_a_push_schedules_a_dispatch_in_the_words_of_the_document(commands: QuietQueueCommands) -> None:
    told, environment = commands.teller()
    commands.push("x", source=ALICE, **environment)
    words = told.read_text().splitlines()
    assert words[:2] == ["task", "add"]
    flags = dict(zip(words[2::2], words[3::2]))
    assert set(flags) == {"--author", "--task-id", "--command"}
    assert flags["--author"] == ALICE
    assert re.fullmatch(r"dispatch-[A-Za-z0-9][A-Za-z0-9-]*", flags["--task-id"])
    assert shlex.split(flags["--command"]) == ["thread", "dispatch", "--thread", str(commands.queue.resolve())]


def test_a_dispatch_that_was_queued_already_is_said_so_and_is_no_error(commands: QuietQueueCommands) -> None:
    told = commands.on_queue(*PUSH, "--content", "x", "--json", THREAD_NOTIFIER="sh -c 'echo Task is ALREADY there >&2; exit 1'")
    assert (told.code, told.stderr, told.json["dispatch"]) == (0, "", "already queued")


@pytest.mark.parametrize("notifier", ["exit 3;", "sh -c 'echo already; exit 2'", "no-such-notifier", "sh -c 'kill -9 $$'"])
def test_a_push_whose_dispatch_failed_says_that_the_event_is_stored(commands: QuietQueueCommands, notifier: str) -> None:
    spoken = commands.on_queue(*PUSH, "--content", "x", THREAD_NOTIFIER=notifier)
    written = commands.on_queue(*PUSH, "--content", "x", "--json", THREAD_NOTIFIER=notifier)
    assert (spoken.code, spoken.stdout) == (1, "1\n")
    assert (written.code, written.json["id"], written.json["dispatch"]) == (1, 2, "failed")
    for text in (spoken.stderr.rstrip("\n"), json.loads(written.stderr)["error"] + json.loads(written.stderr)["suggestion"]):
        assert re.search("stored", text)
        assert re.search("thread dispatch", text)
        assert "\n" not in text
    assert spoken.stderr.startswith("Error: ")
    assert ids(commands.on_queue("peek", *ZERO)) == [1, 2]


def test_without_another_notifier_a_push_leads_to_a_run_of_the_handler(tmp_path: Path) -> None:
    with QueueCommands(tmp_path) as commands:
        commands.init()
        commands.subscribe("worker", f"touch ran; {acks(1)}")
        told = commands.on_queue(*PUSH, "--content", "x", "--json")
        assert (told.code, told.json["dispatch"]) == (0, "queued")
        eventually((commands.work("worker") / "ran").exists)


# push --batch


def test_a_batch_prints_its_ids_and_takes_defaults_from_the_flags(commands: QuietQueueCommands) -> None:
    commands.push()
    given = ndjson({"content": "a"}, {"content": "b", "type": "message", "source": ALICE}, {"content": "c", "subtype": "decision"})
    finished = commands.on_queue("push", "--batch", *RECORD, "--content", "ignored", stdin=given)
    assert (finished.code, finished.stdout, finished.stderr) == (0, "2\n3\n4\n", "")
    found = events(commands.on_queue("peek", "--last-event-id", "1"))
    told = [(event["source"], event["type"], event["subtype"], event["content"]) for event in found]
    assert told == [("self", "record", None, "a"), (ALICE, "message", None, "b"), ("self", "record", "decision", "c")]


def test_the_subtype_may_be_a_default_too(commands: QuietQueueCommands) -> None:
    commands.batch({"content": "a"}, {"content": "b", "subtype": "other"}, more=[*RECORD, "--subtype", "toolcall"])
    assert [event["subtype"] for event in events(commands.on_queue("peek", *ZERO))] == ["toolcall", "other"]


def test_a_batch_tells_programs_its_ids_and_is_dispatched_once(commands: QuietQueueCommands) -> None:
    told, environment = commands.teller()
    given = ndjson(*({"source": source, "type": "message", "content": "x"} for source in (WARDEN, "self", ALICE)))
    finished = commands.on_queue("push", "--batch", "--json", stdin=b"\n" + given.replace(b"\n", b"\n \n"), **environment)
    assert finished.stdout == json.dumps({"ids": [1, 2, 3], "count": 3, "dispatch": "queued"}) + "\n"
    words = told.read_text().splitlines()
    assert words.count("task") == 1
    assert words[words.index("--author") + 1] == ALICE


@pytest.mark.parametrize("given", [b"", b"\n", b"  \n\n\t\n"])
def test_a_batch_of_nothing_prints_nothing_and_schedules_nothing(commands: QuietQueueCommands, given: bytes) -> None:
    told, environment = commands.teller()
    with commands.unchanged():
        finished = commands.on_queue("push", "--batch", stdin=given, **environment)
        assert (finished.code, finished.stdout, finished.stderr) == (0, "", "")
        assert commands.on_queue("push", "--batch", "--json", stdin=given).json == {"ids": [], "count": 0, "dispatch": "none"}
    assert not told.exists()


def test_a_journal_can_be_pushed_again(commands: QuietQueueCommands) -> None:
    commands.three()
    before = (commands.queue / "events.jsonl").read_bytes()
    assert commands.on_queue("push", "--batch", stdin=before.removesuffix(b"\n")).stdout == "4\n5\n6\n"
    found = events(commands.on_queue("peek", *ZERO))
    assert [event["content"] for event in found] == ["one", "two", "three"] * 2
    assert [event["subtype"] for event in found[3:]] == [None, "decision", None]


def test_a_batch_of_thousands_goes_in_whole(commands: QuietQueueCommands) -> None:
    made = commands.batch(*({"content": str(number)} for number in range(5000)), more=RECORD)
    assert made == list(range(1, 5001))
    assert len(commands.journal()) == 5000
    assert len(events(commands.on_queue("peek", *ZERO))) == 100
    assert ids(commands.on_queue("peek", "--last-event-id", "10", "--limit", "3")) == [11, 12, 13]
    assert len(events(commands.on_queue("peek", *ZERO, "--limit", "10000"))) == 5000


# pop and ack


def test_pop_without_a_cursor_resumes_and_changes_nothing(commands: QuietQueueCommands) -> None:
    commands.three()
    assert len(commands.pop("all", "--last-event-id", "1")) == 2
    with commands.unchanged():
        assert ids(commands.on_queue("pop", "--consumer", "all")) == [2, 3]
        assert ids(commands.on_queue("pop", "--consumer", "all", "--json")) == [2, 3]
        assert ids(commands.on_queue("pop", "--consumer", "all", "--limit", "1")) == [2]


def test_pop_gives_what_matches_the_filter_after_the_cursor_and_keeps_the_cursor(commands: QuietQueueCommands) -> None:
    commands.three()
    assert [event["content"] for event in commands.pop("messages", *ZERO)] == ["one", "three"]
    assert commands.progress("messages") == 0
    assert [event["id"] for event in commands.pop("messages", "--last-event-id", "1")] == [3]
    assert commands.progress("messages") == 1
    assert commands.pop("messages", "--last-event-id", "3") == []
    assert (commands.progress("messages"), commands.progress("all") or 0) == (3, 0)
    assert [event["id"] for event in commands.pop("all")] == [1, 2, 3]


def test_a_lower_cursor_reads_again_and_never_lowers_progress(commands: QuietQueueCommands) -> None:
    commands.three()
    commands.pop("all", "--last-event-id", "2")
    with commands.unchanged():
        assert [event["id"] for event in commands.pop("all", *ZERO)] == [1, 2, 3]
        assert [event["id"] for event in commands.pop("all", "--last-event-id", "1")] == [2, 3]
        assert [event["id"] for event in commands.pop("all")] == [3]


def test_a_pop_gives_a_hundred_events_unless_told_otherwise(commands: QuietQueueCommands) -> None:
    commands.batch(*({"content": str(number)} for number in range(150)), more=RECORD)
    commands.subscribe("all")
    assert [event["id"] for event in commands.pop("all")] == list(range(1, 101))
    assert [event["id"] for event in commands.pop("all", "--last-event-id", "100", "--limit", "10000")] == list(range(101, 151))


def test_ack_moves_progress_forward_only_and_prints_where_it_is(commands: QuietQueueCommands) -> None:
    commands.three()
    for given, now in ((2, 2), (1, 2), (0, 2), (3, 3)):
        finished = commands.on_queue("ack", "--consumer", "all", "--last-event-id", str(given))
        assert (finished.code, finished.stdout, finished.stderr) == (0, f"{now}\n", "")
        assert commands.progress("all") == now
    told = commands.on_queue("ack", "--consumer", "all", *ZERO, "--json").json
    assert list(told) == ["consumer_id", "last_acked_id", "updated_at"]
    assert (told["consumer_id"], told["last_acked_id"]) == ("all", 3)
    assert STAMP.fullmatch(told["updated_at"])
    assert commands.pop("all") == []


# peek and follow


def test_peek_reads_what_matches_and_changes_nothing(commands: QuietQueueCommands) -> None:
    commands.three()
    asked = {
        ZERO: [1, 2, 3],
        ("--last-event-id", "2"): [3],
        ("--last-event-id", "3"): [],
        ("--last-event-id", "4000000000"): [],
        (*ZERO, "--limit", "2"): [1, 2],
        (*ZERO, "--filter", "source LIKE '%:alice' OR subtype = 'decision'"): [2, 3],
        (*ZERO, "--json", "--filter", "source IN ('self') AND NOT length(content) > 3"): [2],
        (*ZERO, "--filter", "id = (SELECT max(id) FROM events WHERE type = 'message')"): [3],
        ("--last-event-id", "1", "--filter", "id = 1 OR 1"): [2, 3],
        (*ZERO, "--filter", "json_valid(content) AND json_extract(content, '$.a') = 1"): [],
    }
    with commands.unchanged():
        for flags, expected in asked.items():
            assert ids(commands.on_queue("peek", *flags)) == expected, flags


def test_follow_prints_what_is_there_and_what_comes_as_it_comes(commands: QuietQueueCommands) -> None:
    commands.three()
    follower = commands.start("thread", "follow", "--thread", "queue", "--last-event-id", "1", "--limit", "5")
    assert [_next(follower)["id"] for _ in range(2)] == [2, 3]
    commands.push("four")
    assert list(_next(follower).items())[-1] == ("content", "four")
    commands.batch({"content": "five"}, {"content": "six"}, {"content": "seven"}, more=RECORD)
    finished = follower.finish()
    assert ids(finished) == [5, 6]


def test_follow_without_a_cursor_starts_at_the_newest_and_with_a_filter_waits_for_what_matches(commands: QuietQueueCommands) -> None:
    commands.three()
    flags = ("--thread", "queue", "--filter", "source = 'self'", "--limit", "1", "--json")
    follower = commands.start("thread", "follow", *flags).sleeping()
    commands.push("not this")
    commands.batch({"content": "this"}, more=RECORD)
    assert [event["content"] for event in events(follower.finish())] == ["this"]


def test_follow_ends_well_when_its_time_is_up(commands: QuietQueueCommands) -> None:
    commands.three()
    with commands.unchanged():
        assert ids(commands.on_queue("follow", "--timeout-seconds", "0.05")) == []
        assert ids(commands.on_queue("follow", "--timeout-seconds", "0.05", "--last-event-id", "2")) == [3]


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_ends_a_follow(commands: QuietQueueCommands, number: signal.Signals, code: int) -> None:
    commands.three()
    follower = commands.start("thread", "follow", "--thread", "queue", "--last-event-id", "2")
    assert _next(follower)["id"] == 3
    follower.sleeping().process.send_signal(number)
    finished = follower.finish()
    assert (finished.code, finished.stdout) == (code, "")
    assert "Traceback" not in finished.stderr
    assert commands.push() == 4


def test_a_reader_that_has_seen_enough_ends_the_command_quietly(commands: QuietQueueCommands) -> None:
    commands.batch(*({"content": "x" * 1000} for _ in range(2000)), more=RECORD)
    line = f"{THREAD} peek --thread queue --last-event-id 0 --limit 10000 | head -n 1"
    done = subprocess.run(
        ["bash", "-c", line], capture_output=True, cwd=commands.folder, env=commands.environment(), timeout=LIMIT, check=False
    )
    assert (json.loads(done.stdout)["id"], done.stderr) == (1, b"")


def test_a_batch_may_begin_with_the_mark_that_some_editors_write(commands: QuietQueueCommands) -> None:
    lines = b'\xef\xbb\xbf{"content": "x"}\n'
    assert commands.on_queue("push", "--batch", *RECORD, stdin=lines).stdout == "1\n"
